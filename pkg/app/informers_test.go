/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, subresource string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "v1", FieldsType: "FieldsV1"}
}

func TestTransforms(t *testing.T) {
	own := entry(glassback.Name, metav1.ManagedFieldsOperationApply, "")
	theirs := entry("kubectl", metav1.ManagedFieldsOperationApply, "")
	status := entry("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, "status")
	updated := entry(glassback.Name, metav1.ManagedFieldsOperationUpdate, "")
	configMap := func(entries ...metav1.ManagedFieldsEntry) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: entries}, Data: map[string]string{"a": "1"}}
	}
	job := func(template corev1.PodTemplateSpec, entries ...metav1.ManagedFieldsEntry) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: entries},
			Spec:       batchv1.JobSpec{Template: template}, Status: batchv1.JobStatus{Succeeded: 1},
		}
	}
	pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
	for sentence, test := range map[string]struct {
		transform cache.TransformFunc
		object    any
		want      any
	}{
		"of an own object no managedFields are kept":               {withoutManagedFields, configMap(own, theirs, status), configMap()},
		"of a child those are kept that tell what was applied":     {withOwnManagedFields, configMap(theirs, own, status, updated), configMap(own)},
		"of a child that others made none are kept":                {withOwnManagedFields, configMap(theirs, status), configMap()},
		"of a child that has none none are kept":                   {withOwnManagedFields, configMap(), configMap()},
		"of a Job the template is not kept, nor the managedFields": {metadataAndStatus, job(pods, own, status), job(corev1.PodTemplateSpec{})},
		"a tombstone passes, to be looked into by who handles it": {
			withOwnManagedFields, cache.DeletedFinalStateUnknown{Key: "a", Obj: configMap(own)}, cache.DeletedFinalStateUnknown{Key: "a", Obj: configMap(own)},
		},
		"what is no object passes": {withoutManagedFields, "text", "text"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := test.transform(test.object)
			if err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("%+v is left, want %+v", got, test.want)
			}
		})
	}
}

// TestEnoughIsKeptOfAChild is about what package child reads of a cached object.
func TestEnoughIsKeptOfAChild(t *testing.T) {
	wanted := appsv1ac.Deployment("a", "default").WithLabels(map[string]string{"a": "1"}).WithSpec(appsv1ac.DeploymentSpec().WithReplicas(3))
	applied, err := fake.NewClientset().AppsV1().Deployments("default").
		Apply(t.Context(), wanted, metav1.ApplyOptions{FieldManager: glassback.Name, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	applied.ManagedFields = append(applied.ManagedFields, entry("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, "status"))
	kept, err := withOwnManagedFields(applied)
	if err != nil {
		t.Fatal(err)
	}
	owned, err := appsv1ac.ExtractDeployment(kept.(*appsv1.Deployment), glassback.Name)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(owned, wanted) {
		t.Errorf("what is owned of what is kept is %+v, want what was applied", owned)
	}
}

// TestInformersAskForNoMoreThanTheyNeed compares what is asked of the API server:
// objects of Glassback's own are watched all, and of others those with a label, or a name.
func TestInformersAskForNoMoreThanTheyNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // It ends when all goroutines have.
		var mu sync.Mutex
		asked := map[string]string{}
		config := &rest.Config{Host: "http://api", QPS: -1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[r.URL.Path] = cmp.Or(r.URL.Query().Get("labelSelector"), r.URL.Query().Get("fieldSelector"))
			return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Request: r}, nil
		})}
		c := &clients{kube: kubernetes.NewForConfigOrDie(config), glassback: versioned.NewForConfigOrDie(config)}
		f, cluster := newFactories(c, "shop", nil), newFactories(c, "", nil)
		want := map[string]string{}
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var running sync.WaitGroup
		for path, informer := range map[string]struct {
			cache.SharedIndexInformer
			selector string
		}{
			"/apis/app.aiops.org/v1/namespaces/shop/applications":           {f.applications().Informer(), ""},
			"/apis/groupa.k8s.zhuang.com/v1/namespaces/shop/apiexampleas":   {f.apiExampleAs().Informer(), ""},
			"/apis/batch.wzj.kubebuilder.io/v1/namespaces/shop/mycronjobs":  {f.myCronJobs().Informer(), ""},
			"/api/v1/namespaces/shop/configmaps":                            {f.configMaps().Informer(), "groupa.k8s.zhuang.com/apiexamplea"},
			"/apis/batch/v1/namespaces/shop/jobs":                           {f.jobs().Informer(), "batch.wzj.kubebuilder.io/mycronjob"},
			"/apis/apps/v1/namespaces/shop/deployments":                     {f.deployments().Informer(), "app.aiops.org/application"},
			"/api/v1/namespaces/shop/services":                              {f.services().Informer(), "app.aiops.org/application"},
			"/apis/networking.k8s.io/v1/namespaces/shop/ingresses":          {f.ingresses().Informer(), "app.aiops.org/application"},
			"/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers": {f.autoscalers().Informer(), "app.aiops.org/application"},
			"/apis/policy/v1/namespaces/shop/poddisruptionbudgets":          {f.budgets().Informer(), "app.aiops.org/application"},
			"/api/v1/namespaces/shop/secrets":                               {f.secret("ca").Informer(), "metadata.name=ca"},
			"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": {
				cluster.mutatingWebhookConfiguration("own").Informer(), "metadata.name=own"},
			"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {
				cluster.validatingWebhookConfiguration("own").Informer(), "metadata.name=own"},
		} {
			want[path] = informer.selector
			running.Go(func() { informer.RunWithContext(ctx) })
		}
		synctest.Wait() // Each waits for its next try.
		cancel()
		running.Wait()
		if !equality.Semantic.DeepEqual(asked, want) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
	})
}
