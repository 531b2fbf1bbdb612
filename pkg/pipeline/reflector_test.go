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
		gone := []string{"index Deleted a/1 2", "dispatch Deleted a/1 2"}
		if queue == DeltaFIFO {
			check("relist", slices.Concat(wire, added, gone)...)
		} else {
			check("relist", slices.Concat(wire, gone, added)...)
		}
	})
}

func TestNoDispatchWithoutHandlers(t *testing.T) {
	recorder := trace.NewRecorder(10)
	informer := New(Config{Object: &corev1.ConfigMap{}, Trace: recorder})
	panicOn(informer.applyDeltas(cache.Deltas{{Type: cache.Added, Object: configMap("a/1", "1")}}, false))
	if got := recorder.Events(); len(got) != 1 || got[0].Stage != trace.Index {
		t.Errorf("the events are %v, want only that of the index", got)
	}
}

func TestTombstonesAreNamed(t *testing.T) {
	for _, test := range []struct {
		obj  any
		want string
	}{
		{cache.DeletedFinalStateUnknown{Key: "a/1"}, "index Deleted a/1"},
		{cache.DeletedFinalStateUnknown{Key: "node-1"}, "index Deleted node-1"},
		{cache.DeletedFinalStateUnknown{Key: "a/1", Obj: configMap("a/1", "7")}, "index Deleted a/1 7"},
		{"no object", "index Deleted"},
		{nil, "index Deleted"},
	} {
		recorder := trace.NewRecorder(1)
		traced := tracer{recorder: recorder}
		traced.apply(cache.Deleted, &notification{old: test.obj}, unwanted)
		if got := line(recorder.Events()[0]); got != test.want {
			t.Errorf("%v: %q, want %q", test.obj, got, test.want)
		}
	}
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
			for range 1000 { // This fills the buffer for the events of the object.
				report()
			}
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

// TestReflectorStoreHasOptionalMethods: the Reflector checks whether its store has these methods.
func TestReflectorStoreHasOptionalMethods(t *testing.T) {
	trim := func(obj any) (any, error) { return obj, nil }
	for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
		informer := New(Config{Object: &corev1.ConfigMap{}, Queue: queue})
		q := informer.newQueue(logger())
		if (&reflectorStore{queue: q}).Transformer() != nil {
			t.Errorf("%s: the store returns a transform although none is set", queue)
		}
		panicOn(informer.SetTransform(trim))
		q = &observedQueue{Queue: informer.newQueue(logger())}
		if (&reflectorStore{queue: q}).Transformer() != nil {
			t.Errorf("%s: the store returns a transform although its queue has no method for it", queue)
		}
		if (&reflectorStore{queue: q.(*observedQueue).Queue}).Transformer() == nil {
			t.Errorf("%s: the store does not return the transform", queue)
		}
		store := &reflectorStore{queue: q}
		panicOn(store.Bookmark("7"))
		if got := q.(*observedQueue).versions; !slices.Equal(got, []string{"7"}) {
			t.Errorf("%s: the queue got the bookmarks %v", queue, got)
		}
		panicOn((&reflectorStore{queue: struct{ cache.Queue }{q}}).Bookmark("9"))
	}
}

type observedQueue struct {
	cache.Queue
	versions []string
}

func (q *observedQueue) Bookmark(version string) error {
	q.versions = append(q.versions, version)
	return nil
}

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
