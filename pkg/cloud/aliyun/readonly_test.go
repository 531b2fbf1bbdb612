// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/ecssim"
	"github.com/glassback/glassback/pkg/must"
)

func TestAReadOnlyCloudMakesNoCallThatChangesSomething(t *testing.T) {
	const id, secret = "LTAI5tReadOnly", "readOnlySecret"
	server := ecssim.New(ecssim.Config{Seed: 1, Accounts: []ecssim.Account{{ID: "1", AccessKeyID: id, AccessKeySecret: secret}}})
	cloud, err := New(Config{Endpoint: "http://ecs.example.com", Transport: server.Transport(), ReadOnly: true})
	must.Succeed(t, err)
	ctx, region := t.Context(), cloud.Open(&AccessKey{ID: id, Secret: secret}, "cn-beijing")
	name := "renamed"
	_, created := region.Create(ctx, CreateRequest{Type: "ecs.g6.large", ImageID: "a.vhd", ClientToken: "token"})
	for call, err := range map[string]error{
		"create": created, "start": region.Start(ctx, "i-0"), "stop": region.Stop(ctx, "i-0"), "delete": region.Delete(ctx, "i-0", true),
		"set type": region.SetType(ctx, "i-0", "ecs.g6.large"), "modify": region.Modify(ctx, "i-0", Change{Name: &name}),
		"tag": region.Tag(ctx, "i-0", map[string]string{"a": "b"}), "untag": region.Untag(ctx, "i-0", []string{"a"}),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "this client only reads") {
			t.Errorf("%s: error %v", call, err)
		}
	}
	if calls := server.Calls(); len(calls) > 0 {
		t.Errorf("ECS got %d calls, first %s", len(calls), calls[0].Action)
	}
	_, account := region.Account(ctx)
	_, described := region.Describe(ctx, []string{"i-0"})
	_, found := region.Find(ctx, map[string]string{"a": "b"})
	for call, err := range map[string]error{"account": account, "describe": described, "find": found} {
		if err != nil {
			t.Errorf("%s: error %v", call, err)
		}
	}
}
