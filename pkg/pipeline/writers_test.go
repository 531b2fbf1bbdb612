// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

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
