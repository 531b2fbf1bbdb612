// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
)

func TestWhatIsNotMade(t *testing.T) {
	for name, tc := range map[string]struct {
		with   []string
		status int
		code   string
	}{
		"no type":                  {with: []string{"InstanceType", "-"}, status: 400, code: "MissingParameter"},
		"no image":                 {with: []string{"ImageId", "-"}, status: 400, code: "MissingParameter"},
		"an image that is missing": {with: []string{"ImageId", "m-missing"}, status: 404, code: "InvalidImageId.NotFound"},
		"a type that is missing": {
			with: []string{"InstanceType", "ecs.missing.large"}, status: 403, code: "InvalidInstanceType.ValueNotSupported",
		},
		"a type that looks like none": {with: []string{"InstanceType", "t3.micro"}, status: 403, code: "InvalidInstanceType.ValueNotSupported"},
		"a type that is out of stock": {with: []string{"InstanceType", "ecs.nostock"}, status: 403, code: "OperationDenied.NoStock"},
		"a type that is not in the zone": {
			with: []string{"InstanceType", "ecs.unsupported"}, status: 403, code: "InvalidInstanceType.ZoneNotSupported",
		},
		"more than the quota":        {with: []string{"InstanceType", "ecs.quota"}, status: 403, code: "QuotaExceed.ElasticQuota"},
		"nothing to pay with":        {with: []string{"InstanceType", "ecs.balance"}, status: 403, code: "InvalidAccountStatus.NotEnoughBalance"},
		"what is forbidden":          {with: []string{"InstanceType", "ecs.forbidden"}, status: 403, code: "Forbidden.RAM"},
		"too much at a time":         {with: []string{"InstanceType", "ecs.throttled"}, status: 400, code: "Throttling.User"},
		"something of what is down":  {with: []string{"InstanceType", "ecs.unavailable"}, status: 503, code: "ServiceUnavailable"},
		"something broken":           {with: []string{"InstanceType", "ecs.broken"}, status: 500, code: "InternalError"},
		"in a zone that is missing":  {with: []string{"ZoneId", "cn-hangzhou-missing"}, status: 404, code: "InvalidZoneId.NotFound"},
		"in a zone of elsewhere":     {with: []string{"ZoneId", "cn-beijing-a"}, status: 404, code: "InvalidZoneId.NotFound"},
		"in a zone that is not sold": {with: []string{"ZoneId", "cn-hangzhou-notonsale"}, status: 403, code: "Zone.NotOnSale"},
		"a group that is missing":    {with: []string{"SecurityGroupId", "sg-missing"}, status: 404, code: "InvalidSecurityGroupId.NotFound"},
		"a group that is none":       {with: []string{"SecurityGroupId", "vsw-1"}, status: 404, code: "InvalidSecurityGroupId.NotFound"},
		"a vSwitch that is missing":  {with: []string{"VSwitchId", "vsw-missing"}, status: 404, code: "InvalidVSwitchId.NotFound"},
		"a key that is missing":      {with: []string{"KeyPairName", "missing"}, status: 404, code: "InvalidKeyPairName.NotFound"},
		"a snapshot that is missing": {with: []string{"DataDisk.1.SnapshotId", "s-missing"}, status: 404, code: "InvalidSnapshotId.NotFound"},
		"a disk of no such category": {
			with: []string{"SystemDisk.Category", "floppy"}, status: 400, code: "InvalidSystemDiskCategory.ValueNotSupported",
		},
		"a data disk of no such category": {
			with: []string{"DataDisk.2.Category", "floppy"}, status: 400, code: "InvalidDataDiskCategory.ValueNotSupported",
		},
		"a disk that is too small": {with: []string{"SystemDisk.Size", "19"}, status: 400, code: "InvalidSystemDiskSize.ValueNotSupported"},
		"a disk of no such level": {
			with: []string{"SystemDisk.PerformanceLevel", "PL9"}, status: 400, code: "InvalidSystemDiskPerformanceLevel.ValueNotSupported",
		},
		"a data disk without a size":    {with: []string{"DataDisk.1.Category", "cloud"}, status: 400, code: "MissingParameter"},
		"a name of one letter":          {with: []string{"InstanceName", "x"}, status: 400, code: "InvalidInstanceName.Malformed"},
		"user data that is not encoded": {with: []string{"UserData", "#!/bin/sh"}, status: 400, code: "InvalidUserData.Base64FormatInvalid"},
		"too much user data": {
			with: []string{"UserData", strings.Repeat("AAAA", 11000)}, status: 400, code: "InvalidUserData.SizeExceeded",
		},
		"a charge type that there is not": {
			with: []string{"InstanceChargeType", "Free"}, status: 400, code: "InvalidInstanceChargeType.ValueNotSupported",
		},
		"paid for, but for how long": {with: []string{"InstanceChargeType", "PrePaid"}, status: 400, code: "MissingParameter"},
		"paid for no time": {
			with: []string{"InstanceChargeType", "PrePaid", "Period", "0"}, status: 400, code: "InvalidPeriod.ValueNotSupported",
		},
		"paid for days": {
			with:   []string{"InstanceChargeType", "PrePaid", "Period", "1", "PeriodUnit", "Day"},
			status: 400,
			code:   "InvalidPeriodUnit.ValueNotSupported",
		},
		"too much bandwidth":  {with: []string{"InternetMaxBandwidthOut", "101"}, status: 400, code: "InvalidParameter"},
		"a tag of ECS's own":  {with: []string{"Tag.1.Key", "acs:x"}, status: 400, code: "InvalidTagKey.Malformed"},
		"a tag without a key": {with: []string{"Tag.1.Value", "x"}, status: 400, code: "InvalidTagKey.Malformed"},
		"a tag with a link":   {with: []string{"Tag.1.Key", "x", "Tag.1.Value", "http://x"}, status: 400, code: "InvalidTagValue.Malformed"},
		"a tag twice":         {with: []string{"Tag.1.Key", "x", "Tag.2.Key", "x"}, status: 400, code: "Duplicate.TagKey"},
		"a token that is too long": {
			with: []string{"ClientToken", strings.Repeat("x", 65)}, status: 400, code: "InvalidClientToken.Malformed",
		},
		"a token that is not ASCII": {with: []string{"ClientToken", "ü"}, status: 400, code: "InvalidClientToken.Malformed"},
		"a dry run":                 {with: []string{"DryRun", "true"}, status: 400, code: "DryRunOperation"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			want(t, c.call("CreateInstance", append([]string{"InstanceType", "ecs.g6.large", "ImageId", "x"}, tc.with...)...), tc.status, tc.code)
			if len(c.Instances()) != 0 {
				t.Error("an instance was made")
			}
		})
	}
}

func TestATokenStandsForOneInstance(t *testing.T) {
	one := []string{"InstanceType", "ecs.g6.large", "ImageId", "x", "ClientToken", "one", "InstanceName", "web", "UserData", "aGk="}
	with := func(more ...string) []string { return append(one[:len(one):len(one)], more...) }
	for name, tc := range map[string]struct {
		who    int // which account
		with   []string
		after  time.Duration
		before func(*cloud, string)
		fault  ecssim.Fault // of the first
		status int
		code   string
		made   int
	}{
		"the same again":                        {with: one, status: 200, made: 1},
		"the same, just before it is forgotten": {with: one, after: 30*time.Minute - 1, status: 200, made: 1},
		"the same, once it is forgotten":        {with: one, after: 30 * time.Minute, status: 200, made: 2},
		"the same with another key":             {who: 1, with: one, status: 200, made: 1},
		"the same from another account":         {who: 2, with: one, status: 200, made: 2},
		"the same in another region":            {with: with("RegionId", "cn-beijing"), status: 200, made: 2},
		"another token":                         {with: with("ClientToken", "two"), status: 200, made: 2},
		"no token":                              {with: with("ClientToken", "-"), status: 200, made: 2},
		"another parameter":                     {with: with("InstanceName", "other"), status: 400, code: "IdempotentParameterMismatch", made: 1},
		"other user data":                       {with: with("UserData", "aGkh"), status: 400, code: "IdempotentParameterMismatch", made: 1},
		"one parameter more":                    {with: with("Tag.1.Key", "x"), status: 400, code: "IdempotentParameterMismatch", made: 1},
		"an empty parameter more":               {with: with("KeyPairName", ""), status: 200, made: 1},
		"once the instance is gone": {
			with: one, before: func(c *cloud, id string) { c.Update(id, func(i *ecssim.Instance) { i.Released = c.now }) }, status: 200, made: 1,
		},
		"while the first is in flight": {
			with: one, fault: ecssim.Fault{InFlight: time.Minute}, after: time.Minute - 1, status: 403, code: "IdempotentProcessing", made: 1,
		},
		"once the first is not":           {with: one, fault: ecssim.Fault{InFlight: time.Minute}, after: time.Minute, status: 200, made: 1},
		"of a poisoned token":             {with: one, fault: ecssim.Fault{PoisonToken: true}, status: 403, code: "IdempotentFailed"},
		"of a poisoned token, much later": {with: one, fault: ecssim.Fault{PoisonToken: true}, after: time.Hour, status: 200, made: 1},
		"after an answer that was lost":   {with: one, fault: ecssim.Fault{LoseAnswer: true}, status: 200, made: 1},
		"after a request that was lost":   {with: one, fault: ecssim.Fault{LoseRequest: true}, status: 200, made: 1},
	} {
		t.Run(name, func(t *testing.T) {
			accounts := []ecssim.Account{
				{ID: "1", AccessKeyID: "a", AccessKeySecret: "s"}, {ID: "1", AccessKeyID: "b", AccessKeySecret: "s"},
				{ID: "2", AccessKeyID: "c", AccessKeySecret: "s"},
			}
			c := newCloud(t, ecssim.Config{Accounts: accounts})
			c.SetFault(func(ecssim.Call) ecssim.Fault { return tc.fault })
			first := c.call("CreateInstance", one...)
			c.SetFault(nil)
			c.pass(tc.after)
			if tc.before != nil {
				tc.before(c, first.body["InstanceId"].(string))
			}
			second := c.as(clientOf(accounts[tc.who]), "CreateInstance", tc.with...)
			want(t, second, tc.status, tc.code)
			instances := c.Instances()
			if len(instances) != tc.made {
				t.Fatalf("%d instances, want %d", len(instances), tc.made)
			}
			if same := second.body["InstanceId"]; tc.made == 1 && tc.status == 200 &&
				(same != instances[0].ID || c.Calls()[1].InstanceID != same ||
					first.body["OrderId"] != nil && first.body["OrderId"] != second.body["OrderId"]) {
				t.Errorf("answered %s after %s", second.raw, first.raw)
			}
		})
	}
}

func TestARefusedCreateLeavesItsToken(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	with := []string{"InstanceType", "ecs.nostock", "ImageId", "x", "ClientToken", "one"}
	want(t, c.call("CreateInstance", with...), 403, "OperationDenied.NoStock")
	want(t, c.call("CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x", "ClientToken", "one"), 200, "")
}

func TestTheSeedMakesTheIDs(t *testing.T) {
	made := func(seed uint64) ecssim.Instance {
		c := newCloud(t, ecssim.Config{Seed: seed})
		c.create("InternetMaxBandwidthOut", "1")
		return c.Instances()[0]
	}
	a, b, other := made(1), made(1), made(2)
	if a.ID != b.ID || a.PrivateIP != b.PrivateIP || a.PublicIP != b.PublicIP || a.ID == other.ID || a.PrivateIP == other.PrivateIP {
		t.Errorf("%v %v %v", a, b, other)
	}
}
