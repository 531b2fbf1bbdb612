// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
)

func TestPages(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	var made []string
	for range 25 {
		made = append(made, c.create("Tag.1.Key", "k", "Tag.1.Value", "v"))
	}
	ids := func(r result) []string {
		var ids []string
		for _, i := range r.described() {
			ids = append(ids, i["InstanceId"].(string))
		}
		return ids
	}
	t.Run("by number", func(t *testing.T) {
		for number, size := range map[int]int{1: 10, 2: 10, 3: 5, 4: 0} {
			r := c.call("DescribeInstances", "PageNumber", strconv.Itoa(number), "PageSize", "10")
			from := min(len(made), (number-1)*10)
			if got := ids(r); !slices.Equal(got, made[from:from+size]) || r.body["TotalCount"] != 25.0 || r.body["PageNumber"] != float64(number) {
				t.Errorf("page %d: %s", number, r.raw)
			}
		}
		r := c.call("DescribeInstances", "PageNumber", "9223372036854775807", "PageSize", "100")
		if want(t, r, 200, ""); len(r.described()) != 0 || r.body["TotalCount"] != 25.0 {
			t.Errorf("the last page of all is %s", r.raw)
		}
		if got := ids(c.call("DescribeInstances")); len(got) != 10 {
			t.Errorf("unless said otherwise a page has %d", len(got))
		}
	})
	t.Run("by token, while instances come and go", func(t *testing.T) {
		var got []string
		token := ""
		for range 3 {
			r := c.call("DescribeInstances", "MaxResults", "10", "NextToken", token, "Tag.1.Key", "k")
			got = append(got, ids(r)...)
			token, _ = r.body["NextToken"].(string)
			if last := len(got) == 25; last != (token == "") {
				t.Fatalf("after %d the token is %q", len(got), token)
			}
			c.create() // without the tag
		}
		if !slices.Equal(got, made) {
			t.Errorf("got %v, want %v", got, made)
		}
		r := c.call("DescribeInstances", "MaxResults", "10")
		c.Update(made[3], func(i *ecssim.Instance) { i.Released = c.now })
		next := ids(c.call("DescribeInstances", "NextToken", r.body["NextToken"].(string)))
		if !slices.Equal(next, made[10:20]) {
			t.Errorf("a release before the page moved it: %v", next)
		}
	})
	for name, with := range map[string][]string{
		"a page that is too small":   {"MaxResults", "9"},
		"a page that is too large":   {"MaxResults", "101"},
		"a size that is too large":   {"PageSize", "101"},
		"a size of nothing":          {"PageSize", "0"},
		"page zero":                  {"PageNumber", "0"},
		"a token that is none":       {"NextToken", "%"},
		"a token of something else":  {"NextToken", "eA=="},
		"a state that there is not":  {"Status", "Tired"},
		"addresses that are no list": {"PrivateIpAddresses", "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) { want(t, c.call("DescribeInstances", with...), 400, "InvalidParameter") })
	}
}

func TestIDs(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	first, second := c.create(), c.create()
	gone := c.inState(stopped, func(i *ecssim.Instance) { i.Released = c.now })
	list := func(n int) string {
		text := `["x-0"`
		for i := 1; i < n; i++ {
			text += fmt.Sprintf(`,"x-%d"`, i)
		}
		return text + "]"
	}
	for name, tc := range map[string]struct {
		ids   string
		code  string
		found []string
	}{
		"one":                      {ids: `["` + first + `"]`, found: []string{first}},
		"two, the wrong way":       {ids: `["` + second + `","` + first + `"]`, found: []string{first, second}},
		"one twice":                {ids: `["` + first + `","` + first + `"]`, found: []string{first}},
		"one that is gone":         {ids: `["` + gone + `"]`},
		"one that never was":       {ids: `["i-never"]`},
		"none, which is no filter": {ids: `[]`, found: []string{first, second}},
		"a hundred":                {ids: list(100)},
		"more than that":           {ids: list(101), code: "InvalidInstanceIds.Malformed"},
		"no list":                  {ids: first, code: "InvalidInstanceIds.Malformed"},
		"a list of something else": {ids: `[1]`, code: "InvalidInstanceIds.Malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.call("DescribeInstances", "InstanceIds", tc.ids)
			if tc.code != "" {
				want(t, r, 400, tc.code)
				return
			}
			want(t, r, 200, "")
			var got []string
			for _, i := range r.described() {
				got = append(got, i["InstanceId"].(string))
			}
			if !slices.Equal(got, tc.found) || r.body["RequestId"] == "" || r.body["TotalCount"] != float64(len(tc.found)) {
				t.Errorf("got %s", r.raw)
			}
		})
	}
}

func TestFilters(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	web := c.create("InstanceName", "web-1", "Tag.1.Key", "app", "Tag.1.Value", "web", "Tag.2.Key", "env", "Tag.2.Value", "prod",
		"SecurityGroupId", "sg-1", "ZoneId", "cn-hangzhou-h", "VSwitchId", "vsw-1", "KeyPairName", "k", "InternetMaxBandwidthOut", "1")
	db := c.create("InstanceName", "db-1", "Tag.1.Key", "app", "Tag.1.Value", "db", "InstanceType", "ecs.r6.large", "ImageId", "debian")
	c.create("InstanceName", "web-elsewhere", "RegionId", "cn-beijing", "Tag.1.Key", "app", "Tag.1.Value", "web")
	c.Update(db, func(i *ecssim.Instance) { i.State, i.Locks = running, []string{"financial"} })
	both := []string{web, db}
	for name, tc := range map[string]struct {
		with  []string
		found []string
	}{
		"everything":              {found: both},
		"a tag":                   {with: []string{"Tag.1.Key", "app", "Tag.1.Value", "web"}, found: []string{web}},
		"the key of a tag":        {with: []string{"Tag.1.Key", "app"}, found: both},
		"two tags":                {with: []string{"Tag.1.Key", "app", "Tag.2.Key", "env", "Tag.2.Value", "prod"}, found: []string{web}},
		"two tags of two":         {with: []string{"Tag.1.Key", "app", "Tag.1.Value", "db", "Tag.2.Key", "env"}},
		"a name":                  {with: []string{"InstanceName", "db-1"}, found: []string{db}},
		"the start of a name":     {with: []string{"InstanceName", "web*"}, found: []string{web}},
		"the end of a name":       {with: []string{"InstanceName", "*-1"}, found: both},
		"the middle of a name":    {with: []string{"InstanceName", "*b-*"}, found: both},
		"more stars than letters": {with: []string{"InstanceName", "d*b*-*1*1"}},
		"a state":                 {with: []string{"Status", running}, found: []string{db}},
		"a type":                  {with: []string{"InstanceType", "ecs.r6.large"}, found: []string{db}},
		"a family":                {with: []string{"InstanceTypeFamily", "ecs.g6"}, found: []string{web}},
		"an image":                {with: []string{"ImageId", "debian"}, found: []string{db}},
		"a zone":                  {with: []string{"ZoneId", "cn-hangzhou-h"}, found: []string{web}},
		"a vSwitch":               {with: []string{"VSwitchId", "vsw-1"}, found: []string{web}},
		"a VPC":                   {with: []string{"VpcId", "vpc-default-cn-hangzhou"}, found: both},
		"a group":                 {with: []string{"SecurityGroupId", "sg-1"}, found: []string{web}},
		"a key pair":              {with: []string{"KeyPairName", "k"}, found: []string{web}},
		"a charge type":           {with: []string{"InstanceChargeType", "PrePaid"}},
		"a lock":                  {with: []string{"LockReason", "financial"}, found: []string{db}},
		"a private address":       {with: []string{"PrivateIpAddresses", `["` + c.instance(db).PrivateIP + `"]`}, found: []string{db}},
		"a public address":        {with: []string{"PublicIpAddresses", `["` + c.instance(web).PublicIP + `"]`}, found: []string{web}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.call("DescribeInstances", tc.with...)
			var got []string
			for _, i := range r.described() {
				got = append(got, i["InstanceId"].(string))
			}
			if !slices.Equal(got, tc.found) {
				t.Errorf("got %v, want %v: %s", got, tc.found, r.raw)
			}
		})
	}
	want(t, c.call("DescribeInstances", "DryRun", "true"), 400, "DryRunOperation")
}

func TestAccountsAndRegionsAreApart(t *testing.T) {
	accounts := []ecssim.Account{{ID: "1", AccessKeyID: "a", AccessKeySecret: "s"}, {ID: "2", AccessKeyID: "b", AccessKeySecret: "t"}}
	c := newCloud(t, ecssim.Config{Accounts: accounts})
	id := c.create("Tag.1.Key", "k")
	c.pass(time.Minute)
	here, other := clientOf(accounts[0]), clientOf(accounts[1])
	for name, tc := range map[string]struct {
		who    client
		region string
	}{
		"another account": {who: other, region: "cn-hangzhou"},
		"another region":  {who: here, region: "cn-beijing"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, with := range [][]string{{"InstanceIds", `["` + id + `"]`}, {"Tag.1.Key", "k"}, nil} {
				if r := c.as(tc.who, "DescribeInstances", append(with, "RegionId", tc.region)...); len(r.described()) != 0 || r.status != 200 {
					t.Errorf("%v finds %s", with, r.raw)
				}
			}
			for _, action := range []string{"StartInstance", "StopInstance", "DeleteInstance", "ModifyInstanceAttribute"} {
				want(t, c.as(tc.who, action, "InstanceId", id, "RegionId", tc.region), 404, "InvalidInstanceId.NotFound")
			}
			for _, action := range []string{"TagResources", "UntagResources"} {
				with := []string{"ResourceType", "instance", "ResourceId.1", id, "RegionId", tc.region, "Tag.1.Key", "x"}
				if action == "UntagResources" {
					with[6] = "TagKey.1"
				}
				want(t, c.as(tc.who, action, with...), 404, "InvalidInstanceId.NotFound")
			}
			r := c.as(tc.who, "ListTagResources", "ResourceType", "instance", "ResourceId.1", id, "RegionId", tc.region)
			want(t, r, 200, "")
			if list := r.body["TagResources"].(map[string]any)["TagResource"].([]any); len(list) != 0 {
				t.Errorf("tags are seen: %v", list)
			}
		})
	}
	if i := c.instance(id); i.AccountID != "1" || len(i.Tags) != 1 {
		t.Errorf("it is %+v", i)
	}
	if calls := c.Calls(); calls[1].AccountID == "" || calls[0].AccountID != "1" {
		t.Errorf("the calls are of %q and %q", calls[0].AccountID, calls[1].AccountID)
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
	r := on("ListTagResources")
	want(t, r, 200, "")
	list := r.body["TagResources"].(map[string]any)["TagResource"].([]any)
	if got := fmt.Sprint(list); got != fmt.Sprintf("[map[ResourceId:%s ResourceType:instance TagKey:a TagValue:2] "+
		"map[ResourceId:%s ResourceType:instance TagKey:b TagValue:]]", id, id) {
		t.Errorf("listed %s", got)
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
	want(t, c.call("ListTagResources", "ResourceType", "instance"), 400, "MissingParameter")
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

func TestTagsAreListedInPages(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	for range 51 {
		c.create("Tag.1.Key", "k")
	}
	page := func(token string) (int, string) {
		r := c.call("ListTagResources", "ResourceType", "instance", "Tag.1.Key", "k", "NextToken", token)
		want(t, r, 200, "")
		return len(r.body["TagResources"].(map[string]any)["TagResource"].([]any)), r.body["NextToken"].(string)
	}
	first, token := page("")
	if second, last := page(token); first != 50 || second != 1 || last != "" {
		t.Errorf("pages of %d and %d, and then %q", first, second, last)
	}
	want(t, c.call("ListTagResources", "ResourceType", "instance", "Tag.1.Key", "k", "NextToken", "x"), 400, "InvalidParameter")
}

func TestStatusesAndRegions(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	id := c.create()
	c.create()
	r := c.call("DescribeInstanceStatus", "InstanceId.1", id)
	want(t, r, 200, "")
	if got := fmt.Sprint(r.body["InstanceStatuses"]); got != "map[InstanceStatus:[map[InstanceId:"+id+" Status:Pending]]]" {
		t.Errorf("the status is %s", got)
	}
	if r := c.call("DescribeInstanceStatus", "PageSize", "1", "PageNumber", "2"); r.body["TotalCount"] != 2.0 || r.body["PageNumber"] != 2.0 {
		t.Errorf("the second page is %s", r.raw)
	}
	want(t, c.call("DescribeInstanceStatus", "PageSize", "0"), 400, "InvalidParameter")
	r = c.call("DescribeRegions")
	want(t, r, 200, "")
	if list := r.body["Regions"].(map[string]any)["Region"].([]any); len(list) < 20 || list[0].(map[string]any)["RegionEndpoint"] == "" {
		t.Errorf("the regions are %s", r.raw)
	}
}
