// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
)

func TestWhoIsLetIn(t *testing.T) {
	key := ecssim.Account{ID: "1", AccessKeyID: "key", AccessKeySecret: "secret"}
	temporary := ecssim.Account{ID: "1", AccessKeyID: "STS.key", AccessKeySecret: "secret", SecurityToken: "token"}
	at := func(d time.Duration) string {
		return "Timestamp=" + time.Date(2026, 3, 1, 12, 30, 45, 0, time.UTC).Add(d).Format(timestampFormat)
	}
	for name, test := range map[string]struct {
		who  client
		with string
		want string
	}{
		"a key":                          {clientOf(key), "", "200"},
		"a temporary key":                {clientOf(temporary), "", "200"},
		"no access key":                  {client{}, "", "400 MissingParameter"},
		"no token":                       {client{id: "STS.key", secret: "secret"}, "", "400 InvalidAccessKeyId.NotFound"},
		"a malformed token":              {client{id: "STS.key", secret: "secret", token: "malformed"}, "", "400 InvalidSecurityToken.Malformed"},
		"no timestamp":                   {clientOf(key), "Timestamp=-", "400 MissingParameter"},
		"an unknown access key":          {client{id: "other", secret: "secret"}, "", "400 InvalidAccessKeyId.NotFound"},
		"a wrong secret":                 {client{id: "key", secret: "Secret"}, "", "400 SignatureDoesNotMatch"},
		"no signature":                   {clientOf(key), "Signature=", "400 IncompleteSignature"},
		"another method":                 {clientOf(key), "SignatureMethod=HMAC-SHA256", "400 InvalidSignatureMethod"},
		"a token that is not needed":     {client{id: "key", secret: "secret", token: "t"}, "", "400 InvalidSecurityToken.MismatchWithAccessKey"},
		"an expired token":               {client{id: "STS.key", secret: "secret", token: "expired"}, "", "400 InvalidSecurityToken.Expired"},
		"a clock that is 15 min behind":  {clientOf(key), at(-15 * time.Minute), "200"},
		"a clock that is 15 min ahead":   {clientOf(key), at(15 * time.Minute), "200"},
		"a clock that is further behind": {clientOf(key), at(-15*time.Minute - time.Second), "400 InvalidTimeStamp.Expired"},
		"a clock that is further ahead":  {clientOf(key), at(15*time.Minute + time.Second), "400 InvalidTimeStamp.Expired"},
		"a timestamp of another kind":    {clientOf(key), "Timestamp=2026-03-01 12:30:45", "400 IllegalTimestamp"},
		"a version that never was":       {clientOf(key), "Version=2014-05-27", "400 InvalidVersion"},
		"the version of STS":             {clientOf(key), "Version=2015-04-01", "404 InvalidAction.NotFound"},
		"XML":                            {clientOf(key), "Format=XML", "400 InvalidParameter"},
		"an action that there is not":    {clientOf(key), "Action=RebootInstance", "404 InvalidAction.NotFound"},
		"no action":                      {clientOf(key), "Action=-", "400 MissingParameter"},
		"a region that there is not":     {clientOf(key), "RegionId=cn-missing", "404 InvalidRegionId.NotFound"},
		"no region where one is needed":  {clientOf(key), "RegionId=-", "400 MissingParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{Accounts: []ecssim.Account{key, temporary}})
			r := c.as(test.who, "DescribeInstances", pairs(test.with)...)
			if id, _ := r.body["RequestId"].(string); r.ended() != test.want || len(id) != 36 {
				t.Errorf("got %s, with the ID %q: %s", r.ended(), id, r.raw)
			}
		})
	}
}

func TestACallKeepsNoSecret(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	want(t, c.call("CreateInstance", "UserData", "c2VjcmV0", "Password", "P&ss", "InstanceName", "web"), 400, "MissingParameter")
	kept := c.Calls()[0].Params
	if text := fmt.Sprint(kept); strings.Contains(text, "c2VjcmV0") || strings.Contains(text, "P&ss") || kept.Get("InstanceName") != "web" ||
		kept.Has("Signature") || kept.Has("AccessKeyId") {
		t.Errorf("kept %v", kept)
	}
	if c.Forget(); len(c.Calls()) != 0 || c.Count("CreateInstance") != 0 {
		t.Errorf("it has not forgotten %v", c.Calls())
	}
}

func TestANonceIsGoodOnceForAsLongAsItCouldCome(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	ahead := func() url.Values {
		return c.client.sign(c.now, "DescribeRegions", "SignatureNonce", "once", "Timestamp", c.now.Add(15*time.Minute).Format(timestampFormat))
	}
	first := ahead()
	want(t, c.send(first), 200, "")
	want(t, c.send(first), 400, "SignatureNonceUsed")
	c.pass(30*time.Minute - 1)
	want(t, c.send(first), 400, "SignatureNonceUsed")
	c.pass(time.Second)
	want(t, c.send(first), 400, "InvalidTimeStamp.Expired")
	want(t, c.send(ahead()), 200, "")
	// A call that is not let in does not use up its nonce.
	wrong := client{id: "test", secret: "wrong"}
	want(t, c.as(wrong, "DescribeRegions", "SignatureNonce", "n"), 400, "SignatureDoesNotMatch")
	want(t, c.call("DescribeRegions", "SignatureNonce", "n"), 200, "")
}

// TestWhatNoActionHasIsRefusedAndRecorded: what the documents do not have is a fault of the caller, which tests find in the calls.
func TestWhatNoActionHasIsRefusedAndRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		action, with string
		violation    bool
	}{
		"a typing error":              {"DescribeInstances", "InstanceID=x", true},
		"of another action":           {"StartInstance", "InstanceId=x&Force=true", true},
		"a list that is too long":     {"DescribeInstances", "Tag.21.Key=x", true},
		"the N of the documentation":  {"DescribeInstances", "Tag.N.Key=x", true},
		"a field that a tag has not":  {"DescribeInstances", "Tag.1.Name=x", true},
		"a launch template":           {"CreateInstance", "LaunchTemplateId=lt-1", true},
		"a number that is none":       {"DescribeInstances", "MaxResults=ten", false},
		"a page that is too small":    {"DescribeInstances", "MaxResults=9", false},
		"a page that is too large":    {"DescribeInstances", "MaxResults=101", false},
		"a token that is none":        {"DescribeInstances", "NextToken=%", false},
		"a truth that is none":        {"DeleteInstance", "InstanceId=x&Force=True", false},
		"empty is as not being there": {"StartInstance", "InstanceId=", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			code := "InvalidParameter"
			if test.with == "InstanceId=" {
				code = "MissingParameter"
			}
			want(t, c.call(test.action, pairs(test.with)...), 400, code)
			call := c.Calls()[0]
			if (call.Violation != "") != test.violation || call.Code != code || call.Message == "" || call.Done {
				t.Errorf("the call is said to be %+v", call)
			}
		})
	}
}

func TestWhatIsNotMade(t *testing.T) {
	for with, want := range map[string]string{
		"InstanceType=-":                                     "400 MissingParameter",
		"ImageId=-":                                          "400 MissingParameter",
		"ImageId=m-missing":                                  "404 InvalidImageId.NotFound",
		"InstanceType=ecs.missing.large":                     "403 InvalidInstanceType.ValueNotSupported",
		"InstanceType=ecs.nostock":                           "403 OperationDenied.NoStock",
		"InstanceType=ecs.forbidden":                         "403 Forbidden.RAM",
		"InstanceType=ecs.broken":                            "500 InternalError",
		"ZoneId=cn-hangzhou-missing":                         "404 InvalidZoneId.NotFound",
		"ZoneId=cn-beijing-a":                                "404 InvalidZoneId.NotFound",
		"ZoneId=cn-hangzhou-notonsale":                       "403 Zone.NotOnSale",
		"SecurityGroupId=sg-missing":                         "404 InvalidSecurityGroupId.NotFound",
		"SecurityGroupId=vsw-1":                              "404 InvalidSecurityGroupId.NotFound",
		"VSwitchId=vsw-missing":                              "404 InvalidVSwitchId.NotFound",
		"KeyPairName=missing":                                "404 InvalidKeyPairName.NotFound",
		"DataDisk.1.SnapshotId=s-missing":                    "404 InvalidSnapshotId.NotFound",
		"SystemDisk.Category=floppy":                         "400 InvalidSystemDiskCategory.ValueNotSupported",
		"DataDisk.2.Category=floppy":                         "400 InvalidDataDiskCategory.ValueNotSupported",
		"SystemDisk.Size=19":                                 "400 InvalidSystemDiskSize.ValueNotSupported",
		"DataDisk.1.Category=cloud":                          "400 MissingParameter",
		"InstanceName=x":                                     "400 InvalidInstanceName.Malformed",
		"UserData=#!/bin/sh":                                 "400 InvalidUserData.Base64FormatInvalid",
		"UserData=" + strings.Repeat("AAAA", 11000):          "400 InvalidUserData.SizeExceeded",
		"InstanceChargeType=PrePaid":                         "400 MissingParameter",
		"InstanceChargeType=PrePaid&Period=0":                "400 InvalidPeriod.ValueNotSupported",
		"InstanceChargeType=PrePaid&Period=1&PeriodUnit=Day": "400 InvalidPeriodUnit.ValueNotSupported",
		"InternetMaxBandwidthOut=101":                        "400 InvalidParameter",
		"Tag.1.Key=acs:x":                                    "400 InvalidTagKey.Malformed",
		"Tag.1.Value=x":                                      "400 InvalidTagKey.Malformed",
		"Tag.1.Key=x&Tag.1.Value=http://x":                   "400 InvalidTagValue.Malformed",
		"Tag.1.Key=x&Tag.2.Key=x":                            "400 Duplicate.TagKey",
		"ClientToken=" + strings.Repeat("x", 65):             "400 InvalidClientToken.Malformed",
		"DryRun=true":                                        "400 DryRunOperation",
	} {
		t.Run(fmt.Sprintf("%.60s", with), func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			r := c.call("CreateInstance", append([]string{"InstanceType", "ecs.g6.large", "ImageId", "x"}, pairs(with)...)...)
			if r.ended() != want || len(c.Instances()) != 0 {
				t.Errorf("got %s, want %s; made %v", r.ended(), want, c.Instances())
			}
		})
	}
}

func TestATokenStandsForOneInstance(t *testing.T) {
	const one = "InstanceType=ecs.g6.large&ImageId=x&ClientToken=one&InstanceName=web&UserData=aGk="
	for name, test := range map[string]struct {
		who   int    // which account
		with  string // parameters that differ
		after time.Duration
		fault ecssim.Fault // of the first
		want  string
		made  int
	}{
		"the same again":                        {want: "200", made: 1},
		"the same, just before it is forgotten": {after: 30*time.Minute - 1, want: "200", made: 1},
		"the same, once it is forgotten":        {after: 30 * time.Minute, want: "200", made: 2},
		"the same with another key":             {who: 1, want: "200", made: 1},
		"the same from another account":         {who: 2, want: "200", made: 2},
		"the same in another region":            {with: "RegionId=cn-beijing", want: "200", made: 2},
		"no token":                              {with: "ClientToken=-", want: "200", made: 2},
		"another parameter":                     {with: "InstanceName=other", want: "400 IdempotentParameterMismatch", made: 1},
		"one parameter more":                    {with: "Tag.1.Key=x", want: "400 IdempotentParameterMismatch", made: 1},
		"an empty parameter more":               {with: "KeyPairName=", want: "200", made: 1},
		"while the first is in flight": {
			after: time.Minute - 1, fault: ecssim.Fault{InFlight: time.Minute}, want: "403 IdempotentProcessing", made: 1,
		},
		"once the first is not":           {after: time.Minute, fault: ecssim.Fault{InFlight: time.Minute}, want: "200", made: 1},
		"of a poisoned token":             {fault: ecssim.Fault{PoisonToken: true}, want: "403 IdempotentFailed"},
		"of a poisoned token, much later": {after: time.Hour, fault: ecssim.Fault{PoisonToken: true}, want: "200", made: 1},
		"after an answer that was lost":   {fault: ecssim.Fault{LoseAnswer: true}, want: "200", made: 1},
		"after a request that was lost":   {fault: ecssim.Fault{LoseRequest: true}, want: "200", made: 1},
	} {
		t.Run(name, func(t *testing.T) {
			accounts := []ecssim.Account{
				{ID: "1", AccessKeyID: "a", AccessKeySecret: "s"}, {ID: "1", AccessKeyID: "b", AccessKeySecret: "s"},
				{ID: "2", AccessKeyID: "c", AccessKeySecret: "s"},
			}
			c := newCloud(t, ecssim.Config{Accounts: accounts})
			c.SetFault(func(ecssim.Call) ecssim.Fault { return test.fault })
			first := c.call("CreateInstance", pairs(one)...)
			c.SetFault(nil)
			c.pass(test.after)
			second := c.as(clientOf(accounts[test.who]), "CreateInstance", append(pairs(one), pairs(test.with)...)...)
			instances := c.Instances()
			if second.ended() != test.want || len(instances) != test.made {
				t.Fatalf("got %s, want %s; made %v", second.ended(), test.want, instances)
			}
			if same := second.body["InstanceId"]; test.made == 1 && test.want == "200" &&
				(same != instances[0].ID || c.Calls()[1].InstanceID != same ||
					first.body["OrderId"] != nil && first.body["OrderId"] != second.body["OrderId"]) {
				t.Errorf("answered %s after %s", second.raw, first.raw)
			}
		})
	}
}

func TestARefusedCreateLeavesItsToken(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	want(t, c.call("CreateInstance", "InstanceType", "ecs.nostock", "ImageId", "x", "ClientToken", "one"), 403, "OperationDenied.NoStock")
	c.create("ClientToken", "one")
}

func TestIDs(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	first, second := c.create(), c.create()
	gone := c.inState(stopped, func(i *ecssim.Instance) { i.Released = c.now })
	list := func(ids ...string) string { return `["` + strings.Join(ids, `","`) + `"]` }
	for name, test := range map[string]struct {
		ids   string
		found []string // if it is not malformed
	}{
		"two, the wrong way":                  {list(second, first), []string{first, second}},
		"one twice":                           {list(first, first), []string{first}},
		"one that is gone":                    {list(gone), nil},
		"none, which is no filter":            {`[]`, []string{first, second}},
		"a hundred":                           {list(slices.Repeat([]string{first}, 100)...), []string{first}},
		"malformed: more than that":           {list(slices.Repeat([]string{first}, 101)...), nil},
		"malformed: no list":                  {first, nil},
		"malformed: a list of something else": {`[1]`, nil},
	} {
		r := c.call("DescribeInstances", "InstanceIds", test.ids)
		if strings.HasPrefix(name, "malformed") {
			want(t, r, 400, "InvalidInstanceIds.Malformed")
			continue
		}
		want(t, r, 200, "")
		if !slices.Equal(r.ids(), test.found) || r.body["RequestId"] == "" || r.body["TotalCount"] != float64(len(test.found)) {
			t.Errorf("%s: got %s", name, r.raw)
		}
	}
}

func TestFilters(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	web := c.create(pairs("Tag.1.Key=app&Tag.1.Value=web&Tag.2.Key=env&Tag.2.Value=prod")...)
	db := c.create(pairs("Tag.1.Key=app&Tag.1.Value=db")...)
	c.create(pairs("RegionId=cn-beijing&Tag.1.Key=app&Tag.1.Value=web")...)
	for with, found := range map[string][]string{
		"":                              {web, db},
		"Tag.1.Key=app&Tag.1.Value=web": {web},
		"Tag.1.Key=app":                 {web, db},
		"Tag.1.Key=app&Tag.2.Key=env&Tag.2.Value=prod": {web},
		"Tag.1.Key=app&Tag.1.Value=db&Tag.2.Key=env":   nil,
		`Tag.1.Key=app&InstanceIds=["` + db + `"]`:     {db},
	} {
		if r := c.call("DescribeInstances", pairs(with)...); !slices.Equal(r.ids(), found) {
			t.Errorf("%s: got %v, want %v: %s", with, r.ids(), found, r.raw)
		}
	}
	want(t, c.call("DescribeInstances", "DryRun", "true"), 400, "DryRunOperation")
}

func TestAccountsAndRegionsAreApart(t *testing.T) {
	accounts := []ecssim.Account{{ID: "1", AccessKeyID: "a", AccessKeySecret: "s"}, {ID: "2", AccessKeyID: "b", AccessKeySecret: "t"}}
	c := newCloud(t, ecssim.Config{Accounts: accounts})
	id := c.create("Tag.1.Key", "k")
	c.pass(time.Minute)
	for region, who := range map[string]client{"cn-hangzhou": clientOf(accounts[1]), "cn-beijing": clientOf(accounts[0])} {
		for _, with := range [][]string{{"InstanceIds", `["` + id + `"]`}, {"Tag.1.Key", "k"}, nil} {
			if r := c.as(who, "DescribeInstances", append(with, "RegionId", region)...); len(r.described()) != 0 || r.status != 200 {
				t.Errorf("in %s, %v finds %s", region, with, r.raw)
			}
		}
		for _, action := range []string{"StartInstance", "StopInstance", "DeleteInstance", "ModifyInstanceAttribute"} {
			want(t, c.as(who, action, "InstanceId", id, "RegionId", region), 404, "InvalidInstanceId.NotFound")
		}
		for action, key := range map[string]string{"TagResources": "Tag.1.Key", "UntagResources": "TagKey.1"} {
			with := []string{"ResourceType", "instance", "ResourceId.1", id, "RegionId", region, key, "x"}
			want(t, c.as(who, action, with...), 404, "InvalidInstanceId.NotFound")
		}
	}
	if i := c.instance(id); i.AccountID != "1" || len(i.Tags) != 1 {
		t.Errorf("it is %+v", i)
	}
}

func TestTags(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	id, other := c.create("Tag.1.Key", "a", "Tag.1.Value", "1"), c.create()
	on := func(action string, with ...string) result {
		return c.call(action, append([]string{"ResourceType", "instance", "ResourceId.1", id}, with...)...)
	}
	tags := func() string { return fmt.Sprint(c.instance(id).Tags) }
	want(t, on("TagResources", "ResourceId.2", other, "Tag.1.Key", "a", "Tag.1.Value", "2", "Tag.3.Key", "b"), 200, "")
	if tags() != "map[a:2 b:]" || fmt.Sprint(c.instance(other).Tags) != "map[a:2 b:]" {
		t.Errorf("tags are %s and %v", tags(), c.instance(other).Tags)
	}
	want(t, on("UntagResources", "TagKey.1", "a", "TagKey.2", "none"), 200, "")
	if tags() != "map[b:]" {
		t.Errorf("tags are %s", tags())
	}
	many := []string{}
	for n := range 20 {
		many = append(many, fmt.Sprintf("Tag.%d.Key", n+1), fmt.Sprintf("k%d", n))
	}
	want(t, on("TagResources", many...), 400, "NumberExceed.Tags")
	want(t, on("TagResources", append(many[2:], "Tag.1.Key", "aliyun")...), 400, "InvalidTagKey.Malformed")
	want(t, on("TagResources"), 400, "MissingParameter")
	want(t, on("UntagResources"), 400, "MissingParameter")
	want(t, c.call("TagResources", "ResourceType", "instance", "Tag.1.Key", "k"), 400, "MissingParameter")
	want(t, c.call("UntagResources", "ResourceType", "instance", "TagKey.1", "k"), 400, "MissingParameter")
	want(t, on("TagResources", "ResourceType", "disk", "Tag.1.Key", "k"), 404, "InvalidResourceType.NotFound")
	want(t, on("TagResources", "ResourceId.2", "i-none", "Tag.1.Key", "k"), 404, "InvalidInstanceId.NotFound")
	if tags() != "map[b:]" {
		t.Errorf("a call that was refused left %s", tags())
	}
	want(t, on("UntagResources", "All", "true"), 200, "")
	if tags() != "map[]" {
		t.Errorf("tags are %s", tags())
	}
}
