/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecssim

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// kind is what the values of a parameter look like.
type kind byte

const (
	text kind = iota + 1
	integer
	number
	boolean
)

// operation is an action, and what it takes.
type operation struct {
	version  string
	required []string
	params   map[string]kind // with N for the numbers in lists
	run      func(*exchange) (any, *problem)
}

// common are the parameters of every action.
var common = takes{
	text: "Action Version Format RegionId SignatureMethod SignatureVersion SignatureType SignatureNonce Timestamp " +
		"OwnerAccount ResourceOwnerAccount",
	integer: "OwnerId ResourceOwnerId",
}.kinds()

// takes are names of parameters, with spaces between them.
type takes struct{ text, integer, number, boolean string }

func (t takes) kinds() map[string]kind {
	kinds := map[string]kind{}
	for kind, names := range map[kind]string{text: t.text, integer: t.integer, number: t.number, boolean: t.boolean} {
		for name := range strings.FieldsSeq(names) {
			kinds[name] = kind
		}
	}
	return kinds
}

// The parameters that CreateInstance and RunInstances have in common, and what only one
// of them has. Those that stand for other parameters, such as a launch template, are
// left out: an instance would not be what was asked for.
const (
	createText = "ImageId ImageFamily InstanceType SecurityGroupId InstanceName InternetChargeType HostName ZoneId VSwitchId ClientToken " +
		"Description PrivateIpAddress IoOptimized KeyPairName RamRoleName SecurityEnhancementStrategy ResourceGroupId HpcClusterId " +
		"SpotStrategy SpotInterruptionBehavior InstanceChargeType PeriodUnit CreditSpecification DeploymentSetId DedicatedHostId " +
		"Affinity Tenancy StorageSetId HttpEndpoint HttpTokens PrivatePoolOptions.MatchCriteria PrivatePoolOptions.Id " +
		"SystemDisk.Category SystemDisk.DiskName SystemDisk.Description SystemDisk.PerformanceLevel SystemDisk.StorageClusterId " +
		"DataDisk.N.Category DataDisk.N.SnapshotId DataDisk.N.DiskName DataDisk.N.Description DataDisk.N.Device " +
		"DataDisk.N.PerformanceLevel DataDisk.N.KMSKeyId DataDisk.N.EncryptAlgorithm DataDisk.N.StorageClusterId " +
		"Tag.N.Key Tag.N.Value"
	createInteger = "InternetMaxBandwidthIn InternetMaxBandwidthOut SystemDisk.Size DataDisk.N.Size Period AutoRenewPeriod SpotDuration " +
		"DeploymentSetGroupNo StorageSetPartitionNumber HttpPutResponseHopLimit"
	createBoolean = "DryRun PasswordInherit AutoRenew DeletionProtection HibernationOptions.Configured " +
		"DataDisk.N.Encrypted DataDisk.N.DeleteWithInstance"

	onlyCreateText = " VlanId InnerIpAddress NodeControllerId ClusterId CapacityReservationId CapacityReservationPreference"
	onlyRunText    = " SecurityGroupIds.N AutoReleaseTime Isp SystemDisk.AutoSnapshotPolicyId SystemDisk.EncryptAlgorithm " +
		"SystemDisk.KMSKeyId DataDisk.N.AutoSnapshotPolicyId"
)

// operations are the actions that there are.
var operations = map[string]*operation{
	"GetCallerIdentity": {version: stsVersion, params: map[string]kind{}, run: (*exchange).callerIdentity},
	"CreateInstance": {
		version: ecsVersion, required: []string{"RegionId", "InstanceType"}, run: (*exchange).createInstance,
		params: takes{
			text: createText + onlyCreateText, integer: createInteger, number: "SpotPriceLimit", boolean: createBoolean + " UseAdditionalService",
		}.kinds(),
	},
	"RunInstances": {
		version: ecsVersion, required: []string{"RegionId", "InstanceType"}, run: (*exchange).runInstances,
		params: takes{
			text: createText + onlyRunText, integer: createInteger + " Amount MinAmount SystemDisk.ProvisionedIops DataDisk.N.ProvisionedIops",
			number:  "SpotPriceLimit",
			boolean: createBoolean + " UniqueSuffix AutoPay SystemDisk.Encrypted SystemDisk.BurstingEnabled DataDisk.N.BurstingEnabled",
		}.kinds(),
	},
	"DescribeInstances": {
		version: ecsVersion, required: []string{"RegionId"}, run: (*exchange).describeInstances,
		params: takes{
			text: "InstanceIds InstanceName Status ImageId InstanceType InstanceTypeFamily InstanceChargeType ZoneId VpcId VSwitchId " +
				"SecurityGroupId KeyPairName PrivateIpAddresses PublicIpAddresses LockReason InstanceNetworkType Tag.N.Key Tag.N.Value " +
				"NextToken AdditionalAttributes.N",
			integer: "MaxResults PageNumber PageSize", boolean: "DryRun NeedSaleCycle",
		}.kinds(),
	},
	"DescribeInstanceStatus": {
		version: ecsVersion, required: []string{"RegionId"}, run: (*exchange).describeInstanceStatus,
		params: takes{text: "InstanceId.N ZoneId", integer: "PageNumber PageSize"}.kinds(),
	},
	"DescribeRegions": {
		version: ecsVersion, run: (*exchange).describeRegions,
		params: takes{text: "InstanceChargeType ResourceType AcceptLanguage"}.kinds(),
	},
	"StartInstance": {
		version: ecsVersion, required: []string{"InstanceId"}, run: (*exchange).startInstance,
		params: takes{text: "InstanceId", boolean: "DryRun InitLocalDisk"}.kinds(),
	},
	"StopInstance": {
		version: ecsVersion, required: []string{"InstanceId"}, run: (*exchange).stopInstance,
		params: takes{text: "InstanceId StoppedMode", boolean: "DryRun ForceStop ConfirmStop Hibernate"}.kinds(),
	},
	"DeleteInstance": {
		version: ecsVersion, required: []string{"InstanceId"}, run: (*exchange).deleteInstance,
		params: takes{text: "InstanceId", boolean: "DryRun Force TerminateSubscription"}.kinds(),
	},
	"ModifyInstanceAttribute": {
		version: ecsVersion, required: []string{"InstanceId"}, run: (*exchange).modifyInstanceAttribute,
		params: takes{text: "InstanceId InstanceName Description HostName SecurityGroupIds.N", boolean: "DeletionProtection Recyclable"}.kinds(),
	},
	"ModifyInstanceSpec": {
		version: ecsVersion, required: []string{"InstanceId"}, run: (*exchange).modifyInstanceSpec,
		params: takes{
			text: "InstanceId InstanceType ClientToken", integer: "InternetMaxBandwidthIn InternetMaxBandwidthOut",
			boolean: "DryRun Async AllowMigrateAcrossZone",
		}.kinds(),
	},
	"TagResources": {
		version: ecsVersion, required: []string{"RegionId", "ResourceType"}, run: (*exchange).tagResources,
		params: takes{text: "ResourceType ResourceId.N Tag.N.Key Tag.N.Value"}.kinds(),
	},
	"UntagResources": {
		version: ecsVersion, required: []string{"RegionId", "ResourceType"}, run: (*exchange).untagResources,
		params: takes{text: "ResourceType ResourceId.N TagKey.N", boolean: "All"}.kinds(),
	},
	"ListTagResources": {
		version: ecsVersion, required: []string{"RegionId", "ResourceType"}, run: (*exchange).listTagResources,
		params: takes{text: "ResourceType ResourceId.N Tag.N.Key Tag.N.Value NextToken"}.kinds(),
	},
	"JoinSecurityGroup": {
		version: ecsVersion, required: []string{"InstanceId", "SecurityGroupId"}, run: (*exchange).joinSecurityGroup,
		params: takes{text: "InstanceId SecurityGroupId"}.kinds(),
	},
	"LeaveSecurityGroup": {
		version: ecsVersion, required: []string{"InstanceId", "SecurityGroupId"}, run: (*exchange).leaveSecurityGroup,
		params: takes{text: "InstanceId SecurityGroupId"}.kinds(),
	},
}

// confiding are the actions that take a UserData and a Password, which are not among the
// params of a request.
var confiding = []string{"CreateInstance", "RunInstances", "ModifyInstanceAttribute"}

// check returns whether the parameters are those of the operation. ECS ignores what it
// does not know, and so a client's typing errors: here they are refused, and recorded.
func (x *exchange) check(o *operation) *problem {
	for _, name := range x.names {
		value := x.params.get(name)
		if value == "" {
			continue
		}
		pattern := listPattern(name)
		kind := common[pattern]
		if kind == 0 {
			kind = o.params[pattern]
		}
		if kind == 0 {
			return x.violate(name)
		}
		if !kind.accepts(value) {
			return invalid(name)
		}
	}
	if !slices.Contains(confiding, x.params.get("Action")) {
		if x.userData != "" {
			return x.violate("UserData")
		}
		if x.password {
			return x.violate("Password")
		}
	}
	for _, name := range o.required {
		if x.params.get(name) == "" {
			return missing(name)
		}
	}
	return nil
}

func (x *exchange) violate(name string) *problem {
	x.violation = x.params.get("Action") + " has no parameter " + strconv.Quote(name)
	return &problem{http.StatusBadRequest, "InvalidParameter", x.violation + "."}
}

func (k kind) accepts(value string) bool {
	var err error
	switch k {
	case integer:
		_, err = strconv.Atoi(value)
	case number:
		_, err = strconv.ParseFloat(value, 64)
	case boolean:
		return value == "true" || value == "false"
	case text:
	}
	return err == nil
}

// limits are how long lists may be.
var limits = map[string]int{
	"Tag": 20, "TagKey": 20, "ResourceId": 50, "InstanceId": 100, "SecurityGroupIds": 10, "DataDisk": 16, "AdditionalAttributes": 20,
}

// listPattern returns a name with N instead of the number in a list, or "" for a number
// that no list has.
func listPattern(name string) string {
	list, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return name
	}
	digits, field, hasField := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	if err != nil && digits != "N" {
		return name
	}
	if n < 1 || n > limits[list] || strconv.Itoa(n) != digits {
		return ""
	}
	if hasField {
		return list + ".N." + field
	}
	return list + ".N"
}

// length returns how long a list is, at most.
func (p params) length(name string) int {
	length := 0
	for key := range p {
		if rest, found := strings.CutPrefix(key, name+"."); found {
			digits, _, _ := strings.Cut(rest, ".")
			n, err := strconv.Atoi(digits)
			if err == nil && n <= limits[name] {
				length = max(length, n)
			}
		}
	}
	return length
}

// list returns the values of name.1, name.2 and so on.
func (p params) list(name string) []string {
	var values []string
	for n := range p.length(name) {
		if value := p.get(name + "." + strconv.Itoa(n+1)); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// tag is a key and a value of Tag.N: ECS sends it so, too.
type tag struct {
	TagKey   string
	TagValue string
}

// tags returns the Tag.N that have a key or a value.
func (p params) tags() []tag {
	var tags []tag
	for n := range p.length("Tag") {
		prefix := "Tag." + strconv.Itoa(n+1)
		key, value := p.get(prefix+".Key"), p.get(prefix+".Value")
		if key != "" || value != "" {
			tags = append(tags, tag{key, value})
		}
	}
	return tags
}

// number returns the value of an integer, which check has found to be one.
func (p params) number(name string, otherwise int) int {
	n, err := strconv.Atoi(p.get(name))
	if err != nil {
		return otherwise
	}
	return n
}

func (p params) is(name string) bool { return p.get(name) == "true" }

func (p params) values() url.Values { return url.Values(p) }

// instanceID returns the instance that a call is about, if it is one.
func (p params) instanceID() string {
	for _, name := range []string{"InstanceId", "InstanceId.1", "ResourceId.1"} {
		if id := p.get(name); id != "" {
			return id
		}
	}
	if ids, _ := p.strings("InstanceIds"); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// strings returns the JSON array of strings that a parameter is, and whether it is one.
func (p params) strings(name string) ([]string, bool) {
	value := p.get(name)
	if value == "" {
		return nil, true
	}
	var list []string
	err := json.Unmarshal([]byte(value), &list)
	return list, err == nil
}

// signing are the parameters in which a call that is repeated differs.
var signing = []string{
	"AccessKeyId", "Signature", "SignatureMethod", "SignatureVersion", "SignatureType", "SignatureNonce", "Timestamp", "SecurityToken",
	"Action", "Version", "Format", "ClientToken",
}

// fingerprint tells whether two calls have the same parameters.
type fingerprint = [sha256.Size]byte

// fingerprintOf returns that of all parameters, by their names, but those of signing.
func fingerprintOf(names []string, all url.Values) fingerprint {
	var whole []byte
	for _, name := range names {
		if slices.Contains(signing, name) || all[name][0] == "" {
			continue
		}
		whole = append(appendEncoded(whole, name), '=')
		whole = append(appendEncoded(whole, all[name][0]), '&')
	}
	return sha256.Sum256(whole)
}
