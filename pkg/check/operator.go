/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package check

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// managerSelector selects the operator's Deployment and its Pods, however it was installed.
const managerSelector = "app.kubernetes.io/name=glassback,app.kubernetes.io/component=manager"

func (c *checker) checkDeployment(ctx context.Context) Result {
	namespace := c.options.operatorNamespace
	list, err := c.clients.Kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		line, readErr := os.ReadFile("/proc/1/cmdline")
		if apierrors.IsForbidden(err) && c.inside && readErr == nil && c.options.adoptNeighbour(line) {
			return skip("this account may not look; the operator in this container is taken for its like")
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
		return warn(fmt.Sprintf("there is one, of the image %s, which installing replaces", imageOf(c.deployment)),
			"if that is what is wanted, go on: it is an upgrade")
	}
	if len(list.Items) > 1 {
		return fail(fmt.Sprintf("there are %d: %s and %s", len(list.Items), list.Items[0].Name, list.Items[1].Name), "delete all but one")
	}
	pods, err := c.clients.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		pods = &corev1.PodList{} // They are only asked for why.
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

// health says how the operator's Deployment is. The Pods tell why.
func health(d *appsv1.Deployment, pods []corev1.Pod) Result {
	want, ready := ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas
	state := fmt.Sprintf("%d of %d replicas are ready", ready, want)
	logs := fmt.Sprintf("kubectl logs -n %s deployment/%s says why; and kubectl describe pods -n %s", d.Namespace, d.Name, d.Namespace)
	if why := cmp.Or(failure(d), trouble(pods)); why != "" && ready < want {
		state += ": " + why
	}
	switch {
	case want == 0:
		return fail("it is scaled to 0", fmt.Sprintf("kubectl scale -n %s deployment/%s --replicas=2", d.Namespace, d.Name))
	case ready == 0:
		return fail(state, logs)
	case ready < want:
		return warn(state, logs)
	case stuck(d) != "":
		return fail(fmt.Sprintf("%s, but the rollout of new ones is stuck: %s", state, cmp.Or(failure(d), trouble(pods), stuck(d))), logs)
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < want:
		return warn(fmt.Sprintf("it is rolling out: %d of %d replicas are new", d.Status.UpdatedReplicas, want), "wait until it has")
	case want > 1 && !electing(d):
		return fail(state+", and all of them work: it does not elect a leader", "give the container the argument --leader-elect")
	}
	return pass(fmt.Sprintf("%s, image %s", state, imageOf(d)))
}

// stuck says how a rollout is that does not come to its end.
func stuck(d *appsv1.Deployment) string {
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// failure says why Pods of a Deployment cannot even be made.
func failure(d *appsv1.Deployment) string {
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return condition.Message
		}
	}
	return ""
}

// trouble says what keeps the first of the Pods that is not ready.
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
	t, err := c.tenure(ctx)
	if err != nil {
		return unanswered(err)
	}
	result := t.occupied(c.deployment != nil && electing(c.deployment))
	if c.options.pre {
		result = t.vacant()
	}
	result.Reason = fmt.Sprintf("%s/%s: %s", c.options.leaseNamespace, c.options.leaseName, result.Reason)
	return result
}

// tenure is what a Lease says of the leader.
type tenure struct {
	none     bool // there is no Lease
	holder   string
	ago      time.Duration // since the holder renewed it
	duration time.Duration
}

// tenure reads the Lease.
func (c *checker) tenure(ctx context.Context) (tenure, error) {
	lease, err := c.clients.Kube.CoordinationV1().Leases(c.options.leaseNamespace).Get(ctx, c.options.leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return tenureOf(nil, time.Time{}), nil
	}
	if err != nil {
		return tenure{}, err
	}
	return tenureOf(lease, c.clients.Time.Now()), nil
}

func tenureOf(lease *coordinationv1.Lease, now time.Time) tenure {
	if lease == nil {
		return tenure{none: true}
	}
	t := tenure{
		holder:   ptr.Deref(lease.Spec.HolderIdentity, ""),
		duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
	}
	if lease.Spec.RenewTime != nil {
		t.ago = max(now.Sub(lease.Spec.RenewTime.Time), 0)
	}
	return t
}

// held returns whether the holder leads now.
func (t tenure) held() bool { return t.holder != "" && t.ago <= t.duration }

func (t tenure) String() string {
	switch {
	case t.none:
		return "there is no Lease"
	case t.holder == "":
		return "the last to lead has given it up"
	}
	if !t.held() {
		return fmt.Sprintf("the last to lead, %s, has not renewed it for %s", t.holder, t.ago.Round(time.Second))
	}
	return fmt.Sprintf("%s, which has renewed it %s ago", t.holder, t.ago.Round(time.Second))
}

// occupied checks the Lease of an operator that runs; electing is whether that operator elects a leader.
func (t tenure) occupied(electing bool) Result {
	switch {
	case t.held():
		return pass(t.String())
	case !electing && (t.none || t.holder == ""):
		return skip(t.String() + ", and no operator in the cluster that elects a leader")
	case t.none || t.holder == "":
		return warn(t.String()+", though the operator elects a leader", "see in its log why no replica leads")
	case !electing:
		return warn("no replica leads: "+t.String(), "start an operator, or delete the Lease")
	}
	return fail("no replica leads: "+t.String(), "see in the operator's log why no replica takes it over")
}

// vacant says whether an operator can start without another one at work.
func (t tenure) vacant() Result {
	if t.held() {
		return warn("an operator is at work: "+t.String(), "if it is to be upgraded, go on; a second one beside it needs --leader-elect")
	}
	return pass(t.String())
}
