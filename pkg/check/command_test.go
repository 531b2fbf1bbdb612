// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
)

func TestTheFlagsOfCheck(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"none": {nil, ""},
		"all of them": {[]string{
			"--pre", "-o", "json", "--timeout=3s", "-n", "a,b", "--controllers=-mycronjob,*", "--operator-namespace=x",
			"--leader-elect-resource-name=y", "--leader-elect-resource-namespace=z", "--webhooks=false", "--ecs-endpoint=http://127.0.0.1:1",
		}, ""},
		"an output that there is none of":  {[]string{"-o", "wide"}, `--output must be one of text, json, yaml, not "wide"`},
		"no time":                          {[]string{"--timeout=0"}, "--timeout must be from 1s to 10m, not 0s"},
		"a namespace that cannot be":       {[]string{"--operator-namespace=A"}, `--operator-namespace "A" is not the name of a namespace`},
		"another one":                      {[]string{"--namespace=A"}, `--namespace "A" is not the name of a namespace`},
		"none at all":                      {[]string{"--namespace="}, "--namespace must not be empty"},
		"a Lease that cannot be":           {[]string{"--leader-elect-resource-name=_"}, "is not the name of a Lease"},
		"a controller that is none":        {[]string{"--controllers=cron"}, `there is no "cron"`},
		"a URL without TLS":                {[]string{"--webhook-url=http://127.0.0.1:1"}, "--webhook-url must be https://HOST:PORT"},
		"an argument":                      {[]string{"pre"}, `unexpected argument "pre"`},
		"a flag that there is none of":     {[]string{"--install-crds"}, "unknown flag"},
		"a flag of the operator's logging": {[]string{"-v=2"}, "unknown shorthand flag"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.args, &strings.Builder{})
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestAllNamespacesOverridesTheOperatorsNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no flag":          {nil, "[a]"},
		"a namespace":      {[]string{"-n", "b"}, "[b]"},
		"all":              {[]string{"-A"}, "[]"},
		"all of kubectl's": {[]string{"-n", "b", "--all-namespaces"}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(test.args, io.Discard)
			if err != nil || !o.adopt([]string{"--namespace=a"}, "glassback-system") || fmt.Sprint(o.Namespaces) != test.want {
				t.Errorf("namespaces %q, error %v, want %s", o.Namespaces, err, test.want)
			}
		})
	}
}

func TestCheckSaysHowItIsUsed(t *testing.T) {
	var out, errs strings.Builder
	if code := Run(t.Context(), []string{"--help"}, &out, &errs); code != command.OK || !strings.Contains(out.String(), "--pre") ||
		errs.Len() > 0 {
		t.Errorf("--help: exit code %d, %q, %q", code, out.String(), errs.String())
	}
	out.Reset()
	if code := Run(t.Context(), []string{"--nonsense"}, &out, &errs); code != command.Usage ||
		errs.String() != "glassback: unknown flag: --nonsense\n" || out.Len() > 0 {
		t.Errorf("--nonsense: exit code %d, %q, %q", code, out.String(), errs.String())
	}
}

func TestTheDocumentOfCheck(t *testing.T) {
	outOfTheCloud(t)
	var out, errs strings.Builder
	code := Run(t.Context(), []string{"-o", "json", "--kubeconfig", filepath.Join(t.TempDir(), "none")}, &out, &errs)
	var document struct {
		Schema, Version, State string
		Pre, Interrupted       bool
		Counts                 map[string]int
		Sections               []struct {
			ID, Title string
			Checks    []struct{ ID, Title, State, Reason, Remedy, Because string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &document); err != nil || code != command.Failed || errs.Len() > 0 {
		t.Fatalf("exit code %d, %v, stderr %q:\n%s", code, err, errs.String(), out.String())
	}
	first := document.Sections[0].Checks[0]
	if document.Schema != "glassback.dev/check/v1" || document.State != "failed" || document.Counts["failed"] != 1 ||
		document.Counts["ok"] != 0 ||
		first.ID != "cluster/configuration" || first.State != "failed" || document.Sections[1].Checks[0].Because != "cluster/configuration" {
		t.Errorf("got %+v", document)
	}
}
