/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package apiexamplea

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	kubeinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/groupa/v1"
	listers "github.com/glassback/glassback/pkg/generated/listers/groupa/v1"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/report"
	"github.com/glassback/glassback/pkg/trace"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "apiexamplea"

var kind = v1.SchemeGroupVersion.WithKind("ApiExampleA")

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
	ApiExampleAs informers.ApiExampleAInformer
	ConfigMaps   kubeinformers.ConfigMapInformer
	Recorder     record.EventRecorder
	Clock        clock.WithTicker
	Trace        *trace.Recorder
}

// Controller keeps the greetings of ApiExampleAs. See the package's documentation
// for what it does and what it keeps.
type Controller struct {
	client     versioned.Interface
	examples   listers.ApiExampleALister
	cache      cache.Store // what examples reads
	owners     *child.Owners
	configMaps *child.Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	recorder   record.EventRecorder
	clock      clock.PassiveClock
	written    *loop.Written
	loop       *loop.Loop
}

// New returns a Controller whose event handlers are on the informers. It starts
// nothing.
func New(config Config) (*Controller, error) {
	c := newController(config)
	c.loop = loop.New(loop.Config{
		Name: Name, Kind: kind.Kind, Sync: c.Sync, MinRetry: retryFirst, MaxRetry: retryMost, Clock: config.Clock, Trace: config.Trace,
	})
	if err := c.loop.Watch(config.ApiExampleAs.Informer(), kind.Kind, loop.Self); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(config.ConfigMaps.Informer(), "ConfigMap", loop.ControllerOf(kind.Group, kind.Kind)); err != nil {
		return nil, err
	}
	return c, nil
}

func newController(config Config) *Controller {
	c := &Controller{
		client:   config.Client,
		examples: config.ApiExampleAs.Lister(),
		cache:    config.ApiExampleAs.Informer().GetIndexer(),
		recorder: config.Recorder,
		clock:    config.Clock,
		written:  loop.NewWritten(Name, kind.Kind, config.Clock, config.Trace),
	}
	c.owners = child.NewOwners(kind.Kind, v1.LabelApiExampleA, c.written, config.Clock)
	c.configMaps = child.New(c.owners, "ConfigMap", "configmaps", config.ConfigMaps.Informer().GetStore(),
		config.Kube.CoreV1().ConfigMaps, corev1ac.ExtractConfigMap)
	return c
}

// Loop returns the controller's workqueue and workers, for those who want to look at them.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs ApiExampleAs until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
}

// Sync brings the ConfigMap and the status of one ApiExampleA up to date. It is
// called again when either changes.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	example, err := c.fetch(key)
	if example == nil || err != nil {
		return 0, err
	}
	seen := c.observe(example)
	if errs := example.Validate(nil); len(errs) > 0 {
		return 0, c.report(ctx, example, statusOfInvalid(example, seen.Object, errs, c.clock.Now()))
	}
	change := c.configMaps.Bring(example, example.ConfigMapName(), seen, false, child.Exactly(configMap(example)))
	out, actErr := change.Do(ctx)
	if out.Wrote {
		klog.FromContext(ctx).Info("Greeted", "greeting", example.Greeting())
	}
	if out.Wrote || (actErr != nil && out.Problem == nil) {
		// The cache is about to show what was written, or what was in the way: that
		// leads to the next sync, and it reports.
		return c.written.Wait(key), actErr
	}
	reportErr := c.report(ctx, example, statusAfter(example, seen.Object, out.Problem, c.clock.Now()))
	return out.Wait, errors.Join(actErr, reportErr)
}

// fetch returns a copy of the ApiExampleA with its defaults, or nil if there is
// nothing to do for it: it is gone, or going, or paused.
func (c *Controller) fetch(key cache.ObjectName) (*v1.ApiExampleA, error) {
	cached, err := c.examples.ApiExampleAs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.owners.Forget(key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ApiExampleA %s: %w", key, err)
	}
	if cached.DeletionTimestamp != nil || cached.Annotations[glassback.AnnotationPaused] == "true" {
		return nil, nil
	}
	example := cached.DeepCopy()
	example.Default()
	return example, nil
}

// report writes the status, if it has changed, and tells of transitions.
func (c *Controller) report(ctx context.Context, example *v1.ApiExampleA, status v1.ApiExampleAStatus) error {
	if equality.Semantic.DeepEqual(example.Status, status) {
		return nil
	}
	changed := *example
	changed.Status = status
	updated, err := c.client.GroupaV1().ApiExampleAs(example.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{FieldManager: glassback.Name})
	if apierrors.IsNotFound(err) {
		return nil // Deleted meanwhile: there is nothing to report on.
	}
	if err != nil {
		return fmt.Errorf("update status of ApiExampleA %s: %w", example.Name, err)
	}
	c.written.Record(cache.MetaObjectToName(example), "update apiexampleas/status", c.cache, updated)
	klog.FromContext(ctx).V(2).Info("Updated status", "resourceVersion", updated.ResourceVersion)
	report.Transitions(c.recorder, example, example.Status.Conditions, status.Conditions)
	return nil
}
