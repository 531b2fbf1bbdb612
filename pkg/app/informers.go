/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	ecsinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/alibabacloud/v1alpha1"
	appinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/app/v1"
	mcjinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/batch/v1"
	groupainformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/groupa/v1"
	redisinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions/redis/v1"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// factories make the informers of one namespace, or of all. Each informer is
// asked of a generated factory, so that generated informers and listers are used
// everywhere; but what the factory is given to run is a pipeline.Informer.
type factories struct {
	namespace string
	queue     pipeline.Queue
	client    kubernetes.Interface
	kube      map[string]kubeinformers.SharedInformerFactory // by what their informers select: see selecting
	glassback externalversions.SharedInformerFactory
	trace     *trace.Recorder
	informers []named // all of them, but for those of watchSecret
}

// named is an informer and what it watches.
type named struct {
	*pipeline.Informer

	resource string
}

func newFactories(c *clients.Clients, namespace string, queue pipeline.Queue, recorder *trace.Recorder) *factories {
	return &factories{
		namespace: namespace,
		queue:     queue,
		client:    c.Kube,
		kube:      map[string]kubeinformers.SharedInformerFactory{},
		glassback: externalversions.NewSharedInformerFactoryWithOptions(c.Glassback, 0, externalversions.WithNamespace(namespace)),
		trace:     recorder,
	}
}

// start starts all informers that were asked for. They run until ctx ends: see shutdown.
func (f *factories) start(ctx context.Context) {
	for _, kube := range f.kube {
		kube.StartWithContext(ctx)
	}
	f.glassback.StartWithContext(ctx)
}

// synced waits until all caches are, and returns false if ctx ended before that.
func (f *factories) synced(ctx context.Context) bool {
	for _, kube := range f.kube {
		if kube.WaitForCacheSyncWithContext(ctx).Err != nil {
			return false
		}
	}
	return f.glassback.WaitForCacheSyncWithContext(ctx).Err == nil
}

// shutdown returns when all informers have ended.
func (f *factories) shutdown() {
	for _, kube := range f.kube {
		kube.Shutdown()
	}
	f.glassback.Shutdown()
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

func (f *factories) redisClusters() redisinformers.RedisClusterInformer {
	f.own(&redisv1.RedisCluster{}, redisv1.GroupName, "redisclusters", func(c versioned.Interface) cache.Getter { return c.RedisV1().RESTClient() })
	return f.glassback.Redis().V1().RedisClusters()
}

func (f *factories) ecsInstances() ecsinformers.ECSInstanceInformer {
	f.own(&ecsv1alpha1.ECSInstance{}, ecsv1alpha1.GroupName, "ecsinstances", func(c versioned.Interface) cache.Getter { return c.AlibabacloudV1alpha1().RESTClient() })
	return f.glassback.Alibabacloud().V1alpha1().ECSInstances()
}

// watchSecret returns an informer for one Secret. It is no factory's: who asks for it runs it,
// for as long as that Secret matters.
func (f *factories) watchSecret(namespace, name string) cache.SharedIndexInformer {
	lw := cache.NewFilteredListWatchFromClient(f.client.CoreV1().RESTClient(), "secrets", namespace, having(fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()))
	return f.make(pipeline.Config{
		Resource:      qualified("secrets", corev1.GroupName),
		Name:          "secrets(ecsinstance)",
		Object:        &corev1.Secret{},
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(lw, f.client),
		Transform:     withoutManagedFields,
	})
}

// selecting returns the factory of the informers of built-in resources that select alike.
// A factory has one informer for each type, whatever that selects; and several
// controllers have children of a type, each by a label of its own.
func (f *factories) selecting(selector string) kubeinformers.SharedInformerFactory {
	if f.kube[selector] == nil {
		f.kube[selector] = kubeinformers.NewSharedInformerFactoryWithOptions(f.client, 0, kubeinformers.WithNamespace(f.namespace))
	}
	return f.kube[selector]
}

// children watches the objects of a built-in resource that have the label by which
// a controller marks its children, as far as keep leaves them. It returns the factory
// that has the informer.
func (f *factories) children(
	object runtime.Object, group, resource, label string, keep cache.TransformFunc, getter func(kubernetes.Interface) cache.Getter,
) kubeinformers.SharedInformerFactory {
	kube := f.selecting(label)
	kube.InformerFor(object, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.informer(pipeline.Config{
			Resource:      qualified(resource, group),
			Object:        object,
			Name:          whose(resource, group, label),
			ListerWatcher: f.listWatch(getter(client), client, resource, labelled(label)),
			ResyncPeriod:  resync,
			Transform:     keep,
		})
	})
	return kube
}

// one watches a single object of a built-in resource. It returns the factory that has
// the informer.
func (f *factories) one(
	object runtime.Object, group, resource, name string, getter func(kubernetes.Interface) cache.Getter,
) kubeinformers.SharedInformerFactory {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	kube := f.selecting(selector)
	kube.InformerFor(object, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.informer(pipeline.Config{
			Resource:      qualified(resource, group),
			Object:        object,
			ListerWatcher: f.listWatch(getter(client), client, resource, having(selector)),
			ResyncPeriod:  resync,
			Transform:     withoutManagedFields,
		})
	})
	return kube
}

func (f *factories) secret(name string) coreinformers.SecretInformer {
	return f.one(&corev1.Secret{}, corev1.GroupName, "secrets", name,
		func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() }).Core().V1().Secrets()
}

func (f *factories) lease(name string) coordinationinformers.LeaseInformer {
	return f.one(&coordinationv1.Lease{}, coordinationv1.GroupName, "leases", name,
		func(c kubernetes.Interface) cache.Getter { return c.CoordinationV1().RESTClient() }).Coordination().V1().Leases()
}

func (f *factories) mutatingWebhookConfiguration(name string) admissioninformers.MutatingWebhookConfigurationInformer {
	return f.one(&admissionregistrationv1.MutatingWebhookConfiguration{}, admissionregistrationv1.GroupName, "mutatingwebhookconfigurations", name,
		func(c kubernetes.Interface) cache.Getter { return c.AdmissionregistrationV1().RESTClient() }).Admissionregistration().V1().MutatingWebhookConfigurations()
}

func (f *factories) validatingWebhookConfiguration(name string) admissioninformers.ValidatingWebhookConfigurationInformer {
	return f.one(&admissionregistrationv1.ValidatingWebhookConfiguration{}, admissionregistrationv1.GroupName, "validatingwebhookconfigurations", name,
		func(c kubernetes.Interface) cache.Getter { return c.AdmissionregistrationV1().RESTClient() }).Admissionregistration().V1().ValidatingWebhookConfigurations()
}

func (f *factories) jobs() batchinformers.JobInformer {
	return f.children(&batchv1.Job{}, batchv1.GroupName, "jobs", mcjv1.LabelMyCronJob, metadataAndStatus,
		func(c kubernetes.Interface) cache.Getter { return c.BatchV1().RESTClient() }).Batch().V1().Jobs()
}

func (f *factories) configMaps(label string) coreinformers.ConfigMapInformer {
	return f.children(&corev1.ConfigMap{}, corev1.GroupName, "configmaps", label, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() }).Core().V1().ConfigMaps()
}

func (f *factories) deployments() appsinformers.DeploymentInformer {
	return f.children(&appsv1.Deployment{}, appsv1.GroupName, "deployments", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.AppsV1().RESTClient() }).Apps().V1().Deployments()
}

func (f *factories) services(label string) coreinformers.ServiceInformer {
	return f.children(&corev1.Service{}, corev1.GroupName, "services", label, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() }).Core().V1().Services()
}

func (f *factories) ingresses() networkinginformers.IngressInformer {
	return f.children(&networkingv1.Ingress{}, networkingv1.GroupName, "ingresses", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.NetworkingV1().RESTClient() }).Networking().V1().Ingresses()
}

func (f *factories) autoscalers() autoscalinginformers.HorizontalPodAutoscalerInformer {
	return f.children(&autoscalingv2.HorizontalPodAutoscaler{}, autoscalingv2.GroupName, "horizontalpodautoscalers", appv1.LabelApplication, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.AutoscalingV2().RESTClient() }).Autoscaling().V2().HorizontalPodAutoscalers()
}

func (f *factories) budgets(label string) policyinformers.PodDisruptionBudgetInformer {
	return f.children(&policyv1.PodDisruptionBudget{}, policyv1.GroupName, "poddisruptionbudgets", label, withOwnManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.PolicyV1().RESTClient() }).Policy().V1().PodDisruptionBudgets()
}

func (f *factories) pods() coreinformers.PodInformer {
	return f.children(&corev1.Pod{}, corev1.GroupName, "pods", redisv1.LabelRedisCluster, whereabouts,
		func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() }).Core().V1().Pods()
}

func (f *factories) claims() coreinformers.PersistentVolumeClaimInformer {
	return f.children(&corev1.PersistentVolumeClaim{}, corev1.GroupName, "persistentvolumeclaims", redisv1.LabelRedisCluster, withoutManagedFields,
		func(c kubernetes.Interface) cache.Getter { return c.CoreV1().RESTClient() }).Core().V1().PersistentVolumeClaims()
}

// watchBackoff lets a watch come back soon after the API server does: Jobs that are
// due do not wait for the half a minute that client-go's own backoff grows to.
var watchBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 4 * time.Second}

// informer makes an informer that runs for as long as the factories do.
func (f *factories) informer(config pipeline.Config) *pipeline.Informer {
	made := f.make(config)
	f.informers = append(f.informers, named{made, config.Resource})
	return made
}

func (f *factories) make(config pipeline.Config) *pipeline.Informer {
	config.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	config.Backoff = &watchBackoff
	config.Queue = f.queue
	config.Trace = f.trace
	config.Name = cmp.Or(config.Name, config.Resource)
	if f.namespace != "" {
		config.Name += "/" + f.namespace
	}
	made := pipeline.New(config)
	metrics.AddInformer(config.Resource, f.namespace, made)
	return made
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

func having(selector string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) { options.FieldSelector = selector }
}

// shared are the resources that children of several controllers are of.
var shared = sets.New("configmaps", "services", "poddisruptionbudgets")

// whose is how traces call the informer of a controller's children: "services(application)", where
// others have some too.
func whose(resource, group, label string) string {
	if name := qualified(resource, group); shared.Has(resource) {
		return name + "(" + label[strings.LastIndexByte(label, '/')+1:] + ")"
	}
	return qualified(resource, group)
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

// whereabouts keeps of a Pod what the controller of RedisClusters reads: whose it is, of
// which revision, where it runs, and how it is. What it is made of takes most of the
// room.
func whereabouts(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		containers := make([]corev1.Container, len(pod.Spec.Containers))
		for i, c := range pod.Spec.Containers {
			containers[i] = corev1.Container{Name: c.Name, Ports: c.Ports}
		}
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Containers: containers}
		pod.Status = corev1.PodStatus{
			Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, Conditions: pod.Status.Conditions, ContainerStatuses: pod.Status.ContainerStatuses,
		}
	}
	return withoutManagedFields(obj)
}
