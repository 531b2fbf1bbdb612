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
		"InstanceId": m.ID, "InstanceName": m.Name, "Description": m.Description, "HostName": m.HostName, "Status": m.State,
		"StoppedMode": m.StoppedMode, "RegionId": m.RegionID, "ZoneId": m.ZoneID, "InstanceType": m.Type, "InstanceTypeFamily": family(m.Type),
		"ImageId": m.ImageID, "InstanceChargeType": m.ChargeType, "InstanceNetworkType": networkType, "InternetMaxBandwidthOut": m.bandwidth,
		"KeyPairName": m.KeyPairName, "CreationTime": m.Created.UTC().Format(creationFormat), "ExpiredTime": expires,
		"DeletionProtection": m.DeletionProtection, "Tags": object{"Tag": tagList(m.Tags)},
		"VpcAttributes":    object{"VpcId": m.VPCID, "VSwitchId": m.VSwitchID, "PrivateIpAddress": object{"IpAddress": listOf(m.PrivateIP)}},
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
	answer["Instances"] = object{"Instance": objects(page, (*machine).describe)}
	return answer, p
}

// objects returns an object for each machine. Without machines it returns an empty list, so JSON has no null.
func objects(machines []*machine, of func(*machine) object) []object {
	list := make([]object, 0, len(machines))
	for _, m := range machines {
		list = append(list, of(m))
	}
	return list
}

// maxIDs is the largest number of instances that a call can name.
const maxIDs = 100

// matching returns the instances that match all filters.
func (x *exchange) matching() ([]*machine, *problem) {
	filters, p := x.filters()
	if p != nil {
		return nil, p
	}
	ids, array := x.params.strings("InstanceIds")
	if !array || len(ids) > maxIDs {
		return nil, badRequest("InvalidInstanceIds.Malformed", "The specified InstanceIds is no JSON array of at most 100 IDs.")
	}
	candidates := x.candidates(len(ids) > 0, ids)
	return slices.DeleteFunc(candidates, func(m *machine) bool { return !filters.let(m) }), nil
}

// candidates returns the visible instances: all, or those with the IDs if the call names some.
func (x *exchange) candidates(named bool, ids []string) []*machine {
	if !named {
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

// filters are the conditions that an instance must meet to be in the answer.
type filters []func(*machine) bool

func (f filters) let(m *machine) bool {
	return !slices.ContainsFunc(f, func(let func(*machine) bool) bool { return !let(m) })
}

// attributes are the filters that an attribute has to be equal to.
var attributes = map[string]func(*machine) string{
	"Status":              func(m *machine) string { return m.State },
	"ImageId":             func(m *machine) string { return m.ImageID },
	"InstanceType":        func(m *machine) string { return m.Type },
	"InstanceTypeFamily":  func(m *machine) string { return family(m.Type) },
	"ZoneId":              func(m *machine) string { return m.ZoneID },
	"InstanceChargeType":  func(m *machine) string { return m.ChargeType },
	"VpcId":               func(m *machine) string { return m.VPCID },
	"VSwitchId":           func(m *machine) string { return m.VSwitchID },
	"KeyPairName":         func(m *machine) string { return m.KeyPairName },
	"InstanceNetworkType": func(*machine) string { return networkType },
}

// networkType is the network type of all instances. ECS creates no more of the type classic.
const networkType = "vpc"

// filters returns the filters of the call.
func (x *exchange) filters() (filters, *problem) {
	switch x.params.get("Status") {
	case "", pending, starting, running, stopping, stopped:
	default:
		return nil, invalid("Status")
	}
	var all filters
	for name, value := range attributes {
		if wanted := x.params.get(name); wanted != "" {
			all = append(all, func(m *machine) bool { return value(m) == wanted })
		}
	}
	for name, value := range map[string]func(*machine) string{
		"PrivateIpAddresses": func(m *machine) string { return m.PrivateIP }, "PublicIpAddresses": func(m *machine) string { return m.PublicIP },
	} {
		list, array := x.params.strings(name)
		if !array {
			return nil, invalid(name)
		}
		if len(list) > 0 {
			all = append(all, func(m *machine) bool { return slices.Contains(list, value(m)) })
		}
	}
	if wanted := x.params.get("InstanceName"); wanted != "" {
		all = append(all, func(m *machine) bool { return matches(wanted, m.Name) })
	}
	if wanted := x.params.get("SecurityGroupId"); wanted != "" {
		all = append(all, func(m *machine) bool { return slices.Contains(m.SecurityGroupIDs, wanted) })
	}
	if wanted := x.params.get("LockReason"); wanted != "" {
		all = append(all, func(m *machine) bool { return m.locked(wanted) })
	}
	if wanted := x.params.tags(); len(wanted) > 0 {
		all = append(all, func(m *machine) bool { return m.tagged(wanted) })
	}
	return all, nil
}

// matches returns whether a name matches a pattern, in which * matches any text.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = rest
	}
	return true
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

// page returns the requested part of found. Calls request it by PageNumber or by NextToken.
func (x *exchange) page(found []*machine, answer object) ([]*machine, *problem) {
	if x.params.get("MaxResults") == "" && x.params.get("NextToken") == "" {
		return x.numberedPage(found, answer)
	}
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

func (x *exchange) numberedPage(found []*machine, answer object) ([]*machine, *problem) {
	number, size := x.params.number("PageNumber", 1), x.params.number("PageSize", 10)
	if number < 1 {
		return nil, invalid("PageNumber")
	}
	if size < 1 || size > 100 {
		return nil, invalid("PageSize")
	}
	answer["PageNumber"], answer["PageSize"] = number, size
	if number > len(found)/size+1 {
		return nil, nil
	}
	from := (number - 1) * size
	return found[from:min(len(found), from+size)], nil
}

// nextToken returns the token of the page that begins after a machine. Instances created or
// released between two pages cause no other one to be skipped.
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

func describeInstanceStatus(x *exchange) (object, *problem) {
	filters, p := x.filters()
	if p != nil {
		return nil, p
	}
	ids := x.params.list("InstanceId")
	found := slices.DeleteFunc(x.candidates(len(ids) > 0, ids), func(m *machine) bool { return !filters.let(m) })
	answer := object{"TotalCount": len(found)}
	page, p := x.numberedPage(found, answer)
	answer["InstanceStatuses"] = object{"InstanceStatus": objects(page, func(m *machine) object {
		return object{"InstanceId": m.ID, "Status": m.State}
	})}
	return answer, p
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
