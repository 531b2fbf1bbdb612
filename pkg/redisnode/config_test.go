// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

func TestDirectives(t *testing.T) {
	s := start(t, redistest.Config{Password: password, Directives: []string{"maxmemory 96mb"}})
	values, err := s.Directives(t.Context(), []string{"maxmemory", "daemonize", "maxmemroy", "requirepas"})
	must.Succeed(t, err)
	if want := map[string]string{"maxmemory": "100663296", "daemonize": "no"}; !maps.Equal(values, want) {
		t.Errorf("directives are %v, want %v", values, want)
	}
	if none, err := s.Directives(t.Context(), nil); err != nil || len(none) > 0 {
		t.Errorf("without names, the directives are %v, error %v", none, err)
	}
	for _, test := range []struct{ name, value, reason string }{
		{"maxmemory", "97mb", ""},
		{"notify-keyspace-events", "KEA", ""},
		{"client-output-buffer-limit", "pubsub 33mb 8mb 60", ""},
		{"save", "", ""},
		{"maxmemory", "lots", "argument must be a memory value"},
		{"maxmemory-policy", "random", "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, " +
			"volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction"},
		{"daemonize", "no", "can't set immutable config"}, // Redis refuses its present value too.
		{"maxmemroy", "1", "Unknown option or number of arguments for CONFIG SET - 'maxmemroy'"},
	} {
		err := s.SetDirective(t.Context(), test.name, test.value)
		refused, _ := errors.AsType[*redisnode.RefusedDirectiveError](err)
		switch {
		case (test.reason == "") != (err == nil), err != nil && refused == nil, refused != nil && refused.Reason != test.reason:
			t.Errorf("CONFIG SET %s %s: error %v, want the reason %q", test.name, test.value, err, test.reason)
		case err == nil:
			values, err := s.Directives(t.Context(), []string{test.name})
			must.Succeed(t, err)
			if !redisnode.SameValue(test.value, values[test.name]) {
				t.Errorf("%s is %q after it was set to %q", test.name, values[test.name], test.value)
			}
		}
	}
}

// TestValueIsThatOfTheNode compares the values of two lines of redis.conf with those that a node reads from them.
func TestValueIsThatOfTheNode(t *testing.T) {
	escaped, value := `"\x41\x4\r\n\t\b\a\q \"\\ '"`, "two\nlines \\ \" \x01 é"
	s := start(t, redistest.Config{Directives: []string{"masteruser " + escaped, "syslog-ident " + redisnode.Quoted(value)}})
	values, err := s.Directives(t.Context(), []string{"masteruser", "syslog-ident"})
	must.Succeed(t, err)
	if want := map[string]string{"masteruser": redisnode.Value(escaped), "syslog-ident": value}; !maps.Equal(values, want) {
		t.Errorf("the node has %q, want %q", values, want)
	}
}

// TestConfigAndFunctionsCannotBeUsed asks a node that does not know the commands, and one that forbids them.
func TestConfigAndFunctionsCannotBeUsed(t *testing.T) {
	for name, directives := range map[string][]string{
		"unknown":   {`rename-command CONFIG ""`, `rename-command FUNCTION ""`},
		"forbidden": {"user default on nopass ~* &* +@all -config -function"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, redistest.Config{Directives: directives})
			if _, err := s.Directives(t.Context(), []string{"maxmemory"}); !errors.Is(err, redisnode.ErrNoConfig) {
				t.Errorf("error %v, want ErrNoConfig", err)
			}
			if _, refused := errors.AsType[*redisnode.RefusedDirectiveError](s.SetDirective(t.Context(), "maxmemory", "1gb")); !refused {
				t.Error("CONFIG SET is not refused")
			}
			if view := s.view(t); view.Libraries != nil || !view.Unwritten || view.ID == "" {
				t.Errorf("the view is %+v", view)
			}
		})
	}
}

func TestSameValue(t *testing.T) {
	for want, pairs := range map[bool][][2]string{
		true: {
			{"100mb", "104857600"}, {"1k", "1000"}, {"yes", "YES"}, {"", " "}, {"3600 1", "3600  1"}, {"KEA", "AKE"}, {"10%", "10%"}, {"-1", "-1"},
			{"pubsub 32mb 8mb 60", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"}, {"9999999999gb", "9999999999gb"},
		},
		false: {
			{"1K", "1024"}, {"yes", "no"}, {"", "0"}, {"3600 1", "3600 1 300 100"}, {"300 100", "3600 1 300 100"}, {"KEA", "KE"}, {"KEA", "KEE"},
			{"pubsub 33mb 8mb 60", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"}, {"abc", "cab"}, {"1", "-1"},
			{"TLSv1.2", "TLSv1.2 TLSv1.3"},
		},
	} {
		for _, pair := range pairs {
			if redisnode.SameValue(pair[0], pair[1]) != want || redisnode.SameValue(pair[1], pair[0]) != want {
				t.Errorf("%q: want %v", pair, want)
			}
		}
	}
}

func TestValue(t *testing.T) {
	for text, want := range map[string]string{
		"100mb": "100mb", `""`: "", "": "", "''": "", " 3600  1\t300 100 ": "3600 1 300 100", `"{title} {port}"`: "{title} {port}",
		`'a "b"'`: `a "b"`, `"a \"b\" \\"`: `a "b" \`, `'it\'s'`: "it's", `a"b`: `a"b`, `'a`: "'a", `a\b`: `a\b`, `pre"fix"`: "prefix",
		`"\x41\x4\n\q\`: `"\x41\x4\n\q\`, `"\x41\x4\n\q"`: "Ax4\nq", `'\n'`: `\n`,
	} {
		got := redisnode.Value(text)
		if got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
		if again := redisnode.Value(redisnode.Quoted(got)); again != got {
			t.Errorf("the value of %s is %q, want %q", redisnode.Quoted(got), again, got)
		}
	}
}

// TestASwitchIsDoneAsAWhole breaks the connection before the second command of a switch. Then the node has executed none: the operator sees
// that the switch is not complete, and sends all of it again.
func TestASwitchIsDoneAsAWhole(t *testing.T) {
	s := start(t, redistest.Config{})
	broken := dial(t, "127.0.0.1", s.proxy(t, func(data []byte) (int, bool) {
		if second := bytes.Index(data, []byte("cluster-announce-bus-port")); second >= 0 {
			return second, false
		}
		return len(data), true
	}), s.Password)
	if err := broken.SwitchTLS(t.Context(), false, 0, s.Port+redistest.BusOffset, 0); err == nil {
		t.Error("no error, though the connection broke")
	}
	expect := func(port, announcedBus string) {
		t.Helper()
		got, err := s.Directives(t.Context(), []string{"port", "cluster-announce-bus-port"})
		if must.Succeed(t, err); got["port"] != port || got["cluster-announce-bus-port"] != announcedBus {
			t.Errorf("the node has %v, want the port %s, and %s for the bus", got, port, announcedBus)
		}
	}
	expect(strconv.Itoa(s.Port), "0")
	must.Succeed(t, s.SwitchTLS(t.Context(), false, s.Port, s.Port+redistest.BusOffset, 31000))
	expect(strconv.Itoa(s.Port), "31000")
	must.Succeed(t, s.SwitchTLS(t.Context(), false, 0, s.Port+redistest.BusOffset, 0))
	expect("0", "0")
}

// lib returns the code of a library with two functions. The first one returns body.
func lib(name, body string) string {
	return "#!lua name=" + name + "\nredis.register_function('a" + name + "', function() return " + body + " end)\n" +
		"redis.register_function{function_name='b" + name + "', callback=function() return 2 end, flags={'no-writes'}}\n"
}

func TestFunctions(t *testing.T) {
	from, to := start(t, redistest.Config{}), start(t, redistest.Config{})
	if view := from.view(t); !view.Unwritten || view.Libraries != nil {
		t.Errorf("the view of a new node is %+v", view)
	}
	client := from.client(t)
	for _, name := range []string{"one", "two", "three"} {
		must.Succeed(t, client.FunctionLoad(t.Context(), lib(name, "1")).Err())
	}
	had := from.view(t)
	if had.Unwritten || len(had.Libraries) != 3 {
		t.Errorf("the view of a node with three libraries is %+v", had)
	}
	dump, err := from.DumpFunctions(t.Context())
	must.Succeed(t, err)
	must.Succeed(t, to.RestoreFunctions(t.Context(), dump))
	if got := to.view(t); got.Unwritten || !maps.Equal(got.Libraries, had.Libraries) {
		t.Errorf("the view of the copy is %+v, want the libraries %q", got, had.Libraries)
	}
	digests := func(s server) map[string]string {
		libraries, err := s.Libraries(t.Context())
		must.Succeed(t, err)
		return libraries
	}
	if a, b := digests(from), digests(to); len(a) != 3 || !maps.Equal(a, b) {
		t.Errorf("the digests are %q on the node and %q on the copy", a, b)
	}
	for range 2 {
		must.Succeed(t, to.DeleteLibrary(t.Context(), "one"))
		if got := digests(to); len(got) != 2 || got["one"] != "" {
			t.Errorf("after the library one was deleted, the copy has %q", got)
		}
	}
	if err := to.RestoreFunctions(t.Context(), dump); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("RestoreFunctions of existing libraries: error %v", err)
	}

	// A View does not show a change that changes only the code.
	must.Succeed(t, client.FunctionLoadReplace(t.Context(), lib("two", "3")).Err())
	if got := from.view(t); !maps.Equal(got.Libraries, had.Libraries) {
		t.Errorf("after a change of the code, the view has the libraries %q, want %q", got.Libraries, had.Libraries)
	}
	if a, b := digests(from), digests(to); a["three"] != b["three"] || a["two"] == b["two"] {
		t.Errorf("only the code of two differs, but the digests are %q and %q", a, b)
	}
	must.Succeed(t, client.FunctionLoadReplace(t.Context(), strings.Replace(lib("two", "3"), "no-writes", "allow-stale", 1)).Err())
	if got := from.view(t); got.Libraries["one"] != had.Libraries["one"] || got.Libraries["two"] == had.Libraries["two"] {
		t.Errorf("after a change of a flag of two, the view has the libraries %q, before %q", got.Libraries, had.Libraries)
	}

	must.Succeed(t, to.client(t).FunctionFlush(t.Context()).Err())
	if got := to.view(t); got.Unwritten || got.Libraries != nil {
		t.Errorf("after FUNCTION FLUSH, the view is %+v", got)
	}
}

// TestUnwritten restarts a node without any write, and a node after FUNCTION FLUSH, which is a write.
func TestUnwritten(t *testing.T) {
	for _, written := range []bool{false, true} {
		s := start(t, redistest.Config{})
		if written {
			must.Succeed(t, s.client(t).FunctionFlush(t.Context()).Err())
		}
		s.Stop()
		again := start(t, redistest.Config{Dir: s.Dir})
		await(t, "the node has loaded its data", []server{again}, func(v *redisnode.View) bool { return !v.Loading })
		if got := again.view(t).Unwritten; got == written {
			t.Errorf("Unwritten is %t, and something was written: %t", got, written)
		}
	}
}

func TestUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	own, other := redisnode.HashPassword("own-password"), redisnode.HashPassword("other-password")
	must.Succeed(t, os.WriteFile(file, []byte("user default off\nuser operator on #"+own+" ~* &* +@all\n"), 0o600))
	s := redistest.Start(t, redistest.Config{Directives: []string{"aclfile " + file}})
	node := redisnode.Dial(s.IP, s.Port, redisnode.Login{User: "operator", Password: "own-password"})
	t.Cleanup(node.Close)
	must.Succeed(t, node.SetUser(t.Context(), "app", []string{"reset", "on", "~app:*", "+@read", "#" + other, "#" + own}))
	users, err := node.Users(t.Context())
	must.Succeed(t, err)
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

	must.Succeed(t, node.SetUser(t.Context(), "spaces", []string{"on", "~a\u2003#b", "+@read"}))
	users, err = node.Users(t.Context())
	must.Succeed(t, err)
	if got := users["spaces"]; len(got.Hashes) > 0 || !strings.Contains(got.Rules, "~a\u2003#b ") {
		t.Errorf("the user with another white space in its pattern is %+v", got)
	}
	must.Succeed(t, node.DeleteUsers(t.Context(), []string{"spaces"}))

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

	connections := func() [2]int {
		client := redis.NewClient(&redis.Options{Addr: s.Address(), Username: "operator", Password: "own-password"})
		defer client.Close()
		list, err := client.ClientList(t.Context()).Result()
		must.Succeed(t, err)
		return [2]int{strings.Count(list, "user=app "), strings.Count(list, "user=operator ")}
	}
	if got := connections(); got != [2]int{1, 2} {
		t.Fatalf("app and operator have %v connections", got)
	}
	must.Succeed(t, node.EndConnections(t.Context(), "app"))
	if got := connections(); got != [2]int{0, 2} {
		t.Errorf("app and operator have %v connections, want 0 of app and 2 of operator: the node's and the one that reads the list", got)
	}
	must.Succeed(t, node.EndConnections(t.Context(), "no-such-user"))

	must.Succeed(t, node.SaveUsers(t.Context()))
	must.Succeed(t, node.DeleteUsers(t.Context(), nil))
	must.Succeed(t, node.DeleteUsers(t.Context(), []string{"app", "no-such-user"}))
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
