// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/app"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/status"
)

func TestTheNameOfTheBinaryDecidesWhatRunsWithoutACommand(t *testing.T) {
	for name, test := range map[string]struct {
		binary string
		args   []string
		want   program
		rest   []string
	}{
		"the operator":                 {"/glassback", nil, app.Run, nil},
		"the operator with flags":      {"glassback", []string{"-v=2"}, app.Run, []string{"-v=2"}},
		"a command":                    {"glassback", []string{"status", "-A"}, status.Run, []string{"-A"}},
		"the plugin":                   {"/home/me/.krew/bin/kubectl-glassback", nil, helpPlugin, nil},
		"the plugin on Windows":        {"kubectl-glassback.exe", nil, helpPlugin, nil},
		"the plugin with a command":    {"kubectl-glassback", []string{"status"}, status.Run, []string{}},
		"the plugin with a flag":       {"kubectl-glassback", []string{"--leader-elect"}, helpPlugin, []string{"--leader-elect"}},
		"a script of a shell":          {"glassback", []string{"__complete", "st"}, complete, []string{"st"}},
		"kubectl completes":            {"/bin/kubectl_complete-glassback", []string{"status", ""}, completePlugin, []string{"status", ""}},
		"a binary with another name":   {"operator", nil, app.Run, nil},
		"a directory of the same name": {"/kubectl-glassback/glassback", nil, app.Run, nil},
	} {
		t.Run(name, func(t *testing.T) {
			run, rest := choose(test.binary, test.args)
			if reflect.ValueOf(run).Pointer() != reflect.ValueOf(test.want).Pointer() || !slices.Equal(rest, test.rest) {
				t.Errorf("another program, with %q", rest)
			}
		})
	}
}

func TestThePluginNeverStartsAnOperator(t *testing.T) {
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"nothing":            {nil, command.OK, pluginUsage, ""},
		"help":               {[]string{"--help"}, command.OK, pluginUsage, ""},
		"a flag":             {[]string{"--leader-elect"}, command.Usage, "", "glassback: kubectl glassback has no command \"--leader-elect\""},
		"an unknown command": {[]string{"explain"}, command.Usage, "", "glassback: kubectl glassback has no command \"explain\""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			run, args := choose(plugin, test.args)
			code := run(t.Context(), args, &stdout, &stderr)
			if code != test.code || stdout.String() != test.stdout || !strings.HasPrefix(stderr.String(), test.stderr) {
				t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
			}
		})
	}
	for name := range commands {
		if _, completed := completions[name]; !completed {
			t.Errorf("the words of the command %s are not completed", name)
		}
		if !strings.Contains(pluginUsage, "kubectl glassback "+name) {
			t.Errorf("the usage does not have the command %s", name)
		}
	}
}

func TestVersionPrintsOneLine(t *testing.T) {
	var stdout, stderr strings.Builder
	code := printVersion(t.Context(), nil, &stdout, &stderr)
	if code != command.OK || !strings.HasPrefix(stdout.String(), "glassback dev (commit ") || strings.Count(stdout.String(), "\n") != 1 {
		t.Errorf("exit code %d, %q", code, stdout.String())
	}
	if code := printVersion(t.Context(), []string{"a"}, &stdout, &stderr); code != command.Usage {
		t.Errorf("exit code %d", code)
	}
	stdout.Reset()
	code = printVersion(t.Context(), []string{"-o", "yaml"}, &stdout, &stderr)
	if code != command.OK || !strings.HasPrefix(stdout.String(), "commit: unknown\n") {
		t.Errorf("exit code %d, %q", code, stdout.String())
	}
}
