// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/controller/application"
)

func newApplication(w *world) (controller, error) {
	return application.New(application.Config{
		Kube: w.kube, Client: w.own, Applications: w.ownFrom.App().V1().Applications(), Deployments: w.kubeFrom.Apps().V1().Deployments(),
		Services: w.kubeFrom.Core().V1().Services(), Ingresses: w.kubeFrom.Networking().V1().Ingresses(),
		Autoscalers: w.kubeFrom.Autoscaling().V2().HorizontalPodAutoscalers(), Budgets: w.kubeFrom.Policy().V1().PodDisruptionBudgets(),
		Recorder: w.recorder, Clock: clock.RealClock{},
	})
}

// deployed has the Deployment's controller report Pods, and what is the case with its rollout.
func deployed(w *world, name string, replicas, updated, available int32, conditions ...appsv1.DeploymentCondition) {
	change(w, name, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available,
			Conditions: conditions,
		}
	})
}

func condition(of appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: of, Status: status, Reason: reason, Message: message}
}

func TestApplicationExamples(t *testing.T) {
	f := &file{name: "application-examples"}
	for _, path := range append(exampleFiles(t, "application"), "../application/testdata/minimal.yaml", "../application/testdata/full.yaml") {
		scenario(t, f, title(path), newApplication, func(w *world) {
			w.step("applied", time.Minute, func() { w.apply(w.read(path)...) })
		})
	}
	f.compare(t)
}

func TestApplicationPhases(t *testing.T) {
	const name = "application-sample"
	var (
		complete = condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable",
			"ReplicaSet has successfully progressed.")
		updating = condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", "ReplicaSet is progressing.")
		stuck    = condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded",
			"ReplicaSet has timed out progressing.")
		refused   = condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", "pods is forbidden: exceeded quota")
		available = condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable",
			"Deployment has minimum availability.")
		unavailable = condition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable",
			"Deployment does not have minimum availability.")
	)
	f := &file{name: "application-phases"}
	scenario(t, f, "from the first Pod to the end", newApplication, func(w *world) {
		edit := func(do func(*v1.ApplicationSpec)) func() {
			return func() { change(w, name, func(app *v1.Application) { do(&app.Spec) }) }
		}
		w.step("applied", time.Minute, func() { w.apply(w.read(examples + "/application.yaml")...) })
		w.step("a Pod starts", time.Minute, func() { deployed(w, name, 1, 1, 0, updating, unavailable) })
		w.step("the Pod is available", time.Minute, func() { deployed(w, name, 1, 1, 1, complete, available) })
		w.step("three Pods are wanted", time.Minute, edit(func(s *v1.ApplicationSpec) { s.Replicas = ptr.To[int32](3) }))
		w.step("one of them is available", time.Minute, func() { deployed(w, name, 3, 3, 1, complete, unavailable) })
		w.step("all of them are available", time.Minute, func() { deployed(w, name, 3, 3, 3, complete, available) })
		w.step("another image, whose Pods cannot be made", time.Minute, func() {
			edit(func(s *v1.ApplicationSpec) { s.Image = "nginx:stable" })()
		})
		w.step("a Pod cannot be made", time.Minute, func() { deployed(w, name, 3, 0, 3, updating, available, refused) })
		w.step("the rollout takes too long", time.Minute, func() { deployed(w, name, 3, 1, 2, stuck, available) })
		w.step("the rollout is complete", time.Minute, func() { deployed(w, name, 3, 3, 3, complete, available) })
		w.step("an autoscaler and a budget", time.Minute, edit(func(s *v1.ApplicationSpec) {
			s.Autoscaling = &v1.Autoscaling{MinReplicas: ptr.To[int32](2), MaxReplicas: 5}
			s.PDB = &v1.DisruptionBudget{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
		}))
		w.step("no Ingress, no Service, no autoscaler, no budget", time.Minute, edit(func(s *v1.ApplicationSpec) {
			s.Autoscaling, s.PDB, s.Ingress.Enabled, s.Service.Enabled = nil, nil, ptr.To(false), ptr.To(false)
		}))
	})
	scenario(t, f, "in trouble", newApplication, func(w *world) {
		w.step("applied, and the Service is another owner's", time.Minute, func() {
			w.apply(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}})
			w.apply(w.read(examples + "/application.yaml")...)
		})
		w.step("the image is overwritten by another", time.Minute, func() {
			change(w, name, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "evil" })
		})
		w.step("the spec is invalid", time.Minute, func() { change(w, name, func(app *v1.Application) { app.Spec.Image = "" }) })
	})
	f.compare(t)
}
