// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// regions are the regions of ECS with their names.
var regions = map[string]string{
	"cn-qingdao": "China (Qingdao)", "cn-beijing": "China (Beijing)", "cn-zhangjiakou": "China (Zhangjiakou)",
	"cn-huhehaote": "China (Hohhot)", "cn-wulanchabu": "China (Ulanqab)", "cn-hangzhou": "China (Hangzhou)",
	"cn-shanghai": "China (Shanghai)", "cn-nanjing": "China (Nanjing - Local Region)", "cn-fuzhou": "China (Fuzhou - Local Region)",
	"cn-wuhan-lr": "China (Wuhan - Local Region)", "cn-shenzhen": "China (Shenzhen)", "cn-heyuan": "China (Heyuan)",
	"cn-guangzhou": "China (Guangzhou)", "cn-chengdu": "China (Chengdu)", "cn-hongkong": "China (Hong Kong)",
	"ap-northeast-1": "Japan (Tokyo)", "ap-northeast-2": "South Korea (Seoul)", "ap-southeast-1": "Singapore",
	"ap-southeast-2": "Australia (Sydney)", "ap-southeast-3": "Malaysia (Kuala Lumpur)", "ap-southeast-5": "Indonesia (Jakarta)",
	"ap-southeast-6": "Philippines (Manila)", "ap-southeast-7": "Thailand (Bangkok)", "ap-south-1": "India (Mumbai)",
	"us-east-1": "US (Virginia)", "us-west-1": "US (Silicon Valley)", "us-southeast-1": "US (Atlanta)", "na-south-1": "Mexico",
	"eu-west-1": "UK (London)", "eu-central-1": "Germany (Frankfurt)",
	"me-east-1": "UAE (Dubai)", "me-central-1": "SAU (Riyadh - Partner Region)",
}

// checkRegion checks the region, which most actions need.
func (x *exchange) checkRegion() *problem {
	x.region = x.params.get("RegionId")
	if x.region == "" {
		return nil
	}
	if _, found := regions[x.region]; !found {
		return notFound("RegionId")
	}
	return nil
}

func notFound(what string) *problem {
	return &problem{http.StatusNotFound, "Invalid" + what + ".NotFound", "The specified " + what + " does not exist."}
}

// firstZone returns the zone of an instance that names none.
func firstZone(region string) string {
	if last := region[len(region)-1]; '0' <= last && last <= '9' {
		return region + "a"
	}
	return region + "-a"
}

// absent returns whether an ID names an object that does not exist. All other IDs of its kind exist.
func absent(id, prefix string) bool {
	return id != "" && (strings.Contains(id, "missing") || !strings.HasPrefix(id, prefix))
}

// checkReferences checks that the objects exist that the call names.
func (x *exchange) checkReferences() *problem {
	p := x.params
	if absent(p.get("ImageId"), "") {
		return notFound("ImageId")
	}
	if absent(p.get("ZoneId"), x.region) {
		return notFound("ZoneId")
	}
	if strings.Contains(p.get("ZoneId"), "notonsale") {
		return forbidden("Zone.NotOnSale", "The specified zone is not available for purchase.")
	}
	if absent(p.get("VSwitchId"), "vsw-") {
		return notFound("VSwitchId")
	}
	if absent(p.get("KeyPairName"), "") {
		return notFound("KeyPairName")
	}
	return checkGroups(x.securityGroups())
}

func checkGroups(ids []string) *problem {
	switch {
	case len(ids) > maxGroups:
		return forbidden("InstanceSecurityGroupLimitExceeded", "The maximum number of security groups of an instance is exceeded.")
	case slices.ContainsFunc(ids, func(id string) bool { return absent(id, "sg-") }):
		return notFound("SecurityGroupId")
	}
	return nil
}

// maxGroups is the largest number of security groups of an instance.
const maxGroups = 5

// provoked are the errors that a part of an instance type provokes.
var provoked = []struct {
	part string
	with *problem
}{
	{"missing", forbidden("InvalidInstanceType.ValueNotSupported",
		"The specified InstanceType does not exist or beyond the permitted range.")},
	{"nostock", forbidden("OperationDenied.NoStock",
		"The resource is out of stock in the specified zone. Please try other types, or choose other regions and zones.")},
	{"unsupported", forbidden("InvalidInstanceType.ZoneNotSupported", "The specified zone does not support this instance type.")},
	{"quota", forbidden("QuotaExceed.ElasticQuota", "The number of the specified instance type exceeds the quota of your account.")},
	{"balance", forbidden("InvalidAccountStatus.NotEnoughBalance", "Your account does not have enough balance.")},
	{"forbidden", forbidden("Forbidden.RAM", "User not authorized to operate on the specified resource, or this API doesn't support RAM.")},
	{"throttled", badRequest("Throttling.User", "Request was denied due to user flow control.")},
	{"unavailable", &problem{http.StatusServiceUnavailable, "ServiceUnavailable",
		"The request has failed due to a temporary failure of the server."}},
	{"broken", internal},
}

// checkType checks an instance type. All types begin with "ecs.".
func checkType(name string) *problem {
	for _, p := range provoked {
		if strings.Contains(name, p.part) {
			return p.with
		}
	}
	if !strings.HasPrefix(name, "ecs.") {
		return provoked[0].with
	}
	return nil
}

// checkName checks the name of an instance.
func (x *exchange) checkName() *problem {
	name := x.params.get("InstanceName")
	n := len([]rune(name))
	if name != "" && (n < 2 || n > 128 || strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")) {
		return badRequest("InvalidInstanceName.Malformed", "The specified parameter InstanceName is not valid.")
	}
	return nil
}

// maxUserData is the largest length of user data in bytes, before its encoding.
const maxUserData = 32 << 10

func (x *exchange) checkUserData() *problem {
	raw, err := base64.StdEncoding.DecodeString(x.userData)
	switch {
	case err != nil:
		return badRequest("InvalidUserData.Base64FormatInvalid", "The specified parameter UserData must be base64 encoded.")
	case len(raw) > maxUserData:
		return badRequest("InvalidUserData.SizeExceeded", "The specified parameter UserData exceeds the size.")
	}
	return nil
}

var diskCategories = []string{"cloud", "cloud_efficiency", "cloud_ssd", "cloud_essd", "cloud_auto", "cloud_essd_entry", "ephemeral_ssd"}

// checkDisks checks the system disk and the data disks. A data disk needs a size or a snapshot.
func (x *exchange) checkDisks() *problem {
	if p := x.checkDisk("SystemDisk", "SystemDisk", 20); p != nil {
		return p
	}
	for n := range x.params.length("DataDisk") {
		prefix := "DataDisk." + strconv.Itoa(n+1)
		if p := x.checkDisk(prefix, "DataDisk", 5); p != nil {
			return p
		}
		if x.params.get(prefix+".Category") != "" && x.params.get(prefix+".Size")+x.params.get(prefix+".SnapshotId") == "" {
			return missing(prefix + ".Size")
		}
	}
	return nil
}

// checkDisk checks the disk whose parameters have a prefix.
func (x *exchange) checkDisk(prefix, what string, smallest int) *problem {
	const largest = 65536 // in GiB
	notSupported := func(field string) *problem {
		return badRequest("Invalid"+what+field+".ValueNotSupported", "The specified "+prefix+"."+field+" is not valid.")
	}
	category, level := x.params.get(prefix+".Category"), x.params.get(prefix+".PerformanceLevel")
	size := x.params.number(prefix+".Size", smallest)
	switch {
	case category != "" && !slices.Contains(diskCategories, category):
		return notSupported("Category")
	case level != "" && !slices.Contains([]string{"PL0", "PL1", "PL2", "PL3"}, level):
		return notSupported("PerformanceLevel")
	case size < smallest || size > largest:
		return notSupported("Size")
	case absent(x.params.get(prefix+".SnapshotId"), "s-"):
		return notFound("SnapshotId")
	}
	return nil
}
