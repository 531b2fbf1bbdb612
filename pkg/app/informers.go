/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	appinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/app/v1"
	mcjinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/batch/v1"
	groupainformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/groupa/v1"
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

// own watches all objects of a resource of Glassback's.
func (f *factories) own(object runtime.Object, group, resource string, getter func(versioned.Interface) cache.Getter) {
	f.glassback.InformerFor(object, func(client versioned.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.informer(pipeline.Config{
			Resource:      qualified(resource, group),
			Object:        object,
			ListerWatcher: f.listWatch(getter(client), client, resource, everything),
			ResyncPeriod:  resync,
			Transform:     withoutManagedFields,
		})
	})
}

func (f *factories) apiExampleAs() groupainformers.ApiExampleAInformer {
	f.own(&groupav1.ApiExampleA{}, groupav1.GroupName, "apiexampleas", func(c versioned.Interface) cache.Getter { return c.GroupaV1().RESTClient() })
	return f.glassback.Groupa().V1().ApiExampleAs()
}

func (f *factories) applications() appinformers.ApplicationInformer {
	f.own(&appv1.Application{}, appv1.GroupName, "applications", func(c versioned.Interface) cache.Getter { return c.AppV1().RESTClient() })
	return f.glassback.App().V1().Applications()
}

func (f *factories) myCronJobs() mcjinformers.MyCronJobInformer {
	f.own(&mcjv1.MyCronJob{}, mcjv1.GroupName, "mycronjobs", func(c versioned.Interface) cache.Getter { return c.BatchV1().RESTClient() })
	return f.glassback.Batch().V1().MyCronJobs()
}

// children watches the objects of a built-in resource that have the label by which
// a controller marks its children, as far as keep leaves them.
func (f *factories) children(object runtime.Object, group, resource, label string, keep cache.TransformFunc, getter func(kubernetes.Interface) cache.Getter) {
	f.kube.InformerFor(object, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.informer(pipeline.Config{
			Resource:      qualified(resource, group),
			Object:        object,
			ListerWatcher: f.listWatch(getter(client), client, resource, labelled(label)),
			ResyncPeriod:  resync,
			Transform:     keep,
		})
	})
}

// one watches a single object of a built-in resource.
func (f *factories) one(object runtime.Object, group, resource, name string, getter func(kubernetes.Interface) cache.Getter) {
	f.kube.InformerFor(object, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.informer(pipeline.Config{
			Resource:      qualified(resource, group),
			Object:        object,
			ListerWatcher: f.listWatch(getter(client), client, resource, named(name)),
			ResyncPeriod:  resync,
			Transform:     withoutManagedFields,
		})
	})
}

func (f *factories) secret(name string) coreinformers.SecretInformer {
	f.one(&corev1.Secret{}, corev1.GroupName, "secrets", name, func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() })
	return f.kube.Core().V1().Secrets()
}

func (f *factories) mutatingWebhookConfiguration(name string) admissioninformers.MutatingWebhookConfigurationInformer {
	f.one(&admissionregistrationv1.MutatingWebhookConfiguration{}, admissionregistrationv1.GroupName, "mutatingwebhookconfigurations", name,
		func(c kubernetes.Interface) cache.Getter { return c.AdmissionregistrationV1().RESTClient() })
	return f.kube.Admissionregistration().V1().MutatingWebhookConfigurations()
}

func (f *factories) validatingWebhookConfiguration(name string) admissioninformers.ValidatingWebhookConfigurationInformer {
	f.one(&admissionregistrationv1.ValidatingWebhookConfiguration{}, admissionregistrationv1.GroupName, "validatingwebhookconfigurations", name,
		func(c kubernetes.Interface) cache.Getter { return c.AdmissionregistrationV1().RESTClient() })
	return f.kube.Admissionregistration().V1().ValidatingWebhookConfigurations()
}

func (f *factories) jobs() batchinformers.JobInformer {
	f.children(&batchv1.Job{}, batchv1.GroupName, "jobs", mcjv1.LabelMyCronJob, metadataAndStatus,
		func(c kubernetes.Interface) cache.Getter { return c.BatchV1().RESTClient() })
	return f.kube.Batch().V1().Jobs()
}

func (f *factories) configMaps() coreinformers.ConfigMapInformer {
	f.children(&corev1.ConfigMap{}, corev1.GroupName, "configmaps", groupav1.LabelApiExampleA, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() })
	return f.kube.Core().V1().ConfigMaps()
}

func (f *factories) deployments() appsinformers.DeploymentInformer {
	f.children(&appsv1.Deployment{}, appsv1.GroupName, "deployments", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.AppsV1().RESTClient() })
	return f.kube.Apps().V1().Deployments()
}

func (f *factories) services() coreinformers.ServiceInformer {
	f.children(&corev1.Service{}, corev1.GroupName, "services", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() })
	return f.kube.Core().V1().Services()
}

func (f *factories) ingresses() networkinginformers.IngressInformer {
	f.children(&networkingv1.Ingress{}, networkingv1.GroupName, "ingresses", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.NetworkingV1().RESTClient() })
	return f.kube.Networking().V1().Ingresses()
}

func (f *factories) autoscalers() autoscalinginformers.HorizontalPodAutoscalerInformer {
	f.children(&autoscalingv2.HorizontalPodAutoscaler{}, autoscalingv2.GroupName, "horizontalpodautoscalers", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.AutoscalingV2().RESTClient() })
	return f.kube.Autoscaling().V2().HorizontalPodAutoscalers()
}

func (f *factories) budgets() policyinformers.PodDisruptionBudgetInformer {
	f.children(&policyv1.PodDisruptionBudget{}, policyv1.GroupName, "poddisruptionbudgets", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.PolicyV1().RESTClient() })
	return f.kube.Policy().V1().PodDisruptionBudgets()
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

// listWatch reads a resource, as far as narrow lets it.
func (f *factories) listWatch(getter cache.Getter, client any, resource string, narrow func(*metav1.ListOptions)) cache.ListerWatcher {
	lw := cache.NewFilteredListWatchFromClient(getter, resource, f.namespace, narrow)
	return cache.ToListWatcherWithWatchListSemantics(lw, client)
}

func everything(*metav1.ListOptions) {}

func labelled(selector string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) { options.LabelSelector = selector }
}

func named(name string) func(*metav1.ListOptions) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return func(options *metav1.ListOptions) { options.FieldSelector = selector }
}

// qualified is how traces and logs call a resource: "jobs.batch".
func qualified(resource, group string) string {
	return schema.GroupResource{Group: group, Resource: resource}.String()
}

// withoutManagedFields drops what takes most of the room in an object, and is of
// use only for children that are applied.
func withoutManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// withOwnManagedFields keeps, of the managedFields, those that tell which fields
// this operator has applied: package child reads them.
func withOwnManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		// A new list: deleting in place would keep the others in memory.
		var own []metav1.ManagedFieldsEntry
		for _, entry := range object.GetManagedFields() {
			if entry.Manager == glassback.Name && entry.Operation == metav1.ManagedFieldsOperationApply {
				own = append(own, entry)
			}
		}
		object.SetManagedFields(own)
	}
	return obj, nil
}

// metadataAndStatus keeps of a Job what its controller reads.
func metadataAndStatus(obj any) (any, error) {
	if job, ok := obj.(*batchv1.Job); ok {
		job.Spec.Template = corev1.PodTemplateSpec{}
	}
	return withoutManagedFields(obj)
}
