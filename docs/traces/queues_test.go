// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
)

// at is the state of an object at a resourceVersion.
func at(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

// TestQueues puts a first list into both queues, empties them, and then does the same with a relist and what follows. There is no other
// goroutine: so the test decides which deltas wait together.
func TestQueues(t *testing.T) {
	known := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
	delta := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KnownObjects: known, EmitDeltaTypeReplaced: true})
	real := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{AtomicEvents: true, UnlockWhileProcessing: true, EmitDeltaTypeBookmark: true})
	queues := []cache.Queue{delta, real}
	for _, queue := range queues {
		must.Succeed(t, queue.Replace([]any{at("a", "1"), at("c", "2")}, "2"))
		must.Succeed(t, queue.Update(at("c", "3"))) // It joins the first list in a DeltaFIFO.
	}
	popFirstList(t, delta, real)
	for _, obj := range []any{at("a", "1"), at("c", "3")} {
		must.Succeed(t, known.Add(obj))
	}
	for _, queue := range queues {
		must.Succeed(t, queue.Replace([]any{at("a", "4"), at("b", "5")}, "5"))
		must.Succeed(t, queue.Update(at("a", "6")))
		must.Succeed(t, queue.Add(at("d", "7")))
		must.Succeed(t, queue.Update(at("a", "8")))
		if marked, ok := queue.(cache.ReflectorBookmarkStore); ok {
			must.Succeed(t, marked.Bookmark("9"))
		}
		queue.Close()
	}

	var text strings.Builder
	text.WriteString("# a 1 is the object a at resourceVersion 1. The index holds a 1 and c 3. After a broken WATCH, the reflector calls:\n" +
		"Replace a 4, b 5 (the list: 5)\nUpdate  a 6\nAdd     d 7\nUpdate  a 8\nBookmark 9\n\n# The pop loop gets from a DeltaFIFO:\n")
	pop := func(popped any, initial bool) error {
		if initial {
			t.Error("a relist counts as the first list")
		}
		fmt.Fprintf(&text, "Pop      %s\n", strings.Join(deltas(popped.(cache.Deltas)), ", "))
		return nil
	}
	for err := error(nil); err == nil; {
		_, err = delta.Pop(pop)
	}
	text.WriteString("\n# The pop loop gets from a RealFIFO:\n")
	batch := func(popped []cache.Delta, _ bool) error {
		fmt.Fprintf(&text, "PopBatch %s\n", strings.Join(deltas(popped), ", "))
		return nil
	}
	for err := error(nil); err == nil; {
		err = real.PopBatch(batch, pop)
	}
	golden(t, filepath.Join("testdata", "queues.trace"), text.String())
}

// popFirstList empties both queues, and compares which deltas belong to the first list.
func popFirstList(t *testing.T, delta *cache.DeltaFIFO, real *cache.RealFIFO) {
	t.Helper()
	var popped []string
	pop := func(obj any, initial bool) error {
		popped = append(popped, fmt.Sprint(strings.Join(deltas(obj.(cache.Deltas)), ", "), " ", initial))
		return nil
	}
	batch := func(all []cache.Delta, initial bool) error { return pop(cache.Deltas(all), initial) }
	for range 2 {
		_, err := delta.Pop(pop)
		must.Succeed(t, err)
		must.Succeed(t, real.PopBatch(batch, pop))
	}
	want := []string{"Replaced a 1 true", "ReplacedAll a 1, c 2 (the list: 2) true", "Replaced c 2, Updated c 3 true", "Updated c 3 false"}
	if !slices.Equal(popped, want) {
		t.Errorf("the first list arrives as %q, want %q", popped, want)
	}
}

// deltas renders what was popped together.
func deltas(popped []cache.Delta) (texts []string) {
	for _, d := range popped {
		text := string(d.Type)
		switch obj := d.Object.(type) {
		case *corev1.ConfigMap:
			text += " " + obj.Name + " " + obj.ResourceVersion
		case cache.DeletedFinalStateUnknown:
			last := obj.Obj.(*corev1.ConfigMap)
			text += " " + last.Name + " " + last.ResourceVersion + " (tombstone)"
		case cache.ReplacedAllInfo:
			for n, listed := range obj.Objects {
				text += []string{" ", ", "}[min(n, 1)] + listed.(*corev1.ConfigMap).Name + " " + listed.(*corev1.ConfigMap).ResourceVersion
			}
			text += " (the list: " + obj.ResourceVersion + ")"
		case cache.BookmarkInfo:
			text += " " + obj.ResourceVersion
		}
		texts = append(texts, text)
	}
	return texts
}
