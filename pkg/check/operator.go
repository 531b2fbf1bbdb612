// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/clients"
)

// managerSelector selects the operator's Deployment and its Pods, however it was installed.
const managerSelector = "app.kubernetes.io/name=glassback,app.kubernetes.io/component=manager"

func (c *checker) checkDeployment(ctx context.Context) Result {
	namespace := c.options.operatorNamespace
	list, err := c.clients.Kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		line, readErr := os.ReadFile("/proc/1/cmdline")
		if apierrors.IsForbidden(err) && c.inside && readErr == nil && c.options.adoptNeighbour(line) {
			return skip("this account may not list Deployments; the checks use the options of the operator in this container")
		}
		return unanswered(err)
	}
	if len(list.Items) == 0 && c.options.pre {
		return pass("")
	}
	if len(list.Items) == 0 {
		return skip("there is none: the operator runs elsewhere, in another namespace (--operator-namespace), or not at all")
	}
	c.deployment = &list.Items[0]
	c.options.adoptFrom(c.deployment)
	if c.options.pre {
		return warn(fmt.Sprintf("there is one, of the image %s; the installation will replace it", imageOf(c.deployment)),
			"to upgrade it, continue")
	}
	if len(list.Items) > 1 {
		return fail(fmt.Sprintf("there are %d: %s and %s", len(list.Items), list.Items[0].Name, list.Items[1].Name), "delete all but one")
	}
	pods, err := c.clients.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		pods = &corev1.PodList{} // The Pods only explain the state of the Deployment.
	}
	return health(c.deployment, pods.Items)
}

func imageOf(d *appsv1.Deployment) string {
	for i := range d.Spec.Template.Spec.Containers {
		return d.Spec.Template.Spec.Containers[i].Image
	}
	return ""
}

// electing returns whether the operator of a Deployment elects a leader.
func electing(d *appsv1.Deployment) bool {
	o := settings{given: func(string) bool { return false }}
	o.adoptFrom(d)
	return o.Lease.Elect
}

// health reports whether the replicas of the operator's Deployment are ready. The Pods provide the reasons.
func health(d *appsv1.Deployment, pods []corev1.Pod) Result {
	want, ready := ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas
	state := fmt.Sprintf("%d of %d replicas are ready", ready, want)
	logs := fmt.Sprintf("the events have the cause: kubectl describe pods -n %[1]s; after a restart, the log has it too: "+
		"kubectl logs -n %[1]s %[2]s --previous", d.Namespace, cmp.Or(unready(pods), "POD"))
	stuck := conditionMessage(d, appsv1.DeploymentProgressing, corev1.ConditionFalse)
	noPods := conditionMessage(d, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue)
	if why := cmp.Or(noPods, trouble(pods)); why != "" && ready < want {
		state += ": " + why
	}
	switch {
	case want == 0:
		return fail("it is scaled to 0", fmt.Sprintf("kubectl scale -n %s deployment/%s --replicas=2", d.Namespace, d.Name))
	case ready == 0:
		return fail(state, logs)
	case ready < want:
		return warn(state, logs)
	case stuck != "":
		return fail(fmt.Sprintf("%s, but the rollout of new ones is stuck: %s", state, cmp.Or(noPods, trouble(pods), stuck)), logs)
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < want:
		rollout := fmt.Sprintf("it is rolling out: %d of %d replicas are new", d.Status.UpdatedReplicas, want)
		if why := cmp.Or(noPods, cannotStart(pods)); why != "" {
			return warn(rollout+"; "+why, logs)
		}
		return warn(rollout, "wait until all replicas are new")
	case want > 1 && !electing(d):
		return fail(state+", and all of them reconcile: they do not elect a leader", "give the container the argument --leader-elect")
	}
	return pass(fmt.Sprintf("%s, image %s", state, imageOf(d)))
}

// conditionMessage returns the message of a condition if it has this status, otherwise "".
func conditionMessage(d *appsv1.Deployment, kind appsv1.DeploymentConditionType, status corev1.ConditionStatus) string {
	for _, condition := range d.Status.Conditions {
		if condition.Type == kind && condition.Status == status {
			return condition.Message
		}
	}
	return ""
}

// cannotStart returns the first Pod with a container that does not start by itself, and the state of that container. It returns ""
// if there is none: a rollout also has Pods that are starting.
func cannotStart(pods []corev1.Pod) string {
	for i := range pods {
		for _, container := range pods[i].Status.ContainerStatuses {
			waiting := container.State.Waiting
			if waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
				return fmt.Sprintf("%s is %s", pods[i].Name, strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": "))
			}
		}
	}
	return ""
}

// unready returns the name of the first Pod with a container that is not ready.
func unready(pods []corev1.Pod) string {
	for i := range pods {
		for _, container := range pods[i].Status.ContainerStatuses {
			if !container.Ready {
				return pods[i].Name
			}
		}
	}
	return ""
}

// trouble returns the first reason that one of the Pods gives for not being ready, or "".
func trouble(pods []corev1.Pod) string {
	for i := range pods {
		for _, container := range pods[i].Status.ContainerStatuses {
			if waiting := container.State.Waiting; waiting != nil && !container.Ready {
				return fmt.Sprintf("%s is %s", pods[i].Name, strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": "))
			}
		}
		for _, condition := range pods[i].Status.Conditions {
			if condition.Status == corev1.ConditionFalse && condition.Message != "" &&
				(condition.Type == corev1.PodScheduled || condition.Type == corev1.PodReady) {
				return fmt.Sprintf("%s: %s", pods[i].Name, condition.Message)
			}
		}
	}
	return ""
}

func (c *checker) checkLease(ctx context.Context) Result {
	state, err := c.leaseState(ctx)
	if err != nil {
		return unanswered(err)
	}
	var result Result
	if c.options.pre {
		result = leaseBefore(state)
	} else {
		result = leaseAfter(state, c.deployment)
	}
	result.Reason = fmt.Sprintf("%s/%s: %s", c.options.leaseNamespace, c.options.leaseName, result.Reason)
	return result
}

// leaseState reads the Lease of the operator.
func (c *checker) leaseState(ctx context.Context) (clients.Lease, error) {
	return clients.ReadLease(ctx, c.clients.Kube, c.options.leaseNamespace, c.options.leaseName, c.clients.Time.Now())
}

// leaseAfter checks the Lease of an installed operator. The Deployment is nil if the cluster has none.
func leaseAfter(state clients.Lease, d *appsv1.Deployment) Result {
	reason := "no operator process holds it: " + state.String()
	switch elects := d != nil && electing(d); {
	case state.Held():
		return pass(state.String())
	case elects && state.Expired():
		return fail(reason, logsOf(d))
	case elects:
		return warn(reason+", though the Deployment elects a leader", logsOf(d))
	case state.Expired():
		return warn(reason, "start an operator, or delete the Lease")
	}
	result := skip(reason)
	result.Remedy = "if no operator runs, start one; an operator without --leader-elect holds no Lease"
	return result
}

// logsOf returns the command that shows why no replica of a Deployment leads.
func logsOf(d *appsv1.Deployment) string {
	return fmt.Sprintf("the log says why no replica leads: kubectl logs -n %s deployment/%s", d.Namespace, d.Name)
}

// leaseBefore warns if another operator leads.
func leaseBefore(state clients.Lease) Result {
	if state.Held() {
		return warn("an operator is running: "+state.String(), "to upgrade it, continue; a second operator needs --leader-elect")
	}
	return pass(state.String())
}
