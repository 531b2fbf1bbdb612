// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kubeinformers "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/batch/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/batch/v1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/report"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "mycronjob"

// A failed sync is retried after minRetry, then after twice the last delay, up to maxRetry. maxRetry is short: after an
// outage of the API server, Jobs should not wait for a long backoff.
const (
	minRetry = 20 * time.Millisecond
	maxRetry = 5 * time.Second
)

var kind = v1.SchemeGroupVersion.WithKind("MyCronJob")

// Config holds the dependencies of a Controller.
type Config struct {
	Kube       kubernetes.Interface
	Client     versioned.Interface
	MyCronJobs informers.MyCronJobInformer
	Jobs       kubeinformers.JobInformer
	Recorder   record.EventRecorder
	Clock      clock.WithTicker
	Observers  []loop.Observer
	// Missed is called with the number of slots that a written status counts as missed; nil for no such call. Several goroutines call it at
	// once.
	Missed func(namespace string, slots int64)
}

// Controller reconciles MyCronJobs. The package's documentation says what it does, and its promises.
type Controller struct {
	kube       kubernetes.Interface
	client     versioned.Interface
	myCronJobs listers.MyCronJobLister
	jobs       cache.Indexer
	status     *report.Writer[*v1.MyCronJob, v1.MyCronJobStatus]
	recorder   record.EventRecorder
	clock      clock.PassiveClock
	written    *loop.Written
	loop       *loop.Loop
	missed     func(namespace string, slots int64) // see Config
}

// New returns a Controller, and adds its index and event handlers to the informers. It starts nothing.
func New(config Config) (*Controller, error) {
	c := newController(config)
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: kind.Kind, Sync: c.Sync, MinRetry: minRetry, MaxRetry: maxRetry, Clock: config.Clock, Observers: config.Observers,
	})
	if err := config.Jobs.Informer().AddIndexers(cache.Indexers{controllerIndex: indexByController}); err != nil {
		return nil, fmt.Errorf("index Jobs: %w", err)
	}
	return c, errors.Join(
		c.loop.Watch(config.MyCronJobs.Informer(), kind.Kind, loop.Self),
		c.loop.Watch(config.Jobs.Informer(), "Job", loop.ControllerOf(kind.Group, kind.Kind)),
	)
}

func newController(config Config) *Controller {
	c := &Controller{
		kube:       config.Kube,
		client:     config.Client,
		myCronJobs: config.MyCronJobs.Lister(),
		jobs:       config.Jobs.Informer().GetIndexer(),
		recorder:   config.Recorder,
		clock:      config.Clock,
		written:    loop.NewWritten(Name, kind.Kind, config.Clock, config.Observers),
		missed:     config.Missed,
	}
	c.status = report.NewWriter(report.Config[*v1.MyCronJob, v1.MyCronJobStatus]{
		Kind: kind.Kind, Resource: groupResource.Resource, Store: config.MyCronJobs.Informer().GetStore(),
		Written: c.written, Recorder: config.Recorder, Clock: config.Clock,
		Status:    func(m *v1.MyCronJob) *v1.MyCronJobStatus { return &m.Status },
		NoWarning: []string{reasonSuspended}, Wrote: c.reportMissed,
	}, config.Client.BatchV1().MyCronJobs)
	return c
}

// Loop returns the controller's workqueue and workers, for the page and the tests.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs MyCronJobs until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
}

// Sync reconciles the Jobs and the status of one MyCronJob. It is called again when the MyCronJob or one of its Jobs
// changes, and when the next slot is due.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	mcj, err := c.fetch(key)
	if mcj == nil || err != nil {
		return 0, err
	}
	o, err := c.observe(ctx, mcj)
	if err != nil {
		return 0, err
	}
	p := decide(o)
	recording.Decided(ctx, o, p)
	out, actErr := c.act(ctx, o, p)
	if out.uncounted { // The next sync counts the slots that have no live Job.
		return p.wait, actErr
	}
	wait, reportErr := c.status.Report(ctx, mcj, statusOf(o, p, out))
	return loop.Soonest(wait, p.wait), errors.Join(actErr, reportErr)
}

// fetch returns a copy of the MyCronJob with its defaults; nil if there is nothing to do (see loop.Fetch).
func (c *Controller) fetch(key cache.ObjectName) (*v1.MyCronJob, error) {
	mcj, gone, err := loop.Fetch(c.myCronJobs.MyCronJobs(key.Namespace), key.Name, "")
	if gone {
		c.status.Forget(key)
	}
	return mcj, err
}

// reportMissed is called after each write of a status. If the new status counts more missed slots, it calls missed and may send an event.
func (c *Controller) reportMissed(before, after *v1.MyCronJob) {
	missed := after.Status.MissedTotal - before.Status.MissedTotal
	if missed <= 0 {
		return
	}
	if c.missed != nil {
		c.missed(after.Namespace, missed)
	}
	// Some faults miss one slot after the other: a rejected Job, a running Job under Forbid, or a name that is taken.
	// The event of such a fault is enough.
	conditions := after.Status.Conditions
	taken := func(m *v1.MyCronJob) bool {
		condition := meta.FindStatusCondition(m.Status.Conditions, glassback.ConditionDegraded)
		return condition != nil && condition.Reason == reasonSlotTaken
	}
	if meta.IsStatusConditionFalse(conditions, glassback.ConditionReady) ||
		meta.IsStatusConditionTrue(conditions, glassback.ConditionProgressing) || (taken(after) && !taken(before)) {
		return
	}
	c.recorder.Eventf(before, corev1.EventTypeWarning, "SlotsMissed", "Slots up to %s without a Job: %d",
		after.Status.AccountedTime.UTC().Format(time.RFC3339), missed)
}
