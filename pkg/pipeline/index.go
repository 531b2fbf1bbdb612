// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
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

// unordered is the index behind a DeltaFIFO, which pops [A at 5, A at 9] before [B at 7]. When the index
// holds A at 9, it does not hold B at 7 yet. A plain indexer would return 9 as its resourceVersion, and a
// reader that waits for the write at 7 would read an index without that write.
type unordered struct{ cache.Indexer }

// LastStoreSyncResourceVersion returns "", which means unknown. client-go also returns "" for stores that
// do not keep the order.
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

// applyDeltas applies the result of one Pop: all deltas of one object since it was last popped
// (DeltaFIFO), or a single delta (RealFIFO). initial says that popped belongs to the first Replace.
//
// applyDeltas holds the dispatcher's lock throughout. So a new handler misses no delta: the index already has the
// delta, or a later notification carries it.
func (i *Informer) applyDeltas(popped any, initial bool) error {
	deltas, ok := popped.(cache.Deltas)
	if !ok {
		return fmt.Errorf("popped a %T, not cache.Deltas", popped)
	}
	i.dispatcher.mu.Lock()
	defer i.dispatcher.mu.Unlock()
	defer i.countApplied(deltas)
	for _, delta := range deltas { // from oldest to newest
		if err := i.apply(delta, initial); err != nil {
			return err
		}
	}
	return nil
}

// apply writes one delta to the index, and then notifies the handlers. Because of this order, the index
// holds the state that a handler gets, or a later one.
func (i *Informer) apply(delta cache.Delta, initial bool) error {
	switch obj := delta.Object; delta.Type {
	case cache.Replaced, cache.Sync, cache.Added, cache.Updated:
		// The type says how the object arrived. The handlers get an update if the index has the object, and
		// an addition otherwise.
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
		// obj is the last state, from the watch. If the watch missed the deletion, and a Replace revealed
		// it, obj is a DeletedFinalStateUnknown.
		if err := i.indexer.Delete(obj); err != nil {
			return err
		}
		i.notify(delta.Type, &notification{old: obj})

	// Only a RealFIFO pops the other types.
	default:
		return i.applyToAll(delta, initial)
	}
	return nil
}

// notify traces note, after the delta has been applied to the index, and passes note to the handlers. The
// trace comes first: a handler, in its own goroutine, may report the next stage at once.
func (i *Informer) notify(verb cache.DeltaType, note *notification) {
	if note.new != nil {
		i.mutations.AddObject(note.new)
	}
	i.tracer.apply(verb, note, i.dispatcher.wants)
	i.dispatcher.distribute(note)
}

// countApplied counts the objects of deltas that no longer wait, even if applying one failed. It counts only
// objects that reflectorStore.arrive has counted: syncs and tombstones do not come from the API server.
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
