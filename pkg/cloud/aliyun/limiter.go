/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aliyun

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// ECS counts calls per account, region and action, and what it allows is in the Quota Center
// of each account and not written down for all:
// https://www.alibabacloud.com/help/en/ecs/developer-reference/api-throttling
// The documents' example of a limit is 200 a minute
// (https://www.alibabacloud.com/help/en/openapi/throttling-and-quota-management), and others
// call for the same account too: the console, Terraform. So these leave some of that, with
// at most this many calls in any minute:
var (
	reads   = quota{perSecond: 2.5, burst: 20} // 170
	changes = quota{perSecond: 2, burst: 20}   // 140
)

type quota struct {
	perSecond rate.Limit
	burst     int
}

const (
	// patience is the longest that a call waits for its turn. A sync that would wait longer
	// gives its worker to others.
	patience = time.Second
	// jitter spreads the first calls after a pause.
	jitter = 5 * time.Second
	// maxBuckets bounds what is remembered. Those that are full say nothing.
	maxBuckets = 1000
)

// bucketKey identifies calls that ECS counts together.
type bucketKey struct{ account, region, action string }

// bucket is the state of the calls that ECS counts together.
type bucket struct {
	limiter *rate.Limiter
	until   time.Time // when a pause ends
}

// limiter keeps below the limits of ECS, and keeps quiet once it has hit one: "If calls to an
// API operation are throttled at minute T, the operation cannot be called until minute T+1."
type limiter struct {
	clock clock.Clock

	mu      sync.Mutex
	buckets map[bucketKey]*bucket
}

func newLimiter(clock clock.Clock) *limiter {
	return &limiter{clock: clock, buckets: map[bucketKey]*bucket{}}
}

// of returns the bucket of a key. It must be called with the lock held.
func (l *limiter) of(key bucketKey, now time.Time) *bucket {
	if b := l.buckets[key]; b != nil {
		return b
	}
	if len(l.buckets) >= maxBuckets {
		l.prune(now)
	}
	allowed := changes
	if strings.HasPrefix(key.action, "Describe") || strings.HasPrefix(key.action, "Get") {
		allowed = reads
	}
	b := &bucket{limiter: rate.NewLimiter(allowed.perSecond, allowed.burst)}
	l.buckets[key] = b
	return b
}

// prune drops the buckets that are as good as new.
func (l *limiter) prune(now time.Time) {
	for key, b := range l.buckets {
		if !now.Before(b.until) && b.limiter.TokensAt(now) >= float64(b.limiter.Burst()) {
			delete(l.buckets, key)
		}
	}
}

// admit waits for the turn of a call, or says when to come again.
func (l *limiter) admit(ctx context.Context, key bucketKey) *Error {
	wait, fail := l.reserve(key)
	if fail != nil || wait <= 0 {
		return fail
	}
	timer := l.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (l *limiter) reserve(key bucketKey) (time.Duration, *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	b := l.of(key, now)
	if pause := b.until.Sub(now); pause > 0 {
		return 0, &Error{
			Class:      Throttled,
			RetryAfter: pause,
			Message:    fmt.Sprintf("ECS has throttled this action, which is left alone until the next minute (%s)", pause.Round(time.Second)),
		}
	}
	reservation := b.limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > patience {
		reservation.CancelAt(now)
		return 0, &Error{
			Class:      Throttled,
			RetryAfter: wait,
			Message:    fmt.Sprintf("so many calls were made that ECS might throttle them (wait %s)", wait.Round(time.Second)),
		}
	}
	return wait, nil
}

// spread returns up to jitter, as follows from the bucket and the time, which differ from one
// operator to the next.
func spread(key bucketKey, now time.Time) time.Duration {
	sum := fnv.New64a()
	fmt.Fprint(sum, key)                                                                                   // It never fails.
	return time.Duration(rand.New(rand.NewPCG(sum.Sum64(), uint64(now.UnixNano()))).Int64N(int64(jitter))) //nolint:gosec // It is no secret.
}

// pause has no call of the key go out before the next minute, and returns how long that is.
func (l *limiter) pause(key bucketKey) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	b := l.of(key, now)
	if until := now.Truncate(time.Minute).Add(time.Minute + spread(key, now)); until.After(b.until) {
		b.until = until
	}
	return b.until.Sub(now)
}
