// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Queue is the kind of the delta queue of an informer. doc.go lists the differences.
type Queue int

const (
	// DeltaFIFO keeps one list of deltas per object, and pops object by object.
	DeltaFIFO Queue = iota
	// RealFIFO keeps one list of deltas in the order of their arrival. client-go's shared informers have
	// used it by default since 0.33, and always since 0.36 (feature InOrderInformers).
	RealFIFO
)

// String returns client-go's name of the queue.
func (q Queue) String() string {
	switch q {
	case DeltaFIFO:
		return "DeltaFIFO"
	case RealFIFO:
		return "RealFIFO"
	}
	return fmt.Sprintf("Queue(%d)", int(q))
}

// Set sets the queue by its name. Set, String and Type make a *Queue a pflag.Value.
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

// newQueue returns the queue. The Reflector fills it through a reflectorStore, and Informer.pop empties it.
//
// The caller holds i.mu.
func (i *Informer) newQueue(logger klog.Logger) cache.Queue {
	name := fmt.Sprintf("%s %s", i.cfg.Queue, i.name)
	if i.cfg.Queue == RealFIFO {
		return i.newRealFIFO(logger, name)
	}
	return cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		Logger:      &logger,
		Name:        name,
		KeyFunction: cache.MetaNamespaceKeyFunc,
		Transformer: i.transform,
		// The queue compares a Replace with the index to find deleted objects, and a Resync emits the
		// objects of the index. This is safe because deltas are applied under the queue's lock.
		KnownObjects: i.indexer,
		// Without this, a relist would emit Sync, like a resync, although its objects may have changed.
		EmitDeltaTypeReplaced: true,
	})
}
