package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// seed is the example whose Jobs the demo waits for, and how many.
const (
	seed     = "mycronjob-sample"
	seedJobs = 2
)

// settledReasons are those for which an object is not Ready because its spec wants it so.
var settledReasons = []string{"Suspended"}

// follower knows what has become of the examples.
type follower struct {
	api      *api
	examples []*example
	verdict  string // what to say once all are settled
	hint     string // what the user may do then
	trouble  string // why the last look saw nothing
}

// example is one object, as of the last look.
type example struct {
	object   *unstructured.Unstructured
	ready    metav1.Condition
	settled  bool
	schedule string
	jobs     []job // every one that was ever seen, in the order of their slots
}

// job is a Job of a MyCronJob.
type job struct {
	name   string
	slot   time.Time     // when it was due; zero for one that run-now made
	late   time.Duration // how much later it was made
	ended  time.Time     // zero while it runs
	failed bool
}

func newFollower(a *api, objects []*unstructured.Unstructured) *follower {
	f := &follower{api: a}
	for _, object := range objects {
		// What an example needs besides, such as a Secret, has no condition to follow.
		if strings.HasSuffix(object.GroupVersionKind().Group, ".k8s.io") || !strings.Contains(object.GroupVersionKind().Group, ".") {
			continue
		}
		f.examples = append(f.examples, &example{object: object})
	}
	return f
}

// look asks the API server how all examples are. If it does not answer, what was seen last stays.
func (f *follower) look(ctx context.Context) {
	f.trouble = ""
	for _, e := range f.examples {
		if err := e.look(ctx, f.api); err != nil {
			f.trouble = strings.Join(strings.Fields(err.Error()), " ")
			return
		}
	}
}

func (e *example) look(ctx context.Context, a *api) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	object, err := a.get(ctx, e.object)
	if err != nil {
		return fmt.Errorf("get %s: %w", e.name(), err)
	}
	e.observe(object)
	if object.GetKind() != "MyCronJob" {
		return nil
	}
	jobs, err := a.kube.BatchV1().Jobs(object.GetNamespace()).List(ctx,
		metav1.ListOptions{LabelSelector: v1.LabelMyCronJob + "=" + object.GetName()})
	if err != nil {
		return fmt.Errorf("list the Jobs of %s: %w", e.name(), err)
	}
	e.observeJobs(jobs.Items)
	return nil
}

// observe takes over what the object's status says.
func (e *example) observe(object *unstructured.Unstructured) {
	e.ready = conditionOf(object, "Ready")
	current := e.ready.ObservedGeneration == object.GetGeneration()
	paused := object.GetAnnotations()[v1.AnnotationPaused] == "true"
	e.settled = paused || current && (e.ready.Status == metav1.ConditionTrue || slices.Contains(settledReasons, e.ready.Reason))
	if paused && e.ready.Reason == "" {
		e.ready.Reason = "Paused"
	}
	e.schedule, _, _ = unstructured.NestedString(object.Object, "status", "schedule")
}

// observeJobs takes over how Jobs are. Those that are no longer there stay as they were seen last.
func (e *example) observeJobs(items []batchv1.Job) {
	for i := range items {
		seen := jobOf(&items[i])
		at, known := slices.BinarySearchFunc(e.jobs, seen, compareJobs)
		if known {
			e.jobs[at] = seen
		} else {
			e.jobs = slices.Insert(e.jobs, at, seen)
		}
	}
}

func compareJobs(a, b job) int { return cmp.Or(a.slot.Compare(b.slot), cmp.Compare(a.name, b.name)) }

func jobOf(object *batchv1.Job) job {
	j := job{name: object.Name}
	if second, err := strconv.ParseInt(object.Annotations[v1.AnnotationSlot], 10, 64); err == nil {
		j.slot = time.Unix(second, 0)
	}
	if late, err := strconv.ParseInt(object.Annotations[v1.AnnotationSkew], 10, 64); err == nil {
		j.late = time.Duration(late) * time.Millisecond
	}
	for _, c := range object.Status.Conditions {
		if c.Status == "True" && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			j.ended, j.failed = c.LastTransitionTime.Time, c.Type == batchv1.JobFailed
		}
	}
	return j
}

func (e *example) name() string {
	return strings.ToLower(e.object.GetKind()) + "/" + e.object.GetName()
}

func (e *example) completed() int {
	n := 0
	for _, j := range e.jobs {
		if !j.ended.IsZero() && !j.failed {
			n++
		}
	}
	return n
}

// pending says what an example lacks, or nothing.
func (e *example) pending() string {
	switch {
	case !e.settled && e.ready.Type == "":
		return "no condition Ready"
	case !e.settled:
		return strings.TrimSpace(fmt.Sprintf("%s %s", e.ready.Reason, e.ready.Message))
	case e.object.GetName() == seed && e.completed() < seedJobs:
		return fmt.Sprintf("%d of %d Jobs have completed", e.completed(), seedJobs)
	}
	return ""
}

// settled returns whether every example is as it should be.
func (f *follower) settled() bool {
	return f.trouble == "" && !slices.ContainsFunc(f.examples, func(e *example) bool { return e.pending() != "" })
}

// unsettled says which examples are not, and why.
func (f *follower) unsettled() string {
	var all []string
	for _, e := range f.examples {
		if pending := e.pending(); pending != "" {
			all = append(all, e.name()+" ("+pending+")")
		}
	}
	if f.trouble != "" {
		all = append(all, f.trouble)
	}
	return strings.Join(all, ", ")
}

// completed returns how many Jobs of the named MyCronJob have completed.
func (f *follower) completed(name string) int {
	for _, e := range f.examples {
		if e.object.GetName() == name {
			return e.completed()
		}
	}
	return 0
}

// conditionOf returns a condition of an object, or none.
func conditionOf(object *unstructured.Unstructured, kind string) metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		var c metav1.Condition
		if fields, ok := item.(map[string]any); ok && fields["type"] == kind &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) == nil {
			return c
		}
	}
	return metav1.Condition{}
}
