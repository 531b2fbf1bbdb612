/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/trace"
)

// drainPatience is how long syncs that are under way may take when the operator
// stops.
const drainPatience = 20 * time.Second

// life is all that runs at the same time once the operator has started:
//
//	every replica   caches, webhooks, the competition for the Lease
//	the leader      controllers
//
// At the end the controllers come first, whose last syncs still read the caches and write by
// right of the Lease; then the Lease is released, and another operator goes on. The webhooks
// answer for a little longer.
type life struct {
	workers    int
	namespaces []*territory
	webhooks   *webhooks   // nil for none
	leadership *leadership // nil: nobody else is expected
	standing   *standing
	probes     *probes
}

// territory is what runs for one namespace, or for all of them.
type territory struct {
	informers   *factories
	controllers []controller
	synced      chan struct{} // closed once its caches are
}

func newLife(ctx context.Context, o *options, c *clients, recorder record.EventRecorder, stages *trace.Recorder) (*life, error) {
	cloud, err := aliyun.New(aliyun.Config{Endpoint: o.ecsEndpoint, UserAgent: "glassback/" + version})
	if err != nil {
		return nil, err
	}
	l := &life{workers: o.workers}
	for _, ns := range o.namespaces {
		t := &territory{informers: newFactories(c, ns, stages), synced: make(chan struct{})}
		e := environment{clients: c, informers: t.informers, cloud: cloud, recorder: recorder, trace: stages}
		if t.controllers, err = newControllers(e, o.controllers); err != nil {
			return nil, err
		}
		l.namespaces = append(l.namespaces, t)
	}
	if l.leadership, err = newLeadership(o, c, recorder); err != nil {
		return nil, err
	}
	if l.standing, err = newStanding(c, o); err != nil {
		return nil, err
	}
	l.webhooks, err = newWebhooks(ctx, o, c, stages)
	return l, err
}

func newControllers(e environment, names []string) ([]controller, error) {
	var made []controller
	for _, name := range names {
		c, err := registry[name].make(e)
		if err != nil {
			return nil, fmt.Errorf("set up controller %s: %w", name, err)
		}
		made = append(made, c)
	}
	return made, nil
}

// require has probes ask for all that is to be well.
func (l *life) require(p *probes) {
	l.probes = p
	for _, t := range l.namespaces {
		suffix := ""
		if t.informers.namespace != "" {
			suffix = "/" + t.informers.namespace
		}
		p.requireCaches(suffix, t.informers)
	}
	p.ready.require("checks", l.standing.ready)
	if l.leadership != nil {
		p.live.require("leader-election", l.leadership.check)
		p.requireCaches("-lease", l.leadership.watch)
	}
	if l.webhooks != nil {
		p.requireWebhooks(l.webhooks)
	}
}

// live runs everything until ctx ends, or one part cannot go on: none goes on without the
// others. It returns that part's error.
func (l *life) live(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	drain, cutShort := drainContext(ctx)
	defer cutShort()
	leading, abdicate := context.WithCancel(context.WithoutCancel(ctx))
	defer abdicate()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()

	var controllers, others sync.WaitGroup
	for _, t := range l.namespaces {
		controllers.Go(func() { t.run(ctx, drain, l.workers, l.standing.asked, l.leads()) })
	}
	others.Go(func() {
		if err := l.standing.run(ctx); err != nil {
			stop(err)
		}
	})
	if l.leadership != nil {
		others.Go(func() {
			l.compete(ctx, leading, func() {
				stop(errLeaseLost)
				cutShort() // Another operator may lead soon.
				l.leadership.await(leading)
			})
		})
	}
	if l.webhooks != nil {
		others.Go(func() {
			switch err := l.webhooks.run(serving, drain); {
			case err != nil && ctx.Err() != nil:
				logger.Error(err, "Could not stop cleanly")
			case err != nil:
				stop(err)
			}
		})
	}
	<-ctx.Done()
	logger.Info("Stopping", "drainPatience", drainPatience)
	l.probes.say(errors.New("stopping"))
	controllers.Wait()
	abdicate()
	stopServing()
	others.Wait()
	return context.Cause(ctx)
}

// compete competes for the Lease, once this operator could lead: with caches that are synced.
// See leadership.run.
func (l *life) compete(ctx, leading context.Context, lost func()) {
	for _, t := range l.namespaces {
		select {
		case <-t.synced:
		case <-ctx.Done():
			return
		}
	}
	l.leadership.run(leading, lost)
}

// leads returns a channel that is closed once this operator leads.
func (l *life) leads() <-chan struct{} {
	if l.leadership != nil {
		return l.leadership.leads
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// run runs informers, and controllers from when the caches are synced and all of first are closed,
// until ctx ends. It returns when all of them have ended: the controllers first, since their
// last syncs still read the caches.
func (t *territory) run(ctx, drain context.Context, workers int, first ...<-chan struct{}) {
	logger := klog.FromContext(ctx)
	if t.informers.namespace != "" {
		logger = logger.WithValues("namespace", t.informers.namespace)
		ctx = klog.NewContext(ctx, logger)
	}
	caches, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	t.informers.start(caches)
	defer func() {
		stopCaches()
		t.informers.shutdown()
	}()
	start := time.Now()
	if !t.informers.synced(ctx) {
		return // ctx has ended
	}
	logger.Info("Caches are synced", "duration", time.Since(start))
	close(t.synced)
	for _, closed := range first {
		select {
		case <-closed:
		case <-ctx.Done():
			return
		}
	}
	var running sync.WaitGroup
	for _, c := range t.controllers {
		running.Go(func() { c.Run(ctx, drain, workers) })
	}
	running.Wait()
}

// drainContext returns a context that lasts drainPatience longer than ctx.
func drainContext(ctx context.Context) (context.Context, context.CancelFunc) {
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(drainPatience, cancel)
		context.AfterFunc(drain, func() { timer.Stop() })
	})
	return drain, func() { stop(); cancel() }
}
