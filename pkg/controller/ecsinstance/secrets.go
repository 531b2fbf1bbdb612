/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"context"
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

// secretPatience is how long syncs wait for a Secret that is read for the first time.
const secretPatience = time.Second

// secrets watches the Secrets that ECSInstances refer to, each with an informer of its own:
// of all other Secrets, nothing is ever read.
type secrets struct {
	informer func(namespace, name string) cache.SharedIndexInformer
	add      func(cache.ObjectName, trace.Cause)

	mu      sync.Mutex
	ctx     context.Context // of begin
	watches map[cache.ObjectName]*watched
	used    map[cache.ObjectName][]cache.ObjectName // Secrets by ECSInstance
}

// watched is one Secret that is watched.
type watched struct {
	informer cache.SharedIndexInformer
	users    map[cache.ObjectName]bool // ECSInstances
	started  time.Time
	stop     context.CancelFunc
	ended    chan struct{}
}

// begin says what the informers run with, until end.
func (s *secrets) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = context.WithoutCancel(ctx)
}

// use watches these Secrets for an ECSInstance, and no longer any others.
func (s *secrets) use(user cache.ObjectName, names ...cache.ObjectName) error {
	idle, err := s.exchange(user, names)
	for _, w := range idle { // Not under the lock: their last handlers may be waiting for it.
		w.stop()
		<-w.ended
	}
	return err
}

// exchange is use, and returns what nobody watches any more.
func (s *secrets) exchange(user cache.ObjectName, names []cache.ObjectName) (idle []*watched, err error) {
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

// start watches a Secret for user.
func (s *secrets) start(name, user cache.ObjectName) error {
	if w := s.watches[name]; w != nil {
		w.users[user] = true
		return nil
	}
	w := &watched{
		informer: s.informer(name.Namespace, name.Name), users: map[cache.ObjectName]bool{user: true}, started: time.Now(), ended: make(chan struct{}),
	}
	tell := func(verb string) func(any) { return func(obj any) { s.tell(w, verb, obj) } }
	updated := tell(string(cache.Updated))
	if _, err := w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell(string(cache.Added)),
		UpdateFunc: func(_, obj any) { updated(obj) },
		DeleteFunc: tell(string(cache.Deleted)),
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

// tell has a sync run for every user of a Secret that has changed.
func (s *secrets) tell(w *watched, verb string, obj any) {
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
			Verb:   verb, ResourceVersion: secret.GetResourceVersion(),
		})
	}
}

// get returns a Secret that use has named, nil if there is none. It must not be changed.
func (s *secrets) get(ctx context.Context, name cache.ObjectName) (*corev1.Secret, *problem) {
	s.mu.Lock()
	w := s.watches[name]
	s.mu.Unlock()
	if w == nil {
		return nil, unreadable(name, "it is not watched")
	}
	ctx, cancel := context.WithDeadline(ctx, w.started.Add(secretPatience))
	defer cancel()
	if !w.informer.HasSynced() && !cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
		return nil, unreadable(name, "the API server does not show it")
	}
	obj, exists, err := w.informer.GetStore().GetByKey(name.String())
	if err != nil {
		return nil, unreadable(name, err.Error())
	}
	if !exists {
		return nil, nil
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, unreadable(name, fmt.Sprintf("the cache holds a %T", obj))
	}
	return secret, nil
}

func unreadable(name cache.ObjectName, why string) *problem {
	return &problem{reason: reasonSecretUnreadable, passing: true, wait: waitForState,
		message: fmt.Sprintf("Secret %s cannot be read, and is tried again: %s: the operator needs get, list and watch of secrets", name.Name, why)}
}

// end stops watching all Secrets, and returns when that has ended.
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
