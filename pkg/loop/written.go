// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/trace"
)

// maxStale is the longest time that a sync waits for its cache to show an earlier write. The cache may never show that write: the object
// was deleted before the watch delivered it, or etcd was restored from a backup.
const maxStale = 5 * time.Second

// Written records the writes of a controller's syncs for each key, and reports them to observers. It keeps
// a sync from deciding on a cache that is older than the writes of the previous sync.
type Written struct {
	source, kind string
	clock        clock.PassiveClock
	observers    []Observer

	mu    sync.Mutex
	byKey map[cache.ObjectName][]write
}

type write struct {
	at    time.Time
	shown func() bool // reports whether the cache shows the write
}

// NewWritten returns an empty Written for the controller source, which syncs objects of the given kind.
func NewWritten(source, kind string, clock clock.PassiveClock, observers []Observer) *Written {
	return &Written{source: source, kind: kind, clock: clock, observers: observers, byKey: map[cache.ObjectName][]write{}}
}

// Record records that a sync of key wrote obj; store is the cache of obj. ctx is that of the sync. verb is the write, such as
// "create jobs.batch"; obj is the API server's answer.
func (w *Written) Record(ctx context.Context, key cache.ObjectName, verb string, store cache.Store, obj metav1.Object) {
	name, version := cache.MetaObjectToName(obj).String(), obj.GetResourceVersion()
	w.add(ctx, key, verb, obj, func() bool {
		cached := cachedObject(store, name)
		if cached == nil {
			return false
		}
		// CompareResourceVersion fails only in tests, for versions that are no numbers.
		order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), version)
		return err != nil || order >= 0
	})
}

// RecordDelete records that a sync of key deleted obj; store is the cache of obj. ctx is that of the sync.
func (w *Written) RecordDelete(ctx context.Context, key cache.ObjectName, verb string, store cache.Store, obj metav1.Object) {
	name, uid := cache.MetaObjectToName(obj).String(), obj.GetUID()
	w.add(ctx, key, verb, obj, func() bool {
		cached := cachedObject(store, name)
		return cached == nil || cached.GetUID() != uid || cached.GetDeletionTimestamp() != nil
	})
}

// add reports a write of obj to the observers, and records it. shown reports whether the cache shows the write.
func (w *Written) add(ctx context.Context, key cache.ObjectName, verb string, obj metav1.Object, shown func() bool) {
	event := trace.Event{
		Time: time.Now(), Stage: trace.Write, Source: w.source, Verb: verb,
		Object: trace.Object{Kind: kindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName()},
		For:    trace.Object{Kind: w.kind, Namespace: key.Namespace, Name: key.Name}, ResourceVersion: obj.GetResourceVersion(),
	}
	for _, o := range w.observers {
		o.Wrote(ctx, event)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byKey[key] = append(w.byKey[key], write{w.clock.Now(), shown})
}

// kindOf returns the name of the Go type: typed clients leave an answer's kind empty.
func kindOf(obj metav1.Object) string {
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}

func cachedObject(store cache.Store, name string) metav1.Object {
	cached, exists, err := store.GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	obj, _ := cached.(metav1.Object)
	return obj
}

// Wait returns 0 if the caches show each recorded write of key, or if the write is older than maxStale.
// Otherwise it returns how long to wait at most: the watch event of the write adds the key earlier.
func (w *Written) Wait(key cache.ObjectName) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	writes := w.byKey[key]
	for i, write := range writes {
		if left := maxStale - w.clock.Since(write.at); left > 0 && !write.shown() {
			w.byKey[key] = writes[i:]
			return left
		}
	}
	delete(w.byKey, key)
	return 0
}
