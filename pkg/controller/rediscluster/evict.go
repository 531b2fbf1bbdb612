/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// heldError says that the PodDisruptionBudget does not allow an eviction now, and when to
// ask again.
type heldError struct {
	message string
	wait    time.Duration
}

func (e heldError) Error() string { return e.message }

// budgetsError says that a Pod has two PodDisruptionBudgets.
type budgetsError string

func (e budgetsError) Error() string { return string(e) }

// evictPod has the API server evict exactly the Pod that was seen. It returns a heldError
// if the PodDisruptionBudget does not allow that now, and a budgetsError if the Pod has two.
func (e executor) evictPod(ctx context.Context, m *member) error {
	err := e.evict(ctx, m.pod)
	cause, ofBudget := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	switch {
	case ofBudget:
		// The first refusal is reported by the next sync, which comes soon. After it, the
		// watch says when the budget has changed.
		wait := poll
		if e.o.held == "" {
			wait = brief
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = time.Duration(seconds) * time.Second
		}
		return heldError{cause.Message, wait}
	case isInternal(err):
		return cmp.Or(e.twoBudgets(ctx, m.pod), err)
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	e.deleted(m, "evict pods")
	return nil
}

// evict asks for the eviction of a Pod, once. The typed client's EvictV1 would sleep as long
// as the answer's Retry-After says, up to ten times, and hold up a worker.
func (e executor) evict(ctx context.Context, pod *corev1.Pod) error {
	return e.kube.CoreV1().RESTClient().Post().MaxRetries(0).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}},
		}).Do(ctx).Error()
}

// isInternal returns whether the API server could not answer a request, or would not: it
// gives no other reason if a Pod has two budgets.
func isInternal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError
}

// twoBudgets returns a budgetsError if the Pod has more than one PodDisruptionBudget, and
// nil if not.
func (e executor) twoBudgets(ctx context.Context, pod *corev1.Pod) error {
	list, err := e.kube.PolicyV1().PodDisruptionBudgets(pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	count := 0
	var others []string
	for _, b := range list.Items {
		selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selects.Matches(klabels.Set(pod.Labels)) {
			continue
		}
		count++
		if !metav1.IsControlledBy(&b, e.o.rdc) {
			others = append(others, b.Name)
		}
	}
	if count < 2 {
		return nil
	}
	return budgetsError(fmt.Sprintf("Pod %s cannot be evicted, since %d PodDisruptionBudgets select it. Delete %s, or change what it selects",
		pod.Name, count, strings.Join(others, ", ")))
}
