// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

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
		check(t, client.FunctionLoad(t.Context(), lib(name, "1")).Err())
	}
	had := from.view(t)
	if had.Unwritten || len(had.Libraries) != 3 {
		t.Errorf("the view of a node with three libraries is %+v", had)
	}
	dump, err := from.DumpFunctions(t.Context())
	check(t, err)
	check(t, to.RestoreFunctions(t.Context(), dump))
	if got := to.view(t); got.Unwritten || !maps.Equal(got.Libraries, had.Libraries) {
		t.Errorf("the view of the copy is %+v, want the libraries %q", got, had.Libraries)
	}
	digests := func(s server) map[string]string {
		libraries, err := s.Libraries(t.Context())
		check(t, err)
		return libraries
	}
	if a, b := digests(from), digests(to); len(a) != 3 || !maps.Equal(a, b) {
		t.Errorf("the digests are %q on the node and %q on the copy", a, b)
	}
	for range 2 {
		check(t, to.DeleteLibrary(t.Context(), "one"))
		if got := digests(to); len(got) != 2 || got["one"] != "" {
			t.Errorf("after the library one was deleted, the copy has %q", got)
		}
	}
	if err := to.RestoreFunctions(t.Context(), dump); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("RestoreFunctions of existing libraries: error %v", err)
	}

	// A View does not show a change that changes only the code.
	check(t, client.FunctionLoadReplace(t.Context(), lib("two", "3")).Err())
	if got := from.view(t); !maps.Equal(got.Libraries, had.Libraries) {
		t.Errorf("after a change of the code, the view has the libraries %q, want %q", got.Libraries, had.Libraries)
	}
	if a, b := digests(from), digests(to); a["three"] != b["three"] || a["two"] == b["two"] {
		t.Errorf("only the code of two differs, but the digests are %q and %q", a, b)
	}
	check(t, client.FunctionLoadReplace(t.Context(), strings.Replace(lib("two", "3"), "no-writes", "allow-stale", 1)).Err())
	if got := from.view(t); got.Libraries["one"] != had.Libraries["one"] || got.Libraries["two"] == had.Libraries["two"] {
		t.Errorf("after a change of a flag of two, the view has the libraries %q, before %q", got.Libraries, had.Libraries)
	}

	check(t, to.client(t).FunctionFlush(t.Context()).Err())
	if got := to.view(t); got.Unwritten || got.Libraries != nil {
		t.Errorf("after FUNCTION FLUSH, the view is %+v", got)
	}
}

// TestFunctionsCannotBeUsed reads a node that does not know the command FUNCTION, as before version 7.0, and a node that forbids it.
func TestFunctionsCannotBeUsed(t *testing.T) {
	for name, directive := range map[string]string{
		"unknown": `rename-command FUNCTION ""`, "forbidden": "user default on nopass ~* &* +@all -function",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, redistest.Config{Directives: []string{directive}})
			if view := s.view(t); view.Libraries != nil || !view.Unwritten || view.ID == "" {
				t.Errorf("the view is %+v", view)
			}
		})
	}
}

// TestUnwritten restarts a node without any write, and a node after FUNCTION FLUSH, which is a write.
func TestUnwritten(t *testing.T) {
	for name, test := range map[string]struct {
		write bool
		want  bool
	}{"nothing was written": {false, true}, "functions were flushed": {true, false}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, redistest.Config{})
			if test.write {
				check(t, s.client(t).FunctionFlush(t.Context()).Err())
			}
			s.Stop()
			again := start(t, redistest.Config{Dir: s.Dir})
			await(t, "the node has loaded its data", []server{again}, func(v *redisnode.View) bool { return !v.Loading })
			if got := again.view(t).Unwritten; got != test.want {
				t.Errorf("Unwritten is %t, want %t", got, test.want)
			}
		})
	}
}
