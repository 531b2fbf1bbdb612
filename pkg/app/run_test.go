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
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/trace"
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

func TestEveryStageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 6})
		stages := trace.NewRecorder(10)
		stop := logStages(logger, stages)
		stages.Report(trace.Event{Stage: trace.Wire, Object: trace.Object{Name: "one"}})
		time.Sleep(2 * logEvery)
		stages.Report(trace.Event{Stage: trace.Queue, Object: trace.Object{Name: "before-the-end"}})
		stop()
		if len(lines) != 2 || !strings.Contains(lines[0], `"seq"=1`) || !strings.Contains(lines[1], `"seq"=2`) {
			t.Errorf("got %q, want a line for each stage", lines)
		}
	})
}
