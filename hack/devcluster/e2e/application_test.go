// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// TestApplication runs all cases on one cluster with a simulated node. Each case has its own namespace.
func TestApplication(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds", "--controllers=application", "-v=2").waitFor("Started controller")
	t.Run("cases", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world, string){
			"the seed's Application gets its three children":                              testApplicationSeed,
			"children that a user changes or deletes are repaired":                        testDrift,
			"fields that other clients set are left alone":                                testOthersFields,
			"children that the spec no longer asks for are deleted":                       testPrune,
			"the number of replicas never drops when the autoscaler takes over or leaves": testReplicasHandOver,
			"kubectl scale scales the Application":                                        testScale,
			"a condition names a foreign object, which is never changed":                  testConflict,
			"a condition names foreign objects of all kinds":                              testConflictOfAllKinds,
			"a child without its label gets the label back":                               testLostLabel,
			"the status shows the Deployment's message when Pods cannot be created":       testReplicaFailure,
			"the status shows that the API server rejects the Deployment":                 testRejectedDeployment,
			"a paused Application is left alone":                                          testPausedApplication,
			"deleting an Application deletes all of its objects":                          testApplicationGarbage,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w, w.namespace(t))
			})
		}
	})
}

func (w *world) createApp(t *testing.T, ns, name string, change ...func(*appv1.Application)) *appv1.Application {
	t.Helper()
	app := application(name)
	for _, f := range change {
		f(app)
	}
	app, err := w.glassback.AppV1().Applications(ns).Create(t.Context(), app, metav1.CreateOptions{})
	w.must(t, err)
	return app
}

func (w *world) patchApp(t *testing.T, ns, name, patch string) {
	t.Helper()
	_, err := w.glassback.AppV1().Applications(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must(t, err)
}

func (w *world) deployment(t *testing.T, ns, name string) *appsv1.Deployment {
	t.Helper()
	d, err := w.kube.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{})
	w.must(t, err)
	return d
}

func (w *world) patchDeployment(t *testing.T, ns, name, patch string) {
	t.Helper()
	_, err := w.kube.AppsV1().Deployments(ns).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "kubectl-edit"})
	w.must(t, err)
}

// condition waits until the Application has the condition with the reason, for its latest generation, and returns the condition.
func (w *world) condition(t *testing.T, ns, name, kind, reason string) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	eventually(t, 60*time.Second, func(ctx context.Context) error {
		app, err := w.glassback.AppV1().Applications(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(app.Status.Conditions, kind)
		if c == nil || c.Reason != reason || c.ObservedGeneration != app.Generation {
			return fmt.Errorf("condition %s is %+v, want reason %s", kind, c, reason)
		}
		found = *c
		return nil
	})
	return found
}

func (w *world) ready(t *testing.T, ns, name string) {
	t.Helper()
	w.condition(t, ns, name, glassback.ConditionReady, "RolledOut")
}

func testApplicationSeed(t *testing.T, w *world, ns string) {
	const name = "application-sample"
	w.createApp(t, ns, name)
	w.ready(t, ns, name)
	s, err := w.kube.CoreV1().Services(ns).Get(t.Context(), name, metav1.GetOptions{})
	w.must(t, err)
	if p := s.Spec.Ports; s.Spec.Type != corev1.ServiceTypeClusterIP || len(p) != 1 || p[0].Port != 8080 ||
		p[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("Service: %s %+v, want ClusterIP 8080/TCP", s.Spec.Type, p)
	}
	i, err := w.kube.NetworkingV1().Ingresses(ns).Get(t.Context(), name, metav1.GetOptions{})
	w.must(t, err)
	if *i.Spec.IngressClassName != "nginx" || i.Spec.Rules[0].Host != "example.foo.com" || len(i.Spec.TLS) > 0 {
		t.Errorf("Ingress: %+v, want class nginx, host example.foo.com", i.Spec)
	}
	app, err := w.glassback.AppV1().Applications(ns).Get(t.Context(), name, metav1.GetOptions{})
	w.must(t, err)
	if app.Status.URL != "http://example.foo.com" || len(app.Status.Resources) != 3 {
		t.Errorf("status: %+v", app.Status)
	}
	eventually(t, 20*time.Second, func(ctx context.Context) error { // a change of numbers only is written later
		app, err := w.glassback.AppV1().Applications(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil || app.Status.AvailableReplicas != 1 || app.Status.Replicas != 1 || app.Status.UpdatedReplicas != 1 ||
			app.Status.ReadyReplicas != 1 {
			return fmt.Errorf("status: %+v, %w", app.Status, err)
		}
		return nil
	})
}

func testDrift(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a")
	w.ready(t, ns, "a")
	w.patchDeployment(t, ns, "a", `{"spec":{"replicas":7,"template":{"spec":{"containers":[{"name":"app","image":"evil"}]}}}}`)
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		d, err := w.kube.AppsV1().Deployments(ns).Get(ctx, "a", metav1.GetOptions{})
		if err != nil || d.Spec.Template.Spec.Containers[0].Image != "nginx" || *d.Spec.Replicas != 1 {
			return fmt.Errorf("Deployment: %+v, %w", d.Spec, err)
		}
		return nil
	})
	w.must(t, w.kube.CoreV1().Services(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		_, err := w.kube.CoreV1().Services(ns).Get(ctx, "a", metav1.GetOptions{})
		return err
	})
	_, err := w.kube.NetworkingV1().Ingresses(ns).Patch(t.Context(), "a", types.JSONPatchType,
		[]byte(`[{"op":"remove","path":"/spec/ingressClassName"},{"op":"replace","path":"/spec/rules/0/host","value":"evil.com"}]`),
		metav1.PatchOptions{})
	w.must(t, err)
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		i, err := w.kube.NetworkingV1().Ingresses(ns).Get(ctx, "a", metav1.GetOptions{})
		if err != nil || ptr.Deref(i.Spec.IngressClassName, "") != "nginx" || i.Spec.Rules[0].Host != "example.foo.com" {
			return fmt.Errorf("Ingress: %+v, %w", i.Spec, err)
		}
		return nil
	})
}

func testOthersFields(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) {
		a.Spec.Env = []appv1.EnvVar{{Name: "OWN", Value: "1"}}
	})
	w.ready(t, ns, "a")
	labelled := appsv1ac.Deployment("a", ns).WithLabels(map[string]string{"team": "x"}).WithAnnotations(map[string]string{"note": "y"})
	_, err := w.kube.AppsV1().Deployments(ns).Apply(t.Context(), labelled, metav1.ApplyOptions{FieldManager: "kubectl"})
	w.must(t, err)
	w.patchDeployment(t, ns, "a", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}},`+
		`"spec":{"containers":[{"name":"app","env":[{"name":"THEIRS","value":"2"}]},{"name":"sidecar","image":"s"}]}}}}`)
	// The image changes, and the variable NEW replaces OWN. The variables, annotations and containers of other clients must stay.
	w.patchApp(t, ns, "a", `{"spec":{"image":"nginx:2","env":[{"name":"NEW","value":"3"}]}}`)
	w.ready(t, ns, "a")
	d := w.deployment(t, ns, "a")
	containers := map[string]corev1.Container{}
	for _, c := range d.Spec.Template.Spec.Containers {
		containers[c.Name] = c
	}
	env := map[string]string{}
	for _, e := range containers["app"].Env {
		env[e.Name] = e.Value
	}
	if d.Labels["team"] != "x" || d.Annotations["note"] != "y" || d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != "now" ||
		containers["sidecar"].Image != "s" || !maps.Equal(env, map[string]string{"THEIRS": "2", "NEW": "3"}) ||
		containers["app"].Image != "nginx:2" {
		t.Errorf("Deployment: labels %v, annotations %v, containers %+v", d.Labels, d.Annotations, d.Spec.Template.Spec.Containers)
	}
	// The resources in the status leave out the sidecar: it belongs to another client.
	app, err := w.glassback.AppV1().Applications(ns).Get(t.Context(), "a", metav1.GetOptions{})
	w.must(t, err)
	if app.Status.Resources[0].Kind != "Deployment" {
		t.Errorf("resources: %+v", app.Status.Resources)
	}
}

// children returns the UIDs of the objects with the name, by kind.
func (w *world) children(ctx context.Context, ns, name string) (map[string]types.UID, error) {
	uids := map[string]types.UID{}
	var failed []error
	o := metav1.GetOptions{}
	for kind, get := range map[string]func() (metav1.Object, error){
		"Deployment": func() (metav1.Object, error) { return w.kube.AppsV1().Deployments(ns).Get(ctx, name, o) },
		"Service":    func() (metav1.Object, error) { return w.kube.CoreV1().Services(ns).Get(ctx, name, o) },
		"Ingress":    func() (metav1.Object, error) { return w.kube.NetworkingV1().Ingresses(ns).Get(ctx, name, o) },
		"HorizontalPodAutoscaler": func() (metav1.Object, error) {
			return w.kube.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(ctx, name, o)
		},
		"PodDisruptionBudget": func() (metav1.Object, error) { return w.kube.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, name, o) },
	} {
		switch object, err := get(); {
		case err == nil:
			uids[kind] = object.GetUID()
		case !apierrors.IsNotFound(err):
			failed = append(failed, err)
		}
	}
	return uids, errors.Join(failed...)
}

func (w *world) wantKinds(t *testing.T, patience time.Duration, ns, name string, want ...string) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		uids, err := w.children(ctx, ns, name)
		there := slices.Sorted(maps.Keys(uids))
		if err != nil || !slices.Equal(there, want) {
			return fmt.Errorf("the kinds of the children are %v, want %v: %w", there, want, err)
		}
		return nil
	})
}

func testPrune(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) {
		a.Spec.Autoscaling = &appv1.Autoscaling{MaxReplicas: 3}
		a.Spec.PDB = &appv1.DisruptionBudget{MinAvailable: ptr.To(intstr.FromString("50%"))}
	})
	w.wantKinds(t, 20*time.Second, ns, "a", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service")
	w.patchApp(t, ns, "a", `{"spec":{"autoscaling":null,"pdb":null}}`)
	w.wantKinds(t, 20*time.Second, ns, "a", "Deployment", "Ingress", "Service")
	w.patchApp(t, ns, "a", `{"spec":{"service":{"enabled":false},"ingress":{"enabled":false}}}`)
	w.wantKinds(t, 20*time.Second, ns, "a", "Deployment")
	w.ready(t, ns, "a")
	w.patchApp(t, ns, "a", `{"spec":{"service":null,"ingress":null}}`)
	w.wantKinds(t, 20*time.Second, ns, "a", "Deployment", "Ingress", "Service")
}

func testReplicasHandOver(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) { a.Spec.Replicas = ptr.To[int32](3) })
	w.ready(t, ns, "a")
	watching, err := w.kube.AppsV1().Deployments(ns).Watch(t.Context(), metav1.ListOptions{})
	w.must(t, err)
	least := make(chan int32)
	go func() {
		lowest := int32(1000)
		for event := range watching.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				lowest = min(lowest, *d.Spec.Replicas)
			}
		}
		least <- lowest
	}()
	w.patchApp(t, ns, "a", `{"spec":{"autoscaling":{"minReplicas":2,"maxReplicas":9},"image":"nginx:2"}}`)
	w.ready(t, ns, "a")
	scale, err := w.kube.AppsV1().Deployments(ns).GetScale(t.Context(), "a", metav1.GetOptions{})
	w.must(t, err)
	scale.Spec.Replicas = 5 // The autoscaler writes the same field.
	_, err = w.kube.AppsV1().Deployments(ns).UpdateScale(t.Context(), "a", scale,
		metav1.UpdateOptions{FieldManager: "kube-controller-manager"})
	w.must(t, err)
	w.patchApp(t, ns, "a", `{"spec":{"image":"nginx:3"}}`)
	w.ready(t, ns, "a")
	if d := w.deployment(t, ns, "a"); *d.Spec.Replicas != 5 || d.Spec.Template.Spec.Containers[0].Image != "nginx:3" {
		t.Errorf("%d replicas of the image %s, want the autoscaler's 5 of nginx:3", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image)
	}
	w.patchApp(t, ns, "a", `{"spec":{"autoscaling":null}}`)
	w.ready(t, ns, "a")
	if d := w.deployment(t, ns, "a"); *d.Spec.Replicas != 3 {
		t.Errorf("%d replicas without the autoscaler, want 3", *d.Spec.Replicas)
	}
	watching.Stop()
	if lowest := <-least; lowest != 3 {
		t.Errorf("the lowest number of replicas in this time was %d, want 3 or more", lowest)
	}
}

func testScale(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a")
	w.ready(t, ns, "a")
	apps := w.glassback.AppV1().Applications(ns)
	scale, err := apps.GetScale(t.Context(), "a", metav1.GetOptions{})
	w.must(t, err)
	if scale.Spec.Replicas != 1 || scale.Status.Selector != "app.aiops.org/application=a" {
		t.Errorf("scale: %+v", scale)
	}
	scale.Spec.Replicas = 3
	_, err = apps.UpdateScale(t.Context(), "a", scale, metav1.UpdateOptions{})
	w.must(t, err)
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		scale, err := apps.GetScale(ctx, "a", metav1.GetOptions{})
		if err != nil || scale.Status.Replicas != 3 {
			return fmt.Errorf("scale: %+v, %w", scale, err)
		}
		return nil
	})
}

func testConflict(t *testing.T, w *world, ns string) {
	foreign, err := w.kube.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	}, metav1.CreateOptions{})
	w.must(t, err)
	w.createApp(t, ns, "a")
	c := w.condition(t, ns, "a", appv1.ConditionConflict, "Conflict")
	if !strings.Contains(c.Message, "Service a exists already") {
		t.Errorf("condition Conflict does not name the object: %s", c.Message)
	}
	w.condition(t, ns, "a", glassback.ConditionReady, "Conflict")
	w.condition(t, ns, "a", appv1.ConditionAvailable, "MinimumReplicasAvailable") // the other children are created
	w.wantKinds(t, 10*time.Second, ns, "a", "Deployment", "Ingress", "Service")
	w.patchApp(t, ns, "a", `{"spec":{"service":{"type":"NodePort"}}}`)
	w.condition(t, ns, "a", appv1.ConditionConflict, "Conflict")
	live, err := w.kube.CoreV1().Services(ns).Get(t.Context(), "a", metav1.GetOptions{})
	w.must(t, err)
	if live.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the operator changed the foreign Service: %+v", live)
	}
	w.must(t, w.kube.CoreV1().Services(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	w.ready(t, ns, "a")
	w.condition(t, ns, "a", appv1.ConditionConflict, "NoConflict")
}

// testConflictOfAllKinds creates a foreign object with the name of each optional child.
func testConflictOfAllKinds(t *testing.T, w *world, ns string) {
	meta := metav1.ObjectMeta{Name: "a"}
	var errs [4]error
	_, errs[0] = w.kube.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	}, metav1.CreateOptions{})
	_, errs[1] = w.kube.NetworkingV1().Ingresses(ns).Create(t.Context(), &networkingv1.Ingress{
		ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "other", Port: networkingv1.ServiceBackendPort{Number: 1}},
		}},
	}, metav1.CreateOptions{})
	_, errs[2] = w.kube.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 1, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"},
		},
	}, metav1.CreateOptions{})
	_, errs[3] = w.kube.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))},
	}, metav1.CreateOptions{})
	w.must(t, errors.Join(errs[:]...))
	before, err := w.children(t.Context(), ns, "a")
	w.must(t, err)
	w.createApp(t, ns, "a", func(a *appv1.Application) {
		a.Spec.Autoscaling = &appv1.Autoscaling{MaxReplicas: 3}
		a.Spec.PDB = &appv1.DisruptionBudget{MinAvailable: ptr.To(intstr.FromInt32(1))}
	})
	c := w.condition(t, ns, "a", appv1.ConditionConflict, "Conflict")
	for kind := range before {
		if !strings.Contains(c.Message, kind+" a exists already") {
			t.Errorf("condition Conflict does not name the %s: %s", kind, c.Message)
		}
	}
	w.condition(t, ns, "a", appv1.ConditionAvailable, "MinimumReplicasAvailable") // the other children are created
	after, err := w.children(t.Context(), ns, "a")
	w.must(t, err)
	for kind, uid := range before {
		if after[kind] != uid {
			t.Errorf("the foreign %s was replaced", kind)
		}
	}
}

func testLostLabel(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a")
	w.ready(t, ns, "a")
	uid := w.deployment(t, ns, "a").UID
	w.patchDeployment(t, ns, "a", `{"metadata":{"labels":{"app.aiops.org/application":null}}}`)
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		d, err := w.kube.AppsV1().Deployments(ns).Get(ctx, "a", metav1.GetOptions{})
		if err != nil || d.Labels[appv1.LabelApplication] != "a" || d.UID != uid {
			return fmt.Errorf("Deployment %s: labels %v, %w", d.UID, d.Labels, err)
		}
		return nil
	})
	w.ready(t, ns, "a")
}

func testReplicaFailure(t *testing.T, w *world, ns string) {
	quota, err := w.kube.CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	w.must(t, err)
	eventually(t, 20*time.Second, func(ctx context.Context) error { // the quota limits nothing before its status has a count
		q, err := w.kube.CoreV1().ResourceQuotas(ns).Get(ctx, quota.Name, metav1.GetOptions{})
		if err != nil || len(q.Status.Hard) == 0 {
			return fmt.Errorf("quota: %+v, %w", q, err)
		}
		return nil
	})
	w.createApp(t, ns, "a")
	c := w.condition(t, ns, "a", glassback.ConditionDegraded, "FailedCreate")
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "quota") {
		t.Errorf("condition Degraded: %+v", c)
	}
	w.condition(t, ns, "a", glassback.ConditionReady, "FailedCreate")
	w.must(t, w.kube.CoreV1().ResourceQuotas(ns).Delete(t.Context(), "none", metav1.DeleteOptions{}))
	w.patchApp(t, ns, "a", `{"spec":{"image":"nginx:2"}}`) // The Deployment creates a new ReplicaSet at once.
	w.ready(t, ns, "a")
	w.condition(t, ns, "a", glassback.ConditionDegraded, "AsExpected")
}

func testRejectedDeployment(t *testing.T, w *world, ns string) {
	const forbidden = "forbidden-image"
	w.forbidImage(t, ns, forbidden)
	w.createApp(t, ns, "a", func(a *appv1.Application) { a.Spec.Image = forbidden })
	c := w.condition(t, ns, "a", glassback.ConditionDegraded, "DeploymentRejected")
	if !strings.Contains(c.Message, "by policy") {
		t.Errorf("condition Degraded: %+v", c)
	}
	w.wantKinds(t, 10*time.Second, ns, "a", "Ingress", "Service") // the other children exist
	w.patchApp(t, ns, "a", `{"spec":{"image":"nginx"}}`)
	w.ready(t, ns, "a")
}

// forbidImage makes the API server reject Deployments with the image in one namespace. It returns when this works.
func (w *world) forbidImage(t *testing.T, ns, image string) {
	t.Helper()
	admission := w.kube.AdmissionregistrationV1()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("object.spec.template.spec.containers.all(c, c.image != %q)", image), Message: "forbidden by policy",
			}},
		},
	}
	_, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{})
	w.must(t, err)
	_, err = admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: ns, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			},
		},
	}, metav1.CreateOptions{})
	w.must(t, err)
	labels := map[string]string{"a": "b"}
	probe := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
		},
	}}
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		_, err := w.kube.AppsV1().Deployments(ns).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy does not work yet: %w", err)
		}
		return nil
	})
}

func testPausedApplication(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) { a.Annotations = map[string]string{glassback.AnnotationPaused: "true"} })
	w.createApp(t, ns, "b") // The operator syncs it after a.
	w.ready(t, ns, "b")
	w.wantKinds(t, 10*time.Second, ns, "a")
	w.patchApp(t, ns, "a", `{"metadata":{"annotations":{"glassback.dev/paused":null}}}`)
	w.ready(t, ns, "a")
}

func testApplicationGarbage(t *testing.T, w *world, ns string) {
	w.createApp(t, ns, "a", func(a *appv1.Application) {
		a.Spec.Autoscaling = &appv1.Autoscaling{MaxReplicas: 3}
		a.Spec.PDB = &appv1.DisruptionBudget{}
	})
	w.ready(t, ns, "a")
	w.wantKinds(t, 20*time.Second, ns, "a", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service")
	w.must(t, w.glassback.AppV1().Applications(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	// The garbage collector looks for new kinds of owners every 30 seconds.
	w.wantKinds(t, 90*time.Second, ns, "a")
	eventually(t, 60*time.Second, func(ctx context.Context) error {
		pods, err := w.kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("%d Pods still exist: %w", len(pods.Items), err)
		}
		return nil
	})
}

// TestApplicationsAreQuiet counts the operator's requests. Until one Application is Ready, the operator makes three creates and at most
// three status writes. For a hundred settled Applications it makes no request, also after a restart.
func TestApplicationsAreQuiet(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	spy := w.spy(t, w.shippedAccount(t))
	o := launch(t, "--kubeconfig", spy.kubeconfig, "-v=2")
	o.waitFor("Started controller")
	ns := w.namespace(t)
	spy.forget()

	w.createApp(t, ns, "first")
	w.ready(t, ns, "first")
	eventually(t, patience, func(context.Context) error { // events are sent in the background
		if spy.requests()["POST events"] == 0 {
			return errors.New("no event has been sent")
		}
		return nil
	})
	settled(t, patience, 2*time.Second, spy.requests) // further events could follow
	got := spy.requests()
	statuses, events := got["PUT applications/status"], got["POST events"]+got["PATCH events"]
	for _, request := range []string{"PUT applications/status", "POST events", "PATCH events"} {
		delete(got, request)
	}
	if want := map[string]int{"PATCH deployments": 1, "PATCH services": 1, "PATCH ingresses": 1}; !maps.Equal(got, want) {
		t.Errorf("requests for one Application: %v, want %v", got, want)
	}
	if statuses < 1 || statuses > 3 || events != 1 {
		t.Errorf("%d status writes, want at most 3; %d events, want 1", statuses, events)
	}
	t.Logf("one Application: 3 creates, %d status writes, %d events", statuses, events)

	const objects = 100
	for i := range objects {
		w.createApp(t, ns, appName(i), variants[i%len(variants)])
	}
	for i := range objects {
		w.ready(t, ns, appName(i))
	}
	// The operator writes a change of numbers only after 10 s, and sends events in the background.
	settled(t, 2*time.Minute, 12*time.Second, spy.requests)
	spy.forget()
	time.Sleep(60 * time.Second) // the time without requests
	if got := spy.requests(); len(got) > 0 {
		t.Errorf("requests in 60 s: %v", got)
	}
	if code := o.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	spy.forget()
	o = launch(t, "--kubeconfig", spy.kubeconfig, "-v=2")
	for i := range objects { // Each object has been synced, and not only watched.
		o.waitFor(fmt.Sprintf(`"Synced" controller="application" object="%s/%s"`, ns, appName(i)))
	}
	time.Sleep(20 * time.Second) // the time without requests
	for request, n := range spy.requests() {
		if verb, resource, _ := strings.Cut(request, " "); verb != "GET" && verb != "LIST" && resource != "selfsubjectaccessreviews" {
			t.Errorf("after a restart: %d times %s", n, request)
		}
	}
}

// variants are fields for which the API server's defaults and normal forms could differ from the applied values.
var variants = []func(*appv1.Application){
	func(*appv1.Application) {},
	func(a *appv1.Application) {
		a.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Ki")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("2.0"), "memory": resource.MustParse("0.5Gi")},
		}
	},
	func(a *appv1.Application) {
		a.Spec.Env = []appv1.EnvVar{
			{Name: "EMPTY"}, {Name: "Z", Value: "1"}, {Name: "A", Value: " 2 "},
			{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		}
		a.Spec.EnvFrom = []corev1.EnvFromSource{
			{
				Prefix:       "X_",
				ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Optional: ptr.To(true)},
			},
		}
		a.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "b"}, {Name: "a"}}
	},
	func(a *appv1.Application) {
		probe := func(h corev1.ProbeHandler) *appv1.Probe { return &appv1.Probe{ProbeHandler: h} }
		a.Spec.Probes = &appv1.Probes{
			Liveness:  probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}),
			Readiness: probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}),
			Startup:   probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}),
		}
	},
	func(a *appv1.Application) {
		a.Spec.Service.Type, a.Spec.Service.Port = corev1.ServiceTypeNodePort, ptr.To[int32](80)
		a.Spec.Service.Annotations = map[string]string{"a": "b"}
		a.Spec.Ingress.TLS, a.Spec.Ingress.Path = &appv1.IngressTLS{SecretName: "s"}, "/app/"
		a.Spec.Ingress.Annotations = map[string]string{"c": ""}
	},
	func(a *appv1.Application) {
		a.Spec.Replicas = ptr.To[int32](2)
		a.Spec.Autoscaling = &appv1.Autoscaling{MaxReplicas: 3, TargetMemoryUtilizationPercentage: ptr.To[int32](50)}
		a.Spec.PDB = &appv1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromString("25%"))}
	},
	func(a *appv1.Application) {
		a.Spec.Replicas, a.Spec.Command, a.Spec.Args = ptr.To[int32](0), []string{"run"}, []string{"-x", ""}
		a.Spec.Service.Enabled, a.Spec.Ingress.Enabled = ptr.To(false), ptr.To(false)
	},
}

// TestApplicationSurvivesACrashAfterAnyWrite kills the operator after each of its writes in turn, before the operator gets the answer. The
// next operator creates no object again.
func TestApplicationSurvivesACrashAfterAnyWrite(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	spy := w.spy(t, w.shippedAccount(t))
	ns := w.namespace(t)
	const writes = 7 // five creates and two status writes, with events in between
	for n := 1; n <= writes; n++ {
		name := appName(n)
		o := launch(t, "--kubeconfig", spy.kubeconfig, "-v=2", "--controllers=application")
		o.waitFor("Started controller")
		spy.loseAnswer(n, o.kill)
		w.createApp(t, ns, name, variants[5])
		select {
		case <-o.exited:
		case <-time.After(30 * time.Second):
			t.Fatalf("the operator has not made %d writes within 30 s: %v", n, spy.requests())
		}
		before, err := w.children(t.Context(), ns, name)
		w.must(t, err)
		spy.mu.Lock()
		spy.after = nil
		spy.mu.Unlock()
		spy.forget()
		o = launch(t, "--kubeconfig", spy.kubeconfig, "-v=2", "--controllers=application")
		o.waitFor("Started controller")
		w.ready(t, ns, name)
		after, err := w.children(t.Context(), ns, name)
		w.must(t, err)
		if len(after) != 5 {
			t.Errorf("after write %d: the children are %v", n, after)
		}
		for kind, uid := range before {
			if after[kind] != uid {
				t.Errorf("after write %d: the %s was created again", n, kind)
			}
		}
		if code := o.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

func appName(n int) string { return fmt.Sprintf("app-%d", n) }

// application returns the Application of the seed.
func application(name string) *appv1.Application {
	return &appv1.Application{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appv1.ApplicationSpec{Image: "nginx"}}
}
