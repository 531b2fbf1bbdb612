// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// operation is an action with its parameters.
type operation struct {
	version  string
	required []string
	params   map[string]bool // with N for the numbers in lists
	run      func(*exchange) (object, *problem)
}

// set returns the names in a text with spaces between them.
func set(names string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		all[name] = true
	}
	return all
}

var (
	// common are the parameters of every action.
	common = set("Action Version Format RegionId SignatureMethod SignatureVersion SignatureType SignatureNonce Timestamp " +
		"OwnerAccount ResourceOwnerAccount OwnerId ResourceOwnerId")
	// integers and booleans are the parameters of these types, of all actions. All others are strings.
	integers = set("OwnerId ResourceOwnerId InternetMaxBandwidthOut SystemDisk.Size DataDisk.N.Size Period MaxResults")
	booleans = set("DryRun DeletionProtection DataDisk.N.Encrypted DataDisk.N.DeleteWithInstance ForceStop Force All")
)

// The parameters of CreateInstance and of DescribeInstances.
const (
	create = "ImageId InstanceType SecurityGroupId InstanceName ZoneId VSwitchId ClientToken KeyPairName InstanceChargeType Period " +
		"PeriodUnit InternetMaxBandwidthOut DryRun DeletionProtection Tag.N.Key Tag.N.Value SystemDisk.Category SystemDisk.Size " +
		"SystemDisk.PerformanceLevel DataDisk.N.Category DataDisk.N.Size DataDisk.N.SnapshotId DataDisk.N.PerformanceLevel " +
		"DataDisk.N.Encrypted DataDisk.N.DeleteWithInstance"
	describe = "InstanceIds Tag.N.Key Tag.N.Value NextToken MaxResults DryRun"
)

// operations are the supported actions.
var operations = map[string]*operation{
	"GetCallerIdentity":       {version: stsVersion, run: callerIdentity},
	"CreateInstance":          ecs("RegionId InstanceType", create, createInstance),
	"DescribeInstances":       ecs("RegionId", describe, describeInstances),
	"DescribeRegions":         ecs("", "InstanceChargeType ResourceType AcceptLanguage", describeRegions),
	"StartInstance":           ecs("InstanceId", "DryRun", changed(startInstance)),
	"AllocatePublicIpAddress": ecs("InstanceId", "", allocatePublicIPAddress),
	"StopInstance":            ecs("InstanceId", "StoppedMode DryRun ForceStop", changed(stopInstance)),
	"DeleteInstance":          ecs("InstanceId", "DryRun Force", changed(deleteInstance)),
	"ModifyInstanceAttribute": ecs("InstanceId", "InstanceName SecurityGroupIds.N DeletionProtection",
		changed(modifyInstanceAttribute)),
	"ModifyInstanceSpec": ecs("InstanceId", "InstanceType ClientToken InternetMaxBandwidthOut DryRun", changed(modifyInstanceSpec)),
	"TagResources":       ecs("RegionId ResourceType", "ResourceId.N Tag.N.Key Tag.N.Value", tagResources),
	"UntagResources":     ecs("RegionId ResourceType", "ResourceId.N TagKey.N All", untagResources),
}

// ecs returns an operation of ECS.
func ecs(required, optional string, run func(*exchange) (object, *problem)) *operation {
	return &operation{version: ecsVersion, required: strings.Fields(required), params: set(required + " " + optional), run: run}
}

// confiding are the actions that accept UserData and Password. A request holds these two outside of its params.
var confiding = []string{"CreateInstance", "ModifyInstanceAttribute"}

// check returns a problem for a parameter that the operation does not have, a value of the wrong type, or a missing required parameter. ECS
// ignores unknown parameters, and so hides typing errors of a client. The simulator rejects and records them.
func (x *exchange) check(o *operation) *problem {
	for _, name := range x.names {
		value := x.params.get(name)
		if value == "" {
			continue
		}
		switch pattern := listPattern(name); {
		case !common[pattern] && !o.params[pattern]:
			return x.violate(name)
		case !wellFormed(pattern, value):
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
	return badRequest("InvalidParameter", x.violation+".")
}

// wellFormed returns whether a value has the type of the parameter.
func wellFormed(pattern, value string) bool {
	var err error
	switch {
	case integers[pattern]:
		_, err = strconv.Atoi(value)
	case booleans[pattern]:
		return value == "true" || value == "false"
	}
	return err == nil
}

// limits are the largest lengths of lists.
var limits = map[string]int{
	"Tag": 20, "TagKey": 20, "ResourceId": 50, "SecurityGroupIds": 10, "DataDisk": 16,
}

// listPattern replaces the number in a name by N. It returns "" if no list can have the number.
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

// length returns an upper bound of the length of a list.
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

// tag is a key and a value of Tag.N, also in an answer.
type tag struct {
	TagKey   string
	TagValue string
}

// tags returns the parameters Tag.N with a key or a value.
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

// number returns the value of an integer parameter. check has validated it.
func (p params) number(name string, otherwise int) int {
	n, err := strconv.Atoi(p.get(name))
	if err != nil {
		return otherwise
	}
	return n
}

func (p params) is(name string) bool { return p.get(name) == "true" }

// instanceID returns the instance that a call names, if it names exactly one.
func (p params) instanceID() string {
	for _, name := range []string{"InstanceId", "ResourceId.1"} {
		if id := p.get(name); id != "" {
			return id
		}
	}
	if ids, _ := p.strings("InstanceIds"); len(ids) > 0 {
		return ids[0]
	}
	return ""
}

// strings parses a parameter as a JSON array of strings. The second result is false if it is none.
func (p params) strings(name string) ([]string, bool) {
	value := p.get(name)
	if value == "" {
		return nil, true
	}
	var list []string
	err := json.Unmarshal([]byte(value), &list)
	return list, err == nil
}

// signing are the parameters that differ between a call and its repetition.
var signing = []string{
	"AccessKeyId", "Signature", "SignatureMethod", "SignatureVersion", "SignatureType", "SignatureNonce", "Timestamp", "SecurityToken",
	"Action", "Version", "Format", "ClientToken",
}

// fingerprint identifies the parameters of a call.
type fingerprint = [sha256.Size]byte

// fingerprintOf returns the fingerprint of all parameters but those of signing.
func fingerprintOf(all url.Values) fingerprint {
	asked := maps.Clone(all)
	maps.DeleteFunc(asked, func(name string, values []string) bool { return slices.Contains(signing, name) || values[0] == "" })
	return sha256.Sum256([]byte(asked.Encode()))
}
