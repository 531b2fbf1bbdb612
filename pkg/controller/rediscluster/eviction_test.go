// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/glassback/glassback/pkg/fakeapi"
)

// newEvicting returns a client of kube that evicts Pods as their PodDisruptionBudgets allow, and creates nothing in a dry run. It answers
// as the real API server does, which TestEvictionAnswers of hack/devcluster/e2e shows. The objects are those of client-go's fake clientset,
// and not of pkg/fakeapi: only tests of this package need budgets that refuse, and their kubelet writes Pods without a request.
func newEvicting(kube *kubefake.Clientset) kubernetes.Interface {
	kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		return isDryRun(create), create.Object, nil
	})
	kube.PrependReactor("create", "pods/eviction", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, evictFrom(kube.Tracker(), action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction))
	})
	return fakeapi.Evicting(kube)
}

// evictFrom deletes a Pod if its budget allows that. It counts the Pods as they are, without
// the delay of a controller.
func evictFrom(objects clienttesting.ObjectTracker, eviction *policyv1.Eviction) error {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	found, err := objects.Get(pods, eviction.Namespace, eviction.Name)
	if err != nil {
		return err
	}
	pod := found.(*corev1.Pod)
	if p := pod.Status.Phase; p != corev1.PodFailed && p != corev1.PodSucceeded && p != corev1.PodPending && pod.DeletionTimestamp == nil {
		if err := allowed(objects, pod); err != nil {
			return err
		}
	}
	if p := eviction.DeleteOptions.Preconditions; p != nil && *p.UID != pod.UID {
		return apierrors.NewConflict(pods.GroupResource(), pod.Name, errors.New("the UID in the precondition does not match"))
	}
	return objects.Delete(pods, pod.Namespace, pod.Name)
}

// allowed returns why no budget allows to evict a Pod; nil if it is allowed.
func allowed(objects clienttesting.ObjectTracker, pod *corev1.Pod) error {
	budgets, err := objects.List(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), pod.Namespace)
	if err != nil {
		return err
	}
	var theirs []policyv1.PodDisruptionBudget
	for _, b := range budgets.(*policyv1.PodDisruptionBudgetList).Items {
		if selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selects.Matches(klabels.Set(pod.Labels)) {
			theirs = append(theirs, b)
		}
	}
	switch len(theirs) {
	case 0:
		return nil
	case 1:
	default:
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
	}
	list, err := objects.List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace)
	if err != nil {
		return err
	}
	selects, err := metav1.LabelSelectorAsSelector(theirs[0].Spec.Selector)
	healthy, needed := 0, theirs[0].Spec.MinAvailable.IntValue()
	for _, p := range list.(*corev1.PodList).Items {
		if selects.Matches(klabels.Set(p.Labels)) && p.DeletionTimestamp == nil && isReady(&p) {
			healthy++
		}
	}
	if err != nil || healthy > needed || (healthy == needed && !isReady(pod)) {
		return err
	}
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", theirs[0].Name, needed, healthy)}}
	return refusal
}

func isDryRun(create clienttesting.CreateActionImpl) bool {
	return len(create.CreateOptions.DryRun) > 0
}
