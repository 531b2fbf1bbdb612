// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestPaths(t *testing.T) {
	old := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](1)}}
	for name, test := range map[string]struct {
		change func(*batchv1.Job)
		want   string
	}{
		"nothing":                    {func(*batchv1.Job) {}, ""},
		"a scalar behind a pointer":  {func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](2) }, "spec.parallelism"},
		"a pointer that was nil":     {func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }, "spec.suspend"},
		"a map":                      {func(j *batchv1.Job) { j.Labels = map[string]string{"a": "b"} }, "metadata.labels"},
		"far down: the third level":  {func(j *batchv1.Job) { j.Spec.Template.Spec.HostNetwork = true }, "spec.template.spec"},
		"an embedded struct is flat": {func(j *batchv1.Job) { j.Kind = "Job" }, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := old.DeepCopy()
			test.change(changed)
			if got := strings.Join(Paths(old, changed), " "); got != test.want {
				t.Errorf("changed fields %q, want %q", got, test.want)
			}
		})
	}
	if got := Paths(old, &corev1.Pod{}); got != nil {
		t.Errorf("objects of two types: %q, want nothing", got)
	}
}

func TestBetween(t *testing.T) {
	when := metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old := &batchv1.Job{Status: batchv1.JobStatus{Active: 1, Conditions: []batchv1.JobCondition{{Type: "Suspended", Status: "False"}}}}
	old.Spec.ManagedBy = ptr.To("me")
	long := strings.Repeat("x", maxText)
	for name, test := range map[string]struct {
		change func(*batchv1.Job)
		want   string
	}{
		"a number":               {func(j *batchv1.Job) { j.Status.Active = 0 }, "status.active 1 → 0"},
		"a pointer that was nil": {func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }, "spec.suspend none → true"},
		"a time":                 {func(j *batchv1.Job) { j.Status.StartTime = &when }, "status.startTime none → 2026-01-02T03:04:05Z"},
		"a text":                 {func(j *batchv1.Job) { j.Name = long }, "metadata.name none → " + long},
		"a long text":            {func(j *batchv1.Job) { j.Name = long + "x" }, "metadata.name"},
		"an unlisted text":       {func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("you") }, "spec.managedBy"},
		"a map":                  {func(j *batchv1.Job) { j.Labels = map[string]string{"a": "b"} }, "metadata.labels"},
		"a list":                 {func(j *batchv1.Job) { j.Finalizers = []string{"a"} }, "metadata.finalizers 0 items → 1 item"},
		"a struct":               {func(j *batchv1.Job) { j.Spec.Template.Spec.HostNetwork = true }, "spec.template.spec"},
		"a condition": {
			func(j *batchv1.Job) { j.Status.Conditions[0].Status, j.Status.Conditions[0].Reason = "True", "Asked" },
			"status.conditions[Suspended] False → True Asked",
		},
		"a condition that is new": {func(j *batchv1.Job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: "Failed", Status: "True"})
		}, "status.conditions[Failed] none → True"},
		"a condition with another text": {func(j *batchv1.Job) { j.Status.Conditions[0].Message = "hm" }, "status.conditions"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := old.DeepCopy()
			test.change(changed)
			var got []string
			for _, change := range Between(old, changed) {
				got = append(got, change.String())
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("changes %q, want %q", got, test.want)
			}
		})
	}
}

func TestNoMoreThanSixFields(t *testing.T) {
	changed := &batchv1.Job{
		Status: batchv1.JobStatus{Active: 1, Succeeded: 1, Failed: 1, Terminating: ptr.To[int32](1), Ready: ptr.To[int32](1)},
	}
	changed.Spec.Suspend, changed.Spec.Parallelism = ptr.To(true), ptr.To[int32](1)
	changed.Status.Conditions = []batchv1.JobCondition{
		{Type: "A", Status: "True"}, {Type: "B", Status: "True"}, {Type: "C", Status: "True"}, {Type: "D", Status: "True"},
	}
	if paths, changes := Paths(&batchv1.Job{}, changed), Between(&batchv1.Job{}, changed); len(paths) != 6 || len(changes) != 6 {
		t.Errorf("%d paths and %d changes, want six", len(paths), len(changes))
	}
}
