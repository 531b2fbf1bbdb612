/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package mycronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeinformers "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/batch/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/batch/v1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "mycronjob"

// A failed sync is retried after retryFirst, then twice as long each time, but
// never longer than retryMost: when an API server comes back after an hour, the
// Jobs should not wait for a backoff that has grown as long.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 5 * time.Second
)

// Config is what a Controller works with.
type Config struct {
	Kube       kubernetes.Interface
	Client     versioned.Interface
	MyCronJobs informers.MyCronJobInformer
	Jobs       kubeinformers.JobInformer
	Recorder   record.EventRecorder
	Clock      clock.WithTicker
	Trace      *trace.Recorder
}

// Controller makes the Jobs of MyCronJobs. See the package's documentation for
// what it does and what it keeps.
type Controller struct {
	kube       kubernetes.Interface
	client     versioned.Interface
	myCronJobs listers.MyCronJobLister
	jobs       cache.Indexer
	crons      cache.Store // what myCronJobs reads
	recorder   record.EventRecorder
	clock      clock.PassiveClock
	written    *loop.Written
	loop       *loop.Loop
}

// New returns a Controller whose index and event handlers are on the informers.
// It starts nothing.
func New(config Config) (*Controller, error) {
	c := &Controller{
		kube:       config.Kube,
		client:     config.Client,
		myCronJobs: config.MyCronJobs.Lister(),
		jobs:       config.Jobs.Informer().GetIndexer(),
		crons:      config.MyCronJobs.Informer().GetIndexer(),
		recorder:   config.Recorder,
		clock:      config.Clock,
		written:    loop.NewWritten(Name, "MyCronJob", config.Clock, config.Trace),
	}
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: "MyCronJob", Sync: c.Sync, MinRetry: retryFirst, MaxRetry: retryMost, Clock: config.Clock, Trace: config.Trace,
	})
	if err := config.Jobs.Informer().AddIndexers(cache.Indexers{controllerIndex: indexByController}); err != nil {
		return nil, fmt.Errorf("index Jobs: %w", err)
	}
	if err := c.loop.Watch(config.MyCronJobs.Informer(), "MyCronJob", loop.Self); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(config.Jobs.Informer(), "Job", loop.ControllerOf(v1.GroupName, "MyCronJob")); err != nil {
		return nil, err
	}
	return c, nil
}

// Loop returns the controller's workqueue and workers, for those who want to look at them.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs MyCronJobs until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
}

// Sync brings the Jobs of one MyCronJob up to date. It is called again when the
// MyCronJob or one of its Jobs changes, and when the next slot comes.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	mcj, err := c.fetch(key)
	if mcj == nil || err != nil {
		return 0, err
	}
	seen, err := c.observe(mcj)
	if err != nil {
		return 0, err
	}
	now := c.clock.Now()
	if errs := mcj.Validate(nil); len(errs) > 0 {
		return 0, c.report(ctx, mcj, seen, statusOfInvalid(mcj, seen, errs, now), false)
	}
	table, err := newTimetable(mcj, words(&mcj.Spec))
	if err != nil {
		return 0, err
	}
	p := decide(mcj, table, seen, now)
	out, actErr := c.act(ctx, mcj, table, seen, p)
	reportErr := c.report(ctx, mcj, seen, statusAfter(mcj, table, seen, p, out, now), out.confirmed)
	return p.wait, errors.Join(actErr, reportErr)
}

// fetch returns a copy of the MyCronJob with its defaults, or nil if there is
// nothing to do for it: it is gone, or going, or paused.
func (c *Controller) fetch(key cache.ObjectName) (*v1.MyCronJob, error) {
	cached, err := c.myCronJobs.MyCronJobs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get MyCronJob %s: %w", key, err)
	}
	if cached.DeletionTimestamp != nil || cached.Annotations[glassback.AnnotationPaused] == "true" {
		return nil, nil
	}
	mcj := cached.DeepCopy()
	mcj.Default()
	return mcj, nil
}

// report writes the status, if it has changed, and tells of transitions. confirmed
// is whether this sync has found the cached Jobs to be all that there are.
func (c *Controller) report(ctx context.Context, mcj *v1.MyCronJob, seen observed, status v1.MyCronJobStatus, confirmed bool) error {
	if equality.Semantic.DeepEqual(mcj.Status, status) {
		return nil
	}
	if status.MissedTotal > mcj.Status.MissedTotal && !confirmed {
		if err := c.confirmJobs(ctx, mcj, seen); err != nil {
			return err
		}
	}
	changed := *mcj
	changed.Status = status
	updated, err := c.client.BatchV1().MyCronJobs(mcj.Namespace).UpdateStatus(ctx, &changed, updateOptions)
	if apierrors.IsNotFound(err) {
		return nil // Deleted meanwhile: there is nothing to report on.
	}
	if err != nil {
		return fmt.Errorf("update status of MyCronJob %s: %w", mcj.Name, err)
	}
	c.written.Record(cache.MetaObjectToName(mcj), "update mycronjobs/status", c.crons, updated)
	klog.FromContext(ctx).V(2).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	c.tell(mcj, status)
	return nil
}
