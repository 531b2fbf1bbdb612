// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"math/rand/v2"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

// TestIsExactlyOfDeployments takes random steps with lists whose order counts, and with structs that may be empty. If isExactly returns
// true, the extraction must return the configuration, and an apply must change nothing.
func TestIsExactlyOfDeployments(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	s := fakeapi.New()
	client := s.Kube().AppsV1().Deployments(owner.Namespace)
	exact := 0
	for n := range 4000 {
		some := func() *appsv1ac.DeploymentApplyConfiguration {
			container := corev1ac.Container().WithName("app").WithImage("app:" + strconv.Itoa(random.IntN(2)))
			for _, i := range random.Perm(3)[:1+random.IntN(3)] {
				container.WithEnv(corev1ac.EnvVar().WithName("V" + strconv.Itoa(i)).WithValue("1"))
			}
			switch random.IntN(3) {
			case 0:
				container.WithResources(corev1ac.ResourceRequirements())
			case 1:
				container.WithResources(corev1ac.ResourceRequirements().WithLimits(corev1.ResourceList{"cpu": apiresource.MustParse("1")}))
			}
			labels := map[string]string{"a": "1"}
			return appsv1ac.Deployment(name, owner.Namespace).WithOwnerReferences(Reference(owner, greeter)).WithSpec(appsv1ac.DeploymentSpec().
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
				WithSpec(corev1ac.PodSpec().WithContainers(container))))
		}
		theirs := func(change func(*corev1.Container)) {
			fakeapi.Edit(s, childKey, "other-client", func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec.Containers[0]) })
		}
		switch step := random.IntN(4); {
		case n == 0 || step == 0:
			if _, err := client.Apply(t.Context(), some(), applyOptions); err != nil {
				t.Fatal(err)
			}
		case step == 1:
			theirs(func(c *corev1.Container) { c.Resources.Limits = corev1.ResourceList{"cpu": apiresource.MustParse("1")} })
		case step == 2:
			theirs(func(c *corev1.Container) { c.Resources = corev1.ResourceRequirements{} })
		default:
			theirs(func(c *corev1.Container) {
				random.Shuffle(len(c.Env), func(i, j int) { c.Env[i], c.Env[j] = c.Env[j], c.Env[i] })
			})
		}
		desired, object := some(), fakeapi.Get[*appsv1.Deployment](s, childKey)
		if !isExactly(object, desired) {
			continue
		}
		exact++
		if owned, err := appsv1ac.ExtractDeployment(object, glassback.Name); err != nil || !equality.Semantic.DeepEqual(owned, desired) {
			t.Fatalf("step %d: isExactly returns true, and the extraction differs (error %v): %+v", n, err, object.Spec.Template.Spec)
		}
		applied, err := client.Apply(t.Context(), desired, applyOptions)
		if err != nil || applied.ResourceVersion != object.ResourceVersion {
			t.Fatalf("step %d: isExactly returns true, and an apply changes the object (error %v): %+v", n, err, object.Spec.Template.Spec)
		}
	}
	if exact < 20 {
		t.Errorf("the Deployment was as desired %d times, want at least 20", exact)
	}
}

// TestIsExactlyFindsAtomicLists is about an Ingress: its rules are an atomic list of structs.
func TestIsExactlyFindsAtomicLists(t *testing.T) {
	ingress := func(path string) *networkingv1ac.IngressApplyConfiguration {
		backend := networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().WithName("a").
			WithPort(networkingv1ac.ServiceBackendPort().WithNumber(80)))
		return networkingv1ac.Ingress(name, owner.Namespace).WithOwnerReferences(Reference(owner, greeter)).WithSpec(networkingv1ac.IngressSpec().
			WithRules(networkingv1ac.IngressRule().WithHost("h").WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(
				networkingv1ac.HTTPIngressPath().WithPath(path).WithPathType("Prefix").WithBackend(backend)))).
			WithIngressClassName("nginx"))
	}
	object, err := fakeapi.New().Kube().NetworkingV1().Ingresses(owner.Namespace).Apply(t.Context(), ingress("/"), applyOptions)
	must.Succeed(t, err)
	if !isExactly(object, ingress("/")) || isExactly(object, ingress("/other")) {
		t.Error("isExactly is not true for the path that was applied alone")
	}
}
