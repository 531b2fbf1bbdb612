/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package pipeline

import (
	"context"
	"errors"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// newIndexer returns the index behind queue.
func newIndexer(queue Queue, indexers cache.Indexers) cache.Indexer {
	indexer := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers)
	if queue == DeltaFIFO {
		return unordered{indexer}
	}
	return indexer
}

// unordered is the index behind a DeltaFIFO, which pops [A at 5, A at 9] before [B at 7]. At 9, the
// index does not hold the 7 yet. A plain indexer would return 9 as its resourceVersion, and a reader
// that waits for the write at 7 would read an index without it.
type unordered struct{ cache.Indexer }

// LastStoreSyncResourceVersion returns "", which means unknown, as client-go does where the order is
// not kept.
func (unordered) LastStoreSyncResourceVersion() string { return "" }

// pop takes deltas out of the queue and applies them, until ctx ends. Only Run's goroutine calls it:
// nothing else pops, and nothing else writes to the index.
func (i *Informer) pop(ctx context.Context, queue cache.Queue) {
	applyDeltas, applyBatch := cache.PopProcessFunc(i.applyDeltas), cache.ProcessBatchFunc(i.applyBatch) // made once, not per Pop
	batches, batched := queue.(cache.QueueWithBatch)
	for ctx.Err() == nil {
		var err error
		if batched {
			err = batches.PopBatch(applyBatch, applyDeltas)
		} else {
			_, err = queue.Pop(applyDeltas)
		}
		if errors.Is(err, cache.ErrFIFOClosed) {
			return
		}
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Apply delta to index", "informer", i.name)
		}
	}
}

// applyDeltas applies the outcome of one Pop: all deltas of one object since it was last popped
// (DeltaFIFO), or a single delta (RealFIFO). initial says that it belongs to the first Replace.
//
// It holds the handlers' lock throughout. A handler that joins finds every delta either in the index
// or still to come.
func (i *Informer) applyDeltas(popped any, initial bool) error {
	deltas, ok := popped.(cache.Deltas)
	if !ok {
		return fmt.Errorf("popped a %T, not cache.Deltas", popped)
	}
	i.handlers.mu.Lock()
	defer i.handlers.mu.Unlock()
	defer i.countApplied(deltas)
	for _, delta := range deltas { // from oldest to newest
		if err := i.apply(delta, initial); err != nil {
			return err
		}
	}
	return nil
}

// apply writes one delta to the index, and then notifies the handlers. In this order, a handler finds
// its object in the index in the state that it gets, or in a later one.
func (i *Informer) apply(delta cache.Delta, initial bool) error {
	switch obj := delta.Object; delta.Type {
	case cache.Replaced, cache.Sync, cache.Added, cache.Updated:
		// The type says how the object arrived. For the handlers it is an update if the index has the
		// object, and an addition otherwise.
		if old, known, err := i.indexer.Get(obj); err == nil && known {
			if err := i.indexer.Update(obj); err != nil {
				return err
			}
			i.notify(delta.Type, &notification{old: old, new: obj})
			return nil
		}
		if err := i.indexer.Add(obj); err != nil {
			return err
		}
		i.notify(delta.Type, &notification{new: obj, initial: initial})

	case cache.Deleted:
		// The last state, from the watch; or a DeletedFinalStateUnknown, if the watch missed the
		// deletion and a Replace revealed it.
		if err := i.indexer.Delete(obj); err != nil {
			return err
		}
		i.notify(delta.Type, &notification{old: obj})

	// The rest comes from a RealFIFO only.
	case cache.ReplacedAll:
		all, ok := obj.(cache.ReplacedAllInfo)
		if !ok {
			return fmt.Errorf("delta ReplacedAll holds a %T", obj)
		}
		return i.replaceAll(all, initial)

	case cache.SyncAll:
		for _, obj := range i.indexer.List() {
			i.notify(cache.Sync, &notification{old: obj, new: obj})
		}

	case cache.Bookmark:
		bookmark, ok := obj.(cache.BookmarkInfo)
		if !ok {
			return fmt.Errorf("delta Bookmark holds a %T", obj)
		}
		i.indexer.Bookmark(bookmark.ResourceVersion)

	default:
		return fmt.Errorf("unknown delta type %q", delta.Type)
	}
	return nil
}

// replaceAll makes the index hold exactly the listed objects, in one step. It does for RealFIFO what
// DeltaFIFO.Replace does inside the queue.
func (i *Informer) replaceAll(all cache.ReplacedAllInfo, initial bool) error {
	listed := make(sets.Set[string], len(all.Objects))
	present := make([]notification, 0, len(all.Objects))
	for _, obj := range all.Objects {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return cache.KeyError{Obj: obj, Err: err}
		}
		listed.Insert(key)
		old, known, _ := i.indexer.GetByKey(key)
		present = append(present, notification{old: old, new: obj, initial: initial && !known})
	}
	var deleted []notification
	for _, key := range i.indexer.ListKeys() {
		if !listed.Has(key) {
			last, _, _ := i.indexer.GetByKey(key)
			deleted = append(deleted, notification{old: cache.DeletedFinalStateUnknown{Key: key, Obj: last}})
		}
	}

	if err := i.indexer.Replace(all.Objects, all.ResourceVersion); err != nil {
		return err
	}
	for n := range deleted {
		i.notify(cache.Deleted, &deleted[n])
	}
	for n := range present {
		i.notify(cache.Replaced, &present[n])
	}
	return nil
}

// applyBatch applies deltas of as many different objects, which a RealFIFO pops together. It does the
// same as apply for each, but with one write to the index: readers that hold the index's lock delay a
// burst once and not once per object.
func (i *Informer) applyBatch(deltas []cache.Delta, initial bool) error {
	i.handlers.mu.Lock()
	defer i.handlers.mu.Unlock()
	defer i.countApplied(deltas)
	writes := make([]cache.Transaction, len(deltas))
	notes := make([]notification, len(deltas))
	for n, delta := range deltas {
		obj := delta.Object
		switch delta.Type {
		case cache.Replaced, cache.Sync, cache.Added, cache.Updated:
			if old, known, err := i.indexer.Get(obj); err == nil && known {
				writes[n] = cache.Transaction{Type: cache.TransactionTypeUpdate, Object: obj}
				notes[n] = notification{old: old, new: obj}
			} else {
				writes[n] = cache.Transaction{Type: cache.TransactionTypeAdd, Object: obj}
				notes[n] = notification{new: obj, initial: initial}
			}
		case cache.Deleted:
			writes[n] = cache.Transaction{Type: cache.TransactionTypeDelete, Object: obj}
			notes[n] = notification{old: obj}
		default:
			return fmt.Errorf("delta type %q in a batch", delta.Type)
		}
	}

	// NewIndexer's result has Transaction, though its type does not say so.
	failed := i.indexer.(cache.TransactionStore).Transaction(writes...)
	if failed == nil {
		for n := range notes {
			i.notify(deltas[n].Type, &notes[n])
		}
		return nil
	}
	for _, n := range failed.SuccessfulIndices {
		i.notify(deltas[n].Type, &notes[n])
	}
	return failed
}

// notify traces the outcome of a delta, which the index holds now, and passes it to the handlers. The
// trace comes first: a handler, in its own goroutine, may report the next stage at once.
func (i *Informer) notify(verb cache.DeltaType, note *notification) {
	if note.new != nil {
		i.mutations.AddObject(note.new)
	}
	i.tracer.apply(verb, note, i.handlers.wants)
	i.handlers.distribute(note)
}

// countApplied counts the objects that reached the index, of those that reflectorStore.arrive counted.
// Syncs and tombstones do not come from the API server.
func (i *Informer) countApplied(deltas []cache.Delta) {
	n := 0
	for _, delta := range deltas {
		switch obj := delta.Object.(type) {
		case cache.ReplacedAllInfo:
			n += len(obj.Objects)
		case cache.SyncAllInfo, cache.BookmarkInfo, cache.DeletedFinalStateUnknown:
		default:
			if delta.Type != cache.Sync {
				n++
			}
		}
	}
	i.applied.Add(int64(n))
}
