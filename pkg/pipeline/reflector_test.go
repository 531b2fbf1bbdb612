// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// line returns an event as text, without its time and number.
func line(e trace.Event) string {
	name := e.Name
	if e.Namespace != "" {
		name = e.Namespace + "/" + e.Name
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Stage, e.Verb, name, e.ResourceVersion))
}

func TestEveryStageReports(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		api := newFakeAPI("a/1") // version 2
		recorder := trace.NewRecorder(1000)
		informer := New(Config{
			ListerWatcher: api.newClient(true), Object: &corev1.ConfigMap{}, Resource: "configmaps", Queue: queue,
			ResyncPeriod: time.Hour, Trace: recorder,
		})
		mustAdd(t, informer, &journal{})
		run(t, informer)
		seen := 0
		check := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			events := recorder.Events()
			for _, e := range events[seen:] {
				if e.Source != "configmaps" {
					t.Errorf("%s: the source is %q", when, e.Source)
				}
				got = append(got, line(e))
			}
			seen = len(events)
			if !slices.Equal(got, want) {
				t.Errorf("%s:\n got  %q\n want %q", when, got, want)
			}
		}
		check("start", "wire Replaced a/1 2", "queue Replaced a/1 2", "index Replaced a/1 2", "dispatch Replaced a/1 2")
		api.put("a/2")
		check("added", "wire Added a/2 3", "queue Added a/2 3", "index Added a/2 3", "dispatch Added a/2 3")
		api.put("a/2")
		check("updated", "wire Updated a/2 4", "queue Updated a/2 4", "index Updated a/2 4", "dispatch Updated a/2 4")
		api.remove("a/2")
		check("deleted", "wire Deleted a/2 5", "queue Deleted a/2 5", "index Deleted a/2 5", "dispatch Deleted a/2 5")
		api.bookmark()
		check("a bookmark has no object")
		time.Sleep(time.Hour)
		check("resync", "queue Sync", "index Sync a/1 2", "dispatch Sync a/1 2")
		api.offline(true)
		api.put("cluster-wide") // 7
		api.remove("a/1")
		api.put("cluster-wide") // 9
		api.compact()
		api.offline(false)
		time.Sleep(5 * time.Minute)
		wire := []string{"wire Replaced cluster-wide 9", "queue Replaced cluster-wide 9"}
		added := []string{"index Replaced cluster-wide 9", "dispatch Replaced cluster-wide 9"}
		gone := []string{"index Deleted a/1 2", "dispatch Deleted a/1 2"} // a tombstone
		applied := map[Queue][]string{DeltaFIFO: slices.Concat(added, gone), RealFIFO: slices.Concat(gone, added)}
		check("relist", slices.Concat(wire, applied[queue])...)
	})
}

// TestReportsDoNotAllocate: without a recorder, a report only compares a pointer and does not read the object. With a recorder, it reads
// the object. Neither allocates memory.
func TestReportsDoNotAllocate(t *testing.T) {
	tombstone := any(cache.DeletedFinalStateUnknown{Key: "a/1", Obj: configMap("a/1", "1")})
	for name, note := range map[string]*notification{"object": {new: configMap("a/1", "1")}, "tombstone": {old: tombstone}} {
		for when, recorder := range map[string]*trace.Recorder{"not traced": nil, "traced": trace.NewRecorder(16)} {
			traced := tracer{recorder: recorder, source: "configmaps", kind: "ConfigMap"}
			report := func() {
				traced.arrive(cache.Updated, note.new)
				traced.apply(cache.Updated, note, unwanted)
			}
			// The first 1000 calls fill the buffer for the events of the object.
			testing.AllocsPerRun(1000, report)
			if got := testing.AllocsPerRun(1000, report); got != 0 {
				t.Errorf("%s, %s: %v allocations, want 0", name, when, got)
			}
		}
	}
	silent := tracer{}
	silent.arrive(cache.Added, (*untouchable)(nil))
	silent.apply(cache.Added, &notification{new: (*untouchable)(nil)}, nil)
}

func unwanted(*notification) bool { return false }

// untouchable panics when its metadata is read.
type untouchable struct{ corev1.ConfigMap }

// TestListOrStream: the Reflector also checks whether its ListerWatcher has an optional method.
func TestListOrStream(t *testing.T) {
	eachQueue(t, func(t *testing.T, queue Queue) {
		for name, test := range map[string]struct {
			streaming, unsupported bool
			lists, streams         int
		}{
			"the server streams":          {streaming: true, streams: 1},
			"the server is too old":       {lists: 1},
			"the client declines streams": {streaming: true, unsupported: true, lists: 1},
		} {
			api := newFakeAPI("a/1")
			client := api.newClient(test.streaming)
			informer := New(Config{ListerWatcher: outdated{client, test.unsupported}, Object: &corev1.ConfigMap{}, Queue: queue})
			stop := run(t, informer)
			<-informer.HasSyncedChecker().Done()
			if client.lists != test.lists || client.streams != test.streams {
				t.Errorf("%s: %d lists and %d streams, want %d and %d", name, client.lists, client.streams, test.lists, test.streams)
			}
			stop()
		}
	})
}

type outdated struct {
	*fakeClient
	unsupported bool
}

func (o outdated) IsWatchListSemanticsUnSupported() bool { return o.unsupported }

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// wroteAt returns an entry of managedFields with a time after noon.
func wroteAt(manager string, seconds int) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
	return metav1.ManagedFieldsEntry{Manager: manager, Time: &at}
}

func TestLastWriter(t *testing.T) {
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"no entries":                  {nil, ""},
		"an entry without a time":     {[]metav1.ManagedFieldsEntry{{Manager: "a"}}, ""},
		"the newest, first":           {[]metav1.ManagedFieldsEntry{wroteAt("a", 2), wroteAt("b", 1)}, "a"},
		"the newest, last":            {[]metav1.ManagedFieldsEntry{wroteAt("a", 1), wroteAt("b", 2)}, "b"},
		"two entries of one client":   {[]metav1.ManagedFieldsEntry{wroteAt("a", 1), wroteAt("a", 1)}, "a"},
		"two clients in one second":   {[]metav1.ManagedFieldsEntry{wroteAt("a", 1), wroteAt("b", 1)}, ""},
		"and a third one after them":  {[]metav1.ManagedFieldsEntry{wroteAt("a", 1), wroteAt("b", 1), wroteAt("c", 2)}, "c"},
		"and a third one before them": {[]metav1.ManagedFieldsEntry{wroteAt("c", 0), wroteAt("a", 1), wroteAt("b", 1)}, ""},
	} {
		got := ""
		if writer := lastWriter(test.entries); writer != nil {
			got = writer.Manager
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestTheIndexNamesTheLastWriter has a transform that keeps the managedFields of one client only, and later none.
func TestTheIndexNamesTheLastWriter(t *testing.T) {
	for name, streaming := range map[string]bool{"a stream": true, "a LIST": false} {
		t.Run(name, func(t *testing.T) {
			eachQueue(t, func(t *testing.T, queue Queue) {
				api := newFakeAPI()
				api.managed = []metav1.ManagedFieldsEntry{wroteAt("glassback", 1), wroteAt("kubectl", 2)}
				api.put("a/1") // 2
				recorder := trace.NewRecorder(1000)
				informer := New(Config{
					ListerWatcher: api.newClient(streaming), Object: &corev1.ConfigMap{}, Resource: "configmaps", Queue: queue, Trace: recorder,
					Transform: func(obj any) (any, error) {
						object := obj.(metav1.Object)
						object.SetManagedFields(slices.DeleteFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
							return entry.Manager != "glassback"
						}))
						return obj, nil
					},
				})
				mustAdd(t, informer, &journal{})
				run(t, informer)
				synctest.Wait()
				api.managed = []metav1.ManagedFieldsEntry{wroteAt("kubectl", 2), wroteAt("glassback", 3)}
				api.put("a/1") // 3
				synctest.Wait()
				api.managed = nil
				api.put("a/1")    // 4
				api.remove("a/1") // 5
				synctest.Wait()
				got := map[string]trace.Writer{}
				for _, e := range recorder.Events() {
					if e.Writer != nil && e.Stage != trace.Index {
						t.Errorf("the event %s has a writer", line(e))
					}
					if e.Writer != nil {
						got[e.ResourceVersion] = *e.Writer
					}
				}
				kubectl := trace.Writer{Manager: "kubectl", Time: noon.Add(2 * time.Second)}
				operator := trace.Writer{Manager: "glassback", Time: noon.Add(3 * time.Second)}
				if len(got) != 2 || got["2"] != kubectl || got["3"] != operator {
					t.Errorf("the writers are %v", got)
				}
				if kept := len(informer.tracer.writers.last); kept != 0 {
					t.Errorf("%d writers are kept", kept)
				}
			})
		})
	}
}

// TestALaterVersionKeepsItsWriter applies a version while the next one is on its way.
func TestALaterVersionKeepsItsWriter(t *testing.T) {
	recorder := trace.NewRecorder(10)
	traced := tracer{recorder: recorder}
	transform := traced.withWriters(nil)
	first, second := configMap("a/1", "1"), configMap("a/1", "2")
	first.ManagedFields, second.ManagedFields = []metav1.ManagedFieldsEntry{wroteAt("a", 1)}, []metav1.ManagedFieldsEntry{wroteAt("b", 2)}
	for _, object := range []*corev1.ConfigMap{first, second} {
		if _, err := transform(object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range []*corev1.ConfigMap{first, second} {
		traced.apply(cache.Updated, &notification{new: object}, unwanted)
	}
	events := recorder.Events()
	if events[0].Writer != nil || events[1].Writer == nil || events[1].Writer.Manager != "b" {
		t.Errorf("the writers are %v and %v", events[0].Writer, events[1].Writer)
	}
}
