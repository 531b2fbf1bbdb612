/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package application

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/app/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/app/v1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/report"
	"github.com/glassback/glassback/pkg/trace"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "application"

// A failed sync is retried after retryFirst, then twice as long each time, but
// never longer than retryMost.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Config is what a Controller works with.
type Config struct {
	Kube         kubernetes.Interface
	Client       versioned.Interface
	Applications informers.ApplicationInformer
	Deployments  appsinformers.DeploymentInformer
	Services     coreinformers.ServiceInformer
	Ingresses    networkinginformers.IngressInformer
	Autoscalers  autoscalinginformers.HorizontalPodAutoscalerInformer
	Budgets      policyinformers.PodDisruptionBudgetInformer
	Recorder     record.EventRecorder
	Clock        clock.WithTicker
	Trace        *trace.Recorder
}

// Controller makes what Applications are made of. See the package's documentation
// for what it does and what it keeps.
type Controller struct {
	children
	client   versioned.Interface
	apps     listers.ApplicationLister
	cache    cache.Store // what apps reads
	recorder record.EventRecorder
	clock    clock.PassiveClock
	written  *loop.Written
	pace     pace
	loop     *loop.Loop
}

// New returns a Controller whose event handlers are on the informers. It starts
// nothing.
func New(config Config) (*Controller, error) {
	c := newController(config)
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: kind.Kind, Sync: c.Sync, MinRetry: retryFirst, MaxRetry: retryMost, Clock: config.Clock, Trace: config.Trace,
	})
	if err := c.loop.Watch(config.Applications.Informer(), kind.Kind, loop.Self); err != nil {
		return nil, err
	}
	for _, owned := range []struct {
		kind     string
		informer cache.SharedIndexInformer
	}{
		{c.deployments.Name, config.Deployments.Informer()},
		{c.services.Name, config.Services.Informer()},
		{c.ingresses.Name, config.Ingresses.Informer()},
		{c.autoscalers.Name, config.Autoscalers.Informer()},
		{c.budgets.Name, config.Budgets.Informer()},
	} {
		if err := c.loop.Watch(owned.informer, owned.kind, loop.ControllerOf(kind.Group, kind.Kind)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func newController(config Config) *Controller {
	written := loop.NewWritten(Name, kind.Kind, config.Clock, config.Trace)
	return &Controller{
		children: newChildren(config, written),
		client:   config.Client,
		apps:     config.Applications.Lister(),
		cache:    config.Applications.Informer().GetIndexer(),
		recorder: config.Recorder,
		clock:    config.Clock,
		written:  written,
	}
}

// Loop returns the controller's workqueue and workers, for those who want to look at them.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs Applications until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
}

// Sync brings the children of one Application, and then its status, up to date. It
// is called again when any of them changes.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	app, err := c.fetch(key)
	if app == nil || err != nil {
		return 0, err
	}
	seen := c.observe(app)
	if errs := app.Validate(nil); len(errs) > 0 {
		return c.report(ctx, app, statusOfInvalid(app, seen, errs, c.clock.Now()))
	}
	out, actErr := act(ctx, c.decide(app, seen))
	if out.wrote || (actErr != nil && len(out.problems) == 0) {
		// The caches are about to show what was written, or what was in the way: that
		// leads to the next sync, and it reports.
		return c.written.Wait(key), actErr
	}
	wait, reportErr := c.report(ctx, app, statusAfter(app, seen, out, c.clock.Now()))
	return loop.Soonest(wait, out.wait), errors.Join(actErr, reportErr)
}

// decide returns what is to be done.
func (c *Controller) decide(app *v1.Application, seen observed) []child.Change {
	listed := func(kind string) bool {
		return slices.ContainsFunc(app.Status.Resources, func(r v1.ResourceReference) bool { return r.Kind == kind })
	}
	runs := func(owned *appsv1ac.DeploymentApplyConfiguration) (*appsv1ac.DeploymentApplyConfiguration, error) {
		return deployment(app, owned, seen.autoscaler.Object)
	}
	return []child.Change{
		c.services.Bring(app, app.Name, seen.service, listed("Service"), child.Exactly(service(app))),
		c.deployments.Bring(app, app.Name, seen.deployment, listed("Deployment"), runs),
		c.ingresses.Bring(app, app.Name, seen.ingress, listed("Ingress"), child.Exactly(ingress(app))),
		c.autoscalers.Bring(app, app.Name, seen.autoscaler, listed("HorizontalPodAutoscaler"), child.Exactly(autoscaler(app))),
		c.budgets.Bring(app, app.Name, seen.budget, listed("PodDisruptionBudget"), child.Exactly(budget(app))),
	}
}

// outcome is what came of the changes of one sync.
type outcome struct {
	wrote    bool
	gone     []string // kinds of which there is none
	problems []child.Problem
	wait     time.Duration
}

// act carries the changes out. One that fails does not hold up the others.
func act(ctx context.Context, changes []child.Change) (outcome, error) {
	var out outcome
	var errs []error
	for _, change := range changes {
		done, err := change.Do(ctx)
		out.wrote = out.wrote || done.Wrote
		out.wait = loop.Soonest(out.wait, done.Wait)
		if done.Gone {
			out.gone = append(out.gone, change.Kind)
		}
		if done.Problem != nil {
			out.problems = append(out.problems, *done.Problem)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// fetch returns a copy of the Application with its defaults, or nil if there is
// nothing to do for it: it is gone, or going, or paused.
func (c *Controller) fetch(key cache.ObjectName) (*v1.Application, error) {
	cached, err := c.apps.Applications(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.pace.forget(key)
		c.owners.Forget(key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Application %s: %w", key, err)
	}
	if cached.DeletionTimestamp != nil || cached.Annotations[glassback.AnnotationPaused] == "true" {
		return nil, nil
	}
	app := cached.DeepCopy()
	app.Default()
	return app, nil
}

// report writes the status, if it has changed, and tells of transitions. If only
// numbers and messages have, it may put the write off, and returns for how long.
func (c *Controller) report(ctx context.Context, app *v1.Application, status v1.ApplicationStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(app.Status, status) {
		return 0, nil
	}
	key := cache.MetaObjectToName(app)
	if wait := c.pace.wait(key, c.clock.Now()); wait > 0 && !transition(app.Status, status) {
		return wait, nil
	}
	changed := *app
	changed.Status = status
	updated, err := c.client.AppV1().Applications(app.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{FieldManager: glassback.Name})
	if apierrors.IsNotFound(err) {
		return 0, nil // Deleted meanwhile: there is nothing to report on.
	}
	if err != nil {
		return 0, fmt.Errorf("update status of Application %s: %w", app.Name, err)
	}
	c.pace.reported(key, c.clock.Now())
	c.written.Record(key, "update applications/status", c.cache, updated)
	klog.FromContext(ctx).V(2).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	report.Transitions(c.recorder, app, app.Status.Conditions, status.Conditions, reasonRollout, reasonScaling)
	return 0, nil
}
