// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	kubeinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/groupa/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/groupa/v1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/report"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "apiexamplea"

var kind = v1.SchemeGroupVersion.WithKind("ApiExampleA")

// A failed sync is retried after minRetry, then after twice the last delay, up to maxRetry.
const (
	minRetry = 20 * time.Millisecond
	maxRetry = 30 * time.Second
)

// Config holds the dependencies of a Controller.
type Config struct {
	Kube         kubernetes.Interface
	Client       versioned.Interface
	ApiExampleAs informers.ApiExampleAInformer
	ConfigMaps   kubeinformers.ConfigMapInformer
	Recorder     record.EventRecorder
	Clock        clock.WithTicker
	Observers    []loop.Observer
}

// Controller reconciles ApiExampleAs. The package's documentation says what it does, and its promises.
type Controller struct {
	examples   listers.ApiExampleALister
	owners     *child.Owners
	configMaps *child.Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	status     *report.Writer[*v1.ApiExampleA, v1.ApiExampleAStatus]
	clock      clock.PassiveClock
	written    *loop.Written
	loop       *loop.Loop
}

// New returns a Controller, and adds its event handlers to the informers. It starts nothing.
func New(config Config) (*Controller, error) {
	c := newController(config)
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: kind.Kind, Sync: c.Sync, MinRetry: minRetry, MaxRetry: maxRetry, Clock: config.Clock, Observers: config.Observers,
	})
	return c, errors.Join(
		c.loop.Watch(config.ApiExampleAs.Informer(), kind.Kind, loop.Self),
		c.loop.Watch(config.ConfigMaps.Informer(), "ConfigMap", loop.ControllerOf(kind.Group, kind.Kind)),
	)
}

func newController(config Config) *Controller {
	c := &Controller{
		examples: config.ApiExampleAs.Lister(),
		clock:    config.Clock,
		written:  loop.NewWritten(Name, kind.Kind, config.Clock, config.Observers),
	}
	c.owners = child.NewOwners(kind.Kind, v1.LabelApiExampleA, c.written, config.Clock)
	c.configMaps = child.New(c.owners, "ConfigMap", "configmaps", config.ConfigMaps.Informer().GetStore(),
		config.Kube.CoreV1().ConfigMaps, corev1ac.ExtractConfigMap)
	c.status = report.NewWriter(report.Config[*v1.ApiExampleA, v1.ApiExampleAStatus]{
		Kind: kind.Kind, Resource: groupResource.Resource, Store: config.ApiExampleAs.Informer().GetStore(),
		Written: c.written, Recorder: config.Recorder, Clock: config.Clock,
		Status: func(e *v1.ApiExampleA) *v1.ApiExampleAStatus { return &e.Status },
	}, config.Client.GroupaV1().ApiExampleAs)
	return c
}

// Loop returns the controller's workqueue and workers, for the page and the tests.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs ApiExampleAs until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
}

// Sync reconciles the ConfigMap and the status of one ApiExampleA. It is called again when one of these objects changes.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	example, err := c.fetch(key)
	if example == nil || err != nil {
		return 0, err
	}
	o, err := c.observe(ctx, example)
	if err != nil {
		return 0, err
	}
	p := decide(o)
	recording.Decided(ctx, o, p)
	out, actErr := c.act(ctx, o, p)
	if out.Wrote || (actErr != nil && out.Problem == nil) {
		// The watch event of the write, or of the change that caused a conflict, leads to the next sync, which reports.
		return c.written.Wait(key), actErr
	}
	wait, reportErr := c.status.Report(ctx, example, statusOf(o, p, out))
	return loop.Soonest(wait, out.Wait), errors.Join(actErr, reportErr)
}

// fetch returns a copy of the ApiExampleA with its defaults; nil if there is nothing to do (see loop.Fetch).
func (c *Controller) fetch(key cache.ObjectName) (*v1.ApiExampleA, error) {
	example, gone, err := loop.Fetch(c.examples.ApiExampleAs(key.Namespace), key.Name, "")
	if gone {
		c.owners.Forget(key)
		c.status.Forget(key)
	}
	return example, err
}
