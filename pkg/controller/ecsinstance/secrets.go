// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/trace"
)

// A sync reads its Secrets from the API server, and keeps none of them. Between syncs, the operator polls them.
const (
	secretTimeout   = 5 * time.Second       // of a request
	secretPoll      = 45 * time.Second      // so that a new key is used within a minute
	missingPoll     = 5 * time.Second       // of a Secret that does not exist
	secretPollPause = 20 * time.Millisecond // between two polls
)

// secrets reads the Secrets that ECSInstances refer to, each by its name: the operator needs no right to list Secrets. A watch of each
// would notice a change sooner, and needs 60 KiB: whoever may create ECSInstances could fill the memory of the operator.
type secrets struct {
	client typedcorev1.SecretsGetter
	clock  clock.WithTicker
	add    func(cache.ObjectName, trace.Cause)

	mu     sync.Mutex
	polled map[cache.ObjectName]*polledSecret
	used   map[cache.ObjectName][]cache.ObjectName // Secrets by ECSInstance
}

// polledSecret is a Secret that ECSInstances use.
type polledSecret struct {
	users   map[cache.ObjectName]bool
	due     time.Time // of the next poll
	known   bool      // whether the Secret was read; version is then what was found, "" for no Secret
	version string
}

func newSecrets(client typedcorev1.SecretsGetter, clock clock.WithTicker, add func(cache.ObjectName, trace.Cause)) *secrets {
	return &secrets{
		client: client, clock: clock, add: add,
		polled: map[cache.ObjectName]*polledSecret{}, used: map[cache.ObjectName][]cache.ObjectName{},
	}
}

// use polls these Secrets for an ECSInstance, and no longer its other ones.
func (s *secrets) use(user cache.ObjectName, names ...cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used[user]
	if slices.Equal(before, names) {
		return
	}
	for _, name := range names {
		if s.polled[name] == nil {
			s.polled[name] = &polledSecret{users: map[cache.ObjectName]bool{}, due: s.clock.Now().Add(secretPoll)}
		}
		s.polled[name].users[user] = true
	}
	for _, name := range before {
		if p := s.polled[name]; p != nil && !slices.Contains(names, name) {
			if delete(p.users, user); len(p.users) == 0 {
				delete(s.polled, name)
			}
		}
	}
	if s.used[user] = slices.Clone(names); len(names) == 0 {
		delete(s.used, user)
	}
}

// get returns a Secret, nil if it does not exist. The error says why it cannot be read. If another version was read before, get enqueues
// all users of the Secret.
func (s *secrets) get(ctx context.Context, name cache.ObjectName) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	secret, err := s.client.Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	cause := trace.Cause{Object: trace.Object{Kind: "Secret", Namespace: name.Namespace, Name: name.Name}, Urgent: true}
	every := secretPoll
	switch {
	case apierrors.IsNotFound(err):
		secret, err, every = nil, nil, missingPoll
		cause.Verb = string(cache.Deleted)
	case err == nil:
		cause.Verb, cause.ResourceVersion = string(cache.Updated), secret.ResourceVersion
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.polled[name]
	if p != nil {
		p.due = s.clock.Now().Add(every)
	}
	if err != nil {
		return nil, err
	}
	if p != nil && p.known && p.version != cause.ResourceVersion {
		byName := func(a, b cache.ObjectName) int { return cmp.Compare(a.String(), b.String()) }
		for _, user := range slices.SortedFunc(maps.Keys(p.users), byName) {
			s.add(user, cause)
		}
	}
	if p != nil {
		p.known, p.version = true, cause.ResourceVersion
	}
	return secret, nil
}

// run polls until ctx ends.
func (s *secrets) run(ctx context.Context) {
	for ctx.Err() == nil {
		due, wait := s.next()
		for _, name := range due {
			if _, err := s.get(ctx, name); err != nil {
				klog.FromContext(ctx).V(2).Info("Could not read Secret", "secret", name, "err", err)
			}
			s.sleep(ctx, secretPollPause)
		}
		if len(due) == 0 {
			s.sleep(ctx, wait)
		}
	}
}

func (s *secrets) sleep(ctx context.Context, d time.Duration) {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// next returns the Secrets to poll now, or else how long to wait, at most missingPoll: no Secret that is added is due sooner. It returns
// one Secret of each namespace at most: a namespace with thousands of Secrets delays its own polls, and not those of others.
func (s *secrets) next() ([]cache.ObjectName, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, wait := s.clock.Now(), missingPoll
	first := map[string]cache.ObjectName{}
	for name, p := range s.polled {
		if other, ok := first[name.Namespace]; !ok || cmp.Or(p.due.Compare(s.polled[other].due), cmp.Compare(name.Name, other.Name)) < 0 {
			first[name.Namespace] = name
		}
	}
	var due []cache.ObjectName
	for _, namespace := range slices.Sorted(maps.Keys(first)) {
		if until := s.polled[first[namespace]].due.Sub(now); until <= 0 {
			due = append(due, first[namespace])
		} else {
			wait = min(wait, until)
		}
	}
	return due, wait
}
