// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func configMap(key, version string) *corev1.ConfigMap {
	namespace, name, _ := cache.SplitMetaNamespaceKey(key)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version}}
}

// backlogOf takes the notifications out of the backlog of a listener that has no goroutine.
func backlogOf(l *listener) []notification {
	var notes []notification
	for l.backlog.pending.Load() > int64(len(notes)) {
		note, _ := l.backlog.take()
		notes = append(notes, *note)
	}
	return notes
}

// TestApply applies deltas without a goroutine. It checks the contents of the index and the notifications for a handler. The index starts
// with a/1 at version 1 and a/2 at version 2. TestStepwiseLikeStock has the other deltas.
func TestApply(t *testing.T) {
	one, two := configMap("a/1", "1"), configMap("a/2", "2")
	gone := func(key string, last any) cache.DeletedFinalStateUnknown {
		return cache.DeletedFinalStateUnknown{Key: key, Obj: last}
	}
	oneAgain, oneNew, three := configMap("a/1", "1"), configMap("a/1", "5"), configMap("a/3", "6")
	oneDeleted := configMap("a/1", "7")
	unchanged := map[string]string{"a/1": "1", "a/2": "2"}
	for name, test := range map[string]struct {
		deltas  cache.Deltas
		initial bool
		index   map[string]string
		notes   []notification
		version string // resourceVersion of the index with a RealFIFO
		err     string
	}{
		"a tombstone may be empty": {
			deltas:  cache.Deltas{{Type: cache.Deleted, Object: gone("a/1", nil)}},
			index:   map[string]string{"a/2": "2"},
			notes:   []notification{{old: gone("a/1", nil)}},
			version: "2",
		},
		"one Pop with all events of an object": {
			deltas: cache.Deltas{
				{Type: cache.Deleted, Object: oneDeleted}, {Type: cache.Added, Object: oneAgain}, {Type: cache.Updated, Object: oneNew},
			},
			index:   map[string]string{"a/1": "5", "a/2": "2"},
			notes:   []notification{{old: oneDeleted}, {new: oneAgain}, {old: oneAgain, new: oneNew}},
			version: "5",
		},
		"ReplacedAll deletes the objects that it does not list, then adds the others": {
			deltas:  cache.Deltas{{Type: cache.ReplacedAll, Object: cache.ReplacedAllInfo{ResourceVersion: "9", Objects: []any{oneNew, three}}}},
			initial: true,
			index:   map[string]string{"a/1": "5", "a/3": "6"},
			notes:   []notification{{old: gone("a/2", two)}, {old: one, new: oneNew}, {new: three, initial: true}},
			version: "9",
		},
		"SyncAll is a resync of all objects": {
			deltas:  cache.Deltas{{Type: cache.Deleted, Object: oneDeleted}, {Type: cache.SyncAll, Object: cache.SyncAllInfo{}}},
			index:   map[string]string{"a/2": "2"},
			notes:   []notification{{old: oneDeleted}, {old: two, new: two}},
			version: "7",
		},
		"an object without a key is refused": {
			deltas: cache.Deltas{{Type: cache.Added, Object: "no object"}}, index: unchanged, version: "2", err: "no meta",
		},
		"an unknown type is refused": {
			deltas: cache.Deltas{{Type: "Upgraded", Object: one}}, index: unchanged, version: "2", err: "Upgraded",
		},
		"a delta with the wrong type of object is refused": {
			deltas: cache.Deltas{{Type: cache.ReplacedAll, Object: one}}, index: unchanged, version: "2", err: "ReplacedAll",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
				informer := New(Config{Object: &corev1.ConfigMap{}, Queue: queue})
				panicOn(informer.indexer.Replace([]any{one, two}, "2"))
				l := mustAdd(t, informer, &journal{}).(*listener)
				err := informer.applyDeltas(test.deltas, test.initial)
				if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("%s: error %v, want %q", queue, err, test.err)
				}
				if got := versions(informer.indexer); !maps.Equal(got, test.index) {
					t.Errorf("%s: the index has %v, want %v", queue, got, test.index)
				}
				if got := backlogOf(l); !reflect.DeepEqual(got, test.notes) {
					t.Errorf("%s: the notifications are %v, want %v", queue, got, test.notes)
				}
				if got := informer.GetStore().LastStoreSyncResourceVersion(); queue == RealFIFO && got != test.version ||
					queue == DeltaFIFO && got != "" {
					t.Errorf("%s: the index has the resourceVersion %q, want %q", queue, got, test.version)
				}
			}
		})
	}
	if err := New(Config{Object: &corev1.ConfigMap{}}).applyDeltas(one, false); err == nil {
		t.Error("Apply accepted something other than deltas")
	}
}

// TestIndexBeforeHandlers: no handler gets an object before the index has the object. An indexer checks this. Each write to the index calls
// the indexer, and at that time the backlog must be empty.
func TestIndexBeforeHandlers(t *testing.T) {
	added, updated, deleted := configMap("a/1", "1"), configMap("a/1", "2"), configMap("a/1", "3")
	all := cache.ReplacedAllInfo{ResourceVersion: "4", Objects: []any{added}}
	steps := []cache.Delta{
		{Type: cache.Added, Object: added}, {Type: cache.Updated, Object: updated}, {Type: cache.Sync, Object: updated},
		{Type: cache.Deleted, Object: deleted}, {Type: cache.ReplacedAll, Object: all}, {Type: cache.Replaced, Object: updated},
	}
	for _, batch := range []bool{false, true} {
		var l *listener
		writes := 0
		informer := New(Config{Object: &corev1.ConfigMap{}, Queue: RealFIFO, Indexers: cache.Indexers{"watch": func(any) ([]string, error) {
			writes++
			if got := l.backlog.pending.Load(); got != 0 {
				t.Errorf("during a write to the index, the backlog has %d notifications, want none", got)
			}
			return nil, nil
		}}})
		l = mustAdd(t, informer, &journal{}).(*listener)
		for _, step := range steps {
			if writes = 0; batch && step.Type != cache.ReplacedAll {
				panicOn(informer.applyBatch([]cache.Delta{step}, false))
			} else {
				panicOn(informer.applyDeltas(cache.Deltas{step}, false))
			}
			if notes := l.backlog.pending.Load(); writes == 0 || notes != 1 {
				t.Errorf("%s: %d writes, %d notifications", step.Type, writes, notes)
			}
			l.backlog.take()
			l.backlog.pending.Store(0)
		}
	}
}

// TestApplyBatch compares a batch with the same deltas one by one.
func TestApplyBatch(t *testing.T) {
	deltas := []cache.Delta{
		{Type: cache.Updated, Object: configMap("a/1", "5")},
		{Type: cache.Added, Object: configMap("a/3", "6")},
		{Type: cache.Deleted, Object: configMap("a/2", "7")},
		{Type: cache.Replaced, Object: configMap("a/4", "3")},
		{Type: cache.Added, Object: "no object"},
		{Type: cache.Added, Object: configMap("a/5", "8")},
	}
	for _, initial := range []bool{false, true} {
		results := map[bool][]any{}
		for _, batch := range []bool{false, true} {
			informer := New(Config{Object: &corev1.ConfigMap{}, Queue: RealFIFO})
			panicOn(informer.indexer.Replace([]any{configMap("a/1", "1"), configMap("a/2", "2")}, "2"))
			l := mustAdd(t, informer, &journal{}).(*listener)
			failed := 0
			if batch {
				if informer.applyBatch(deltas, initial) != nil {
					failed++
				}
			} else {
				for _, delta := range deltas {
					if informer.applyDeltas(cache.Deltas{delta}, initial) != nil {
						failed++
					}
				}
			}
			results[batch] = []any{
				failed, versions(informer.indexer), backlogOf(l), informer.GetStore().LastStoreSyncResourceVersion(), informer.applied.Load(),
			}
		}
		if !reflect.DeepEqual(results[true], results[false]) {
			t.Errorf("as a batch:\n%v\none by one:\n%v", results[true], results[false])
		}
	}
	unfit := []cache.Delta{{Type: cache.SyncAll, Object: cache.SyncAllInfo{}}}
	if err := New(Config{Object: &corev1.ConfigMap{}, Queue: RealFIFO}).applyBatch(unfit, false); err == nil {
		t.Error("a batch accepted a SyncAll")
	}
}
