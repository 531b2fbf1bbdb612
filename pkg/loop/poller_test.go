// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/trace"
)

// TestPoller changes a source that two keys use, and looks at what is added to the queue.
func TestPoller(t *testing.T) {
	secret := Source{"Secret", cache.NewObjectName("default", "keys")}
	a, b := cache.NewObjectName("default", "a"), cache.NewObjectName("default", "b")
	none, one, two := Version{}, Version{"1", "1"}, Version{"1", "2"}
	const updated, deleted = "Updated", "Deleted"
	for _, first := range []time.Duration{0, PollEvery} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var version Version
			var failure error
			var added []string
			p := NewPoller(func(context.Context, Source) (Version, error) {
				mu.Lock()
				defer mu.Unlock()
				return version, failure
			}, func(key cache.ObjectName, c trace.Cause) {
				if !c.Urgent || c.Name != secret.Name {
					t.Errorf("the cause is %+v", c)
				}
				added = append(added, key.Name+" "+c.Verb)
			}, clock.RealClock{}, first)
			found := func(v Version, err error) func() {
				return func() {
					mu.Lock()
					defer mu.Unlock()
					version, failure = v, err
				}
			}
			var running sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			running.Go(func() { p.Run(ctx) })
			synctest.Wait()
			for _, step := range []struct {
				says   string
				do     func()
				within time.Duration
				want   string // the verb; "" if no key is added
			}{
				{"used: there is none", func() { p.Use(a, 1, secret); p.Use(b, 1, secret) }, first + time.Second, deleted},
				{"still none", found(none, nil), time.Hour, ""},
				{"it is created", found(one, nil), PollSoon + time.Second, updated},
				{"unchanged", found(one, nil), time.Hour, ""},
				{"another version", found(two, nil), PollEvery + time.Second, updated},
				{"one request fails", found(none, errors.New("down")), PollEvery + time.Second, ""},
				{"a second one fails", found(none, errors.New("down")), PollSoon, updated},
				{"and all others", found(none, errors.New("down")), time.Hour, ""},
				{"it can be read again", found(two, nil), PollEvery + time.Second, updated},
				{"a sync is the first to see a change", func() { found(one, nil)(); p.Saw(secret, one) }, 0, updated},
				{"which is not new to the poller", found(one, nil), time.Hour, ""},
				{"another generation of a key: it is read again", func() { p.Use(a, 2, secret) }, first + time.Second, updated},
				{"the same generation", func() { p.Use(a, 2, secret) }, time.Hour, ""},
				{"a sync is the first to see that it is deleted", func() { found(none, nil)(); p.Saw(secret, none) }, 0, deleted},
				{"so it is read soon", found(one, nil), PollSoon + time.Second, updated},
				{"it is deleted", found(none, nil), PollEvery + time.Second, deleted},
				{"no key uses it", func() { p.Use(a, 0); p.Use(b, 0); found(one, nil)() }, time.Hour, ""},
			} {
				added = nil
				step.do()
				time.Sleep(step.within)
				synctest.Wait()
				var want []string
				if step.want != "" {
					want = []string{"a " + step.want, "b " + step.want}
				}
				if !slices.Equal(added, want) {
					t.Errorf("first %v: %s: %q, want %q", first, step.says, added, want)
				}
				mu.Lock()
				v, known, err := p.Version(secret)
				if len(p.polled) > 0 && (!known || failure == nil && v != version) || step.want != "" && (err == nil) != (failure == nil) {
					t.Errorf("first %v: %s: the version is %v, %t, %v", first, step.says, v, known, err)
				}
				mu.Unlock()
			}
			if len(p.polled)+len(p.used) > 0 {
				t.Errorf("%d sources are still polled, for %d keys", len(p.polled), len(p.used))
			}
			end()
			running.Wait()
		})
	}
}

// TestAnAnswerOfBefore: a source changes, and then the object of its key, while a request for the source is under way.
func TestAnAnswerOfBefore(t *testing.T) {
	secret, a := Source{"Secret", cache.NewObjectName("default", "keys")}, cache.NewObjectName("default", "a")
	var p *Poller
	reads := 0
	p = NewPoller(func(context.Context, Source) (Version, error) {
		if reads++; reads == 1 {
			p.Use(a, 2, secret)
		}
		return Version{"1", fmt.Sprint(reads)}, nil
	}, func(cache.ObjectName, trace.Cause) {}, clock.RealClock{}, 0)
	p.Use(a, 1, secret)
	p.Poll(t.Context(), a)
	if version, known, _ := p.Version(secret); known {
		t.Errorf("%v is known", version)
	}
	p.Poll(t.Context(), a)
	if version, known, _ := p.Version(secret); !known || version != (Version{"1", "2"}) {
		t.Errorf("then it is %v, %t", version, known)
	}
}

// TestManySourcesOfANamespaceDelayNoOthers polls thousands of sources of some namespaces for a while, and then also one of another.
func TestManySourcesOfANamespaceDelayNoOthers(t *testing.T) {
	for _, test := range []struct {
		namespaces int
		request    time.Duration
	}{{1, 0}, {2 * pollBatch, 0}, {3, 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			other := Source{"Secret", cache.NewObjectName("other", "keys")}
			var polled time.Time
			ctx, end := context.WithTimeout(t.Context(), 20*time.Minute)
			p := NewPoller(func(_ context.Context, s Source) (Version, error) {
				time.Sleep(test.request)
				if s == other {
					polled = time.Now()
					end()
				}
				return Version{}, nil
			}, func(cache.ObjectName, trace.Cause) {}, clock.RealClock{}, 0)
			for i := range 2_000 {
				namespace, name := fmt.Sprint("busy-", i%test.namespaces), fmt.Sprint("a-", i)
				p.Use(cache.NewObjectName(namespace, name), 0, Source{"Secret", cache.NewObjectName(namespace, name)})
			}
			if due, _ := p.next(); len(due) != pollBatch {
				t.Errorf("one look at all sources finds %d to poll", len(due))
			}
			var begin time.Time
			time.AfterFunc(11*time.Minute, func() {
				begin = time.Now()
				p.Use(cache.NewObjectName("other", "a"), 0, other)
			})
			p.Run(ctx)
			most := time.Duration(test.namespaces+2)*(test.request+pollPause) + pollBatch*pollPause
			if took := polled.Sub(begin); polled.IsZero() || took > most {
				t.Errorf("%+v: the other source was polled after %v: at %v", test, took, polled)
			}
		})
	}
}
