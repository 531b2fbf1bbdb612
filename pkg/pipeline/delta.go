/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package pipeline

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Queue names the delta queue that an informer is built on. doc.go says how
// the two differ.
type Queue int

const (
	// DeltaFIFO keeps one list of deltas per object, and pops object by object.
	DeltaFIFO Queue = iota
	// RealFIFO keeps one list of deltas in the order of their arrival. Stock
	// shared informers have it since client-go 0.33, and cannot turn it off since
	// 0.36 (feature InOrderInformers).
	RealFIFO
)

// String returns the queue's name as client-go spells it.
func (q Queue) String() string {
	switch q {
	case DeltaFIFO:
		return "DeltaFIFO"
	case RealFIFO:
		return "RealFIFO"
	}
	return fmt.Sprintf("Queue(%d)", int(q))
}

// Set sets the queue by its name, and Type says what that is: a Queue is a flag.
func (q *Queue) Set(name string) error {
	for _, known := range []Queue{DeltaFIFO, RealFIFO} {
		if name == known.String() {
			*q = known
			return nil
		}
	}
	return fmt.Errorf("must be %s or %s", DeltaFIFO, RealFIFO)
}

// Type returns "queue".
func (*Queue) Type() string { return "queue" }

// newQueue builds the queue: filled by the Reflector through wire, emptied by
// Informer.pop.
//
// The caller holds i.mu.
func (i *Informer) newQueue(logger klog.Logger) cache.Queue {
	name := fmt.Sprintf("%s %s", i.cfg.Queue, i.name)
	if i.cfg.Queue == RealFIFO {
		return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
			Logger:          &logger,
			Name:            name,
			KeyFunction:     cache.MetaNamespaceKeyFunc,
			Transformer:     i.transform,
			Identifier:      i.cfg.Identifier,
			MetricsProvider: i.cfg.MetricsProvider,
			// A Replace or a Resync stays one delta (ReplacedAll, SyncAll), and
			// bookmarks pass through the queue as well. So everything reaches the
			// index in order of resourceVersion, and the queue never needs to look
			// into the index: it can take in more while a delta is applied.
			AtomicEvents:          true,
			UnlockWhileProcessing: true,
			EmitDeltaTypeBookmark: true,
		})
	}
	return cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		Logger:      &logger,
		Name:        name,
		KeyFunction: cache.MetaNamespaceKeyFunc,
		Transformer: i.transform,
		// The index is what the queue compares a Replace with, to find out what
		// was deleted meanwhile, and what a Resync emits again. It can rely on it
		// because deltas are applied under the queue's lock.
		KnownObjects: i.indexer,
		// Else a relist would be told as Sync, like a resync, though its objects
		// may have changed.
		EmitDeltaTypeReplaced: true,
	})
}

// newIndexer builds the index that the queue of cfg feeds.
func newIndexer(cfg *Config, indexers cache.Indexers) cache.Indexer {
	if cfg.Queue == DeltaFIFO {
		return unordered{cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers)}
	}
	return cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers, cache.WithStoreMetrics(cfg.Identifier, cfg.MetricsProvider))
}

// unordered is the index behind a DeltaFIFO. A DeltaFIFO pops [A at 5, A at 9]
// before [B at 7]: then the index has seen a 9 and does not hold the 7 yet. A
// plain indexer would answer 9, in its metrics too, and whoever waits for the write
// that became 7 would read an index without it.
type unordered struct{ cache.Indexer }

// LastStoreSyncResourceVersion returns "", as client-go does wherever the order
// is not kept: unknown.
func (unordered) LastStoreSyncResourceVersion() string { return "" }
