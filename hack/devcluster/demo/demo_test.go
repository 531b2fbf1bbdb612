// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/must"
)

// object returns a MyCronJob of generation 2. With ready, its status has a condition Ready that is about the generation observed.
func object(name, ready, reason string, observed int64) *unstructured.Unstructured {
	return objectOf(v1.SchemeGroupVersion.String(), "MyCronJob", name, ready, reason, observed, map[string]any{"schedule": "every 5s"})
}

func objectOf(apiVersion, kind, name, ready, reason string, observed int64, status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": name, "generation": int64(2)},
	}}
	if ready != "" {
		status["conditions"] = []any{
			map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": "m", "observedGeneration": observed},
		}
		o.Object["status"] = status
	}
	return o
}

// exampleOf returns an example of an object.
func exampleOf(object *unstructured.Unstructured) *example {
	e := newFollower(nil, []unstructured.Unstructured{*object}, false).examples[0]
	e.observe(object)
	e.took = 12 * time.Second
	return e
}

func jobs(name string, completed ...bool) []batchv1.Job {
	var all []batchv1.Job
	for i, done := range completed {
		slot := time.Unix(int64(1000+5*i), 0)
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Name:        name + "-" + slot.Format("0405"),
			Annotations: map[string]string{v1.AnnotationSlot: "100" + string(rune('0'+5*i)), v1.AnnotationSkew: "7"},
		}}
		if done {
			j.Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(slot)},
			}
		}
		all = append(all, j)
	}
	return all
}

func TestPending(t *testing.T) {
	paused := object("a", "", "", 0)
	paused.SetAnnotations(map[string]string{glassback.AnnotationPaused: "true"})
	tests := map[string]struct {
		object *unstructured.Unstructured
		jobs   []batchv1.Job
		want   string
	}{
		"it has no status":                   {object("a", "", "", 0), nil, "no condition Ready"},
		"it is Ready":                        {object("a", "True", "Scheduled", 2), nil, ""},
		"it was Ready before it was changed": {object("a", "True", "Scheduled", 1), nil, "Scheduled m"},
		"it is suspended":                    {object("a", "False", "Suspended", 2), nil, ""},
		"it is not Ready":                    {object("a", "False", "JobRejected", 2), nil, "JobRejected m"},
		"it is paused":                       {paused, nil, ""},
		"the sample has no Job yet":          {object(sampleCronJob, "True", "Scheduled", 2), nil, "0 of 2 Jobs have completed"},
		"the second Job runs": {
			object(sampleCronJob, "True", "Scheduled", 2), jobs("j", true, false), "1 of 2 Jobs have completed",
		},
		"both Jobs have completed": {object(sampleCronJob, "True", "Scheduled", 2), jobs("j", true, true), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := exampleOf(test.object)
			e.observeJobs(test.jobs)
			e.observeJobs(nil) // Deleted Jobs stay in the example.
			if got := e.pending(false); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			e.deleted()
			if got := e.pending(false); got != "Deleted" {
				t.Errorf("deleted: got %q", got)
			}
		})
	}
}

// TestStopEndsAChild runs a shell as the child. The keeper is this test binary: see TestMain.
func TestStopEndsAChild(t *testing.T) {
	t.Setenv(keeperEnv, "yes")
	const script = `trap 'echo drained; exit 0' TERM; echo started $WHAT; while :; do sleep 0.1; done`
	env := append(os.Environ(), "WHAT=this")
	op, err := start("the operator", filepath.Join(t.TempDir(), "log"), env, exec.Command("/bin/sh", "-c", script))
	must.Succeed(t, err)
	for !strings.Contains(op.lastLines(5), "started this") {
		time.Sleep(10 * time.Millisecond)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := op.wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("wait returned %v while the child runs", err)
	}
	op.stop()
	if log := op.lastLines(5); !strings.Contains(log, "drained") {
		t.Errorf("the child was not drained; its log:\n%s", log)
	}
}

const keeperEnv = "GLASSBACK_DEMO_TEST_KEEPER"

func TestMain(m *testing.M) {
	if os.Getenv(keeperEnv) != "" && len(os.Args) > 1 && os.Args[1] == keepCommand {
		os.Exit(keep(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestTheOperatorGetsOnlyTheSimulatorsCredentials(t *testing.T) {
	env := []string{"PATH=/bin", "ALIBABA_CLOUD_ACCESS_KEY_ID=mine", "ALIBABA_CLOUD_SECURITY_TOKEN=mine"}
	want := []string{"PATH=/bin", "ALIBABA_CLOUD_ACCESS_KEY_ID=test", "ALIBABA_CLOUD_ACCESS_KEY_SECRET=test"}
	if got := withSimulatorKey(env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
