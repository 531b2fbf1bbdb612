// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "sixth"

const (
	// LabelAddress on a Service requests the ConfigMap, if its value is "true".
	LabelAddress = "glassback.dev/address"
	// LabelService is on every ConfigMap of a Service. Its value is the name of the Service.
	LabelService = "glassback.dev/address-of"
)

var kind = corev1.SchemeGroupVersion.WithKind("Service")

// A failed sync is retried after minRetry, then after twice the last delay, up to maxRetry.
const (
	minRetry = 20 * time.Millisecond
	maxRetry = 30 * time.Second
)

// Config holds the dependencies of a Controller.
type Config struct {
	Kube       kubernetes.Interface
	Services   informers.ServiceInformer   // all Services: see requested
	ConfigMaps informers.ConfigMapInformer // those with LabelService
	Recorder   record.EventRecorder
	Clock      clock.WithTicker
	Observers  []loop.Observer
}

// Controller reconciles the addresses of Services. The package's documentation says what it does, and its promises.
type Controller struct {
	services   listers.ServiceLister
	owners     *child.Owners
	configMaps *child.Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	events     events
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
		c.loop.Watch(config.Services.Informer(), kind.Kind, requested),
		c.loop.Watch(config.ConfigMaps.Informer(), "ConfigMap", loop.ControllerOf(kind.Group, kind.Kind)),
	)
}

func newController(config Config) *Controller {
	c := &Controller{
		services: config.Services.Lister(),
		events:   events{recorder: config.Recorder, reasons: map[cache.ObjectName]string{}},
		written:  loop.NewWritten(Name, kind.Kind, config.Clock, config.Observers),
	}
	c.owners = child.NewOwners(kind.Kind, LabelService, c.written, config.Clock)
	c.configMaps = child.New(c.owners, "ConfigMap", "configmaps", config.ConfigMaps.Informer().GetStore(),
		config.Kube.CoreV1().ConfigMaps, corev1ac.ExtractConfigMap)
	return c
}

// requested returns the key of a Service that requests a ConfigMap; other Services have no key, and do not fill the queue.
// When a Service loses the label, the handler adds the key that it had before. If it lost the label while the operator was
// down, its ConfigMap leads to the key. In both cases Sync needs the Service in the cache, so the cache holds all Services.
func requested(obj metav1.Object) (cache.ObjectName, bool) {
	return cache.MetaObjectToName(obj), obj.GetLabels()[LabelAddress] == "true"
}

// Loop returns the controller's workqueue and workers, for the page and the tests.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs Services until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
}

// Sync reconciles the ConfigMap of one Service. It is called again when one of the two changes.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	service, err := c.fetch(key)
	if service == nil || err != nil {
		return 0, err
	}
	o, err := c.observe(ctx, service)
	if err != nil {
		return 0, err
	}
	p := decide(o)
	out, actErr := c.act(ctx, o, p)
	if actErr == nil || out.Problem != nil {
		c.events.report(service, out.Problem)
	}
	return out.Wait, actErr
}

// fetch returns a copy of the Service; nil if there is nothing to do (see loop.Fetch).
func (c *Controller) fetch(key cache.ObjectName) (*corev1.Service, error) {
	service, gone, err := loop.Fetch(c.services.Services(key.Namespace), key.Name, "")
	if gone {
		c.owners.Forget(key)
		c.events.forget(key)
	}
	return service, err
}
