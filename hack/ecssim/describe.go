// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// creationFormat has no seconds, as in ECS.
const creationFormat = "2006-01-02T15:04Z"

// describe returns a machine in the format of DescribeInstances.
func (m *machine) describe() object {
	expires, locks := "2099-12-31T15:59Z", []object{}
	if m.ChargeType == prePaid {
		expires = m.Expires.UTC().Format(creationFormat)
	}
	for _, reason := range m.Locks {
		locks = append(locks, object{"LockReason": reason})
	}
	return object{
		"InstanceId": m.ID, "InstanceName": m.Name, "Status": m.State,
		"StoppedMode": m.StoppedMode, "RegionId": m.RegionID, "ZoneId": m.ZoneID, "InstanceType": m.Type, "InstanceTypeFamily": family(m.Type),
		"ImageId": m.ImageID, "InstanceChargeType": m.ChargeType, "InstanceNetworkType": "vpc", "InternetMaxBandwidthOut": m.bandwidth,
		"KeyPairName": m.KeyPairName, "CreationTime": m.Created.UTC().Format(creationFormat), "ExpiredTime": expires,
		"DeletionProtection": m.DeletionProtection, "Tags": object{"Tag": tagList(m.Tags)},
		"VpcAttributes": object{
			"VpcId": "vpc-default-" + m.RegionID, "VSwitchId": m.VSwitchID, "PrivateIpAddress": object{"IpAddress": listOf(m.PrivateIP)},
		},
		"SecurityGroupIds": object{"SecurityGroupId": append([]string{}, m.SecurityGroupIDs...)},
		"PublicIpAddress":  object{"IpAddress": listOf(m.PublicIP)}, "InnerIpAddress": object{"IpAddress": listOf("")},
		"EipAddress": object{"IpAddress": "", "AllocationId": ""}, "OperationLocks": object{"LockReason": locks},
	}
}

// listOf returns a list with the text, or an empty list for "". JSON then has no null.
func listOf(text string) []string {
	if text == "" {
		return []string{}
	}
	return []string{text}
}

// family is "ecs.g6" of "ecs.g6.large".
func family(instanceType string) string {
	if i := strings.LastIndexByte(instanceType, '.'); i > 0 {
		return instanceType[:i]
	}
	return instanceType
}

func describeInstances(x *exchange) (object, *problem) {
	found, p := x.matching()
	if p != nil {
		return nil, p
	}
	if x.params.is("DryRun") {
		return nil, dryRun
	}
	answer := object{"TotalCount": len(found), "PageNumber": 0, "PageSize": 0, "NextToken": ""}
	page, p := x.page(found, answer)
	list := []object{} // Without machines, JSON has no null.
	for _, m := range page {
		list = append(list, m.describe())
	}
	answer["Instances"] = object{"Instance": list}
	return answer, p
}

// maxIDs is the largest number of instances that a call can name.
const maxIDs = 100

// matching returns the instances with the requested IDs and tags.
func (x *exchange) matching() ([]*machine, *problem) {
	ids, array := x.params.strings("InstanceIds")
	if !array || len(ids) > maxIDs {
		return nil, badRequest("InvalidInstanceIds.Malformed", "The specified InstanceIds is no JSON array of at most 100 IDs.")
	}
	wanted := x.params.tags()
	return slices.DeleteFunc(x.candidates(ids), func(m *machine) bool { return !m.tagged(wanted) }), nil
}

// candidates returns the visible instances: all, or those with the IDs if the call names some.
func (x *exchange) candidates(ids []string) []*machine {
	if len(ids) == 0 {
		return x.visible()
	}
	var found []*machine
	for _, id := range ids {
		if m, p := x.find(id); p == nil && !x.now.Before(m.visibleFrom) {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *machine) int { return a.seq - b.seq })
	return slices.Compact(found)
}

// tagged returns whether a machine has all of the tags. A tag without a value matches any value.
func (m *machine) tagged(wanted []tag) bool {
	for _, t := range wanted {
		if value, found := m.Tags[t.TagKey]; !found || t.TagValue != "" && t.TagValue != value {
			return false
		}
	}
	return true
}

// page returns the part of found that the call requests by NextToken.
func (x *exchange) page(found []*machine, answer object) ([]*machine, *problem) {
	size := x.params.number("MaxResults", 10)
	if size < 10 || size > 100 {
		return nil, invalid("MaxResults")
	}
	rest, p := x.after(found)
	if p != nil {
		return nil, p
	}
	if len(rest) > size {
		rest = rest[:size]
		answer["NextToken"] = nextToken(rest[size-1])
	}
	return rest, nil
}

// nextToken returns the token of the page that begins after a machine. No instance is skipped because others were created or released
// between two pages.
func nextToken(last *machine) string {
	return base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(last.seq)))
}

// after returns the machines after the NextToken.
func (x *exchange) after(found []*machine) ([]*machine, *problem) {
	token := x.params.get("NextToken")
	if token == "" {
		return found, nil
	}
	raw, err := base64.StdEncoding.DecodeString(token)
	last, errNumber := strconv.Atoi(string(raw))
	if err != nil || errNumber != nil {
		return nil, invalid("NextToken")
	}
	return slices.DeleteFunc(found, func(m *machine) bool { return m.seq <= last }), nil
}

func describeRegions(*exchange) (object, *problem) {
	var all []object
	for _, id := range slices.Sorted(maps.Keys(regions)) {
		all = append(all, object{
			"RegionId": id, "RegionEndpoint": "ecs." + id + ".aliyuncs.com", "LocalName": regions[id], "Status": "available",
		})
	}
	return object{"Regions": object{"Region": all}}, nil
}
