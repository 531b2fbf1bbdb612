// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/version"
)

// drainPatience is the longest time that running syncs may take to end when the operator stops.
const drainPatience = 20 * time.Second

// operator holds the parts that run after the start:
//
//	every replica   caches, webhooks, leader election
//	the leader      controllers
//
// At a stop, the controllers end first: their last syncs still read the caches, and the Lease still allows their writes. Then the
// operator releases the Lease, and another operator takes over. The webhooks answer a little longer.
type operator struct {
	workers    int
	scopes     []*scope
	webhooks   *webhooks   // nil for none, and no certificate
	leadership *leadership // nil without leader election
	selfCheck  *selfCheck
	probes     *probes
	observers  *observers
}

// scope holds the informers and controllers for one namespace, or for all of them.
type scope struct {
	informers   *informers
	controllers []descriptor.Controller
	synced      chan struct{} // closed once the caches are synced
}

func newOperator(
	ctx context.Context, o *options.Options, c *clients.Clients, selfCheck *selfCheck, recorder record.EventRecorder, observers *observers,
) (*operator, error) {
	cloud, err := aliyun.New(aliyun.Config{
		Endpoint: o.ECSEndpoint, UserAgent: "glassback/" + version.Version(), Metadata: o.ECSOwnCredentials.Metadata(),
		Observers: observers.ofCloud(),
	})
	if err != nil {
		return nil, err
	}
	op := &operator{workers: o.Workers, selfCheck: selfCheck, observers: observers}
	for _, ns := range o.Namespaces {
		s := &scope{informers: newInformers(c, ns, o.Queue, observers), synced: make(chan struct{})}
		e := descriptor.Environment{
			Clients: c, Informers: s.informers.Informers, Recorder: recorder, Cloud: cloud,
			Redis: observers.ofRedis(), Nodes: observers.metrics.Nodes, Missed: observers.metrics.Missed,
			OperatorNamespace: cmp.Or(command.OwnNamespace(), command.DefaultNamespace), BackupImage: o.BackupImage,
			RefuseCredentials: o.ECSOwnCredentials.Refusal,
		}
		for _, name := range o.Controllers {
			e.Observers = observers.ofLoop(name)
			controller, err := kinds.Named(name).New(e)
			if err != nil {
				return nil, fmt.Errorf("set up controller %s: %w", name, err)
			}
			s.controllers = append(s.controllers, controller)
		}
		op.scopes = append(op.scopes, s)
	}
	if op.leadership, err = newLeadership(o, c, recorder, observers.metrics); err != nil {
		return nil, err
	}
	op.webhooks, err = newWebhooks(ctx, o, c, observers)
	return op, err
}

// require makes the probes depend on the parts of this operator.
func (o *operator) require(p *probes) {
	o.probes = p
	for _, s := range o.scopes {
		suffix := ""
		if s.informers.Namespace != "" {
			suffix = "/" + s.informers.Namespace
		}
		p.requireCaches(suffix, s.informers)
	}
	p.ready.require("checks", o.selfCheck.ready)
	if o.leadership != nil {
		p.live.require("leader-election", o.leadership.check)
		p.requireCaches("-lease", o.leadership.watch)
	}
	if o.webhooks != nil && o.webhooks.listener != nil {
		p.requireWebhooks(o.webhooks)
	}
}

// run runs all parts until ctx ends, or until one part fails. It returns the error of that part, or the error of ctx.
func (o *operator) run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	drain, endDrain := drainContext(ctx)
	defer endDrain()
	leading, stopLeading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLeading()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()

	var controllers, others sync.WaitGroup
	for _, s := range o.scopes {
		controllers.Go(func() { s.run(ctx, drain, o.workers, o.leads()) })
	}
	others.Go(func() { o.selfCheck.run(ctx) })
	if o.leadership != nil {
		others.Go(func() {
			o.compete(ctx, leading, func() {
				stop(errLeaseLost)
				endDrain() // Another operator may lead soon.
				o.leadership.await(leading)
			})
		})
	}
	if o.webhooks != nil {
		others.Go(func() {
			switch err := o.webhooks.run(serving, drain); {
			case err != nil && ctx.Err() != nil:
				logger.Error(err, "Could not stop cleanly")
			case err != nil:
				stop(err)
			}
		})
	}
	<-ctx.Done()
	logger.Info("Stopping", "drainPatience", drainPatience)
	o.probes.say(errors.New("stopping"))
	controllers.Wait()
	stopLeading()
	stopServing()
	o.observers.stop() // meanwhile, the Lease is released and the webhooks still answer
	others.Wait()
	return context.Cause(ctx)
}

// compete waits until the caches are synced, so that this operator can lead at once. Then it competes for the Lease: see leadership.run.
func (o *operator) compete(ctx, leading context.Context, lost func()) {
	for _, s := range o.scopes {
		select {
		case <-s.synced:
		case <-ctx.Done():
			return
		}
	}
	o.leadership.run(leading, lost)
}

// leads returns a channel that is closed once this operator leads.
func (o *operator) leads() <-chan struct{} {
	if o.leadership != nil {
		return o.leadership.leads
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// run starts the informers, and starts the controllers when the caches are synced and leads is closed. After ctx has ended, it waits for
// the controllers. Then it stops the informers: the last syncs still read the caches.
func (s *scope) run(ctx, drain context.Context, workers int, leads <-chan struct{}) {
	logger := klog.FromContext(ctx)
	if s.informers.Namespace != "" {
		logger = logger.WithValues("namespace", s.informers.Namespace)
		ctx = klog.NewContext(ctx, logger)
	}
	caches, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	s.informers.Start(caches)
	defer func() {
		stopCaches()
		s.informers.Shutdown()
	}()
	start := time.Now()
	if !s.informers.WaitForSync(ctx) {
		return // ctx has ended
	}
	logger.Info("Caches are synced", "duration", time.Since(start))
	close(s.synced)
	select {
	case <-leads:
	case <-ctx.Done():
		return
	}
	var running sync.WaitGroup
	for _, c := range s.controllers {
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
