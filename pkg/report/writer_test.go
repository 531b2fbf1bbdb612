// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/loop"
)

// fixture is a Writer and the API server that it writes to.
type fixture struct {
	*Writer[*v1.ApiExampleA, v1.ApiExampleAStatus]
	clock    *clocktesting.FakePassiveClock
	events   *record.FakeRecorder
	requests []*v1.ApiExampleA
	err      error // the API server's answer
	prunes   bool  // whether the API server drops greetings
	wrote    [][2]*v1.ApiExampleA
}

func (f *fixture) UpdateStatus(_ context.Context, object *v1.ApiExampleA, options metav1.UpdateOptions) (*v1.ApiExampleA, error) {
	if f.requests = append(f.requests, object); f.err != nil || options.FieldManager != glassback.Name {
		return nil, f.err
	}
	stored := object.DeepCopy()
	stored.ResourceVersion += "0"
	if f.prunes {
		stored.Status.Greeting = ""
	}
	return stored, nil
}

// newFixture returns a Writer for which a change of the greeting is minor.
func newFixture() *fixture {
	f := &fixture{clock: clocktesting.NewFakePassiveClock(t0), events: record.NewFakeRecorder(10)}
	f.Writer = NewWriter(Config[*v1.ApiExampleA, v1.ApiExampleAStatus]{
		Kind: "ApiExampleA", Resource: "apiexampleas", Store: cache.NewStore(cache.MetaNamespaceKeyFunc),
		Written: loop.NewWritten("test", "ApiExampleA", f.clock, nil), Recorder: f.events, Clock: f.clock,
		Status:     func(e *v1.ApiExampleA) *v1.ApiExampleAStatus { return &e.Status },
		MinorEvery: 10 * time.Second,
		WithoutMinor: func(status v1.ApiExampleAStatus) v1.ApiExampleAStatus {
			status.Greeting, status.Conditions = "", WithoutMessages(status.Conditions)
			return status
		},
		Wrote: func(before, after *v1.ApiExampleA) { f.wrote = append(f.wrote, [2]*v1.ApiExampleA{before, after}) },
	}, func(string) *fixture { return f })
	return f
}

func object() *v1.ApiExampleA {
	return &v1.ApiExampleA{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sample", ResourceVersion: "7"}}
}

// ready is a status whose condition Ready has this reason and message.
func ready(reason, message string) v1.ApiExampleAStatus {
	return v1.ApiExampleAStatus{Greeting: "hello", Conditions: []metav1.Condition{
		{Type: glassback.ConditionReady, Status: metav1.ConditionTrue, Reason: reason, Message: message},
	}}
}

func TestWrite(t *testing.T) {
	resource := v1.SchemeGroupVersion.WithResource("apiexampleas").GroupResource()
	conflict := apierrors.NewConflict(resource, "sample", errors.New("stale"))
	notFound := apierrors.NewNotFound(resource, "sample")
	for sentence, test := range map[string]struct {
		before   v1.ApiExampleAStatus
		err      error // the API server's answer
		requests int
		events   []string
		text     string // of the error that Write returns
		report   error  // what Report returns
	}{
		"the same status: no request": {before: ready("Done", "hello")},
		"another status: one request, and an event for the transition": {
			before: ready("Waiting", "hello"), requests: 1, events: []string{"Normal Done hello"},
		},
		"another message alone: one request, and no event": {before: ready("Done", "hi"), requests: 1},
		"a conflict: the error, and no event": {
			before: ready("Waiting", "hello"), err: conflict, requests: 1, report: conflict,
			text: `update status of ApiExampleA sample: Operation cannot be fulfilled on apiexampleas.groupa.k8s.zhuang.com "sample": stale`,
		},
		"the object no longer exists: Report does nothing": {
			before: ready("Waiting", "hello"), err: notFound, requests: 1,
			text: `update status of ApiExampleA sample: apiexampleas.groupa.k8s.zhuang.com "sample" not found`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f, e := newFixture(), object()
			e.Status, f.err = test.before, test.err
			was := e.DeepCopy()
			stored, err := f.Write(t.Context(), e, ready("Done", "hello"))
			if text := fmt.Sprint(err); text != cmp.Or(test.text, "<nil>") || !errors.Is(err, test.err) {
				t.Errorf("error %q, want %q", text, test.text)
			}
			if len(f.requests) != test.requests {
				t.Errorf("%d requests, want %d", len(f.requests), test.requests)
			}
			if events := fakeapi.RecordedEvents(f.events); !slices.Equal(events, test.events) {
				t.Errorf("events %q, want %q", events, test.events)
			}
			if !equality.Semantic.DeepEqual(e, was) {
				t.Error("the object was changed")
			}
			wrote := test.requests > 0 && test.err == nil
			if wrote && (stored.ResourceVersion != "70" || !equality.Semantic.DeepEqual(stored.Status, ready("Done", "hello"))) {
				t.Errorf("stored %+v, want the new status and version", stored)
			}
			if wait := f.Written.Wait(cache.MetaObjectToName(e)); (wait > 0) != wrote {
				t.Errorf("the next sync waits %s for the cache; wrote: %t", wait, wrote)
			}
			if (len(f.wrote) == 1 && f.wrote[0][0] == e && f.wrote[0][1].Status.Conditions[0].Reason == "Done") != wrote {
				t.Errorf("Wrote was called with %v; wrote: %t", f.wrote, wrote)
			}

			again := newFixture()
			again.err = test.err
			if wait, err := again.Report(t.Context(), e, ready("Done", "hello")); wait != 0 || !errors.Is(err, test.report) {
				t.Errorf("Report returns %s and %v, want 0 and %v", wait, err, test.report)
			}
			if len(again.requests) != test.requests {
				t.Errorf("%d requests of Report, want %d", len(again.requests), test.requests)
			}
		})
	}
}

// The CustomResourceDefinition of the cluster is older, and has no greeting. A status is sent again only if the object or the status has
// changed.
func TestAFieldThatTheAPIServerPrunesIsWrittenOnce(t *testing.T) {
	f, e := newFixture(), object()
	f.prunes = true
	for _, step := range []struct {
		says     string
		status   v1.ApiExampleAStatus
		change   func()
		requests int
	}{
		{says: "the first status", status: ready("Done", "1"), requests: 1},
		{says: "the same", status: ready("Done", "1")},
		{says: "another greeting", status: ready("Done", "2"), requests: 1},
		{says: "the same once more", status: ready("Done", "2")},
		{says: "the object has changed", status: ready("Done", "2"), change: func() { e.Status = v1.ApiExampleAStatus{} }, requests: 1},
		{says: "nothing is pruned any more", status: ready("Done", "3"), change: func() { f.prunes = false }, requests: 1},
		{says: "nothing has changed", status: ready("Done", "3")},
		{says: "the first status again", status: ready("Done", "1"), requests: 1},
		{says: "the object is gone", status: ready("Done", "1"), change: func() { f.Forget(cache.MetaObjectToName(e)) }},
	} {
		t.Run(step.says, func(t *testing.T) {
			f.clock.SetTime(f.clock.Now().Add(time.Minute))
			if step.change != nil {
				step.change()
			}
			f.requests = nil
			for range 2 {
				wait, err := f.Report(t.Context(), e, step.status)
				if err != nil || wait != 0 {
					t.Errorf("wait %s, error %v", wait, err)
				}
				if len(f.requests) > 0 {
					e.Status = step.status
					if f.prunes {
						e.Status.Greeting = ""
					}
				}
			}
			if len(f.requests) != step.requests {
				t.Errorf("%d requests, want %d", len(f.requests), step.requests)
			}
		})
	}
	if _, kept := f.pruned.Load(cache.MetaObjectToName(e)); kept {
		t.Error("the Writer remembers an object that is gone")
	}
}

func TestReportDelaysMinorChanges(t *testing.T) {
	f, e := newFixture(), object()
	other := object()
	other.Name = "other"
	for _, step := range []struct {
		says   string
		at     time.Duration
		object *v1.ApiExampleA
		status v1.ApiExampleAStatus
		writes bool
		wait   time.Duration
	}{
		{says: "the first status: at once", status: ready("Done", "1"), writes: true},
		{says: "a message: later", at: time.Second, status: ready("Done", "2"), wait: 9 * time.Second},
		{says: "another object: at once", at: time.Second, object: other, status: ready("Done", "2"), writes: true},
		{says: "a reason: at once", at: 2 * time.Second, status: ready("Broken", "2"), writes: true},
		{says: "a message: ten seconds after that", at: 3 * time.Second, status: ready("Broken", "3"), wait: 9 * time.Second},
		{says: "no change: no write, and no wait", at: 3 * time.Second, status: ready("Broken", "2")},
		{says: "the time has come", at: 12 * time.Second, status: ready("Broken", "3"), writes: true},
	} {
		t.Run(step.says, func(t *testing.T) {
			f.clock.SetTime(t0.Add(step.at))
			o := e
			if step.object != nil {
				o = step.object
			}
			f.requests = nil
			wait, err := f.Report(t.Context(), o, step.status)
			if err != nil || wait != step.wait || (len(f.requests) == 1) != step.writes {
				t.Errorf("%d requests, wait %s, error %v; want a write: %t, wait %s", len(f.requests), wait, err, step.writes, step.wait)
			}
			if step.writes {
				o.Status = step.status
			}
		})
	}
	f.err = errors.New("no answer")
	f.clock.SetTime(t0.Add(time.Minute))
	if _, err := f.Report(t.Context(), e, ready("Broken", "4")); !errors.Is(err, f.err) {
		t.Errorf("error %v, want %v", err, f.err)
	}
	if wait, _ := f.Report(t.Context(), e, ready("Broken", "4")); wait != 0 {
		t.Errorf("it waits %s after a write that failed", wait)
	}
	f.clock.SetTime(t0.Add(13 * time.Second))
	if wait, _ := f.Report(t.Context(), e, ready("Broken", "4")); wait != 9*time.Second {
		t.Errorf("it waits %s, want 9s", wait)
	}
	f.Forget(cache.MetaObjectToName(e))
	if wait, _ := f.Report(t.Context(), e, ready("Broken", "4")); wait != 0 {
		t.Errorf("it waits %s for an object that it has forgotten", wait)
	}
}

var t0 = time.Date(2022, 1, 9, 13, 50, 0, 0, time.UTC)

func TestConditionsSet(t *testing.T) {
	before := metav1.Condition{
		Type: glassback.ConditionReady, Status: metav1.ConditionFalse, Reason: "Waiting", Message: "It waits",
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(t0),
	}
	for sentence, test := range map[string]struct {
		list            []metav1.Condition
		is              bool
		reason, message string
		want            metav1.Condition
	}{
		"a new one gets the time, in whole seconds": {
			is: true, reason: "Done", message: "It is done",
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: "Done", Message: "It is done", LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			},
		},
		"another status gets the time": {
			list: []metav1.Condition{before}, is: true, reason: "Done", message: "It is done",
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: "Done", Message: "It is done", LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			},
		},
		"another reason keeps the time": {
			list: []metav1.Condition{before}, reason: "Broken", message: "It is broken",
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: "Broken", Message: "It is broken", LastTransitionTime: metav1.NewTime(t0)},
		},
		"a longer message is cut, between two characters": {
			is: true, reason: "Done", message: "-" + strings.Repeat("ß", maxMessage),
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: "Done", Message: "-" + strings.Repeat("ß", maxMessage/2-1) + "…",
				LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			list := slices.Clone(test.list)
			Conditions{List: &list, Generation: 7, Now: t0.Add(time.Minute + 300*time.Millisecond)}.
				Set(glassback.ConditionReady, test.is, test.reason, test.message)
			test.want.Type, test.want.ObservedGeneration = glassback.ConditionReady, 7
			if !slices.Equal(list, []metav1.Condition{test.want}) {
				t.Errorf("conditions %+v, want %+v alone", list, test.want)
			}
		})
	}
}

func TestTransitions(t *testing.T) {
	ready := func(is metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: glassback.ConditionReady, Status: is, Reason: reason, Message: "about Ready"}
	}
	degraded := func(is metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: glassback.ConditionDegraded, Status: is, Reason: reason, Message: "about Degraded"}
	}
	fine := degraded(metav1.ConditionFalse, ReasonAsExpected)
	type conditions = []metav1.Condition
	for sentence, test := range map[string]struct {
		was, now conditions
		calm     []string
		want     []string
	}{
		"nothing changes: no event": {
			was: conditions{ready(metav1.ConditionTrue, "Done"), fine}, now: conditions{ready(metav1.ConditionTrue, "Done"), fine},
		},
		"the first report of a good state: one event, and none that all is as expected": {
			now: conditions{ready(metav1.ConditionTrue, "Done"), fine}, want: []string{"Normal Done about Ready"},
		},
		"the first report, of what is nothing bad: no event": {
			now: conditions{ready(metav1.ConditionFalse, "Waiting"), fine}, calm: []string{"Waiting"},
		},
		"not ready: a warning": {
			was: conditions{ready(metav1.ConditionTrue, "Done"), fine}, now: conditions{ready(metav1.ConditionFalse, "Waiting"), fine},
			want: []string{"Warning Waiting about Ready"},
		},
		"not ready, for a reason that is nothing bad: no warning": {
			was: conditions{ready(metav1.ConditionTrue, "Done"), fine}, now: conditions{ready(metav1.ConditionFalse, "Waiting"), fine},
			calm: []string{"Other", "Waiting"}, want: []string{"Normal Waiting about Ready"},
		},
		"not ready and degraded for two reasons: two events": {
			now:  conditions{ready(metav1.ConditionFalse, "Waiting"), degraded(metav1.ConditionTrue, "Broken")},
			want: []string{"Warning Waiting about Ready", "Warning Broken about Degraded"},
		},
		"degraded for another reason than before: a warning again": {
			was:  conditions{ready(metav1.ConditionTrue, "Done"), degraded(metav1.ConditionTrue, "Broken")},
			now:  conditions{ready(metav1.ConditionTrue, "Done"), degraded(metav1.ConditionTrue, "Lost")},
			want: []string{"Warning Lost about Degraded"},
		},
		"corrected: both send an event, and none is a warning": {
			was:  conditions{ready(metav1.ConditionFalse, "Broken"), degraded(metav1.ConditionTrue, "Broken")},
			now:  conditions{ready(metav1.ConditionTrue, "Done"), fine},
			want: []string{"Normal Done about Ready", "Normal AsExpected about Degraded"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			recorder := record.NewFakeRecorder(10)
			transitions(recorder, &corev1.ConfigMap{}, test.was, test.now, test.calm...)
			if events := fakeapi.RecordedEvents(recorder); !slices.Equal(events, test.want) {
				t.Errorf("events %q, want %q", events, test.want)
			}
		})
	}
}
