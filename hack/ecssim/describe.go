/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecssim

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// creationFormat is to the minute.
const creationFormat = "2006-01-02T15:04Z"

// The lists in the lists of ECS.
type (
	addressList struct {
		IPAddress []string `json:"IpAddress"`
	}
	groupList struct {
		SecurityGroupID []string `json:"SecurityGroupId"`
	}
	tagsOf struct {
		Tag []tag
	}
	lockReason struct {
		LockReason string
	}
	lockList struct {
		LockReason []lockReason
	}
	vpcAttributes struct {
		VPCID            string      `json:"VpcId"`
		VSwitchID        string      `json:"VSwitchId"`
		PrivateIPAddress addressList `json:"PrivateIpAddress"`
	}
	eipAddress struct {
		IPAddress    string `json:"IpAddress"`
		AllocationID string `json:"AllocationId"`
	}
)

// described is an instance as DescribeInstances sends it.
type described struct {
	InstanceID              string `json:"InstanceId"`
	InstanceName            string
	Description             string
	HostName                string
	Status                  string
	StoppedMode             string
	RegionID                string `json:"RegionId"`
	ZoneID                  string `json:"ZoneId"`
	InstanceType            string
	InstanceTypeFamily      string
	ImageID                 string `json:"ImageId"`
	InstanceChargeType      string
	InstanceNetworkType     string
	InternetMaxBandwidthOut int
	KeyPairName             string
	CreationTime            string
	ExpiredTime             string
	DeletionProtection      bool
	Tags                    tagsOf
	VpcAttributes           vpcAttributes
	SecurityGroupIDs        groupList   `json:"SecurityGroupIds"`
	PublicIPAddress         addressList `json:"PublicIpAddress"`
	InnerIPAddress          addressList `json:"InnerIpAddress"`
	EIPAddress              eipAddress  `json:"EipAddress"`
	OperationLocks          lockList
}

type describedInstances struct {
	RequestID  string `json:"RequestId"`
	TotalCount int
	PageSize   int
	PageNumber int
	NextToken  string
	Instances  struct{ Instance []described }
}

// describe returns what DescribeInstances says of a machine.
func (m *machine) describe() described {
	d := described{
		InstanceID: m.ID, InstanceName: m.Name, Description: m.Description, HostName: m.HostName, Status: m.State, StoppedMode: m.StoppedMode,
		RegionID: m.RegionID, ZoneID: m.ZoneID, InstanceType: m.Type, InstanceTypeFamily: family(m.Type), ImageID: m.ImageID,
		InstanceChargeType: m.ChargeType, InstanceNetworkType: networkType, InternetMaxBandwidthOut: m.bandwidth, KeyPairName: m.KeyPairName,
		CreationTime: m.Created.UTC().Format(creationFormat), ExpiredTime: "2099-12-31T15:59Z", DeletionProtection: m.DeletionProtection,
		Tags:             tagsOf{Tag: tagList(m.Tags)},
		VpcAttributes:    vpcAttributes{VPCID: m.VPCID, VSwitchID: m.VSwitchID, PrivateIPAddress: addressList{listOf(m.PrivateIP)}},
		SecurityGroupIDs: groupList{append([]string{}, m.SecurityGroupIDs...)},
		PublicIPAddress:  addressList{listOf(m.PublicIP)}, InnerIPAddress: addressList{listOf("")},
		OperationLocks: lockList{make([]lockReason, 0, len(m.Locks))},
	}
	if m.ChargeType == prePaid {
		d.ExpiredTime = m.Expires.UTC().Format(creationFormat)
	}
	for _, reason := range m.Locks {
		d.OperationLocks.LockReason = append(d.OperationLocks.LockReason, lockReason{reason})
	}
	return d
}

// listOf returns a list of what is not empty: JSON has no null for it.
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

func (x *exchange) describeInstances() (any, *problem) {
	found, p := x.matching()
	if p != nil {
		return nil, p
	}
	if x.params.is("DryRun") {
		return nil, dryRun
	}
	answer := describedInstances{RequestID: x.requestID, TotalCount: len(found)}
	page, p := x.page(found, &answer)
	if p != nil {
		return nil, p
	}
	answer.Instances.Instance = make([]described, 0, len(page))
	for _, m := range page {
		answer.Instances.Instance = append(answer.Instances.Instance, m.describe())
	}
	return answer, nil
}

// maxIDs is how many instances a call can name.
const maxIDs = 100

// matching returns the instances that the filters let through.
func (x *exchange) matching() ([]*machine, *problem) {
	filters, p := x.filters()
	if p != nil {
		return nil, p
	}
	ids, array := x.params.strings("InstanceIds")
	if !array || len(ids) > maxIDs {
		return nil, &problem{
			http.StatusBadRequest, "InvalidInstanceIds.Malformed", "The specified InstanceIds is no JSON array of at most 100 IDs.",
		}
	}
	candidates := x.candidates(len(ids) > 0, ids)
	return slices.DeleteFunc(candidates, func(m *machine) bool { return !filters.let(m) }), nil
}

// candidates returns the instances that the describes show: all, or those with the IDs.
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

// filters are what instances have to be.
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

// networkType is that of all instances: those of the classic network are history.
const networkType = "vpc"

// filters returns those of the call.
func (x *exchange) filters() (filters, *problem) {
	switch x.params.get("Status") {
	case "", pending, starting, running, stopping, stopped:
	default:
		return nil, invalid("Status")
	}
	var all filters
	for name, of := range attributes {
		if wanted := x.params.get(name); wanted != "" {
			all = append(all, func(m *machine) bool { return of(m) == wanted })
		}
	}
	for name, of := range map[string]func(*machine) string{
		"PrivateIpAddresses": func(m *machine) string { return m.PrivateIP }, "PublicIpAddresses": func(m *machine) string { return m.PublicIP },
	} {
		list, array := x.params.strings(name)
		if !array {
			return nil, invalid(name)
		}
		if len(list) > 0 {
			all = append(all, func(m *machine) bool { return slices.Contains(list, of(m)) })
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

// matches returns whether a name is as the pattern has it, in which * is for anything.
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

// tagged returns whether a machine has all of the tags. One without a value is for any.
func (m *machine) tagged(wanted []tag) bool {
	for _, t := range wanted {
		if value, found := m.Tags[t.TagKey]; !found || t.TagValue != "" && t.TagValue != value {
			return false
		}
	}
	return true
}

// page returns the part of what was found that is asked for, in one of the two ways.
func (x *exchange) page(found []*machine, answer *describedInstances) ([]*machine, *problem) {
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
		answer.NextToken = nextToken(rest[size-1])
	}
	return rest, nil
}

func (x *exchange) numberedPage(found []*machine, answer *describedInstances) ([]*machine, *problem) {
	number, size := x.params.number("PageNumber", 1), x.params.number("PageSize", 10)
	if number < 1 {
		return nil, invalid("PageNumber")
	}
	if size < 1 || size > 100 {
		return nil, invalid("PageSize")
	}
	answer.PageNumber, answer.PageSize = number, size
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

// after returns what comes after the NextToken.
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

type instanceStatus struct {
	InstanceID string `json:"InstanceId"`
	Status     string
}

type describedStatus struct {
	RequestID        string `json:"RequestId"`
	TotalCount       int
	PageSize         int
	PageNumber       int
	InstanceStatuses struct{ InstanceStatus []instanceStatus }
}

func (x *exchange) describeInstanceStatus() (any, *problem) {
	filters, p := x.filters()
	if p != nil {
		return nil, p
	}
	ids := x.params.list("InstanceId")
	found := slices.DeleteFunc(x.candidates(len(ids) > 0, ids), func(m *machine) bool { return !filters.let(m) })
	var numbers describedInstances
	page, p := x.numberedPage(found, &numbers)
	if p != nil {
		return nil, p
	}
	answer := describedStatus{RequestID: x.requestID, TotalCount: len(found), PageSize: numbers.PageSize, PageNumber: numbers.PageNumber}
	answer.InstanceStatuses.InstanceStatus = make([]instanceStatus, 0, len(page))
	for _, m := range page {
		answer.InstanceStatuses.InstanceStatus = append(answer.InstanceStatuses.InstanceStatus, instanceStatus{m.ID, m.State})
	}
	return answer, nil
}

type region struct {
	RegionID       string `json:"RegionId"`
	RegionEndpoint string
	LocalName      string
	Status         string
}

type describedRegions struct {
	RequestID string `json:"RequestId"`
	Regions   struct{ Region []region }
}

func (x *exchange) describeRegions() (any, *problem) {
	answer := describedRegions{RequestID: x.requestID}
	for _, id := range slices.Sorted(maps.Keys(regions)) {
		answer.Regions.Region = append(answer.Regions.Region, region{id, "ecs." + id + ".aliyuncs.com", regions[id], "available"})
	}
	return answer, nil
}
