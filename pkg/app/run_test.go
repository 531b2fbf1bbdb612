// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/glassback/glassback/pkg/permissions"
)

func TestRunAnswersWithoutACluster(t *testing.T) {
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"help":       {[]string{"--help"}, 0, "Usage:\n  glassback [flags]", ""},
		"version":    {[]string{"--version"}, 0, "glassback dev (commit unknown", ""},
		"a bad flag": {[]string{"--nope"}, 2, "", "glassback: unknown flag: --nope\n"},
		"no such kubecfg": {
			[]string{"--kubeconfig=/does/not/exist"}, 1, "", "glassback: cannot read the kubeconfig, give --kubeconfig a file that is there:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { // Else a second run of the test could not configure logging.
				if err := logsapi.ResetForTest(nil); err != nil {
					t.Error(err)
				}
			})
			var stdout, stderr bytes.Buffer
			if code := Run(context.Background(), test.args, &stdout, &stderr); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if !strings.HasPrefix(stderr.String(), test.stderr) || strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("stderr %q, want one line that begins with %q", stderr.String(), test.stderr)
			}
			if !strings.Contains(stdout.String(), test.stdout) {
				t.Errorf("stdout %q, want %q in it", stdout.String(), test.stdout)
			}
		})
	}
}

// A controller that runs has needs that the start checks, and the other way round.
func TestEveryControllerHasNeeds(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(registry)), permissions.ControllerNames(); !slices.Equal(got, want) {
		t.Errorf("the registry has %q, and package permissions %q", got, want)
	}
}
