// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
)

// ECS counts calls per account, region and action. The limits of an account are in its Quota Center; ECS publishes no general numbers
// (https://www.alibabacloud.com/help/en/ecs/developer-reference/api-throttling). The documents' example of a limit is 200 a minute
// (https://www.alibabacloud.com/help/en/openapi/throttling-and-quota-management). The console and Terraform call for the same account, so
// the operator uses only a part of it. The comments below give the largest number of calls in one minute.
var (
	reads   = quota{perSecond: 2.5, burst: 20} // 170
	changes = quota{perSecond: 2, burst: 20}   // 140
)

type quota struct {
	perSecond rate.Limit
	burst     int
}

const (
	// keptForPolls is the number of tokens that a lookup by tag leaves to other calls of its action: polls must go on during many lookups.
	keptForPolls = 10
	// patience is the longest time that a call waits for its turn. A call that would wait longer fails, so that its worker is free.
	patience = time.Second
	// jitter spreads the first calls after a pause.
	jitter = 5 * time.Second
	// maxBuckets bounds the memory. A full bucket is the same as a new one, so it may be dropped.
	maxBuckets = 1000
)

// bucketKey identifies calls that ECS counts together.
type bucketKey struct{ account, region, action string }

// bucket is the state of the calls that ECS counts together.
type bucket struct {
	limiter *rate.Limiter
	until   time.Time // when a pause ends
}

// limiter keeps calls below the limits of ECS. After ECS has throttled an action, the limiter blocks that action: "If calls to an API
// operation are throttled at minute T, the operation cannot be called until minute T+1."
type limiter struct {
	mu      sync.Mutex
	buckets map[bucketKey]*bucket
}

func newLimiter() *limiter { return &limiter{buckets: map[bucketKey]*bucket{}} }

// bucket returns the bucket of a key. It must be called with the lock held.
func (l *limiter) bucket(key bucketKey, now time.Time) *bucket {
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

// prune drops the buckets that are full and have no pause.
func (l *limiter) prune(now time.Time) {
	for key, b := range l.buckets {
		if !now.Before(b.until) && b.limiter.TokensAt(now) >= float64(b.limiter.Burst()) {
			delete(l.buckets, key)
		}
	}
}

// admit waits until a call may be made, and the bucket keeps a number of tokens for other calls. It returns an error with RetryAfter if
// the wait would be longer than patience.
func (l *limiter) admit(ctx context.Context, key bucketKey, kept int) *Error {
	wait, fail := l.reserve(key, kept)
	if fail != nil || wait <= 0 {
		return fail
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (l *limiter) reserve(key bucketKey, kept int) (time.Duration, *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.bucket(key, now)
	if pause := b.until.Sub(now); pause > 0 {
		return 0, &Error{
			Class:      Throttled,
			RetryAfter: pause,
			Message:    fmt.Sprintf("ECS has throttled this action; the operator waits until the next minute (%s)", pause.Round(time.Second)),
		}
	}
	lacking := float64(1+kept) - b.limiter.TokensAt(now)
	wait := time.Duration(lacking / float64(b.limiter.Limit()) * float64(time.Second))
	if wait > patience {
		return 0, &Error{
			Class:      Throttled,
			RetryAfter: wait,
			Message:    fmt.Sprintf("so many calls were made that ECS might throttle them (wait %s)", wait.Round(time.Second)),
		}
	}
	b.limiter.ReserveN(now, 1)
	return wait, nil
}

// spread returns a pseudo-random duration up to jitter. It depends on the bucket and the time, so operators get different ones.
func spread(key bucketKey, now time.Time) time.Duration {
	sum := fnv.New64a()
	fmt.Fprint(sum, key)                                                                                   // A hash never returns an error.
	return time.Duration(rand.New(rand.NewPCG(sum.Sum64(), uint64(now.UnixNano()))).Int64N(int64(jitter))) //nolint:gosec // It is no secret.
}

// pause blocks calls of the key until the next minute, and returns how long that is.
func (l *limiter) pause(key bucketKey) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.bucket(key, now)
	if until := now.Truncate(time.Minute).Add(time.Minute + spread(key, now)); until.After(b.until) {
		b.until = until
	}
	return b.until.Sub(now)
}
