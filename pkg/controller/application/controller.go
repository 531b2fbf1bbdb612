// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"errors"
	"sync"
	"time"

	appsinformers "k8s.io/client-go/informers/apps/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/app/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/app/v1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/report"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "application"

// A failed sync is retried after minRetry, then after twice the last delay, up to maxRetry.
const (
	minRetry = 20 * time.Millisecond
	maxRetry = 30 * time.Second
)

// minorEvery is the minimum time between a status write and a later one that changes only minor fields: see withoutMinorFields. A rollout
// changes these with every Pod. A new status of a condition is written at once, so clients can wait for it.
const minorEvery = 10 * time.Second

// Config holds the dependencies of a Controller.
type Config struct {
	Kube         kubernetes.Interface
	Client       versioned.Interface
	Applications informers.ApplicationInformer
	Deployments  appsinformers.DeploymentInformer
	Services     coreinformers.ServiceInformer
	Ingresses    networkinginformers.IngressInformer
	Gateway      gateway.Interface
	Routes       gatewayinformers.HTTPRouteInformer
	Autoscalers  autoscalinginformers.HorizontalPodAutoscalerInformer
	Budgets      policyinformers.PodDisruptionBudgetInformer
	Recorder     record.EventRecorder
	Version      loop.ReadVersion // of ConfigMaps and Secrets, for restartOn
	Clock        clock.WithTicker
	Observers    []loop.Observer
}

// Controller reconciles Applications. The package documentation lists its promises.
type Controller struct {
	children
	client    versioned.Interface
	apps      listers.ApplicationLister
	status    *report.Writer[*v1.Application, v1.ApplicationStatus]
	clock     clock.PassiveClock
	written   *loop.Written
	confirmed sync.Map // keys of Applications to their UIDs: see confirm
	loop      *loop.Loop
	poller    *loop.Poller
}

// New returns a Controller, and adds its event handlers to the informers. It starts nothing.
func New(config Config) (*Controller, error) {
	c := newController(config)
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: kind.Kind, Sync: c.Sync, MinRetry: minRetry, MaxRetry: maxRetry, Clock: config.Clock, Observers: config.Observers,
	})
	c.poller = loop.NewPoller(config.Version, c.loop.Add, config.Clock, 0)
	owner := loop.ControllerOf(kind.Group, kind.Kind)
	return c, errors.Join(
		c.loop.Watch(config.Applications.Informer(), kind.Kind, loop.Self),
		c.loop.Watch(config.Deployments.Informer(), c.deployments.Name, owner),
		c.loop.Watch(config.Services.Informer(), c.services.Name, owner),
		c.loop.Watch(config.Ingresses.Informer(), c.ingresses.Name, owner),
		c.loop.Watch(config.Routes.Informer(), c.routes.Name, owner),
		c.loop.Watch(config.Autoscalers.Informer(), c.autoscalers.Name, owner),
		c.loop.Watch(config.Budgets.Informer(), c.budgets.Name, owner),
	)
}

func newController(config Config) *Controller {
	written := loop.NewWritten(Name, kind.Kind, config.Clock, config.Observers)
	c := &Controller{
		children: newChildren(config, written),
		client:   config.Client,
		apps:     config.Applications.Lister(),
		status: report.NewWriter(report.Config[*v1.Application, v1.ApplicationStatus]{
			Kind: kind.Kind, Resource: groupResource.Resource, Store: config.Applications.Informer().GetStore(),
			Written: written, Recorder: config.Recorder, Clock: config.Clock,
			Status:    func(a *v1.Application) *v1.ApplicationStatus { return &a.Status },
			NoWarning: []string{reasonRollout, reasonScaling}, MinorEvery: minorEvery, WithoutMinor: withoutMinorFields,
		}, config.Client.AppV1().Applications),
		clock:   config.Clock,
		written: written,
	}
	c.deployments.Adapt = c.adapt
	c.status.Wrote = func(app, _ *v1.Application) { c.confirmed.Store(cache.MetaObjectToName(app), app.UID) }
	return c
}

// Loop returns the controller's workqueue and workers, for the page and the tests.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs Applications until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	var polling sync.WaitGroup
	polling.Go(func() { c.poller.Run(ctx) })
	c.loop.Run(ctx, drain, workers)
	polling.Wait()
}

// Sync reconciles the children of one Application. If it writes none of them, and knows the state of all, it reports the status. A
// change of the Application or of a child leads to the next sync.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	app, err := c.fetch(key)
	if app == nil || err != nil {
		return 0, err
	}
	o, err := c.observe(ctx, app)
	if err != nil {
		return 0, err
	}
	if o.sources.Pending {
		return 0, nil // Otherwise a change of the spec and one of the sources would replace the Pods twice.
	}
	p := decide(o)
	recording.Decided(ctx, o, p)
	out, actErr := c.act(ctx, o, p)
	if out.Wrote || (actErr != nil && len(out.Problems) == 0) {
		// A later sync reports. The watch event of the write leads to it, or the retry after the error.
		return c.written.Wait(key), actErr
	}
	wait, reportErr := c.status.Report(ctx, app, statusOf(o, p, out))
	return loop.Soonest(wait, out.Wait), errors.Join(actErr, reportErr)
}

// fetch returns a copy of the Application with its defaults; nil if there is nothing to do (see loop.Fetch).
func (c *Controller) fetch(key cache.ObjectName) (*v1.Application, error) {
	app, gone, err := loop.Fetch(c.apps.Applications(key.Namespace), key.Name, "")
	if gone {
		c.owners.Forget(key)
		c.confirmed.Delete(key)
		c.poller.Use(key, 0)
		c.status.Forget(key)
	}
	return app, err
}
