// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	writerKeys    = 4000
	writerStreams = 4
	// writerPause is the pause between two writes of a stream. The servers on the same machine need the CPU.
	writerPause = 3 * time.Millisecond
	// clientPatience is the time after which a stream replaces a client whose writes fail. If all Pods have new IPs, go-redis can take almost
	// a minute to resolve the name again. With a new client, only the cluster causes pauses.
	clientPatience = 2 * time.Second
	// shownLosses is the number of losses that the test prints one by one.
	shownLosses = 5
)

// writer is a client that writes all the time. It keeps the acknowledged writes.
//
// Each key belongs to one stream, which writes increasing numbers to it. So a write is lost if the key later has a lower number, or does
// not exist. Each write returns the old value and checks it. check checks all keys.
type writer struct {
	t    *testing.T
	c    *realRedis
	stop context.CancelFunc
	done sync.WaitGroup

	acknowledged []atomic.Int64 // by key
	total        atomic.Int64
	failed       atomic.Int64
	lost         atomic.Int64
	longest      atomic.Int64                // longest time between two acknowledgements of a stream, in nanoseconds
	streams      [writerStreams]atomic.Int64 // number of acknowledged writes of each stream

	mu    sync.Mutex
	since time.Time // time of the last check
	last  error     // error of the last failed write
	shown int
}

// figures are the results between two checks.
type figures struct {
	acknowledged, failed, lost int64
	took, pause                time.Duration
}

func (f figures) String() string {
	return fmt.Sprintf("%d writes acknowledged in %s, %d failed, %d lost, longest pause %s",
		f.acknowledged, f.took.Round(100*time.Millisecond), f.failed, f.lost, f.pause.Round(time.Millisecond))
}

// write starts a writer, and waits until it has written every key once.
func (c *realRedis) write(t *testing.T) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{t: t, c: c, stop: cancel, acknowledged: make([]atomic.Int64, writerKeys), since: time.Now()}
	for stream := range writerStreams {
		w.done.Go(func() { w.run(ctx, stream) })
	}
	t.Cleanup(w.end)
	eventually(t, patience, func(context.Context) error {
		if n := w.total.Load(); n < writerKeys {
			return fmt.Errorf("%d writes were acknowledged, %d failed", n, w.failed.Load())
		}
		return nil
	})
	return w
}

// run writes the numbers of one stream.
func (w *writer) run(ctx context.Context, stream int) {
	client := w.c.client()
	defer func() { _ = client.Close() }() // All writes have ended.
	last := time.Now()                    // time of the last acknowledgement
	fresh := last                         // time at which the client was created
	for number := int64(1); ctx.Err() == nil; number++ {
		key := stream + writerStreams*int(number%(writerKeys/writerStreams))
		before, err := number64(client.Do(ctx, "SET", keyName(key), number, "GET"))
		if err != nil {
			if ctx.Err() == nil {
				w.failed.Add(1)
				w.note(err)
			}
			if time.Since(last) > clientPatience && time.Since(fresh) > clientPatience {
				_ = client.Close()
				client, fresh = w.c.client(), time.Now()
			}
			time.Sleep(writerPause)
			continue
		}
		w.compare(key, before, w.acknowledged[key].Swap(number), "when it was written again")
		w.total.Add(1)
		w.streams[stream].Add(1)
		if took := int64(time.Since(last)); took > w.longest.Load() {
			w.longest.Store(took) // If two pauses end at the same moment, either one is stored.
		}
		last = time.Now()
		time.Sleep(writerPause)
	}
}

func keyName(key int) string { return "key:" + strconv.Itoa(key) }

// number64 returns the number in an answer, or 0 if the key did not exist.
func number64(cmd *redis.Cmd) (int64, error) {
	number, err := cmd.Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return number, err
}

// compare records a loss if the read number is lower than the acknowledged one.
func (w *writer) compare(key int, got, want int64, when string) {
	if got >= want {
		return
	}
	w.lost.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown++; w.shown <= shownLosses {
		w.t.Logf("%s was %d %s, but %d had been acknowledged", keyName(key), got, when, want)
	}
}

func (w *writer) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
}

func (w *writer) lastError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// check waits until writes succeed again, and reads every key with another client. It returns the results since the last check, and resets
// them.
func (w *writer) check(what string) figures {
	w.t.Helper()
	for stream := range w.streams {
		before := w.streams[stream].Load()
		eventually(w.t, redisPatience, func(context.Context) error {
			if w.streams[stream].Load() == before {
				return fmt.Errorf("%s: no write is acknowledged; the last error: %w", what, w.lastError())
			}
			return nil
		})
	}
	want := make([]int64, writerKeys)
	for key := range want {
		want[key] = w.acknowledged[key].Load()
	}
	client := w.c.client() // The clients of the streams may still know deleted nodes.
	defer client.Close()
	for key, number := range want {
		var got int64
		var err error
		for range 3 { // A cluster can close a connection soon after it is healthy again.
			err = unlessSlow(func() (err error) {
				got, err = number64(client.Do(context.Background(), "GET", keyName(key)))
				return err
			})
			if err == nil {
				break
			}
		}
		if err != nil {
			w.t.Fatalf("read %s after %s: %v", keyName(key), what, err)
		}
		w.compare(key, got, number, "after "+what)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := figures{
		acknowledged: w.total.Swap(0), failed: w.failed.Swap(0), lost: w.lost.Swap(0),
		took: time.Since(w.since), pause: time.Duration(w.longest.Swap(0)),
	}
	w.since, w.shown = time.Now(), 0
	w.t.Logf("%s: %s", what, f)
	if f.failed > 0 {
		w.t.Logf("the last error of a write: %v", w.last)
	}
	return f
}

// kept fails the test if a write was lost, or if no write was acknowledged.
func (w *writer) kept(what string) {
	w.t.Helper()
	if f := w.check(what); f.lost > 0 || f.acknowledged == 0 {
		w.t.Errorf("%s: %d of %d acknowledged writes are lost, want 0, and acknowledged writes", what, f.lost, f.acknowledged)
	}
}

// end stops writing.
func (w *writer) end() {
	w.stop()
	w.done.Wait()
}
