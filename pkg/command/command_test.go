// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"a namespace":         {[]string{"-n", "a"}, OK, "", ""},
		"help":                {[]string{"--help"}, OK, "usage\n  -n, --namespace", ""},
		"an empty namespace":  {[]string{"--namespace="}, Usage, "", "glassback: --namespace must not be empty: leave it out\n"},
		"an output":           {[]string{"-o", "yaml"}, OK, "", ""},
		"an unknown output":   {[]string{"-o", "xml"}, Usage, "", "glassback: --output must be one of text, json, yaml, not \"xml\"\n"},
		"an unknown flag":     {[]string{"--no\nsuch"}, Usage, "", "glassback: unknown flag: --no such\n"},
		"an unknown argument": {[]string{"a"}, Usage, "", "glassback: unexpected argument \"a\": there are only flags, see --help\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			flags := Flags("test")
			flags.StringSliceP("namespace", "n", nil, "")
			AddOutput(flags, new(string), Text, JSON, YAML)
			err, code := Parse(flags, test.args, "usage\n", &stdout), OK
			if err == nil {
				err = CheckNoArgs(flags)
			}
			if err != nil {
				code = Reject(&stderr, err)
			}
			if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) || stderr.String() != test.stderr {
				t.Errorf("exit code %d, %q, %q, want %d, %q, %q", code, stdout.String(), stderr.String(), test.code, test.stdout, test.stderr)
			}
			if errors.Is(err, pflag.ErrHelp) == (stdout.Len() == 0) {
				t.Errorf("error %v, stdout %q", err, stdout.String())
			}
		})
	}
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
	if code := Fail(&out, errors.New("one\ntwo")); code != Failed || !strings.HasSuffix(out.String(), "glassback: one two\n") {
		t.Errorf("exit code %d, %q", code, out.String())
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
