// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// maxSecretWait is how long syncs wait for a Secret that is read for the first time.
const maxSecretWait = time.Second

// secrets watches the Secrets that ECSInstances refer to, each with an informer of its own. The operator reads no other Secret.
type secrets struct {
	informer func(namespace, name string) cache.SharedIndexInformer
	add      func(cache.ObjectName, trace.Cause)

	mu      sync.Mutex
	ctx     context.Context // of begin
	watches map[cache.ObjectName]*secretWatch
	used    map[cache.ObjectName][]cache.ObjectName // Secrets by ECSInstance
}

// secretWatch is the watch of one Secret.
type secretWatch struct {
	informer cache.SharedIndexInformer
	users    map[cache.ObjectName]bool // ECSInstances
	started  time.Time
	stop     context.CancelFunc
	ended    chan struct{}
}

// begin sets the context of the informers, which run until end.
func (s *secrets) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = context.WithoutCancel(ctx)
}

// use watches these Secrets for an ECSInstance, and stops watching its other ones.
func (s *secrets) use(user cache.ObjectName, names ...cache.ObjectName) error {
	idle, err := s.exchange(user, names)
	for _, w := range idle { // Without the lock: their last handlers may be waiting for it.
		w.stop()
		<-w.ended
	}
	return err
}

// exchange updates the users of the watches for use. It returns the watches that have no user left, which use ends.
func (s *secrets) exchange(user cache.ObjectName, names []cache.ObjectName) (idle []*secretWatch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used[user]
	if slices.Equal(before, names) {
		return nil, nil
	}
	for _, name := range names {
		if err := s.start(name, user); err != nil {
			return nil, err
		}
	}
	s.used[user] = slices.Clone(names)
	if len(names) == 0 {
		delete(s.used, user)
	}
	for _, name := range before {
		w := s.watches[name]
		if w == nil || slices.Contains(names, name) {
			continue
		}
		if delete(w.users, user); len(w.users) == 0 {
			delete(s.watches, name)
			idle = append(idle, w)
		}
	}
	return idle, nil
}

// start watches a Secret for user. The caller holds mu.
func (s *secrets) start(name, user cache.ObjectName) error {
	if w := s.watches[name]; w != nil {
		w.users[user] = true
		return nil
	}
	w := &secretWatch{
		informer: s.informer(name.Namespace, name.Name), users: map[cache.ObjectName]bool{user: true},
		started: time.Now(), ended: make(chan struct{}),
	}
	if _, err := w.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, isInInitialList bool) { s.enqueueUsers(w, cache.Added, obj, !isInInitialList) },
		UpdateFunc: func(_, obj any) { s.enqueueUsers(w, cache.Updated, obj, true) },
		DeleteFunc: func(obj any) { s.enqueueUsers(w, cache.Deleted, obj, true) },
	}); err != nil {
		return fmt.Errorf("watch Secret %s: %w", name, err)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(s.ctx)
	s.watches[name] = w
	go func() {
		defer close(w.ended)
		w.informer.RunWithContext(ctx)
	}()
	return nil
}

// enqueueUsers enqueues every user of a Secret that changed. urgent is the field Urgent of trace.Cause.
func (s *secrets) enqueueUsers(w *secretWatch, verb cache.DeltaType, obj any, urgent bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	secret, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	s.mu.Lock()
	users := slices.SortedFunc(maps.Keys(w.users), func(a, b cache.ObjectName) int { return strings.Compare(a.String(), b.String()) })
	s.mu.Unlock()
	for _, user := range users {
		s.add(user, trace.Cause{
			Object: trace.Object{Kind: "Secret", Namespace: secret.GetNamespace(), Name: secret.GetName()},
			Verb:   string(verb), ResourceVersion: secret.GetResourceVersion(), Urgent: urgent,
		})
	}
}

// get returns a Secret that use watches, nil if it does not exist. The caller must not change it. The error says why the cache does not
// show the Secret.
func (s *secrets) get(ctx context.Context, name cache.ObjectName) (*corev1.Secret, error) {
	s.mu.Lock()
	w := s.watches[name]
	s.mu.Unlock()
	if w == nil {
		return nil, errors.New("it is not watched")
	}
	ctx, cancel := context.WithDeadline(ctx, w.started.Add(maxSecretWait))
	defer cancel()
	if !w.informer.HasSynced() && !cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
		return nil, errors.New("the API server does not return it")
	}
	obj, exists, err := w.informer.GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return nil, err
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("the cache holds a %T", obj)
	}
	return secret, nil
}

// end ends all watches, and returns when they have ended.
func (s *secrets) end() {
	s.mu.Lock()
	idle := slices.Collect(maps.Values(s.watches))
	clear(s.watches)
	clear(s.used)
	s.mu.Unlock()
	for _, w := range idle {
		w.stop()
		<-w.ended
	}
}
