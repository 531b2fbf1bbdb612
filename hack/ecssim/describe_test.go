// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"fmt"
	"slices"
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
	if got := ids(c.call("DescribeInstances")); len(got) != 10 {
		t.Errorf("unless said otherwise a page has %d", len(got))
	}
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
		"a page that is too small":  {"MaxResults", "9"},
		"a page that is too large":  {"MaxResults", "101"},
		"a token that is none":      {"NextToken", "%"},
		"a token of something else": {"NextToken", "eA=="},
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
	web := c.create("Tag.1.Key", "app", "Tag.1.Value", "web", "Tag.2.Key", "env", "Tag.2.Value", "prod")
	db := c.create("Tag.1.Key", "app", "Tag.1.Value", "db")
	c.create("RegionId", "cn-beijing", "Tag.1.Key", "app", "Tag.1.Value", "web")
	both := []string{web, db}
	for name, tc := range map[string]struct {
		with  []string
		found []string
	}{
		"everything":       {found: both},
		"a tag":            {with: []string{"Tag.1.Key", "app", "Tag.1.Value", "web"}, found: []string{web}},
		"the key of a tag": {with: []string{"Tag.1.Key", "app"}, found: both},
		"two tags":         {with: []string{"Tag.1.Key", "app", "Tag.2.Key", "env", "Tag.2.Value", "prod"}, found: []string{web}},
		"two tags of two":  {with: []string{"Tag.1.Key", "app", "Tag.1.Value", "db", "Tag.2.Key", "env"}},
		"a tag and an ID":  {with: []string{"Tag.1.Key", "app", "InstanceIds", `["` + db + `"]`}, found: []string{db}},
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

func TestRegions(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	r := c.call("DescribeRegions")
	want(t, r, 200, "")
	if list := r.body["Regions"].(map[string]any)["Region"].([]any); len(list) < 20 || list[0].(map[string]any)["RegionEndpoint"] == "" {
		t.Errorf("the regions are %s", r.raw)
	}
}
