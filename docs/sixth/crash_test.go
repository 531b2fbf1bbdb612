// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/fakeapi"
)

// story holds the changes of a Service and its ConfigMap, in their order, and the data that the ConfigMap must hold
// afterwards; nil if it must not exist.
var story = []struct {
	event  string
	happen func(*server)
	want   map[string]string
}{
	{"a Service is created", func(s *server) { s.serve("web", web()) }, onPort("80")},
	{"its port changes", func(s *server) { s.serve("web", web(at(81))) }, onPort("81")},
	{"another client edits the ConfigMap", alter(data("HOST", "evil")), onPort("81")},
	{"another client deletes the ConfigMap", func(s *server) { s.drop("web-address") }, onPort("81")},
	{"another client removes its label", alter(func(c *corev1.ConfigMap) { c.Labels = nil }), onPort("81")},
	{"the Service no longer requests it", func(s *server) { s.serve("web", web(unlabelled)) }, nil},
	{"it requests it again", func(s *server) { s.serve("web", web()) }, onPort("80")},
	{"the Service is deleted", func(s *server) { s.serve("web", nil); s.collect() }, nil},
}

// onPort returns the data of the ConfigMap for a Service web with this port.
func onPort(port string) map[string]string {
	return map[string]string{"HOST": "web.shop.svc", "PORT": port}
}

// TestItConvergesWhereverItCrashes plays the story to operators that run in full. In each run, the operator crashes at one
// write: the first, the second, and so on, until the story has no more writes. It crashes right before the write, or right
// after it, without an answer. The next operator knows only what the server stores.
func TestItConvergesWhereverItCrashes(t *testing.T) {
	for sentence, landed := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(sentence, func(t *testing.T) {
			for n := 1; ; n++ {
				crashed := false
				synctest.Test(t, func(t *testing.T) { crashed = play(t, n, landed) })
				if !crashed {
					if n < len(story) {
						t.Errorf("there were only %d writes", n-1)
					}
					return
				}
			}
		})
	}
}

// play plays the story, with a crash at the nth write. It returns false if the story has fewer writes.
func play(t *testing.T, n int, landed bool) (crashed bool) {
	s := newServer()
	var running *process
	writes := 0
	crash := onWrites(func(fakeapi.Request) error {
		writes++
		if writes != n {
			return nil
		}
		crashed = true
		running.kill()
		return errors.New("the operator crashed")
	})
	if landed {
		s.After = crash
	} else {
		s.Before = crash
	}
	running = start(t, s)
	for _, step := range story {
		step.happen(s)
		time.Sleep(time.Minute)
		if running.ctx.Err() != nil {
			running.ended.Wait()
			running = start(t, s)
			time.Sleep(time.Minute)
		}
		// An operator with a stale cache may have created a ConfigMap for a deleted Service.
		s.collect()
		time.Sleep(time.Minute)
		if got := s.data("web-address"); !maps.Equal(got, step.want) {
			t.Errorf("crash at write %d: %s: the ConfigMap has %v, want %v", n, step.event, got, step.want)
		}
		s.asked()
		time.Sleep(time.Hour)
		if requests := s.asked(); len(requests) > 0 {
			t.Errorf("crash at write %d: %s: requests %q in the hour after", n, step.event, requests)
		}
		if t.Failed() {
			break // The next step depends on this one.
		}
	}
	running.kill()
	running.ended.Wait()
	return crashed
}

// process is one run of the operator.
type process struct {
	ctx   context.Context
	kill  context.CancelFunc
	ended sync.WaitGroup
}

func start(t *testing.T, s *server) *process {
	t.Helper()
	p := &process{}
	p.ctx, p.kill = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	o := newOperator(s)
	var err error
	if o.Controller, err = New(o.config(p.ctx, s, clock.RealClock{})); err != nil {
		t.Fatal(err)
	}
	for _, factory := range o.factories {
		factory.StartWithContext(p.ctx)
		factory.WaitForCacheSyncWithContext(p.ctx)
	}
	p.ended.Go(func() {
		o.Run(p.ctx, p.ctx, 2)
		for _, factory := range o.factories {
			factory.Shutdown()
		}
	})
	return p
}
