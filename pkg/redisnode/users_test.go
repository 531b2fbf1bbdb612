// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

func TestUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	own, other := redisnode.HashPassword("own-password"), redisnode.HashPassword("other-password")
	if err := os.WriteFile(file, []byte("user default off\nuser operator on #"+own+" ~* &* +@all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := redistest.Start(t, redistest.Config{Directives: []string{"aclfile " + file}})
	node := redisnode.Dial(s.IP, s.Port, redisnode.Login{User: "operator", Password: "own-password"})
	t.Cleanup(node.Close)
	check(t, node.SetUser(t.Context(), "app", []string{"reset", "on", "~app:*", "+@read", "#" + other, "#" + own}))
	users, err := node.Users(t.Context())
	check(t, err)
	hashes := []string{own, other}
	slices.Sort(hashes)
	if app := users["app"]; !slices.Equal(app.Hashes, hashes) || !strings.HasPrefix(app.Rules, "on ") || strings.Contains(app.Rules, "#") ||
		!strings.HasSuffix(app.Rules, "~app:* resetchannels -@all +@read") {
		t.Errorf("the user app is %+v", app)
	}

	err = node.SetUser(t.Context(), "app", []string{"+@read", "+no-such-command"})
	if refused, ok := errors.AsType[*redisnode.RefusedRulesError](err); !ok ||
		refused.Reason != "modifier '+no-such-command': Unknown command or category name in ACL" {
		t.Errorf("a rule that Redis does not know: error %v", err)
	}

	check(t, node.SetUser(t.Context(), "spaces", []string{"on", "~a\u2003#b", "+@read"}))
	users, err = node.Users(t.Context())
	check(t, err)
	if got := users["spaces"]; len(got.Hashes) > 0 || !strings.Contains(got.Rules, "~a\u2003#b ") {
		t.Errorf("the user with another white space in its pattern is %+v", got)
	}
	check(t, node.DeleteUsers(t.Context(), []string{"spaces"}))

	for _, rules := range [][]string{{"(~a", "+get"}, {"+@read", "(+get"}} {
		err := node.SetUser(t.Context(), "app", rules)
		if _, ok := errors.AsType[*redisnode.RefusedRulesError](err); !ok {
			t.Errorf("rules %q: error %v, want a RefusedRulesError", rules, err)
		}
	}

	app := redisnode.Dial(s.IP, s.Port, redisnode.Login{User: "app", Password: "other-password"})
	t.Cleanup(app.Close)
	if _, err := app.Users(t.Context()); err == nil || errors.Is(err, redisnode.ErrPassword) {
		t.Errorf("ACL LIST by a user without the permission: error %v", err)
	}
	anyone := redisnode.Dial(s.IP, s.Port, redisnode.Login{})
	t.Cleanup(anyone.Close)
	if _, err := anyone.View(t.Context()); !errors.Is(err, redisnode.ErrPassword) {
		t.Errorf("View without a password: error %v", err)
	}

	connections := func() [2]int {
		client := redis.NewClient(&redis.Options{Addr: s.Address(), Username: "operator", Password: "own-password"})
		defer client.Close()
		list, err := client.ClientList(t.Context()).Result()
		check(t, err)
		return [2]int{strings.Count(list, "user=app "), strings.Count(list, "user=operator ")}
	}
	if got := connections(); got != [2]int{1, 2} {
		t.Fatalf("app and operator have %v connections", got)
	}
	check(t, node.EndConnections(t.Context(), "app"))
	if got := connections(); got != [2]int{0, 2} {
		t.Errorf("app and operator have %v connections, want 0 of app and 2 of operator: the node's and the one that reads the list", got)
	}
	check(t, node.EndConnections(t.Context(), "no-such-user"))

	check(t, node.SaveUsers(t.Context()))
	check(t, node.DeleteUsers(t.Context(), nil))
	check(t, node.DeleteUsers(t.Context(), []string{"app", "no-such-user"}))
	if users, err = node.Users(t.Context()); err != nil || len(users) != 2 {
		t.Errorf("the users are %v (%v)", users, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "user app on") || strings.Contains(string(text), "password") {
		t.Errorf("the file is %q (%v)", text, err)
	}

	without := start(t, redistest.Config{})
	if err := without.SaveUsers(t.Context()); err == nil {
		t.Error("ACL SAVE succeeded on a node without a file of users")
	}
}
