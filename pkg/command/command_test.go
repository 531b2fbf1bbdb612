// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestExecute(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		code   int
		stdout string // its beginning
		stderr string
	}{
		"no arguments":       {nil, OK, "text\n", ""},
		"a namespace":        {[]string{"-n", "a"}, OK, "text\n", ""},
		"help":               {[]string{"--help"}, OK, "About it.\n\nUsage:\n  test [flags]\n\nFlags:\n  -n, --namespace", ""},
		"an empty namespace": {[]string{"--namespace="}, Usage, "", "--namespace must not be empty: leave it out"},
		"an output":          {[]string{"-o", "yaml"}, OK, "yaml\n", ""},
		"an unknown output": {
			[]string{"-o", "a"}, Usage, "", `invalid argument "a" for "-o, --output" flag: must be one of text, yaml: see test --help`,
		},
		"an unknown flag":     {[]string{"--no\nsuch"}, Usage, "", "unknown flag: --no such: see test --help"},
		"an unknown argument": {[]string{"a"}, Usage, "", `unexpected argument "a": there are only flags, see --help`},
		"a wrong flag":        {[]string{"--code=-1"}, Usage, "", "--code must not be negative"},
		"a failure":           {[]string{"--code=1"}, Failed, "text\n", "it is 1"},
		"a code of its own":   {[]string{"--code=3"}, 3, "text\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := Execute(t.Context(), newTest(), test.args, &stdout, &stderr)
			if test.stderr != "" {
				test.stderr = "glassback: " + test.stderr + "\n"
			}
			if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) || stderr.String() != test.stderr {
				t.Errorf("exit code %d, %q, %q, want %d, %q, %q", code, stdout.String(), stderr.String(), test.code, test.stdout, test.stderr)
			}
			c := newTest()
			c.Annotations = map[string]string{UsageFails: "true"}
			if code := Execute(t.Context(), c, test.args, io.Discard, io.Discard); test.code == Usage && code != Failed {
				t.Errorf("exit code %d where the code Usage is for a result", code)
			}
		})
	}
}

// newTest returns a command whose flag --code chooses what it returns.
func newTest() *cobra.Command {
	var output string
	var code int
	c := &cobra.Command{
		Use: "test", Long: "About it.", Args: NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if code < 0 {
				return errors.New("--code must not be negative")
			}
			return nil
		},
		RunE: Run(func(_ context.Context, stdout, _ io.Writer) error {
			fmt.Fprintln(stdout, output)
			switch code {
			case OK:
				return nil
			case Failed:
				return errors.New("it is\n1")
			}
			return Exit{Code: code}
		}),
	}
	c.Flags().SortFlags = false
	c.Flags().StringSliceP("namespace", "n", nil, "")
	c.Flags().IntVar(&code, "code", OK, "")
	AddOutput(c, &output, Text, YAML)
	return c
}

func TestOutput(t *testing.T) {
	var out strings.Builder
	for form, want := range map[string]string{JSON: "{\n  \"a\": \"<b>\"\n}\n", YAML: "a: <b>\n"} {
		out.Reset()
		if err := Print(&out, form, map[string]string{"a": "<b>"}); err != nil || out.String() != want {
			t.Errorf("%s: %q, error %v", form, out.String(), err)
		}
	}
	if Colour(&out) {
		t.Error("what is no terminal has colours")
	}
	if got := Printable("a\x1b[2J\nb"); got != "a [2J b" {
		t.Errorf("%q", got)
	}
}

func TestOwnNamespace(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "shop")
	if got := OwnNamespace(); got != "shop" {
		t.Errorf("%q", got)
	}
}

func TestOrigin(t *testing.T) {
	for value, want := range map[string]bool{
		"https://a:1": true, "https://a": true, "https://[::1]:1": true,
		"http://a:1": false, "https://a:1/": false, "https://me@a:1": false, "https://:1": false, "a:1": false, "": false, "https://a?b": false,
	} {
		if got := Origin(value, "https"); (got != nil) != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestLoopbackIsNoOtherAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:8082": true, "localhost:8082": true, "[::1]:8082": true, "127.1.2.3:1": true,
		":8082": false, "0.0.0.0:8082": false, "192.0.2.1:8082": false, "[::]:8082": false,
		"localhost.example.com:1": false, "": false, "127.0.0.1": false,
	} {
		if got := Loopback(address); got != want {
			t.Errorf("%q is loopback: %t, want %t", address, got, want)
		}
	}
}
