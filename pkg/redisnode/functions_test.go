/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package redisnode_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// lib is a library of two functions, of which one does what body says.
func lib(name, body string) string {
	return "#!lua name=" + name + "\nredis.register_function('a" + name + "', function() return " + body + " end)\n" +
		"redis.register_function{function_name='b" + name + "', callback=function() return 2 end, flags={'no-writes'}}\n"
}

func TestFunctions(t *testing.T) {
	from, to := start(t, redistest.Config{}), start(t, redistest.Config{})
	if view := from.view(t); !view.Unwritten || view.Libraries != nil {
		t.Errorf("a new node is %+v", view)
	}
	client := from.client(t)
	for _, name := range []string{"one", "two", "three"} {
		check(t, client.FunctionLoad(t.Context(), lib(name, "1")).Err())
	}
	had := from.view(t)
	if had.Unwritten || len(had.Libraries) != 3 {
		t.Errorf("a node with three libraries is %+v", had)
	}
	dump, err := from.DumpFunctions(t.Context())
	check(t, err)
	check(t, to.RestoreFunctions(t.Context(), dump))
	if got := to.view(t); got.Unwritten || !maps.Equal(got.Libraries, had.Libraries) {
		t.Errorf("the copy is %+v, want %q", got, had.Libraries)
	}
	codes := func(s server) map[string]string {
		libraries, err := s.Libraries(t.Context())
		check(t, err)
		return libraries
	}
	if a, b := codes(from), codes(to); len(a) != 3 || !maps.Equal(a, b) {
		t.Errorf("with their code, %q and %q", a, b)
	}
	for range 2 {
		check(t, to.DeleteLibrary(t.Context(), "one"))
		if got := codes(to); len(got) != 2 || got["one"] != "" {
			t.Errorf("without the library one, it has %q", got)
		}
	}
	if err := to.RestoreFunctions(t.Context(), dump); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a second copy: %v", err)
	}

	// Of the code alone, a View does not tell.
	check(t, client.FunctionLoadReplace(t.Context(), lib("two", "3")).Err())
	if got := from.view(t); !maps.Equal(got.Libraries, had.Libraries) {
		t.Errorf("libraries %q, and before the code was changed %q", got.Libraries, had.Libraries)
	}
	if a, b := codes(from), codes(to); a["three"] != b["three"] || a["two"] == b["two"] {
		t.Errorf("the code of two is another one: %q and %q", a, b)
	}
	check(t, client.FunctionLoadReplace(t.Context(), strings.Replace(lib("two", "3"), "no-writes", "allow-stale", 1)).Err())
	if got := from.view(t); got.Libraries["one"] != had.Libraries["one"] || got.Libraries["two"] == had.Libraries["two"] {
		t.Errorf("libraries %q, and before a flag was changed %q", got.Libraries, had.Libraries)
	}

	check(t, to.client(t).FunctionFlush(t.Context()).Err())
	if got := to.view(t); got.Unwritten || got.Libraries != nil {
		t.Errorf("without its libraries, it is %+v", got)
	}
}

// TestFunctionsAreNotThere asks a node that does not know the command, as before version 7.0,
// and one that forbids it.
func TestFunctionsAreNotThere(t *testing.T) {
	for name, directive := range map[string]string{
		"unknown": `rename-command FUNCTION ""`, "forbidden": "user default on nopass ~* &* +@all -function",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, redistest.Config{Directives: []string{directive}})
			if view := s.view(t); view.Libraries != nil || !view.Unwritten || view.ID == "" {
				t.Errorf("it is %+v", view)
			}
		})
	}
}

// TestUnwritten restarts a node to which nothing was written, and one whose functions were
// flushed.
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
			await(t, "it has loaded its data", []server{again}, func(v *redisnode.View) bool { return !v.Loading })
			if got := again.view(t).Unwritten; got != test.want {
				t.Errorf("unwritten is %t, want %t", got, test.want)
			}
		})
	}
}
