// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// newRealFIFO returns a RealFIFO for newQueue.
func (i *Informer) newRealFIFO(logger klog.Logger, name string) cache.Queue {
	return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
		Logger:      &logger,
		Name:        name,
		KeyFunction: cache.MetaNamespaceKeyFunc,
		Transformer: i.transform,
		// A Replace or a Resync stays one delta (ReplacedAll, SyncAll), and bookmarks pass through the queue as well. So everything reaches the
		// index in order of resourceVersion. The queue never reads the index, and accepts deltas while another one is applied.
		AtomicEvents:          true,
		UnlockWhileProcessing: true,
		EmitDeltaTypeBookmark: true,
	})
}

// applyToAll applies a delta of a RealFIFO that is not about one object.
func (i *Informer) applyToAll(delta cache.Delta, initial bool) error {
	switch delta.Type {
	case cache.ReplacedAll:
		all, ok := delta.Object.(cache.ReplacedAllInfo)
		if !ok {
			return fmt.Errorf("delta ReplacedAll holds a %T", delta.Object)
		}
		return i.replaceAll(all, initial)
	case cache.SyncAll:
		for _, obj := range i.indexer.List() {
			i.notify(cache.Sync, &notification{old: obj, new: obj})
		}
		return nil
	case cache.Bookmark:
		bookmark, ok := delta.Object.(cache.BookmarkInfo)
		if !ok {
			return fmt.Errorf("delta Bookmark holds a %T", delta.Object)
		}
		i.indexer.Bookmark(bookmark.ResourceVersion)
		return nil
	}
	return fmt.Errorf("unknown delta type %q", delta.Type)
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

// applyBatch applies deltas that a RealFIFO pops together; each is of another object. It does the same as apply for each, but with one
// write to the index: readers that hold the index's lock delay a burst once and not once per object.
func (i *Informer) applyBatch(deltas []cache.Delta, initial bool) error {
	i.dispatcher.mu.Lock()
	defer i.dispatcher.mu.Unlock()
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

	// cache.NewIndexer declares no Transaction, but its result has one.
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
