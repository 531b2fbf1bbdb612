// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// settledReasons are the reasons of objects that are not Ready because their spec requires that.
var settledReasons = []string{"Suspended"}

// follower polls the examples and holds their states.
type follower struct {
	api      *api
	examples []*example
	later    []string // files with more examples, each to be applied when the examples are settled
	real     bool     // containers run
	verdict  string   // the message after all examples are settled
	hints    []string // the lines below the verdict: results, and commands that the user may try
	trouble  string   // the error of the last look, or ""
}

// example is one object, in the state of the last look.
type example struct {
	kind    *kind
	object  *unstructured.Unstructured
	ready   metav1.Condition
	settled bool // its condition is final for now; pending may still name something that is missing
	applied time.Time
	took    time.Duration // from applied until it was no longer pending; zero before
	jobs    []job         // of a MyCronJob: all that were ever seen, sorted by the time at which they were due

	// These are set only if containers run.
	printed string // of a MyCronJob: the output of its last completed Job
	read    string // the name of that Job
	page    string // of the sample Application: the title of its page
}

func newFollower(a *api, objects []unstructured.Unstructured, real bool) *follower {
	f := &follower{api: a, real: real}
	f.add(objects)
	return f
}

// apply applies files of examples, and follows their objects.
func (f *follower) apply(ctx context.Context, files ...string) error {
	objects, err := f.api.apply(ctx, files...)
	f.add(objects)
	return err
}

func (f *follower) add(objects []unstructured.Unstructured) {
	for i := range objects {
		object := &objects[i]
		if kind, ours := kindOf(object); ours && slices.Contains(kindsOn(f.real), kind) {
			f.examples = append(f.examples, &example{kind: kind, object: object, applied: time.Now()})
		}
	}
}

// progress returns the number of examples that are settled, and of Pods that are ready. A Job's Pod does not count: they come and go.
func (f *follower) progress(ctx context.Context) int {
	n := 0
	for _, e := range f.examples {
		if e.pending(f.real) == "" {
			n++
		}
	}
	pods, err := f.api.pods(ctx)
	if err != nil {
		return n
	}
	for i := range pods {
		if pods[i].Labels[batchv1.JobNameLabel] == "" && isReady(&pods[i]) {
			n++
		}
	}
	return n
}

// look reads the examples from the API server. It stops at the first error. The examples after that keep their last states.
func (f *follower) look(ctx context.Context) {
	f.trouble = ""
	for _, e := range f.examples {
		if err := e.look(ctx, f.api, f.real); err != nil {
			f.trouble = strings.Join(strings.Fields(err.Error()), " ")
			return
		}
		if e.took == 0 && e.pending(f.real) == "" {
			e.took = time.Since(e.applied)
		}
	}
}

func (e *example) look(ctx context.Context, a *api, real bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	object, err := a.get(ctx, e.object)
	if apierrors.IsNotFound(err) {
		e.deleted()
		return nil
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", e.name(), err)
	}
	e.observe(object)
	if e.kind.look != nil {
		if err := e.kind.look(ctx, a, e); err != nil {
			return err
		}
	}
	if e.kind.lookReal != nil && real {
		return e.kind.lookReal(ctx, a, e)
	}
	return nil
}

// observe updates the example from an object.
func (e *example) observe(object *unstructured.Unstructured) {
	e.object = object
	e.ready = conditionOf(object, "Ready")
	current := e.ready.ObservedGeneration == object.GetGeneration()
	paused := object.GetAnnotations()[glassback.AnnotationPaused] == "true"
	e.settled = paused || current && (e.ready.Status == metav1.ConditionTrue || slices.Contains(settledReasons, e.ready.Reason))
	if paused && e.ready.Reason == "" {
		e.ready.Reason = "Paused"
	}
}

// deleted updates the example after its object was deleted.
func (e *example) deleted() { e.ready, e.settled = metav1.Condition{Reason: "Deleted"}, false }

func (e *example) name() string {
	return strings.ToLower(e.kind.Kind) + "/" + e.object.GetName()
}

// seconds returns how long an example took or, if it is pending, how long it has waited.
func (e *example) seconds() string {
	return fmt.Sprintf("%.0f s", cmp.Or(e.took, time.Since(e.applied)).Seconds())
}

// pending returns what an example still waits for, or "".
func (e *example) pending(real bool) string {
	if !e.settled {
		return cmp.Or(strings.TrimSpace(e.ready.Reason+" "+e.ready.Message), "no condition Ready")
	}
	lacks := ""
	if e.kind.lacks != nil {
		lacks = e.kind.lacks(e)
	}
	if lacks == "" && e.kind.lacksReal != nil && real {
		lacks = e.kind.lacksReal(e)
	}
	return lacks
}

// examplesOf returns the examples of a kind.
func (f *follower) examplesOf(k *kind) []*example {
	return slices.DeleteFunc(slices.Clone(f.examples), func(e *example) bool { return e.kind != k })
}

// settled returns whether the last look succeeded and no example is pending.
func (f *follower) settled() bool {
	return f.trouble == "" && !slices.ContainsFunc(f.examples, func(e *example) bool { return e.pending(f.real) != "" })
}

// unsettled returns the names of the pending examples with what they wait for, and the error of the last look.
func (f *follower) unsettled() string {
	var all []string
	for _, e := range f.examples {
		if pending := e.pending(f.real); pending != "" {
			all = append(all, e.name()+" ("+pending+")")
		}
	}
	if f.trouble != "" {
		all = append(all, f.trouble)
	}
	return strings.Join(all, ", ")
}

// conclude sets the verdict after all examples are settled. If the demo stays, it sets hints, too.
func (f *follower) conclude(after time.Duration, stay bool) {
	jobs := 0
	for _, e := range f.examples {
		jobs += e.completed()
	}
	f.verdict = fmt.Sprintf("All %d examples are settled, and %d Jobs have completed, after %.0f s.", len(f.examples), jobs, after.Seconds())
	for _, e := range f.examples {
		switch {
		case e.page != "":
			f.hints = append(f.hints, "At http://"+sampleAddress+": "+e.page)
		case e.printed != "" && e.object.GetName() == sampleCronJob:
			f.hints = append(f.hints, "Printed by Job "+e.read+": "+e.printed)
		}
	}
	if !stay {
		return
	}
	f.hints = append(f.hints, "The demo runs until Ctrl-C, which ends its processes and removes its files. Try meanwhile:")
	widest := 0
	for _, k := range kindsOn(f.real) {
		widest = max(widest, len(k.hint.command))
	}
	for _, k := range kindsOn(f.real) {
		f.hints = append(f.hints, fmt.Sprintf("  %-*s  # %s", widest, k.hint.command, k.hint.effect))
	}
}

// conditionOf returns the condition of a type, or an empty one.
func conditionOf(object *unstructured.Unstructured, conditionType string) metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		var c metav1.Condition
		if fields, ok := item.(map[string]any); ok && fields["type"] == conditionType &&
			runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c) == nil {
			return c
		}
	}
	return metav1.Condition{}
}
