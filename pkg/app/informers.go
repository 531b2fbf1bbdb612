/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	kubebatch "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	informers "github.com/glassback/glassback/pkg/generated/informers/externalversions/batch/v1"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// factories make the informers of one namespace, or of all. Each informer is
// asked of a generated factory, so that generated informers and listers are used
// everywhere; but what the factory is given to run is a pipeline.Informer.
type factories struct {
	namespace string
	kube      kubeinformers.SharedInformerFactory
	glassback externalversions.SharedInformerFactory
	trace     *trace.Recorder
}

func newFactories(c *clients, namespace string, recorder *trace.Recorder) *factories {
	return &factories{
		namespace: namespace,
		kube:      kubeinformers.NewSharedInformerFactoryWithOptions(c.kube, 0, kubeinformers.WithNamespace(namespace)),
		glassback: externalversions.NewSharedInformerFactoryWithOptions(c.glassback, 0, externalversions.WithNamespace(namespace)),
		trace:     recorder,
	}
}

// myCronJobs watches all MyCronJobs.
func (f *factories) myCronJobs() informers.MyCronJobInformer {
	f.glassback.InformerFor(&v1.MyCronJob{}, func(client versioned.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.informer(pipeline.Config{
			Resource:      "mycronjobs." + v1.GroupName,
			Object:        &v1.MyCronJob{},
			ListerWatcher: f.listWatch(client.BatchV1().RESTClient(), client, "mycronjobs", ""),
			ResyncPeriod:  resync,
			Transform:     withoutManagedFields,
		})
	})
	return f.glassback.Batch().V1().MyCronJobs()
}

// jobs watches the Jobs of MyCronJobs only, and keeps of each what the
// controller reads: its metadata and status.
func (f *factories) jobs() kubebatch.JobInformer {
	f.kube.InformerFor(&batchv1.Job{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.informer(pipeline.Config{
			Resource:      "jobs.batch",
			Object:        &batchv1.Job{},
			ListerWatcher: f.listWatch(client.BatchV1().RESTClient(), client, "jobs", v1.LabelMyCronJob),
			ResyncPeriod:  resync,
			Transform: func(obj any) (any, error) {
				if job, ok := obj.(*batchv1.Job); ok {
					job.Spec.Template = corev1.PodTemplateSpec{}
				}
				return withoutManagedFields(obj)
			},
		})
	})
	return f.kube.Batch().V1().Jobs()
}

// watchBackoff lets a watch come back soon after the API server does: Jobs that are
// due do not wait for the half a minute that client-go's own backoff grows to.
var watchBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 4 * time.Second}

func (f *factories) informer(config pipeline.Config) cache.SharedIndexInformer {
	config.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	config.Backoff = &watchBackoff
	config.Trace = f.trace
	return pipeline.New(config)
}

// listWatch reads a resource, as far as the label selector goes.
func (f *factories) listWatch(getter cache.Getter, client any, resource, selector string) cache.ListerWatcher {
	lw := cache.NewFilteredListWatchFromClient(getter, resource, f.namespace, func(options *metav1.ListOptions) {
		options.LabelSelector = selector
	})
	return cache.ToListWatcherWithWatchListSemantics(lw, client)
}

// withoutManagedFields drops what takes most of the room in an object, and is
// read by no controller.
func withoutManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
