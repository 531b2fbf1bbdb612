// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	gateway "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"github.com/glassback/glassback/pkg/apis/glassback"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, subresource string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "v1", FieldsType: "FieldsV1",
	}
}

func TestTransforms(t *testing.T) {
	own := entry(glassback.Name, metav1.ManagedFieldsOperationApply, "")
	theirs := entry("kubectl", metav1.ManagedFieldsOperationApply, "")
	status := entry("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, "status")
	updated := entry(glassback.Name, metav1.ManagedFieldsOperationUpdate, "")
	controlled := []metav1.OwnerReference{
		{APIVersion: redisv1.SchemeGroupVersion.String(), Kind: "RedisCluster", Name: "a", Controller: new(true)},
	}
	configMap := func(entries ...metav1.ManagedFieldsEntry) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: entries, OwnerReferences: controlled}, Data: map[string]string{"a": "1"},
		}
	}
	applied := own
	applied.FieldsV1 = metav1.NewFieldsV1(`{"f:data":{"f:b":{}}}`)
	large := func(texts map[string]string, owners []metav1.OwnerReference, entries ...metav1.ManagedFieldsEntry) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: "a", Namespace: "shop", UID: "u", ResourceVersion: "7", OwnerReferences: owners, ManagedFields: entries,
				Labels: map[string]string{redisv1.LabelRedisCluster: "a"}, Annotations: texts,
			},
			Data: texts,
		}
	}
	others := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "a", Controller: new(true)}}
	megabyte := strings.Repeat("x", 1<<20)
	huge := map[string]string{"a": megabyte, "b": "1", manifest.AnnotationRevision: "r", glassback.AnnotationPaused: "true"}
	read := map[string]string{manifest.AnnotationRevision: "r", glassback.AnnotationPaused: "true"}
	ofStranger := large(read, others)
	ofStranger.Data = nil
	withApplied := large(map[string]string{"b": "1", manifest.AnnotationRevision: "r", glassback.AnnotationPaused: "true"},
		controlled, applied)
	job := func(template corev1.PodTemplateSpec, entries ...metav1.ManagedFieldsEntry) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: entries, OwnerReferences: controlled},
			Spec:       batchv1.JobSpec{Template: template}, Status: batchv1.JobStatus{Succeeded: 1},
		}
	}
	deployment := func(podLabel string, entries ...metav1.ManagedFieldsEntry) *appsv1.Deployment {
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "a"}, ManagedFields: entries, OwnerReferences: controlled},
		}
		d.Spec.Template.Labels = map[string]string{"a": podLabel}
		return d
	}
	pod := func(secret string, entries ...metav1.ManagedFieldsEntry) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "a-0", Namespace: "shop", UID: "u", ResourceVersion: "7", ManagedFields: entries,
				Labels: map[string]string{redisv1.LabelRedisCluster: "a"}, Annotations: map[string]string{manifest.AnnotationRevision: "r"},
				OwnerReferences: controlled, DeletionTimestamp: &metav1.Time{},
			},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{
				{Name: "redis", Image: "redis:7", Ports: []corev1.ContainerPort{{Name: "redis", ContainerPort: 6379}}},
			}, Volumes: []corev1.Volume{{Name: "auth", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "a"},
			}}}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, HostIP: "10.1.0.1", PodIP: "10.0.0.1",
				Conditions:            []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", Ready: true}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "redis", Ready: true}},
			},
		}
		if secret != "" {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: secret})
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: secret}}
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{}
			p.Spec.InitContainers = []corev1.Container{{Name: secret}}
			p.Status.HostIPs, p.Status.Message = []corev1.HostIP{{IP: "10.1.0.1"}}, secret
		}
		return p
	}
	pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
	for sentence, test := range map[string]struct {
		transform cache.TransformFunc
		object    any
		want      any
	}{
		"of an own object no managedFields are kept": {withoutManagedFields, configMap(own, theirs, status), configMap()},
		"of a child those are kept that tell what was applied": {
			trimChild, configMap(theirs, own, status, updated), configMap(own),
		},
		"of a Deployment, its labels and those of its Pods stay": {
			trimChild, deployment("a", theirs, own), deployment("a", own),
		},
		"... also if they differ":                                  {trimChild, deployment("b", own), deployment("b", own)},
		"of a Job the template is not kept, nor the managedFields": {trimChild, job(pods, own, status), job(corev1.PodTemplateSpec{})},
		"of a Pod what tells how it is":                            {trimChild, pod("password", own, status), pod("")},
		"of a Pod that no custom resource controls, nothing": {
			trimChild, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}, &corev1.Pod{},
		},
		"of a ConfigMap that something else controls, that it exists": {trimChild, large(huge, others), ofStranger},
		"and no more if its labels are many": {
			trimChild, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{groupav1.LabelApiExampleA: megabyte}}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		},
		"of a large one, what the operator has applied or reads": {trimChild, large(huge, controlled, applied), withApplied},
		"of a claim, which has no controller, its spec": {
			trimChild, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}},
			&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := test.transform(test.object)
			must.Succeed(t, err)
			if !equality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("%+v is left, want %+v", got, test.want)
			}
		})
	}
}

// TestInformersAskForNoMoreThanTheyNeed compares what the informers of all controllers ask of the API server: objects of Glassback's own
// are watched all, and of others those with a label, or a name. Of one type there can be several informers, each with a label of its own.
func TestInformersAskForNoMoreThanTheyNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // It ends when all goroutines have.
		var mu sync.Mutex
		asked := sets.New[string]()
		config := &rest.Config{Host: "http://api", QPS: -1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			q := r.URL.Query()
			asked.Insert(strings.TrimSpace(r.URL.Path + " " + cmp.Or(q.Get("labelSelector"), q.Get("fieldSelector"))))
			return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: r}, nil
		})}
		c := &clients.Clients{
			Kube: kubernetes.NewForConfigOrDie(config), Glassback: versioned.NewForConfigOrDie(config), Gateway: gateway.NewForConfigOrDie(config),
		}
		counted := &observers{metrics: metrics.New("", "", 0)}
		f, cluster := newInformers(c, "shop", pipeline.RealFIFO, counted), newInformers(c, "", pipeline.RealFIFO, counted)
		for _, d := range kinds.All {
			controller, err := d.New(descriptor.Environment{Clients: c, Informers: f.Informers})
			must.Succeed(t, err)
			controller.Loop().Queue.ShutDown() // Its tickers would never let the time jump.
		}
		f.Secret("ca").Informer()
		cluster.MutatingWebhookConfiguration("own").Informer()
		cluster.ValidatingWebhookConfiguration("own").Informer()
		const admission = "/apis/admissionregistration.k8s.io/v1/"
		const forApplications, forRedis = "app.aiops.org/application", "bytewang123-redis.wzj.kubebuilder.io/rediscluster"
		want := sets.New(
			"/apis/app.aiops.org/v1/namespaces/shop/applications",
			"/apis/groupa.k8s.zhuang.com/v1/namespaces/shop/apiexampleas",
			"/apis/alibabacloud.zhouzhengxi.com/v1alpha1/namespaces/shop/ecsinstances",
			"/apis/batch.wzj.kubebuilder.io/v1/namespaces/shop/mycronjobs",
			"/apis/bytewang123-redis.wzj.kubebuilder.io/v1/namespaces/shop/redisclusters",
			"/api/v1/namespaces/shop/configmaps groupa.k8s.zhuang.com/apiexamplea",
			"/api/v1/namespaces/shop/configmaps "+forRedis,
			"/apis/batch/v1/namespaces/shop/jobs batch.wzj.kubebuilder.io/mycronjob",
			"/apis/batch/v1/namespaces/shop/jobs "+forRedis,
			"/apis/apps/v1/namespaces/shop/deployments "+forApplications,
			"/api/v1/namespaces/shop/services "+forApplications,
			"/api/v1/namespaces/shop/services "+forRedis,
			"/apis/networking.k8s.io/v1/namespaces/shop/ingresses "+forApplications,
			"/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers "+forApplications,
			"/apis/policy/v1/namespaces/shop/poddisruptionbudgets "+forApplications,
			"/apis/policy/v1/namespaces/shop/poddisruptionbudgets "+forRedis,
			"/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes app.aiops.org/application",
			"/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies "+forRedis,
			"/api/v1/namespaces/shop/pods "+forRedis,
			"/api/v1/namespaces/shop/persistentvolumeclaims "+forRedis,
			"/api/v1/namespaces/shop/secrets metadata.name=ca",
			admission+"mutatingwebhookconfigurations metadata.name=own",
			admission+"validatingwebhookconfigurations metadata.name=own",
		)
		made := slices.Concat(f.all, cluster.all)
		if len(made) != len(want) {
			t.Errorf("there are %d informers for %d requests", len(made), len(want))
		}
		for _, i := range made {
			if i.Queue() != pipeline.RealFIFO {
				t.Errorf("the informer of %s has a %s", i.Resource(), i.Queue())
			}
		}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		f.Start(ctx)
		cluster.Start(ctx)
		synctest.Wait() // Each waits for its next try.
		cancel()
		if f.WaitForSync(ctx) || cluster.WaitForSync(ctx) {
			t.Error("they are synced, and the API server has not answered")
		}
		f.Shutdown()
		cluster.Shutdown()
		for _, request := range sets.List(want.Difference(asked)) {
			t.Errorf("no request for %s", request)
		}
		for _, request := range sets.List(asked.Difference(want)) {
			t.Errorf("unexpected request for %s", request)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
