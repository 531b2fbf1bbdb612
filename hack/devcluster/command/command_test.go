// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"testing"
)

func TestBadInputIsOneLine(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"no directory":         {[]string{"up"}, "--dir is required"},
		"an argument too many": {[]string{"down", "--dir", "/none", "x"}, `unexpected argument "x"`},
		"no cluster":           {[]string{"status", "--dir", "/none"}, "no cluster in /none"},
		"unknown flag":         {[]string{"up", "--dirr", "x"}, "unknown flag: --dirr: see devcluster up --help"},
		"no component":         {[]string{"kill", "--dir", "/none"}, "it takes COMPONENT, and got 0 arguments"},
		"unknown component":    {[]string{"restart", "--dir", "/none", "dns"}, `unknown component "dns": etcd, kube-apiserver`},
		"unknown signal":       {[]string{"kill", "--dir", "/none", "etcd", "--signal", "STOP"}, `unknown signal "STOP": use KILL or TERM`},
		"no cluster to end":    {[]string{"down", "--dir", "/none"}, "no cluster in /none"},
		"no command to run":    {[]string{"exec", "--dir", "/none"}, "no command"},
		"a kind of node": {
			[]string{"up", "--dir", "/none", "--node", "fake"}, `unknown kind of node "fake": simulated, real or none`,
		},
		"port zero":                       {[]string{"up", "--dir", "/none", "--api-port", "0"}, "--api-port 0"},
		"no time":                         {[]string{"up", "--dir", "/none", "--timeout", "0s"}, "--timeout 0s"},
		"an argument without a component": {[]string{"up", "--dir", "/none", "--arg", "v=4"}, "--arg v=4: want component=--flag=value"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := newRoot()
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetErr(&out)
			root.SetArgs(test.args)
			err := root.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") || out.Len() > 0 {
				t.Errorf("more than one line: %v%s", err, out.String())
			}
		})
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"/tmp/a-b_1": "/tmp/a-b_1", "": "''", "/a b": "'/a b'", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
