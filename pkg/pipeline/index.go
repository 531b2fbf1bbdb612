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

// pop takes deltas out of the queue and applies them, until ctx ends. Run calls
// it; nobody else pops, and nobody else writes to the index.
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

// applyDeltas applies what one Pop gave: all that happened to one object since
// it was last popped (DeltaFIFO), or a single delta (RealFIFO). initial says that
// it belongs to the first Replace.
//
// The handlers' lock is held throughout, so that a handler which joins finds
// every delta either in the index or still to come.
func (i *Informer) applyDeltas(popped any, initial bool) error {
	deltas, ok := popped.(cache.Deltas)
	if !ok {
		return fmt.Errorf("popped a %T, not cache.Deltas", popped)
	}
	i.handlers.mu.Lock()
	defer i.handlers.mu.Unlock()
	defer i.took(deltas)
	for _, delta := range deltas { // from oldest to newest
		if err := i.apply(delta, initial); err != nil {
			return err
		}
	}
	return nil
}

// apply brings the index up to one delta, then tells the handlers. In this
// order: whoever is told of an object finds it in the index, or a later state
// of it.
func (i *Informer) apply(delta cache.Delta, initial bool) error {
	switch obj := delta.Object; delta.Type {
	case cache.Replaced, cache.Sync, cache.Added, cache.Updated:
		// The type says how the object came; whether it is an addition or an
		// update for the handlers depends only on whether the index has it.
		if old, known, err := i.indexer.Get(obj); err == nil && known {
			if err := i.indexer.Update(obj); err != nil {
				return err
			}
			i.tell(delta.Type, &notification{old: old, new: obj})
			return nil
		}
		if err := i.indexer.Add(obj); err != nil {
			return err
		}
		i.tell(delta.Type, &notification{new: obj, initial: initial})

	case cache.Deleted:
		// Either the last state, from the watch, or a DeletedFinalStateUnknown:
		// the deletion was missed, and found out by a Replace.
		if err := i.indexer.Delete(obj); err != nil {
			return err
		}
		i.tell(delta.Type, &notification{old: obj})

	// The rest comes from a RealFIFO only.
	case cache.ReplacedAll:
		all, ok := obj.(cache.ReplacedAllInfo)
		if !ok {
			return fmt.Errorf("delta ReplacedAll holds a %T", obj)
		}
		return i.replaceAll(all, initial)

	case cache.SyncAll:
		for _, obj := range i.indexer.List() {
			i.tell(cache.Sync, &notification{old: obj, new: obj})
		}

	case cache.Bookmark:
		mark, ok := obj.(cache.BookmarkInfo)
		if !ok {
			return fmt.Errorf("delta Bookmark holds a %T", obj)
		}
		i.indexer.Bookmark(mark.ResourceVersion)

	default:
		return fmt.Errorf("unknown delta type %q", delta.Type)
	}
	return nil
}

// replaceAll makes the index hold exactly the listed objects, in one step. It
// does for RealFIFO what DeltaFIFO.Replace does inside the queue.
func (i *Informer) replaceAll(all cache.ReplacedAllInfo, initial bool) error {
	listed := make(sets.Set[string], len(all.Objects))
	notes := make([]notification, 0, len(all.Objects))
	for _, obj := range all.Objects {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return cache.KeyError{Obj: obj, Err: err}
		}
		listed.Insert(key)
		old, known, _ := i.indexer.GetByKey(key)
		notes = append(notes, notification{old: old, new: obj, initial: initial && !known})
	}
	var gone []notification
	for _, key := range i.indexer.ListKeys() {
		if !listed.Has(key) {
			last, _, _ := i.indexer.GetByKey(key)
			gone = append(gone, notification{old: cache.DeletedFinalStateUnknown{Key: key, Obj: last}})
		}
	}

	if err := i.indexer.Replace(all.Objects, all.ResourceVersion); err != nil {
		return err
	}
	for n := range gone {
		i.tell(cache.Deleted, &gone[n])
	}
	for n := range notes {
		i.tell(cache.Replaced, &notes[n])
	}
	return nil
}

// applyBatch applies deltas of as many different objects, which a RealFIFO pops
// together when it holds several: apply for each, but with one write to the
// index, so that readers who hold its lock delay a burst once and not per object.
func (i *Informer) applyBatch(deltas []cache.Delta, initial bool) error {
	i.handlers.mu.Lock()
	defer i.handlers.mu.Unlock()
	defer i.took(deltas)
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
			i.tell(deltas[n].Type, &notes[n])
		}
		return nil
	}
	for _, n := range failed.SuccessfulIndices {
		i.tell(deltas[n].Type, &notes[n])
	}
	return failed
}

// tell passes on, as the index holds it now, what a delta has changed.
func (i *Informer) tell(verb cache.DeltaType, note *notification) {
	if note.new != nil {
		i.mutations.AddObject(note.new)
	}
	// Before the notification is handed over: the handler, in its own goroutine, may
	// report the next stage at once.
	i.tracer.tell(verb, note, i.handlers.wants)
	i.handlers.tell(note)
}

// took counts what was applied of that which wire has counted: one for each object that
// came off the wire. Syncs and tombstones did not.
func (i *Informer) took(deltas []cache.Delta) {
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
