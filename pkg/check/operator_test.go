// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/lease"
)

func TestTheHealthOfTheOperator(t *testing.T) {
	waiting := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
	}}}}
	creating := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}}}}
	homeless := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available",
	}}}}
	refused := managerOf(2, 0)
	refused.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "violates PodSecurity"},
	}
	rolling := managerOf(2, 2)
	rolling.Status.UpdatedReplicas = 1
	stuckOne := rolling.DeepCopy()
	stuckOne.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "exceeded its progress deadline"},
	}
	crowd := managerOf(2, 2)
	crowd.Spec.Template.Spec.Containers[0].Args = nil
	for name, test := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       State
		reason     string
	}{
		"all are ready": {managerOf(2, 2), nil, OK, "2 of 2 replicas are ready, image glassback:v1"},
		"one is not": {
			managerOf(2, 1), []corev1.Pod{waiting}, Warning, "1 of 2 replicas are ready: p is ImagePullBackOff: no such image",
		},
		"none is":              {managerOf(2, 0), []corev1.Pod{homeless}, Failed, "0 of 2 replicas are ready: p: 0/1 nodes are available"},
		"none may be":          {refused, nil, Failed, "0 of 2 replicas are ready: violates PodSecurity"},
		"there are to be none": {managerOf(0, 0), nil, Failed, "it is scaled to 0"},
		"new ones take over":   {rolling, []corev1.Pod{creating}, Warning, "it is rolling out: 1 of 2 replicas are new"},
		"a new one cannot start": {rolling, []corev1.Pod{waiting}, Warning,
			"it is rolling out: 1 of 2 replicas are new; p is ImagePullBackOff: no such image"},
		"the new ones do not come": {stuckOne, []corev1.Pod{waiting}, Failed,
			"2 of 2 replicas are ready, but the rollout of new ones is stuck: p is ImagePullBackOff: no such image"},
		"several, and all of them lead": {crowd, nil, Failed, "2 of 2 replicas are ready, and all of them reconcile: they do not elect a leader"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := health(test.deployment, test.pods); got.State != test.want || got.Reason != test.reason {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

func TestTheLeaseOfTheOperator(t *testing.T) {
	now := time.Now()
	held := func(holder string, ago time.Duration) lease.State {
		return lease.Of(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago))),
		}}, now)
	}
	alone := managerOf(1, 1)
	alone.Spec.Template.Spec.Containers[0].Args = nil
	const start, logs = "start an operator, or delete the Lease", "the log says why no replica leads: kubectl logs -n "
	const none = "if no operator runs, start one; an operator without --leader-elect holds no Lease"
	for name, test := range map[string]struct {
		state                       lease.State
		electing, alone, no, before State
		reason, remedy              string // without a Deployment
	}{
		"none":     {lease.State{}, Warning, Skipped, Skipped, OK, "no operator process holds it: there is no Lease", none},
		"held":     {held("a", 2*time.Second), OK, OK, OK, Warning, "a, which has renewed it 2s ago", ""},
		"released": {held("", time.Second), Warning, Skipped, Skipped, OK, "no operator process holds it: the last leader has released it", none},
		"expired": {held("a", time.Minute), Failed, Warning, Warning, OK,
			"no operator process holds it: the last leader, a, has not renewed it for 1m0s", start},
	} {
		t.Run(name, func(t *testing.T) {
			elected := leaseAfter(test.state, managerOf(2, 2))
			for _, check := range []struct {
				name string
				got  Result
				want State
			}{
				{"a Deployment that elects a leader", elected, test.electing},
				{"a Deployment that does not", leaseAfter(test.state, alone), test.alone},
				{"no Deployment", leaseAfter(test.state, nil), test.no},
				{"before an installation", leaseBefore(test.state), test.before},
			} {
				if check.got.State != check.want {
					t.Errorf("%s: got %+v, want %s", check.name, check.got, check.want)
				}
			}
			if got := leaseAfter(test.state, nil); got.Reason != test.reason || got.Remedy != test.remedy {
				t.Errorf("got %+v", got)
			}
			if elected.State != OK && !strings.HasPrefix(elected.Remedy, logs) {
				t.Errorf("the remedy is %q", elected.Remedy)
			}
		})
	}
}
