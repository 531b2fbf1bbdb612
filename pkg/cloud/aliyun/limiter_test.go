// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/pkg/must"
)

func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * time.Second) // of the first minute
		var calls int
		throttle := true
		cloud, err := New(Config{Transport: wire(func(*http.Request) (*http.Response, error) {
			if calls++; throttle {
				return reply(403, refusal("Throttling.User", "Request was denied due to user flow control."))
			}
			return reply(200, fine)
		})})
		must.Succeed(t, err)
		region := cloud.Open(&secret, "cn-beijing")
		e := failure(t, region.Start(t.Context(), "i-1"))
		if e.Class != Throttled || e.Code != "Throttling.User" || e.RetryAfter < 40*time.Second || e.RetryAfter >= 40*time.Second+jitter {
			t.Errorf("got %#v", e)
		}
		throttle = false
		time.Sleep(30 * time.Second)
		before := calls
		again := failure(t, region.Start(t.Context(), "i-2"))
		if again.Class != Throttled || again.RetryAfter != e.RetryAfter-30*time.Second || again.Action != "StartInstance" || calls != before {
			t.Errorf("in the same minute: %#v (%d calls)", again, calls-before)
		}
		for name, err := range map[string]error{
			"another action":  region.Stop(t.Context(), "i-1"),
			"another region":  cloud.Open(&secret, "cn-hangzhou").Start(t.Context(), "i-1"),
			"another account": cloud.Open(&AccessKey{ID: "x", Secret: "y"}, "cn-beijing").Start(t.Context(), "i-1"),
		} {
			if err != nil {
				t.Errorf("%s is held up: %v", name, err)
			}
		}
		time.Sleep(again.RetryAfter)
		if err := region.Start(t.Context(), "i-1"); err != nil {
			t.Errorf("in the next minute: %v", err)
		}
	})
}

// TestThrottledAccount has two access keys of one account.
func TestThrottledAccount(t *testing.T) {
	throttle := true
	cloud, err := New(Config{Transport: wire(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("Action") != "GetCallerIdentity" && throttle {
			return reply(429, refusal("Throttling", "x"))
		}
		return reply(200, `{"RequestId":"R-1","AccountId":"42"}`)
	})})
	must.Succeed(t, err)
	one, two := cloud.Open(&AccessKey{ID: "1", Secret: "x"}, "cn-beijing"), cloud.Open(&AccessKey{ID: "2", Secret: "x"}, "cn-beijing")
	for _, region := range []*Region{one, two} {
		if _, err := region.Account(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Start(t.Context(), "i-1"); ClassOf(err) != Throttled {
		t.Errorf("got %v", err)
	}
	throttle = false
	if err := two.Start(t.Context(), "i-1"); ClassOf(err) != Throttled {
		t.Errorf("the other key of the account: %v", err)
	}
}

func TestRate(t *testing.T) {
	for name, test := range map[string]struct {
		call func(context.Context, *Region) error
		most int // a minute
	}{
		"changes are few":     {func(ctx context.Context, r *Region) error { return r.Start(ctx, "i-1") }, 140},
		"reads are some more": {func(ctx context.Context, r *Region) error { _, err := r.Describe(ctx, []string{"i-1"}); return err }, 170},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				region := open(t, wire(func(*http.Request) (*http.Response, error) {
					calls++
					return reply(200, `{"RequestId":"R-1","Instances":{"Instance":[{"InstanceId":"i-1"}]}}`)
				}))
				started := time.Now()
				for time.Since(started) < time.Minute {
					if err := test.call(t.Context(), region); err != nil {
						t.Fatalf("one after the other, each waits a little: %v", err)
					}
				}
				if calls < test.most-1 || calls > test.most+1 {
					t.Errorf("%d calls in a minute, want %d", calls, test.most)
				}
			})
		})
	}
}

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		region := open(t, says(200, fine))
		results := make(chan error, 100)
		for range cap(results) {
			go func() { results <- region.Start(t.Context(), "i-1") }()
		}
		synctest.Wait()
		time.Sleep(patience)
		passed := 0
		for range cap(results) {
			err := <-results
			if err == nil {
				passed++
				continue
			}
			if e := failure(t, err); e.Class != Throttled || e.RetryAfter <= patience || e.RetryAfter > 2*time.Second || e.Ambiguous() {
				t.Errorf("got %#v", e)
			}
		}
		if passed != changes.burst+2 { // and those whose turn came within a second
			t.Errorf("%d of 100 passed", passed)
		}
	})
}

// TestPollsComeBeforeLookups: any number of lookups by tag does not hold up polls, and lookups get the rest of the calls.
func TestPollsComeBeforeLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var polls, lookups atomic.Int32
		region := open(t, wire(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("Tag.1.Key") != "" {
				lookups.Add(1)
			} else {
				polls.Add(1)
			}
			return reply(200, `{"RequestId":"R-1","Instances":{"Instance":[{"InstanceId":"i-1"}]}}`)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var running sync.WaitGroup
		for range 10 {
			running.Go(func() {
				for ctx.Err() == nil {
					if _, err := region.Find(ctx, map[string]string{"a": "b"}); err != nil && ctx.Err() == nil {
						if e := failure(t, err); e.Class != Throttled || e.RetryAfter <= patience || e.RetryAfter > 2*time.Second {
							t.Errorf("a lookup: %#v", e)
						}
						time.Sleep(100 * time.Millisecond)
					}
				}
			})
		}
		for range 59 {
			time.Sleep(time.Second)
			began := time.Now()
			if _, err := region.Describe(ctx, []string{"i-1"}); err != nil || time.Since(began) > 0 {
				t.Errorf("after %s, a poll: %v", time.Since(began), err)
			}
		}
		cancel()
		running.Wait()
		if n := lookups.Load(); polls.Load() != 59 || n < 90 || n > 170-59 {
			t.Errorf("in a minute, %d polls and %d lookups", polls.Load(), n)
		}
	})
}

func TestGivenUpWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		region := open(t, says(200, fine))
		for range changes.burst {
			must.Succeed(t, region.Start(t.Context(), "i-1"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := region.Start(ctx, "i-1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBucketsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(open(t, nil).cloud.limiter.clock)
		paused := bucketKey{"a", "b", "paused"}
		l.pause(paused)
		for i := range 10 * maxBuckets {
			if fail := l.admit(t.Context(), bucketKey{account: fmt.Sprint(i)}, 0); fail != nil {
				t.Fatal(fail)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(l.buckets) > maxBuckets {
			t.Errorf("%d buckets", len(l.buckets))
		}
		l.pause(paused)
		if fail := l.admit(t.Context(), paused, 0); fail == nil {
			t.Error("a pause was forgotten")
		}
	})
}
