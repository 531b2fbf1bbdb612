// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"
	gatewayv1informers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions/apis/v1"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
)

// Informers makes the informers of one namespace, or of all. Each informer belongs to a generated factory. So generated informers and
// listers are used everywhere. The factory runs the informer of a function in place of client-go's informer.
type Informers struct {
	Namespace string

	clients   *clients.Clients
	create    func(Source) cache.SharedIndexInformer
	kube      map[selector]kubeinformers.SharedInformerFactory // see builtIn
	glassback externalversions.SharedInformerFactory
	gateway   gatewayinformers.SharedInformerFactory
}

// Source says what an informer holds.
type Source struct {
	cache.ListerWatcher

	Object   runtime.Object
	Resource schema.GroupResource
	Label    string // that selects children; empty for other informers
}

// selector says which objects of a resource an informer watches: all, those with a label, or one.
type selector struct{ label, field string }

func onlyObject(name string) selector {
	return selector{field: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// NewInformers returns an Informers for a namespace, or for all. It calls create once for each informer.
func NewInformers(c *clients.Clients, namespace string, create func(Source) cache.SharedIndexInformer) *Informers {
	return &Informers{
		Namespace: namespace,
		clients:   c,
		create:    create,
		kube:      map[selector]kubeinformers.SharedInformerFactory{},
		glassback: externalversions.NewSharedInformerFactoryWithOptions(c.Glassback, 0, externalversions.WithNamespace(namespace)),
		gateway:   gatewayinformers.NewSharedInformerFactoryWithOptions(c.Gateway, 0, gatewayinformers.WithNamespace(namespace)),
	}
}

// Start starts all informers. They run until ctx ends: see Shutdown.
func (i *Informers) Start(ctx context.Context) {
	for _, kube := range i.kube {
		kube.StartWithContext(ctx)
	}
	i.glassback.StartWithContext(ctx)
	i.gateway.StartWithContext(ctx)
}

// WaitForSync waits until all caches have synced, and returns false if ctx ended before that.
func (i *Informers) WaitForSync(ctx context.Context) bool {
	for _, kube := range i.kube {
		if kube.WaitForCacheSyncWithContext(ctx).Err != nil {
			return false
		}
	}
	return i.glassback.WaitForCacheSyncWithContext(ctx).Err == nil && i.gateway.WaitForCacheSyncWithContext(ctx).Err == nil
}

// Shutdown returns when all informers have ended.
func (i *Informers) Shutdown() {
	for _, kube := range i.kube {
		kube.Shutdown()
	}
	i.glassback.Shutdown()
	i.gateway.Shutdown()
}

// Own adds an informer for all objects of a custom resource of Glassback, and returns its factory. client returns the client of the
// resource for a namespace.
func Own[L runtime.Object, C Client[L]](
	i *Informers, object runtime.Object, resource schema.GroupResource, client func(namespace string) C,
) externalversions.SharedInformerFactory {
	i.glassback.InformerFor(object, func(clientset versioned.Interface, _ time.Duration) cache.SharedIndexInformer {
		return i.create(Source{listWatch[L](client(i.Namespace), clientset, selector{}), object, resource, ""})
	})
	return i.glassback
}

// builtIn adds an informer for the selected objects of a built-in resource, and returns its factory. Each selector has its own factory,
// because a factory has only one informer for each type. Several controllers have children of one type, and each controller selects its
// children by its own label.
func builtIn[L runtime.Object](
	i *Informers, object runtime.Object, resource schema.GroupResource, s selector, client Client[L],
) kubeinformers.SharedInformerFactory {
	if i.kube[s] == nil {
		i.kube[s] = kubeinformers.NewSharedInformerFactoryWithOptions(i.clients.Kube, 0, kubeinformers.WithNamespace(i.Namespace))
	}
	i.kube[s].InformerFor(object, func(clientset kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return i.create(Source{listWatch(client, clientset, s), object, resource, s.label})
	})
	return i.kube[s]
}

// Routes returns the informer of HTTPRoutes with a label. A cluster without the Gateway API has none.
func (i *Informers) Routes(label string) gatewayv1informers.HTTPRouteInformer {
	i.gateway.InformerFor(&gatewayv1.HTTPRoute{}, func(clientset gateway.Interface, _ time.Duration) cache.SharedIndexInformer {
		client := optional[*gatewayv1.HTTPRouteList]{
			Client: i.clients.Gateway.GatewayV1().HTTPRoutes(i.Namespace),
			none:   &gatewayv1.HTTPRouteList{ListMeta: metav1.ListMeta{ResourceVersion: noneVersion}},
			end: &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: noneVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}},
		}
		return i.create(Source{
			listWatch(client, clientset, selector{label: label}), &gatewayv1.HTTPRoute{}, gatewayv1.Resource("httproutes"), label,
		})
	})
	return i.gateway.Gateway().V1().HTTPRoutes()
}

// listWatch returns a ListerWatcher of the selected objects.
func listWatch[L runtime.Object](client Client[L], clientset any, s selector) cache.ListerWatcher {
	selected := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = s.label, s.field
		return options
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, selected(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, selected(options))
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(lw, clientset)
}
