// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// writer is a client that writes up to 1,300 times a second. It remembers the last number that was acknowledged for each key. Each
// write returns the old number of its key, which must be at least as new. So a later write does not hide a loss.
type writer struct {
	t      testing.TB
	w      *world
	client *redis.ClusterClient
	stop   context.CancelFunc
	done   sync.WaitGroup

	acknowledged []atomic.Int64 // by key
	total        atomic.Int64
	failed       atomic.Int64
	overwritten  atomic.Int64 // number of writes that found an older number than was acknowledged
	longest      atomic.Int64 // nanoseconds between two acknowledgements of one goroutine
}

const (
	writerKeys    = 4000
	writerStreams = 4
	writerPause   = 3 * time.Millisecond // between two writes of a stream: the servers share the machine
)

// load starts a writer.
func (w *world) load(t testing.TB) *writer {
	ctx, cancel := context.WithCancel(t.Context())
	wr := &writer{t: t, w: w, stop: cancel, acknowledged: make([]atomic.Int64, writerKeys), client: w.clusterClient()}
	for stream := range writerStreams {
		wr.done.Go(func() { wr.run(ctx, stream) })
	}
	t.Cleanup(wr.end)
	return wr
}

// clusterClient knows the cluster by the Pods that there are now.
func (w *world) clusterClient() *redis.ClusterClient {
	var seeds []string
	var secure *tls.Config
	if w.overTLS {
		secure = w.clientTLS()
	}
	for _, p := range w.pods() {
		seeds = append(seeds, net.JoinHostPort(p.Status.PodIP, strconv.Itoa(portFor(p, w.overTLS))))
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: seeds, Dialer: w.dialer(secure), Username: w.as.User, Password: cmp.Or(w.as.Password, w.password), MaxRedirects: 3,
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})
}

// run writes the numbers of one stream. A key is of one stream, so that its number only
// grows.
func (wr *writer) run(ctx context.Context, stream int) {
	last := time.Now()
	for n := int64(1); ctx.Err() == nil; n++ {
		key := stream + writerStreams*int(n%(writerKeys/writerStreams))
		before, err := wr.client.Do(ctx, "SET", name(key), n, "GET").Int64()
		if err != nil && !errors.Is(err, redis.Nil) { // Nil: there was no number.
			wr.failed.Add(1)
			time.Sleep(time.Millisecond)
			continue
		}
		if want := wr.acknowledged[key].Swap(n); before < want {
			wr.overwritten.Add(1)
			wr.t.Logf("%s was %d when it was written again, and %d was acknowledged", name(key), before, want)
		}
		wr.total.Add(1)
		if took := int64(time.Since(last)); took > wr.longest.Load() {
			wr.longest.Store(took)
		}
		last = time.Now()
		time.Sleep(writerPause)
	}
}

func name(key int) string { return fmt.Sprintf("key:%d", key) }

// everyKey waits until each key was written once.
func (wr *writer) everyKey() {
	for wr.total.Load() < writerKeys {
		time.Sleep(50 * time.Millisecond)
	}
}

// end stops writing.
func (wr *writer) end() {
	wr.stop()
	wr.done.Wait()
	wr.client.Close()
}

// lost stops writing, reads every key, and returns how often a key was not at least as new as what was acknowledged: now, or when it was
// written again.
func (wr *writer) lost() int {
	wr.t.Helper()
	wr.end()
	client := wr.w.clusterClient() // The other one may still know nodes that are gone.
	defer client.Close()
	lost := int(wr.overwritten.Load())
	for key := range wr.acknowledged {
		want := wr.acknowledged[key].Load()
		if want == 0 {
			continue
		}
		var got int64
		wr.w.until("an answer to GET "+name(key), func() bool {
			var err error
			got, err = client.Get(context.Background(), name(key)).Int64()
			return err == nil || errors.Is(err, redis.Nil)
		})
		if got < want {
			if lost++; lost < 10 {
				wr.t.Logf("%s is %d, and %d was acknowledged", name(key), got, want)
			}
		}
	}
	wr.t.Logf("%d writes were acknowledged, %d failed, %d are lost; the longest pause was %s",
		wr.total.Load(), wr.failed.Load(), lost, time.Duration(wr.longest.Load()))
	return lost
}
