/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/alibabacloud/v1alpha1"
	listers "github.com/glassback/glassback/pkg/generated/listers/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/report"
	"github.com/glassback/glassback/pkg/trace"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "ecsinstance"

// A failed sync is retried after retryFirst, then twice as long each time, but
// never longer than retryMost.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = time.Minute
)

// Cloud is what the controller asks of one account in one region: see aliyun.Region. Every
// error is an *aliyun.Error.
type Cloud interface {
	Account(ctx context.Context) (string, error)
	Create(ctx context.Context, request aliyun.CreateRequest) (string, error)
	Describe(ctx context.Context, ids []string) ([]aliyun.Instance, error)
	Find(ctx context.Context, tags map[string]string) ([]aliyun.Instance, error)
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string) error
	Delete(ctx context.Context, id string, force bool) error
	SetType(ctx context.Context, id, instanceType string) error
	Modify(ctx context.Context, id string, change aliyun.Change) error
	Tag(ctx context.Context, id string, tags map[string]string) error
	Untag(ctx context.Context, id string, keys []string) error
}

// OpenFunc returns the Cloud of an access key in a region; nil stands for the operator's own
// credentials. It makes no call.
type OpenFunc func(key *aliyun.AccessKey, region string) Cloud

// Config is what a Controller works with.
type Config struct {
	Client       versioned.Interface
	ECSInstances informers.ECSInstanceInformer
	// Secret returns an informer for one Secret, which the Controller runs.
	Secret   func(namespace, name string) cache.SharedIndexInformer
	Open     OpenFunc
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	Trace    *trace.Recorder
}

// Controller makes ECS instances, keeps them, and deletes them. See the package's documentation
// for what it does and what it keeps.
type Controller struct {
	client    versioned.Interface
	instances listers.ECSInstanceLister
	cache     cache.Store // what instances reads
	recorder  record.EventRecorder
	clock     clock.PassiveClock
	written   *loop.Written
	sessions  *sessions
	secrets   *secrets
	fleets    *fleets
	loop      *loop.Loop
}

// New returns a Controller whose event handlers are on the informers. It starts
// nothing.
func New(config Config) (*Controller, error) {
	c := &Controller{
		client:    config.Client,
		instances: config.ECSInstances.Lister(),
		cache:     config.ECSInstances.Informer().GetStore(),
		recorder:  config.Recorder,
		clock:     config.Clock,
		written:   loop.NewWritten(Name, "ECSInstance", config.Clock, config.Trace),
		sessions:  &sessions{byKey: map[cache.ObjectName]*session{}},
	}
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: "ECSInstance", Sync: c.Sync, MinRetry: retryFirst, MaxRetry: retryMost, Clock: config.Clock, Trace: config.Trace,
	})
	c.fleets = &fleets{open: config.Open, clock: config.Clock, add: c.loop.Add, byKey: map[fleetKey]*fleet{}}
	c.secrets = &secrets{
		informer: config.Secret, add: c.loop.Add,
		watches: map[cache.ObjectName]*watched{}, used: map[cache.ObjectName][]cache.ObjectName{},
	}
	if err := c.loop.Watch(config.ECSInstances.Informer(), "ECSInstance", loop.Self); err != nil {
		return nil, err
	}
	return c, nil
}

// Loop returns the controller's workqueue and workers, for those who want to look at them.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs ECSInstances until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.secrets.begin(ctx)
	c.fleets.begin(ctx)
	c.loop.Run(ctx, drain, workers)
	c.fleets.end()
	c.secrets.end()
}

// Sync takes the next step for one ECSInstance. It is called again when the object, a Secret
// that it refers to, or what ECS shows of its instance changes.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	ecs, err := c.fetch(key)
	if ecs == nil || err != nil {
		return 0, err
	}
	if errs := ecs.Validate(nil); len(errs) > 0 && ecs.DeletionTimestamp == nil {
		return 0, c.report(ctx, &observed{ecs: ecs}, statusOfInvalid(ecs, errs, c.clock.Now()))
	}
	o, err := c.observe(ctx, ecs)
	if err != nil {
		return 0, err
	}
	next := decide(o)
	o.mine.keep(o, next.wants)
	if next.acts() {
		if err := c.act(ctx, o, next); err != nil || o.finalized {
			return c.written.Wait(key), err // The cache is about to show what was written, or what was in the way.
		}
		if next = decide(o); next.acts() { // What there is to do now is the next sync's.
			next.wait = time.Millisecond
		}
	}
	reportErr := c.report(ctx, o, statusAfter(o, next))
	if next.look > 0 {
		c.fleets.soon(o.fleet, o.id, next.look)
	}
	return loop.Soonest(next.wait, o.untilTagsSettle()), reportErr
}

// fetch returns a copy of the ECSInstance with its defaults, or nil if there is nothing to do
// for it: it is gone, or paused, or released and only held by others.
func (c *Controller) fetch(key cache.ObjectName) (*v1alpha1.ECSInstance, error) {
	cached, err := c.instances.ECSInstances(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get ECSInstance %s: %w", key, err)
	}
	if err != nil || cached.Annotations[glassback.AnnotationPaused] == "true" ||
		(cached.DeletionTimestamp != nil && !slices.Contains(cached.Finalizers, v1alpha1.Finalizer)) {
		return nil, c.forget(key)
	}
	ecs := cached.DeepCopy()
	ecs.Default()
	return ecs, nil
}

// forget drops all that is remembered of an ECSInstance, and looks at nothing for it.
func (c *Controller) forget(key cache.ObjectName) error {
	if mine := c.sessions.forget(key); mine != nil && mine.watched != "" {
		c.fleets.leave(mine.fleet, mine.watched, key)
	}
	return c.secrets.use(key)
}

// report writes the status, if there still is something to report on.
func (c *Controller) report(ctx context.Context, o *observed, status v1alpha1.ECSInstanceStatus) error {
	err := c.write(ctx, o, status)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// write writes the status, if it has changed, and tells of transitions.
func (c *Controller) write(ctx context.Context, o *observed, status v1alpha1.ECSInstanceStatus) error {
	if equality.Semantic.DeepEqual(o.ecs.Status, status) {
		return nil
	}
	changed := *o.ecs
	changed.Status = status
	updated, err := c.client.AlibabacloudV1alpha1().ECSInstances(changed.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{FieldManager: glassback.Name})
	if err != nil {
		return fmt.Errorf("update status of ECSInstance %s: %w", changed.Name, err)
	}
	c.written.Record(o.key(), "update ecsinstances/status", c.cache, updated)
	klog.FromContext(ctx).V(2).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	report.Transitions(c.recorder, o.ecs, o.ecs.Status.Conditions, status.Conditions, calm...)
	o.ecs.Status, o.ecs.ResourceVersion = updated.Status, updated.ResourceVersion
	return nil
}
