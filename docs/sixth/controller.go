/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package sixth

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// Name is the controller's name, for --controllers, logs and traces.
const Name = "sixth"

const (
	// LabelAddress on a Service asks for the ConfigMap, if its value is "true".
	LabelAddress = "glassback.dev/address"
	// LabelService is on every ConfigMap of a Service, and holds its name.
	LabelService = "glassback.dev/address-of"
)

var kind = corev1.SchemeGroupVersion.WithKind("Service")

// A failed sync is retried after retryFirst, then twice as long each time, but
// never longer than retryMost.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Config is what a Controller works with.
type Config struct {
	Kube       kubernetes.Interface
	Services   informers.ServiceInformer   // all of them: see asking
	ConfigMaps informers.ConfigMapInformer // those with LabelService
	Recorder   record.EventRecorder
	Clock      clock.WithTicker
	Trace      *trace.Recorder
}

// Controller keeps the addresses of Services. See the package's documentation for
// what it does and what it keeps.
type Controller struct {
	services   listers.ServiceLister
	owners     *child.Owners
	configMaps *child.Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	told       told
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
	if err := c.loop.Watch(config.Services.Informer(), kind.Kind, asking); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(config.ConfigMaps.Informer(), "ConfigMap", loop.ControllerOf(kind.Group, kind.Kind)); err != nil {
		return nil, err
	}
	return c, nil
}

func newController(config Config) *Controller {
	c := &Controller{
		services: config.Services.Lister(),
		told:     told{recorder: config.Recorder, byKey: map[cache.ObjectName]string{}},
		written:  loop.NewWritten(Name, kind.Kind, config.Clock, config.Trace),
	}
	c.owners = child.NewOwners(kind.Kind, LabelService, c.written, config.Clock)
	c.configMaps = child.New(c.owners, "ConfigMap", "configmaps", config.ConfigMaps.Informer().GetStore(),
		config.Kube.CoreV1().ConfigMaps, corev1ac.ExtractConfigMap)
	return c
}

// asking is the key of a Service that asks for a ConfigMap: the others do not fill the
// queue. One that stops asking goes from a key to none, and the handler adds the key
// that it had. One that stopped while nobody watched is found by its ConfigMap. For
// both the cache must have the Services that do not ask.
func asking(obj metav1.Object) (cache.ObjectName, bool) {
	return cache.MetaObjectToName(obj), obj.GetLabels()[LabelAddress] == "true"
}

// Loop returns the controller's workqueue and workers, for those who want to look at them.
func (c *Controller) Loop() *loop.Loop { return c.loop }

// Run syncs Services until ctx is done (see loop.Loop.Run).
func (c *Controller) Run(ctx, drain context.Context, workers int) {
	c.loop.Run(ctx, drain, workers)
}

// Sync brings the ConfigMap of one Service up to date. It is called again when either
// changes.
func (c *Controller) Sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if wait := c.written.Wait(key); wait > 0 {
		return wait, nil
	}
	service, err := c.fetch(key)
	if service == nil || err != nil {
		return 0, err
	}
	seen := c.observe(service)
	change := c.configMaps.Bring(service, configMapName(service), seen, false, child.Exactly(configMap(service)))
	out, err := change.Do(ctx)
	if err == nil || out.Problem != nil {
		c.told.tell(service, out.Problem)
	}
	return out.Wait, err
}

// fetch returns the cache's own Service, or nil if there is nothing to do for it: it is
// gone, or going, or paused.
func (c *Controller) fetch(key cache.ObjectName) (*corev1.Service, error) {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.owners.Forget(key)
		c.told.forget(key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Service %s: %w", key, err)
	}
	if service.DeletionTimestamp != nil || service.Annotations[glassback.AnnotationPaused] == "true" {
		return nil, nil
	}
	return service, nil
}
