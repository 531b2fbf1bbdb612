// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package breakpoint

import (
	"context"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// maxKept is the number of calls of the reflector at which a Queue releases itself.
const maxKept = 100_000

// Queue is the breakpoint between a reflector and its delta queue. The zero value is ready to use.
type Queue struct {
	latch

	kept []keptCall
}

// keptCall is one call of the reflector that waits for the release.
type keptCall struct {
	verb    cache.DeltaType
	objects []any // none of a Resync or a Bookmark
	since   time.Time
	write   func() error
}

// Kept is one delta that waits before the queue.
type Kept struct {
	Verb   cache.DeltaType
	Object any
	Since  time.Time
}

// Wrap returns a store that writes into queue.
func (q *Queue) Wrap(queue cache.ReflectorStore) cache.ReflectorStore { return &store{q, queue} }

// Hold keeps deltas from the queue until Release or Limit: the index and the handlers stay unchanged.
// It does nothing if the Queue is held already.
func (q *Queue) Hold() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hold == nil {
		q.close(0, q.release)
	}
}

// Release writes the kept deltas into the queue, in their order.
func (q *Queue) Release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release()
}

// release is Release for a caller that holds q.mu. Calls that arrive meanwhile wait for the lock.
func (q *Queue) release() {
	for _, call := range q.kept {
		if err := call.write(); err != nil {
			utilruntime.HandleErrorWithContext(context.Background(), err, "Write a held delta into the queue")
		}
	}
	q.kept = nil
	q.open()
}

// Kept returns the first deltas that wait, limit at most.
func (q *Queue) Kept(limit int) []Kept {
	q.mu.Lock()
	defer q.mu.Unlock()
	var kept []Kept
	for _, call := range q.kept {
		for _, object := range call.objects[:min(len(call.objects), limit-len(kept))] {
			kept = append(kept, Kept{call.verb, object, call.since})
		}
	}
	return kept
}

// put writes, or keeps the call if q is held.
func (q *Queue) put(verb cache.DeltaType, objects []any, write func() error) error {
	q.mu.Lock()
	if q.hold == nil {
		q.mu.Unlock() // A page that asks for Held does not wait for the queue.
		return write()
	}
	defer q.mu.Unlock()
	q.kept = append(q.kept, keptCall{verb, objects, time.Now(), write})
	q.hold.Kept += len(objects)
	if len(q.kept) == maxKept {
		q.release()
	}
	return nil
}

// store is the ReflectorStore that the reflector writes into.
type store struct {
	breakpoint *Queue
	queue      cache.ReflectorStore
}

func (s *store) Add(obj any) error {
	return s.breakpoint.put(cache.Added, []any{obj}, func() error { return s.queue.Add(obj) })
}

func (s *store) Update(obj any) error {
	return s.breakpoint.put(cache.Updated, []any{obj}, func() error { return s.queue.Update(obj) })
}

func (s *store) Delete(obj any) error {
	return s.breakpoint.put(cache.Deleted, []any{obj}, func() error { return s.queue.Delete(obj) })
}

func (s *store) Replace(objs []any, resourceVersion string) error {
	return s.breakpoint.put(cache.Replaced, objs, func() error { return s.queue.Replace(objs, resourceVersion) })
}

func (s *store) Resync() error { return s.breakpoint.put(cache.Sync, nil, s.queue.Resync) }

// Bookmark waits for the deltas before it.
func (s *store) Bookmark(resourceVersion string) error {
	queue, ok := s.queue.(cache.ReflectorBookmarkStore)
	if !ok {
		return nil
	}
	return s.breakpoint.put(cache.Bookmark, nil, func() error { return queue.Bookmark(resourceVersion) })
}

func (s *store) Transformer() cache.TransformFunc {
	if queue, ok := s.queue.(cache.TransformingStore); ok {
		return queue.Transformer()
	}
	return nil
}
