// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/report"
)

// These are this package's own reasons. Others come from package report, a child.Problem and the Deployment's conditions.
const (
	reasonRolledOut   = "RolledOut"
	reasonRollout     = "RolloutInProgress"
	reasonScaling     = "ScalingInProgress"
	reasonWaiting     = "WaitingForDeployment"
	reasonInvalidSpec = "InvalidSpec"
	reasonNoConflict  = "NoConflict"
	reasonSources     = "SourcesNotRead"
	reasonRoute       = "HTTPRouteNotAccepted"
)

// statusOf returns the status after a sync that wrote no child.
func statusOf(o *observed, p plan, out child.Outcomes) v1.ApplicationStatus {
	app, problems := o.app, out.Problems
	for _, p := range []*child.Problem{o.sources.Problem, routeProblem(o, p)} {
		if p != nil {
			problems = append(slices.Clone(problems), *p)
		}
	}
	status := *app.Status.DeepCopy()
	if p.Invalid != nil {
		problems = []child.Problem{*p.Invalid}
	} else {
		status.URL = url(app)
	}
	changed := status.ObservedGeneration != app.Generation || len(out.Problems) > 0 || p.Invalid != nil
	status.ObservedGeneration = app.Generation
	status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector(app)})
	status.Resources = resources(o, out.Gone)
	d := o.deployment.Object
	if d != nil && d.Status.ObservedGeneration > 0 && d.Status.ObservedGeneration < d.Generation && !changed {
		// The Deployment was repaired, scaled or only annotated. Keep the conditions until its controller reports the effect.
		return status
	}
	r := rolloutOf(d)
	status.Replicas, status.UpdatedReplicas = r.status.Replicas, r.status.UpdatedReplicas
	status.ReadyReplicas, status.AvailableReplicas = r.status.ReadyReplicas, r.status.AvailableReplicas

	c := report.Conditions{List: &status.Conditions, Generation: app.Generation, Now: o.now}
	switch {
	case len(problems) > 0:
		c.Set(glassback.ConditionReady, false, problems[0].Reason, join(problems))
		c.Set(glassback.ConditionDegraded, true, problems[0].Reason, join(problems))
	case r.failure != nil:
		c.Set(glassback.ConditionReady, false, r.failure.Reason, r.failure.Message)
		c.Set(glassback.ConditionDegraded, true, r.failure.Reason, r.failure.Message)
	default:
		readiness(c, app.Status, r)
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Nothing is wrong")
	}
	c.Set(glassback.ConditionProgressing, r.progressing, r.reason, r.message)
	c.Set(v1.ConditionAvailable, r.available, r.availableReason, r.availableMessage)
	conflicts := slices.DeleteFunc(slices.Clone(problems), func(p child.Problem) bool { return p.Reason != child.ReasonConflict })
	switch {
	case len(conflicts) > 0:
		c.Set(v1.ConditionConflict, true, child.ReasonConflict, join(conflicts))
	case p.Invalid == nil || meta.FindStatusCondition(status.Conditions, v1.ConditionConflict) == nil:
		c.Set(v1.ConditionConflict, false, reasonNoConflict, "No object of another owner is in the way")
	}
	return status
}

// readiness sets the condition Ready of an Application without a problem. was is the previous status. After an increase of the replicas,
// Ready is False until all of them are available.
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

// withoutMinorFields returns status without numbers of Pods, messages, and the reasons of Progressing and Available: see minorEvery.
func withoutMinorFields(status v1.ApplicationStatus) v1.ApplicationStatus {
	status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0, 0
	status.Conditions = report.WithoutMessages(status.Conditions)
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == glassback.ConditionProgressing || c.Type == v1.ConditionAvailable {
			c.Reason = ""
		}
	}
	return status
}

// rollout is the progress of a Deployment, from its status.
type rollout struct {
	status   appsv1.DeploymentStatus
	replicas int32 // the desired number

	// progressing, reason and message describe the condition Progressing.
	progressing     bool
	reason, message string

	available                         bool
	availableReason, availableMessage string

	// failure is the condition that reports a failure; nil if there is none.
	failure *appsv1.DeploymentCondition
}

// rolloutOf returns the progress that the conditions of d report:
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status
func rolloutOf(d *appsv1.Deployment) rollout {
	if d == nil || d.DeletionTimestamp != nil {
		return rollout{
			progressing: true, reason: reasonWaiting, message: "The Deployment does not exist yet",
			availableReason: reasonWaiting, availableMessage: "The Deployment does not exist yet",
		}
	}
	r := rollout{
		status: d.Status, replicas: ptr.Deref(d.Spec.Replicas, 1),
		progressing: true, reason: reasonWaiting, message: "The Deployment's controller has not seen its latest version yet",
		availableReason: reasonWaiting, availableMessage: "The Deployment's controller has not reported yet whether enough Pods are available",
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
	case c == nil: // Without a deadline the Deployment has no such condition.
		r.progressing, r.reason, r.message = true, reasonRollout, "The Deployment has no condition Progressing: its numbers of Pods are used"
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

// reasonNewReplicaSetAvailable is the reason of a Deployment's condition Progressing after a complete rollout; the condition stays True.
const reasonNewReplicaSetAvailable = "NewReplicaSetAvailable"

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// resources returns the children that exist: those that the caches show, and those in the previous status that are
// not known to be gone.
func resources(o *observed, gone []string) []v1.ResourceReference {
	app := o.app
	var existing []v1.ResourceReference
	for _, child := range []struct {
		apiVersion, kind string
		shown            bool
	}{
		{"apps/v1", "Deployment", o.deployment.Object != nil},
		{"v1", "Service", o.service.Object != nil},
		{"networking.k8s.io/v1", "Ingress", o.ingress.Object != nil},
		{gatewayv1.GroupVersion.String(), "HTTPRoute", o.route.Object != nil},
		{"autoscaling/v2", "HorizontalPodAutoscaler", o.autoscaler.Object != nil},
		{"policy/v1", "PodDisruptionBudget", o.budget.Object != nil},
	} {
		resource := v1.ResourceReference{APIVersion: child.apiVersion, Kind: child.kind, Name: app.Name}
		if child.shown || (slices.Contains(app.Status.Resources, resource) && !slices.Contains(gone, child.kind)) {
			existing = append(existing, resource)
		}
	}
	return existing
}

// maxAnswer is how many characters of a Gateway's answer a condition has. The answer has up to 32 KiB.
const maxAnswer = 1024

// routeProblem returns why the Gateway does not serve the HTTPRoute; nil if it does, or if none of its controllers has answered yet. A
// controller removes none of the answers of another one: those to earlier parents can stay.
func routeProblem(o *observed, p plan) *child.Problem {
	if p.Route == nil || o.route.Object == nil {
		return nil
	}
	var problem *child.Problem
	for _, parent := range o.route.Object.Status.Parents {
		g, ref := o.app.Spec.Gateway, parent.ParentRef
		if string(ref.Name) != g.Name || string(ptr.Deref(ref.SectionName, "")) != g.SectionName ||
			cmp.Or(string(ptr.Deref(ref.Namespace, "")), o.app.Namespace) != cmp.Or(g.Namespace, o.app.Namespace) {
			continue
		}
		answer := func(kind gatewayv1.RouteConditionType, status metav1.ConditionStatus) *metav1.Condition {
			c := meta.FindStatusCondition(parent.Conditions, string(kind))
			if c == nil || c.Status != status || c.ObservedGeneration != o.route.Object.Generation {
				return nil
			}
			return c
		}
		no := cmp.Or(answer(gatewayv1.RouteConditionAccepted, metav1.ConditionFalse),
			answer(gatewayv1.RouteConditionResolvedRefs, metav1.ConditionFalse))
		switch {
		case no != nil:
			problem = &child.Problem{Reason: reasonRoute, Message: fmt.Sprintf("HTTPRoute: the Gateway %s does not serve it: %s: %.*s",
				g.Name, no.Reason, maxAnswer, no.Message)}
		case answer(gatewayv1.RouteConditionAccepted, metav1.ConditionTrue) != nil:
			return nil
		}
	}
	return problem
}

// url returns the address of the Application; "" if neither an Ingress, an HTTPRoute nor a Service exposes it.
func url(app *v1.Application) string {
	switch i := &app.Spec.Ingress; {
	case *i.Enabled && i.TLS != nil:
		return "https://" + i.Host + strings.TrimSuffix(i.Path, "/")
	case *i.Enabled || app.Spec.Gateway != nil:
		return "http://" + i.Host + strings.TrimSuffix(i.Path, "/")
	case *app.Spec.Service.Enabled:
		return fmt.Sprintf("http://%s.%s.svc:%d", app.Name, app.Namespace, app.Spec.ServicePort())
	}
	return ""
}
