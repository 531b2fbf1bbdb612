/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Limiter is a rate limiter that remembers what it said last, of each key that is being
// retried: the workqueue asks it, and tells nobody.
type Limiter struct {
	workqueue.TypedRateLimiter[cache.ObjectName]

	mu   sync.Mutex
	said map[cache.ObjectName]time.Duration
}

// NewLimiter returns a Limiter that says what limiter does.
func NewLimiter(limiter workqueue.TypedRateLimiter[cache.ObjectName]) *Limiter {
	return &Limiter{TypedRateLimiter: limiter, said: map[cache.ObjectName]time.Duration{}}
}

// When returns how long key is to wait.
func (l *Limiter) When(key cache.ObjectName) time.Duration {
	delay := l.TypedRateLimiter.When(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said[key] = delay
	return delay
}

// Forget says that key is retried no more.
func (l *Limiter) Forget(key cache.ObjectName) {
	l.TypedRateLimiter.Forget(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.said, key)
}

// last returns what When has said last of key; 0 if there is no limiter to ask.
func (l *Limiter) last(key cache.ObjectName) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said[key]
}
