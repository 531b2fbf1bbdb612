// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"sync"
	"time"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/alibabacloud/v1alpha1"
	listers "github.com/glassback/glassback/pkg/generated/listers/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/report"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "ecsinstance"

// A failed sync is retried after minRetry, then twice as long each time, up to maxRetry.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = time.Minute
)

// Cloud has the calls to ECS for one account in one region: see aliyun.Region. Every error is an
// *aliyun.Error.
type Cloud interface {
	Account(ctx context.Context) (string, error)
	Create(ctx context.Context, request aliyun.CreateRequest) (string, error)
	Describe(ctx context.Context, ids []string) ([]aliyun.Instance, error)
	Find(ctx context.Context, tags map[string]string) ([]aliyun.Instance, error)
	AllocateAddress(ctx context.Context, id string) error
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string) error
	Delete(ctx context.Context, id string, force bool) error
	SetType(ctx context.Context, id, instanceType string) error
	Modify(ctx context.Context, id string, change aliyun.Change) error
	Tag(ctx context.Context, id string, tags map[string]string) error
	Untag(ctx context.Context, id string, keys []string) error
}

// OpenFunc returns the Cloud of an access key in a region. A nil key stands for the operator's own credentials. OpenFunc makes no call.
type OpenFunc func(key *aliyun.AccessKey, region string) Cloud

// Config holds the dependencies of a Controller.
type Config struct {
	Client       versioned.Interface
	ECSInstances informers.ECSInstanceInformer
	Secrets      typedcorev1.SecretsGetter
	Version      loop.ReadVersion
	Open         OpenFunc
	// Refuse returns why an ECSInstance may not use the operator's own credentials: see OwnCredentials.Refusal.
	Refuse    func(*v1alpha1.ECSInstance) (why, remedy string)
	Recorder  record.EventRecorder
	Clock     clock.WithTicker
	Observers []loop.Observer
}

// Controller creates, changes and deletes ECS instances. The package's documentation lists its promises.
type Controller struct {
	client    versioned.Interface
	instances listers.ECSInstanceLister
	cache     cache.Store // the cache behind instances
	recorder  record.EventRecorder
	clock     clock.PassiveClock
	written   *loop.Written
	status    *report.Writer[*v1alpha1.ECSInstance, v1alpha1.ECSInstanceStatus]
	sessions  sync.Map // *session by cache.ObjectName
	refuse    func(*v1alpha1.ECSInstance) (why, remedy string)
	secrets   typedcorev1.SecretsGetter
	poller    *loop.Poller
	fleets    *fleets
	loop      *loop.Loop
}

// New returns a Controller and adds its event handlers to the informers. It starts nothing.
func New(config Config) (*Controller, error) {
	written := loop.NewWritten(Name, kind.Kind, config.Clock, config.Observers)
	c := &Controller{
		client:    config.Client,
		instances: config.ECSInstances.Lister(),
		cache:     config.ECSInstances.Informer().GetStore(),
		recorder:  config.Recorder,
		clock:     config.Clock,
		written:   written,
		status: report.NewWriter(report.Config[*v1alpha1.ECSInstance, v1alpha1.ECSInstanceStatus]{
			Kind: kind.Kind, Resource: groupResource.Resource, Store: config.ECSInstances.Informer().GetStore(),
			Written: written, Recorder: config.Recorder, Clock: config.Clock,
			Status:    func(ecs *v1alpha1.ECSInstance) *v1alpha1.ECSInstanceStatus { return &ecs.Status },
			NoWarning: calm,
		}, config.Client.AlibabacloudV1alpha1().ECSInstances),
		refuse:  config.Refuse,
		secrets: config.Secrets,
	}
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: kind.Kind, Sync: c.Sync, MinRetry: minRetry, MaxRetry: maxRetry, Clock: config.Clock, Observers: config.Observers,
	})
	c.fleets = &fleets{open: config.Open, clock: config.Clock, add: c.loop.Add, byKey: map[fleetKey]*fleet{}}
	c.poller = loop.NewPoller(config.Version, c.loop.Add, config.Clock, loop.PollEvery)
	if err := c.loop.Watch(config.ECSInstances.Informer(), kind.Kind, loop.Self); err != nil {
		return nil, err
	}
	return c, nil
}

// Loop returns the controller's workqueue and workers, for inspection.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs ECSInstances until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.fleets.begin(ctx)
	var polling sync.WaitGroup
	polling.Go(func() { c.poller.Run(ctx) })
	c.loop.Run(ctx, drain, workers)
	c.fleets.end()
	polling.Wait()
}

// Sync takes the next step for one ECSInstance. It runs again when the object, one of its Secrets, or the snapshot of its instance changes.
// act also writes parts of the status: the token and the account before a call to create, and the instance ID as soon as it is known.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	ecs, err := c.fetch(key)
	if ecs == nil || err != nil {
		return 0, err
	}
	if err := invalid(ecs); err != nil {
		return c.status.Report(ctx, ecs, statusOfInvalid(ecs, err, c.clock.Now()))
	}
	o, err := c.observe(ctx, ecs)
	if err != nil {
		return 0, err
	}
	p := decide(o)
	recording.Decided(ctx, o, p)
	klog.FromContext(ctx).V(4).Info("Decided", "policy", p.Policy, "step", p.Step.String())
	out, err := c.act(ctx, o, p)
	if err != nil || out.finalizersChanged {
		return c.written.Wait(key), err // The cache is about to show the write, or the write that conflicted.
	}
	wait, err := c.status.Report(ctx, out.o.Object, statusOf(p, out))
	return loop.Soonest(wait, loop.Soonest(p.after(out).Wait.Duration, out.o.untilTagsSettle())), err
}

// fetch returns a copy of the ECSInstance with its defaults; nil if there is nothing to do (see loop.Fetch).
func (c *Controller) fetch(key cache.ObjectName) (*v1alpha1.ECSInstance, error) {
	ecs, _, err := loop.Fetch(c.instances.ECSInstances(key.Namespace), key.Name, v1alpha1.Finalizer)
	if ecs == nil {
		c.forget(key)
	}
	return ecs, err
}

// forget drops the session of an ECSInstance, and stops polling its Secrets and its instance.
func (c *Controller) forget(key cache.ObjectName) {
	if found, ok := c.sessions.LoadAndDelete(key); ok {
		s := found.(*session)
		c.fleets.leave(s.access, s.watched, key)
	}
	c.status.Forget(key)
	c.poller.Use(key, 0)
}
