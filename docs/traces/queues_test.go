/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package traces

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// at is the state of an object at a resourceVersion.
func at(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

// TestQueues puts the same into both queues, and empties them afterwards. There is no other
// goroutine, so that it is certain what waits together.
func TestQueues(t *testing.T) {
	known := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
	for _, obj := range []any{at("a", "1"), at("c", "3")} {
		must(t, known.Add(obj))
	}
	delta := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KnownObjects: known, EmitDeltaTypeReplaced: true})
	real := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{AtomicEvents: true, UnlockWhileProcessing: true, EmitDeltaTypeBookmark: true})
	for _, queue := range []cache.Queue{delta, real} {
		must(t, queue.Replace([]any{at("a", "4"), at("b", "5")}, "5"))
		must(t, queue.Update(at("a", "6")))
		must(t, queue.Add(at("d", "7")))
		must(t, queue.Update(at("a", "8")))
		if marked, ok := queue.(cache.ReflectorBookmarkStore); ok {
			must(t, marked.Bookmark("9"))
		}
		queue.Close()
	}

	var text strings.Builder
	text.WriteString("# a 1 is the object a at resourceVersion 1. The index holds a 1 and c 3. The reflector calls:\n" +
		"Replace a 4, b 5 (the list: 5)\nUpdate  a 6\nAdd     d 7\nUpdate  a 8\nBookmark 9\n\n# The pop loop gets from a DeltaFIFO:\n")
	pop := func(popped any, initial bool) error {
		fmt.Fprintf(&text, "Pop      %s", strings.Join(deltas(popped.(cache.Deltas)), ", "))
		if initial {
			text.WriteString("  (initial)")
		}
		text.WriteString("\n")
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
