/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
)

// story is what happens to a Service and its ConfigMap, one after the other, and what the
// ConfigMap has to hold when all is quiet again: nil, if there is to be none.
var story = []struct {
	event  string
	happen func(*server)
	want   map[string]string
}{
	{"the Service comes", func(s *server) { s.serve("web", web()) }, onPort("80")},
	{"it gets another port", func(s *server) { s.serve("web", web(at(81))) }, onPort("81")},
	{"another client edits the ConfigMap", alter(data("HOST", "evil")), onPort("81")},
	{"another client deletes the ConfigMap", func(s *server) { s.drop("web-address") }, onPort("81")},
	{"another client takes its label away", alter(func(c *corev1.ConfigMap) { c.Labels = nil }), onPort("81")},
	{"the Service asks no longer", func(s *server) { s.serve("web", web(unlabelled)) }, nil},
	{"it asks again", func(s *server) { s.serve("web", web()) }, onPort("80")},
	{"the Service goes", func(s *server) { s.serve("web", nil); s.collect() }, nil},
}

// onPort returns what the ConfigMap of the Service web holds when that has this port.
func onPort(port string) map[string]string {
	return map[string]string{"HOST": "web.shop.svc", "PORT": port}
}

// TestItConvergesWhereverItCrashes lets the story happen to operators that run in full, of
// which each one dies at one of its writes: at the first, or the second, and so on until
// there is no such write any more. It dies right before the write, or right after, when no
// answer has come yet. The next one has nothing but what the server knows.
func TestItConvergesWhereverItCrashes(t *testing.T) {
	for sentence, landed := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(sentence, func(t *testing.T) {
			for n := 1; ; n++ {
				crashed := false
				synctest.Test(t, func(t *testing.T) { crashed = tell(t, n, landed) })
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

// tell tells the story, with a crash at the nth write if there are so many.
func tell(t *testing.T, n int, landed bool) (crashed bool) {
	s := newServer()
	life := start(t, s)
	writes := 0
	crash := func(string) error {
		writes++
		if writes != n {
			return nil
		}
		crashed = true
		life.kill()
		return errors.New("the operator does not live to see this")
	}
	if landed {
		s.after = crash
	} else {
		s.before = crash
	}
	for _, step := range story {
		step.happen(s)
		time.Sleep(time.Minute)
		if life.ctx.Err() != nil {
			life.ended.Wait()
			life = start(t, s)
			time.Sleep(time.Minute)
		}
		// What was made for a Service that was just gone, the caches being behind, is garbage too.
		s.collect()
		time.Sleep(time.Minute)
		if got := s.data("web-address"); !maps.Equal(got, step.want) {
			t.Errorf("crash at write %d: %s: the ConfigMap has %v, want %v", n, step.event, got, step.want)
		}
		s.asked()
		time.Sleep(time.Hour)
		if requests := s.asked(); len(requests) > 0 {
			t.Errorf("crash at write %d: %s: requests %q when all is done", n, step.event, requests)
		}
		if t.Failed() {
			break // What comes next is told of what there should be now.
		}
	}
	life.kill()
	life.ended.Wait()
	return crashed
}

// life is an operator that runs.
type life struct {
	ctx   context.Context
	kill  context.CancelFunc
	ended sync.WaitGroup
}

func start(t *testing.T, s *server) *life {
	t.Helper()
	l := &life{}
	l.ctx, l.kill = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	o := newOperator(s)
	var err error
	if o.Controller, err = New(o.config(l.ctx, s, clock.RealClock{})); err != nil {
		t.Fatal(err)
	}
	for _, factory := range o.factories {
		factory.StartWithContext(l.ctx)
		factory.WaitForCacheSyncWithContext(l.ctx)
	}
	l.ended.Go(func() {
		o.Run(l.ctx, l.ctx, 2)
		for _, factory := range o.factories {
			factory.Shutdown()
		}
	})
	return l
}
