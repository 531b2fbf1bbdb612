// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
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
	"github.com/glassback/glassback/pkg/pipeline"
)

// factories make the informers of one namespace, or of all. Each informer belongs to a generated factory.
// So generated informers and listers are used everywhere. The factory runs a pipeline.Informer in place of client-go's informer.
type factories struct {
	namespace string
	queue     pipeline.Queue
	clients   *clients.Clients
	kube      map[selector]kubeinformers.SharedInformerFactory // see addBuiltIn
	glassback externalversions.SharedInformerFactory
	observers *observers
	informers []named
}

// named is an informer with the name of its resource.
type named struct {
	*pipeline.Informer

	resource string
}

// selector says which objects of a resource an informer watches: all, those with a label, or one.
type selector struct{ label, field string }

func onlyObject(name string) selector {
	return selector{field: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

func newFactories(c *clients.Clients, namespace string, queue pipeline.Queue, observers *observers) *factories {
	return &factories{
		namespace: namespace,
		queue:     queue,
		clients:   c,
		kube:      map[selector]kubeinformers.SharedInformerFactory{},
		glassback: externalversions.NewSharedInformerFactoryWithOptions(c.Glassback, 0, externalversions.WithNamespace(namespace)),
		observers: observers,
	}
}

// start starts all informers that the factories have made. They run until ctx ends: see shutdown.
func (f *factories) start(ctx context.Context) {
	for _, kube := range f.kube {
		kube.StartWithContext(ctx)
	}
	f.glassback.StartWithContext(ctx)
}

// waitForSync waits until all caches have synced, and returns false if ctx ended before that.
func (f *factories) waitForSync(ctx context.Context) bool {
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

// addCustom adds an informer for all objects of one of Glassback's custom resources.
func (f *factories) addCustom(object runtime.Object, resource string, client rest.Interface) {
	f.glassback.InformerFor(object, func(clientset versioned.Interface, _ time.Duration) cache.SharedIndexInformer {
		return f.informer(object, resource, selector{}, withoutManagedFields, client, clientset)
	})
}

func (f *factories) apiExampleAs() groupainformers.ApiExampleAInformer {
	f.addCustom(&groupav1.ApiExampleA{}, "apiexampleas", f.clients.Glassback.GroupaV1().RESTClient())
	return f.glassback.Groupa().V1().ApiExampleAs()
}

func (f *factories) applications() appinformers.ApplicationInformer {
	f.addCustom(&appv1.Application{}, "applications", f.clients.Glassback.AppV1().RESTClient())
	return f.glassback.App().V1().Applications()
}

func (f *factories) myCronJobs() mcjinformers.MyCronJobInformer {
	f.addCustom(&mcjv1.MyCronJob{}, "mycronjobs", f.clients.Glassback.BatchV1().RESTClient())
	return f.glassback.Batch().V1().MyCronJobs()
}

func (f *factories) redisClusters() redisinformers.RedisClusterInformer {
	f.addCustom(&redisv1.RedisCluster{}, "redisclusters", f.clients.Glassback.RedisV1().RESTClient())
	return f.glassback.Redis().V1().RedisClusters()
}

func (f *factories) ecsInstances() ecsinformers.ECSInstanceInformer {
	f.addCustom(&ecsv1alpha1.ECSInstance{}, "ecsinstances", f.clients.Glassback.AlibabacloudV1alpha1().RESTClient())
	return f.glassback.Alibabacloud().V1alpha1().ECSInstances()
}

// addBuiltIn adds an informer for the selected objects of a built-in resource, and returns its factory. Each selector has its own factory,
// because a factory has only one informer for each type. Several controllers have children of one type, and each controller selects its
// children by its own label.
func (f *factories) addBuiltIn(
	object runtime.Object, resource string, s selector, client rest.Interface,
) kubeinformers.SharedInformerFactory {
	if f.kube[s] == nil {
		f.kube[s] = kubeinformers.NewSharedInformerFactoryWithOptions(f.clients.Kube, 0, kubeinformers.WithNamespace(f.namespace))
	}
	f.kube[s].InformerFor(object, func(clientset kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		trimmed := withoutManagedFields
		if s.label != "" {
			trimmed = trimChild
		}
		return f.informer(object, resource, s, trimmed, client, clientset)
	})
	return f.kube[s]
}

func (f *factories) secret(name string) coreinformers.SecretInformer {
	client := f.clients.Kube.CoreV1().RESTClient()
	return f.addBuiltIn(&corev1.Secret{}, "secrets", onlyObject(name), client).Core().V1().Secrets()
}

func (f *factories) configMap(name string) coreinformers.ConfigMapInformer {
	client := f.clients.Kube.CoreV1().RESTClient()
	return f.addBuiltIn(&corev1.ConfigMap{}, "configmaps", onlyObject(name), client).Core().V1().ConfigMaps()
}

func (f *factories) lease(name string) coordinationinformers.LeaseInformer {
	client := f.clients.Kube.CoordinationV1().RESTClient()
	return f.addBuiltIn(&coordinationv1.Lease{}, "leases", onlyObject(name), client).Coordination().V1().Leases()
}

func (f *factories) mutatingWebhookConfiguration(name string) admissioninformers.MutatingWebhookConfigurationInformer {
	client := f.clients.Kube.AdmissionregistrationV1().RESTClient()
	return f.addBuiltIn(&admissionregistrationv1.MutatingWebhookConfiguration{}, "mutatingwebhookconfigurations", onlyObject(name),
		client).Admissionregistration().V1().MutatingWebhookConfigurations()
}

func (f *factories) validatingWebhookConfiguration(name string) admissioninformers.ValidatingWebhookConfigurationInformer {
	client := f.clients.Kube.AdmissionregistrationV1().RESTClient()
	return f.addBuiltIn(&admissionregistrationv1.ValidatingWebhookConfiguration{}, "validatingwebhookconfigurations", onlyObject(name),
		client).Admissionregistration().V1().ValidatingWebhookConfigurations()
}

func (f *factories) jobs(label string) batchinformers.JobInformer {
	client := f.clients.Kube.BatchV1().RESTClient()
	return f.addBuiltIn(&batchv1.Job{}, "jobs", selector{label: label}, client).Batch().V1().Jobs()
}

func (f *factories) configMaps(label string) coreinformers.ConfigMapInformer {
	client := f.clients.Kube.CoreV1().RESTClient()
	return f.addBuiltIn(&corev1.ConfigMap{}, "configmaps", selector{label: label}, client).Core().V1().ConfigMaps()
}

func (f *factories) deployments() appsinformers.DeploymentInformer {
	client := f.clients.Kube.AppsV1().RESTClient()
	return f.addBuiltIn(&appsv1.Deployment{}, "deployments", selector{label: appv1.LabelApplication}, client).
		Apps().V1().Deployments()
}

func (f *factories) services(label string) coreinformers.ServiceInformer {
	client := f.clients.Kube.CoreV1().RESTClient()
	return f.addBuiltIn(&corev1.Service{}, "services", selector{label: label}, client).Core().V1().Services()
}

func (f *factories) ingresses() networkinginformers.IngressInformer {
	client := f.clients.Kube.NetworkingV1().RESTClient()
	return f.addBuiltIn(&networkingv1.Ingress{}, "ingresses", selector{label: appv1.LabelApplication}, client).
		Networking().V1().Ingresses()
}

func (f *factories) autoscalers() autoscalinginformers.HorizontalPodAutoscalerInformer {
	client := f.clients.Kube.AutoscalingV2().RESTClient()
	return f.addBuiltIn(&autoscalingv2.HorizontalPodAutoscaler{}, "horizontalpodautoscalers", selector{label: appv1.LabelApplication},
		client).Autoscaling().V2().HorizontalPodAutoscalers()
}

func (f *factories) budgets(label string) policyinformers.PodDisruptionBudgetInformer {
	client := f.clients.Kube.PolicyV1().RESTClient()
	return f.addBuiltIn(&policyv1.PodDisruptionBudget{}, "poddisruptionbudgets", selector{label: label}, client).
		Policy().V1().PodDisruptionBudgets()
}

func (f *factories) networkPolicies() networkinginformers.NetworkPolicyInformer {
	client := f.clients.Kube.NetworkingV1().RESTClient()
	return f.addBuiltIn(&networkingv1.NetworkPolicy{}, "networkpolicies", selector{label: redisv1.LabelRedisCluster}, client).
		Networking().V1().NetworkPolicies()
}

func (f *factories) pods() coreinformers.PodInformer {
	client := f.clients.Kube.CoreV1().RESTClient()
	return f.addBuiltIn(&corev1.Pod{}, "pods", selector{label: redisv1.LabelRedisCluster}, client).Core().V1().Pods()
}

func (f *factories) claims() coreinformers.PersistentVolumeClaimInformer {
	client := f.clients.Kube.CoreV1().RESTClient()
	return f.addBuiltIn(&corev1.PersistentVolumeClaim{}, "persistentvolumeclaims", selector{label: redisv1.LabelRedisCluster}, client).
		Core().V1().PersistentVolumeClaims()
}

// watchBackoff is the backoff while LIST or WATCH fails. client-go's own backoff grows to half a minute: after an outage of the API
// server, Jobs that are due would wait that long.
var watchBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 4 * time.Second}

// informer makes an informer that runs for as long as the factories do.
func (f *factories) informer(
	object runtime.Object, resource string, s selector, trim cache.TransformFunc, client rest.Interface, clientset any,
) *pipeline.Informer {
	config := pipeline.Config{
		Resource: qualified(client, resource), Object: object, Transform: trim,
		ListerWatcher: listWatch(client, clientset, resource, f.namespace, s),
	}
	if shared.Has(resource) && s.label != "" {
		config.Name = config.Resource + "(" + s.label[strings.LastIndexByte(s.label, '/')+1:] + ")" // "services(application)"
	}
	made := f.make(config)
	f.informers = append(f.informers, named{made, config.Resource})
	return made
}

// shared holds the resources that are children of several controllers.
var shared = sets.New("configmaps", "services", "poddisruptionbudgets", "jobs")

func (f *factories) make(config pipeline.Config) *pipeline.Informer {
	config.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	config.Backoff = &watchBackoff
	config.Queue = f.queue
	config.Trace = f.observers.stages
	config.Name = cmp.Or(config.Name, config.Resource)
	if f.namespace != "" {
		config.Name += "/" + f.namespace
	}
	made := pipeline.New(config)
	f.observers.metrics.AddInformer(config.Resource, f.namespace, made)
	return made
}

// listWatch returns a ListerWatcher of the selected objects.
func listWatch(client rest.Interface, clientset any, resource, namespace string, s selector) cache.ListerWatcher {
	lw := cache.NewFilteredListWatchFromClient(client, resource, namespace, func(options *metav1.ListOptions) {
		options.LabelSelector, options.FieldSelector = s.label, s.field
	})
	return cache.ToListWatcherWithWatchListSemantics(lw, clientset)
}

// qualified returns the name of a resource in traces and logs, such as "jobs.batch".
func qualified(client rest.Interface, resource string) string {
	return schema.GroupResource{Group: client.APIVersion().Group, Resource: resource}.String()
}

// withoutManagedFields drops the managedFields, which take most of the memory of an object. Only applied children need them.
func withoutManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
