// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// watchBudget watches the PodDisruptionBudget of a RedisCluster until the test ends. No version of it may allow more than one eviction, or
// an eviction while a Pod is not ready.
func (c *realRedis) watchBudget(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	versions, most := 0, int32(0)
	t.Cleanup(func() {
		cancel()
		watching.Wait()
		t.Logf("%d versions of PodDisruptionBudget %s allowed %d evictions at most", versions, c.name, most)
	})
	watching.Go(func() {
		for ctx.Err() == nil {
			events, err := c.kube.PolicyV1().PodDisruptionBudgets(c.ns).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + c.name})
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("watch PodDisruptionBudget %s: %v", c.name, err)
				}
				return
			}
			for event := range events.ResultChan() { // The watch ends with ctx, or when the API server closes it.
				b, ok := event.Object.(*policyv1.PodDisruptionBudget)
				if !ok {
					continue
				}
				s := b.Status
				versions, most = versions+1, max(most, s.DisruptionsAllowed)
				if s.DisruptionsAllowed > 1 || (s.DisruptionsAllowed == 1 && s.CurrentHealthy < s.ExpectedPods) {
					t.Errorf("PodDisruptionBudget %s allows %d evictions while %d of %d Pods are ready, with minAvailable: %v, maxUnavailable: %v",
						c.name, s.DisruptionsAllowed, s.CurrentHealthy, s.ExpectedPods, b.Spec.MinAvailable, b.Spec.MaxUnavailable)
				}
			}
		}
	})
}

// evict evicts a Pod as the RedisCluster controller does.
func (n *node) evict(ctx context.Context, pod string, uid types.UID) error {
	return n.kube.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(n.ns).Resource("pods").Name(pod).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: n.ns, Name: pod},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		}).Do(ctx).Error()
}

// readyPod creates a Pod without a kubelet, and sets its status to ready.
func (n *node) readyPod(t *testing.T, name string, labels map[string]string) *corev1.Pod {
	t.Helper()
	spec := shell("busybox", "true")
	spec.SchedulerName = "none"
	pods := n.kube.CoreV1().Pods(n.ns)
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: spec},
		metav1.CreateOptions{})
	n.must(t, err)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	n.must(t, err)
	return pod
}

// TestEvictionAnswers checks the API server's answers to evictions. The fake API server in eviction_test.go of pkg/controller/rediscluster
// gives the same answers.
func TestEvictionAnswers(t *testing.T) {
	light.parallel(t)
	n := onNode(t)
	labels := map[string]string{"app": "evicted"}
	a, b := n.readyPod(t, "a", labels), n.readyPod(t, "b", labels)
	exists := func(what string) {
		t.Helper()
		if pod, err := n.kube.CoreV1().Pods(n.ns).Get(t.Context(), a.Name, metav1.GetOptions{}); err != nil || pod.DeletionTimestamp != nil {
			t.Fatalf("%s: Pod %s is gone: %v", what, a.Name, err)
		}
	}
	if err := n.evict(t.Context(), a.Name, "another"); !apierrors.IsConflict(err) {
		t.Errorf("eviction with another UID: error %v, want a conflict", err)
	}
	exists("a Pod with another UID")

	// An earlier version of the operator applied this budget. This version applies the second one.
	budget := policyv1ac.PodDisruptionBudget("a", n.ns).WithSpec(policyv1ac.PodDisruptionBudgetSpec().
		WithMaxUnavailable(intstr.FromInt32(1)).WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)))
	owner := metav1.ApplyOptions{FieldManager: glassback.Name, Force: true}
	budgets := n.kube.PolicyV1().PodDisruptionBudgets(n.ns)
	was, err := budgets.Apply(t.Context(), budget, owner)
	n.must(t, err)
	budget.Spec.MaxUnavailable, budget.Spec.MinAvailable = nil, ptr.To(intstr.FromInt32(2))
	is, err := budgets.Apply(t.Context(), budget.WithUID(was.UID), owner)
	n.must(t, err)
	if is.Spec.MaxUnavailable != nil || is.Spec.MinAvailable == nil || is.Generation != was.Generation+1 {
		t.Errorf("after one apply, the budget is %+v", is.Spec)
	}
	n.processed(t, is.Name, 0)
	err = n.evict(t.Context(), a.Name, a.UID)
	cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if _, delay := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || delay ||
		!strings.Contains(cause.Message, "needs 2 healthy pods and has 2 currently") {
		t.Errorf("eviction that the budget does not allow: error %v, %+v", err, cause)
	}
	exists("the budget does not allow it")

	budget.Spec.MinAvailable = ptr.To(intstr.FromInt32(1))
	_, err = budgets.Apply(t.Context(), budget, owner)
	n.must(t, err)
	second, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "second"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		},
	}, metav1.CreateOptions{})
	n.must(t, err)
	var status apierrors.APIStatus
	if err = n.evict(t.Context(), a.Name, a.UID); !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError ||
		!strings.Contains(status.Status().Message, "more than one PodDisruptionBudget") {
		t.Errorf("eviction with two budgets: error %v, want code 500", err)
	}
	exists("two budgets")

	n.must(t, budgets.Delete(t.Context(), second.Name, metav1.DeleteOptions{}))
	n.processed(t, is.Name, 1)
	n.must(t, n.evict(t.Context(), a.Name, a.UID))
	if _, err := n.kube.CoreV1().Pods(n.ns).Get(t.Context(), a.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("eviction that the budget allows: Pod %s, error %v", a.Name, err)
	}
	if err := n.evict(t.Context(), b.Name, b.UID); !apierrors.IsTooManyRequests(err) {
		t.Errorf("eviction after the budget is used: error %v", err)
	}
}

// processed waits until the controller has processed the present generation of a PodDisruptionBudget.
func (n *node) processed(t *testing.T, budget string, allowed int32) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		b, err := n.kube.PolicyV1().PodDisruptionBudgets(n.ns).Get(ctx, budget, metav1.GetOptions{})
		if err != nil || b.Status.ObservedGeneration != b.Generation || b.Status.DisruptionsAllowed != allowed {
			return fmt.Errorf("PodDisruptionBudget %s: %+v, %w", budget, b.Status, err)
		}
		return nil
	})
}
