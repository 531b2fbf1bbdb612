// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

func TestDirectives(t *testing.T) {
	s := start(t, redistest.Config{Password: password, Directives: []string{"maxmemory 96mb"}})
	values, err := s.Directives(t.Context(), []string{"maxmemory", "databases", "maxmemroy", "requirepas"})
	check(t, err)
	if want := map[string]string{"maxmemory": "100663296", "databases": "16"}; !maps.Equal(values, want) {
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
		{"databases", "32", "can't set immutable config"},
		{"databases", "16", "can't set immutable config"}, // Redis refuses its present value too.
		{"enable-debug-command", "yes", "can't set immutable config"},
		{"maxmemroy", "1", "Unknown option or number of arguments for CONFIG SET - 'maxmemroy'"},
	} {
		err := s.SetDirective(t.Context(), test.name, test.value)
		refused, _ := errors.AsType[*redisnode.RefusedDirectiveError](err)
		switch {
		case (test.reason == "") != (err == nil), err != nil && refused == nil, refused != nil && refused.Reason != test.reason:
			t.Errorf("CONFIG SET %s %s: error %v, want the reason %q", test.name, test.value, err, test.reason)
		case err == nil:
			values, err := s.Directives(t.Context(), []string{test.name})
			check(t, err)
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
	check(t, err)
	if want := map[string]string{"masteruser": redisnode.Value(escaped), "syslog-ident": value}; !maps.Equal(values, want) {
		t.Errorf("the node has %q, want %q", values, want)
	}
}

func TestARestartChangesTheRunID(t *testing.T) {
	s := start(t, redistest.Config{})
	before := s.view(t).RunID
	if again := s.view(t).RunID; len(before) != 40 || again != before {
		t.Errorf("the run ID is %q, and %q in the next View", before, again)
	}
	s.Kill()
	if after := start(t, redistest.Config{Dir: s.Dir, IP: s.IP}).view(t).RunID; after == before {
		t.Errorf("the run ID is %q before and after the restart", before)
	}
}

func TestConfigCannotBeUsed(t *testing.T) {
	for name, directive := range map[string]string{
		"unknown": `rename-command CONFIG ""`, "forbidden": "user default on nopass ~* &* +@all -config",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, redistest.Config{Directives: []string{directive}})
			if _, err := s.Directives(t.Context(), []string{"maxmemory"}); !errors.Is(err, redisnode.ErrNoConfig) {
				t.Errorf("error %v, want ErrNoConfig", err)
			}
			if _, refused := errors.AsType[*redisnode.RefusedDirectiveError](s.SetDirective(t.Context(), "maxmemory", "1gb")); !refused {
				t.Error("CONFIG SET is not refused")
			}
		})
	}
}

func TestSameValue(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"100mb", "104857600", true},
		{"1k", "1000", true},
		{"1K", "1024", false},
		{"yes", "YES", true},
		{"yes", "no", false},
		{"", " ", true},
		{"", "0", false},
		{"3600 1", "3600  1", true},
		{"3600 1", "3600 1 300 100", false},
		{"300 100", "3600 1 300 100", false},
		{"KEA", "AKE", true},
		{"KEA", "KE", false},
		{"KEA", "KEE", false},
		{"abc", "cab", false},
		{"pubsub 32mb 8mb 60", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", true},
		{"pubsub 33mb 8mb 60", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", false},
		{"TLSv1.2", "TLSv1.2 TLSv1.3", false},
		{"10%", "10%", true},
		{"-1", "-1", true},
		{"1", "-1", false},
		{"9999999999gb", "9999999999gb", true},
	} {
		if redisnode.SameValue(test.a, test.b) != test.want || redisnode.SameValue(test.b, test.a) != test.want {
			t.Errorf("%q and %q: want %v", test.a, test.b, test.want)
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	server, err := net.Dial("tcp", s.Address())
	check(t, err)
	defer server.Close()
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		client, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		go func() { _, _ = io.Copy(client, server) }() // It ends with the test.
		for data := make([]byte, 1<<16); ; {
			n, err := client.Read(data)
			if err != nil {
				t.Errorf("the connection ended before the second command: %v", err)
				return
			}
			second := bytes.Index(data[:n], []byte("cluster-announce-bus-port"))
			if second < 0 {
				second = n
			}
			if _, err := server.Write(data[:second]); err != nil || second < n {
				time.Sleep(100 * time.Millisecond) // The server reads it.
				return
			}
		}
	})
	broken := dial(t, "127.0.0.1", listener.Addr().(*net.TCPAddr).Port, s.Password)
	if err := broken.SwitchTLS(t.Context(), false, 0, s.Port+redistest.BusOffset, 0); err == nil {
		t.Error("no error, though the connection broke")
	}
	forwarding.Wait()
	expect := func(port, announcedBus string) {
		t.Helper()
		got, err := s.Directives(t.Context(), []string{"port", "cluster-announce-bus-port"})
		if check(t, err); got["port"] != port || got["cluster-announce-bus-port"] != announcedBus {
			t.Errorf("the node has %v, want the port %s, and %s for the bus", got, port, announcedBus)
		}
	}
	expect(strconv.Itoa(s.Port), "0")
	check(t, s.SwitchTLS(t.Context(), false, s.Port, s.Port+redistest.BusOffset, 31000))
	expect(strconv.Itoa(s.Port), "31000")
	check(t, s.SwitchTLS(t.Context(), false, 0, s.Port+redistest.BusOffset, 0))
	expect("0", "0")
}
