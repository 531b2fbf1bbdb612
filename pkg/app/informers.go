// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/pipeline"
)

// informers are the informers of one namespace, or of all.
type informers struct {
	*descriptor.Informers

	all []*pipeline.Informer
}

// newInformers returns informers without an informer: its methods add them.
func newInformers(c *clients.Clients, namespace string, queue pipeline.Queue, observers *observers) *informers {
	all := &informers{}
	all.Informers = descriptor.NewInformers(c, namespace, func(s descriptor.Source) cache.SharedIndexInformer {
		made := newInformer(s, namespace, queue, observers)
		all.all = append(all.all, made)
		return made
	})
	return all
}

// watchBackoff is the backoff while LIST or WATCH fails. client-go's own backoff grows to half a minute: after an outage of the API
// server, Jobs that are due would wait that long.
var watchBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 4 * time.Second}

// shared holds the resources that are children of several controllers.
var shared = sets.New("configmaps", "services", "poddisruptionbudgets.policy", "jobs.batch")

// newInformer makes an informer that runs for as long as the factories do.
func newInformer(s descriptor.Source, namespace string, queue pipeline.Queue, observers *observers) *pipeline.Informer {
	config := pipeline.Config{
		Name: s.Resource.String(), Resource: s.Resource.String(), Object: s.Object, Transform: withoutManagedFields,
		ListerWatcher: s.ListerWatcher, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		Backoff: &watchBackoff, Queue: queue, Trace: observers.stages,
	}
	if s.Label != "" {
		config.Transform = trimChild
	}
	if s.Label != "" && shared.Has(config.Resource) {
		config.Name += "(" + s.Label[strings.LastIndexByte(s.Label, '/')+1:] + ")" // "services(application)"
	}
	if namespace != "" {
		config.Name += "/" + namespace
	}
	made := pipeline.New(config)
	observers.metrics.AddInformer(config.Resource, namespace, made)
	return made
}

// withoutManagedFields drops the managedFields, which take most of the memory of an object. Only applied children need them.
func withoutManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
