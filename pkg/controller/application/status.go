/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package application

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/report"
)

// Reasons of the conditions, beside those of a child.Problem and those that the
// Deployment gives.
const (
	reasonRolledOut   = "RolledOut"
	reasonRollout     = "RolloutInProgress"
	reasonScaling     = "ScalingInProgress"
	reasonWaiting     = "WaitingForDeployment"
	reasonInvalidSpec = "InvalidSpec"
	reasonNoConflict  = "NoConflict"
)

// statusOfInvalid is the status of an object whose spec has errs. What runs is left
// as it is.
func statusOfInvalid(app *v1.Application, seen observed, errs field.ErrorList, now time.Time) v1.ApplicationStatus {
	problem := child.Problem{Reason: reasonInvalidSpec, Message: errs.ToAggregate().Error()}
	status := statusAfter(app, seen, outcome{problems: []child.Problem{problem}}, now)
	status.URL = app.Status.URL
	if was := meta.FindStatusCondition(app.Status.Conditions, v1.ConditionConflict); was != nil {
		meta.SetStatusCondition(&status.Conditions, *was)
	}
	return status
}

// statusAfter is the status after a sync that saw this, came to out and wrote
// nothing.
func statusAfter(app *v1.Application, seen observed, out outcome, now time.Time) v1.ApplicationStatus {
	status := *app.Status.DeepCopy()
	news := status.ObservedGeneration != app.Generation || len(out.problems) > 0
	status.ObservedGeneration = app.Generation
	status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector(app)})
	status.URL = url(app)
	status.Resources = resources(app, seen, out.gone)
	d := seen.deployment.Object
	if d != nil && d.Status.ObservedGeneration > 0 && d.Status.ObservedGeneration < d.Generation && !news {
		// The Deployment is another version: repaired, scaled or only annotated. What
		// that means, its controller tells in a moment.
		return status
	}
	r := rolloutOf(d)
	status.Replicas, status.UpdatedReplicas = r.status.Replicas, r.status.UpdatedReplicas
	status.ReadyReplicas, status.AvailableReplicas = r.status.ReadyReplicas, r.status.AvailableReplicas

	c := report.Conditions{List: &status.Conditions, Generation: app.Generation, Now: now}
	switch {
	case len(out.problems) > 0:
		c.Set(glassback.ConditionReady, false, out.problems[0].Reason, join(out.problems))
		c.Set(glassback.ConditionDegraded, true, out.problems[0].Reason, join(out.problems))
	case r.failure != nil:
		c.Set(glassback.ConditionReady, false, r.failure.Reason, r.failure.Message)
		c.Set(glassback.ConditionDegraded, true, r.failure.Reason, r.failure.Message)
	default:
		readiness(c, app.Status, r)
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Nothing is wrong")
	}
	c.Set(glassback.ConditionProgressing, r.progressing, r.reason, r.message)
	c.Set(v1.ConditionAvailable, r.available, r.availableReason, r.availableMessage)
	conflicts := slices.DeleteFunc(slices.Clone(out.problems), func(p child.Problem) bool { return p.Reason != child.ReasonConflict })
	if len(conflicts) > 0 {
		c.Set(v1.ConditionConflict, true, child.ReasonConflict, join(conflicts))
	} else {
		c.Set(v1.ConditionConflict, false, reasonNoConflict, "No object of another owner is in the way")
	}
	return status
}

// readiness sets Ready where nothing is wrong. was is the status until now: while
// Pods are added, it says so until all of them are available.
func readiness(c report.Conditions, was v1.ApplicationStatus, r rollout) {
	count := fmt.Sprintf("Pods: %d wanted, %d available", r.replicas, r.status.AvailableReplicas)
	ready := meta.FindStatusCondition(was.Conditions, glassback.ConditionReady)
	scaling := r.replicas > was.Replicas || (ready != nil && ready.Reason == reasonScaling)
	switch {
	case r.reason == reasonWaiting:
		c.Set(glassback.ConditionReady, false, reasonRollout, r.message)
	case r.progressing:
		c.Set(glassback.ConditionReady, false, reasonRollout, fmt.Sprintf("%s, %d of the latest version", count, r.status.UpdatedReplicas))
	case scaling && r.status.AvailableReplicas < r.replicas:
		c.Set(glassback.ConditionReady, false, reasonScaling, count)
	case !r.available:
		c.Set(glassback.ConditionReady, false, r.availableReason, count)
	default:
		c.Set(glassback.ConditionReady, true, reasonRolledOut, count)
	}
}

func join(problems []child.Problem) string {
	messages := make([]string, len(problems))
	for i, p := range problems {
		messages[i] = p.Message
	}
	return strings.Join(messages, "; ")
}

// rollout is how far a Deployment has come, by its own account.
type rollout struct {
	status   appsv1.DeploymentStatus
	replicas int32 // that there should be

	// progressing is whether Pods are being replaced, with the Deployment's reason.
	progressing     bool
	reason, message string

	available                         bool
	availableReason, availableMessage string

	// failure is the condition that says what is wrong, nil if nothing is.
	failure *appsv1.DeploymentCondition
}

// rolloutOf reads it from the conditions that the Deployment's own controller keeps:
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status
func rolloutOf(d *appsv1.Deployment) rollout {
	if d == nil || d.DeletionTimestamp != nil {
		return rollout{
			progressing: true, reason: reasonWaiting, message: "The Deployment is not there yet",
			availableReason: reasonWaiting, availableMessage: "The Deployment is not there yet",
		}
	}
	r := rollout{
		status: d.Status, replicas: ptr.Deref(d.Spec.Replicas, 1),
		progressing: true, reason: reasonWaiting, message: "The Deployment's controller has not seen its latest version yet",
		availableReason: reasonWaiting, availableMessage: "The Deployment's controller has not told yet whether enough Pods are available",
	}
	if c := condition(d, appsv1.DeploymentAvailable); c != nil {
		r.available, r.availableReason, r.availableMessage = c.Status == corev1.ConditionTrue, c.Reason, c.Message
	}
	if d.Status.ObservedGeneration < d.Generation {
		return r
	}
	if c := condition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		r.failure = c
	}
	switch c := condition(d, appsv1.DeploymentProgressing); {
	case c == nil: // It has no deadline, and so tells nothing.
		r.progressing, r.reason, r.message = true, reasonRollout, "The Deployment tells nothing of its progress: this goes by the numbers"
		if s := d.Status; s.UpdatedReplicas >= r.replicas && s.Replicas == s.UpdatedReplicas && s.AvailableReplicas == s.UpdatedReplicas {
			r.progressing, r.reason = false, reasonRolledOut
		}
	case c.Status == corev1.ConditionFalse:
		r.progressing, r.reason, r.message = false, c.Reason, c.Message
		if r.failure == nil {
			r.failure = c
		}
	default:
		complete := c.Reason == reasonNewReplicaSetAvailable && d.Status.UpdatedReplicas == d.Status.Replicas
		r.progressing, r.reason, r.message = !complete, c.Reason, c.Message
	}
	return r
}

// reasonNewReplicaSetAvailable is the reason that a Deployment's condition
// Progressing has once the rollout is complete; its status stays True.
const reasonNewReplicaSetAvailable = "NewReplicaSetAvailable"

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// resources are the children that there are: those that the caches show, and those
// that were there before and are not known to be gone.
func resources(app *v1.Application, seen observed, gone []string) []v1.ResourceReference {
	var there []v1.ResourceReference
	for _, child := range []struct {
		apiVersion, kind string
		shown            bool
	}{
		{"apps/v1", "Deployment", seen.deployment.Object != nil},
		{"v1", "Service", seen.service.Object != nil},
		{"networking.k8s.io/v1", "Ingress", seen.ingress.Object != nil},
		{"autoscaling/v2", "HorizontalPodAutoscaler", seen.autoscaler.Object != nil},
		{"policy/v1", "PodDisruptionBudget", seen.budget.Object != nil},
	} {
		resource := v1.ResourceReference{APIVersion: child.apiVersion, Kind: child.kind, Name: app.Name}
		if child.shown || (slices.Contains(app.Status.Resources, resource) && !slices.Contains(gone, child.kind)) {
			there = append(there, resource)
		}
	}
	return there
}

// url is where the Application is reached, "" if it is not.
func url(app *v1.Application) string {
	switch i := &app.Spec.Ingress; {
	case *i.Enabled && i.TLS != nil:
		return "https://" + i.Host + strings.TrimSuffix(i.Path, "/")
	case *i.Enabled:
		return "http://" + i.Host + strings.TrimSuffix(i.Path, "/")
	case *app.Spec.Service.Enabled:
		return fmt.Sprintf("http://%s.%s.svc:%d", app.Name, app.Namespace, app.Spec.ServicePort())
	}
	return ""
}
