/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// maxCauses bounds the causes that are kept for one key. The first ones are
// kept: what began a burst tells more than how it went on.
const maxCauses = 8

// causes holds why each key waits, and why each is being synced. An entry exists only while
// its key does.
type causes struct {
	mu      sync.Mutex
	byKey   map[cache.ObjectName]*pending
	syncing map[cache.ObjectName]syncing
	timers  timers
}

// pending is why one key waits.
type pending struct {
	causes []trace.Cause
	more   int // further causes, beyond maxCauses
}

// syncing is why one key is being synced.
type syncing struct {
	since time.Time
	why   pending
}

func newCauses() causes {
	return causes{byKey: map[cache.ObjectName]*pending{}, syncing: map[cache.ObjectName]syncing{}, timers: timers{}}
}

func (c *causes) add(key cache.ObjectName, cause trace.Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.byKey[key]
	if p == nil {
		p = &pending{}
		c.byKey[key] = p
	}
	if len(p.causes) == maxCauses {
		p.more++
		return
	}
	p.causes = append(p.causes, cause)
}

// take hands the causes of key over to the sync that they led to, which begins now. If no
// event asked for the key, an earlier sync did: retrying says whether that has failed, if there
// is no timer that tells.
func (c *causes) take(key cache.ObjectName, now time.Time, retrying bool) pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var why pending
	if p := c.byKey[key]; p != nil {
		why = *p
		delete(c.byKey, key)
	} else {
		why.causes = []trace.Cause{{Time: now, Verb: c.timers.verb(key, now, retrying)}}
	}
	c.syncing[key] = syncing{now, why}
	c.timers.fired(key, now)
	return why
}

// done says that the sync of key has ended, and that the key comes back after delay, if that is
// positive.
func (c *causes) done(key cache.ObjectName, now time.Time, delay time.Duration, retries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.syncing, key)
	if delay > 0 {
		c.timers.set(key, now, timer{now.Add(delay), retries > 0, retries})
	}
}

// timers are the keys that come back at a time: what the workqueue knows of them too, and
// tells nobody.
type timers map[cache.ObjectName]timer

type timer struct {
	at       time.Time
	retry    bool // it was set because a sync has failed
	failures int  // how often the sync has failed in a row by now
}

// set does what the workqueue does: of two times, the earlier one stays.
func (t timers) set(key cache.ObjectName, now time.Time, next timer) {
	if have, ok := t[key]; ok && have.at.After(now) && have.at.Before(next.at) {
		next.at, next.retry = have.at, have.retry
	}
	t[key] = next
}

// verb returns what a timer of key that has fired was set for. A retry comes even if the key was
// synced for another reason meanwhile.
func (t timers) verb(key cache.ObjectName, now time.Time, retrying bool) string {
	if have, ok := t[key]; ok && !have.at.After(now) {
		retrying = have.retry
	}
	if retrying {
		return trace.VerbRetry
	}
	return trace.VerbAfter
}

// fired forgets the timer of key, if its time has come.
func (t timers) fired(key cache.ObjectName, now time.Time) {
	if have, ok := t[key]; ok && !have.at.After(now) {
		delete(t, key)
	}
}

// String renders the causes in one line, for the log.
func (p pending) String() string {
	var b strings.Builder
	for i, cause := range p.causes {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(cause.String())
	}
	if p.more > 0 {
		fmt.Fprintf(&b, "; and %d more", p.more)
	}
	return b.String()
}

type contextKey struct{}

// Causes returns why the sync that runs with ctx was started.
func Causes(ctx context.Context) []trace.Cause {
	c, _ := ctx.Value(contextKey{}).([]trace.Cause)
	return c
}
