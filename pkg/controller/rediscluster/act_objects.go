// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
)

// applied are the kinds of children that the controller keeps by server-side apply: all but Pods, claims, Jobs and Secrets.
type applied struct {
	owners         *child.Owners
	services       *child.Kind[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	budgets        *child.Kind[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]
	policies       *child.Kind[*networkingv1.NetworkPolicy, *networkingv1ac.NetworkPolicyApplyConfiguration]
	configurations *child.Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	configMapCache cache.Indexer
	serviceCache   cache.Indexer

	operatorNamespace string
}

func newApplied(config Config, written *loop.Written) applied {
	owners := child.NewOwners(kind.Kind, v1.LabelRedisCluster, written, config.Clock)
	all := applied{
		owners: owners,
		services: child.New(owners, "Service", "services", config.Services.Informer().GetStore(),
			config.Kube.CoreV1().Services, corev1ac.ExtractService),
		budgets: child.New(owners, "PodDisruptionBudget", "poddisruptionbudgets.policy", config.Budgets.Informer().GetStore(),
			config.Kube.PolicyV1().PodDisruptionBudgets, policyv1ac.ExtractPodDisruptionBudget),
		policies: child.New(owners, "NetworkPolicy", "networkpolicies.networking.k8s.io", config.Policies.Informer().GetStore(),
			config.Kube.NetworkingV1().NetworkPolicies, networkingv1ac.ExtractNetworkPolicy),
		configurations: child.New(owners, "ConfigMap", "configmaps", config.ConfigMaps.Informer().GetStore(),
			config.Kube.CoreV1().ConfigMaps, corev1ac.ExtractConfigMap),
		configMapCache: config.ConfigMaps.Informer().GetIndexer(), serviceCache: config.Services.Informer().GetIndexer(),
		operatorNamespace: config.OperatorNamespace,
	}
	// The ConfigMap is immutable, and an earlier operator may have made it in another way.
	all.configurations.Adapt = func(_ metav1.Object, desired *corev1ac.ConfigMapApplyConfiguration, live *corev1.ConfigMap) {
		desired.Data = live.Data
	}
	return all
}

// applyChildren applies the children. It tries each of them, even if another one fails.
func (c *Controller) applyChildren(ctx context.Context, o *observed) (child.Outcomes, error) {
	changes, err := c.changes(o)
	if err != nil {
		return child.Outcomes{}, err
	}
	return child.DoAll(ctx, changes)
}

// changes returns the changes of the children to their desired fields, and the deletions of ConfigMaps whose revision no Pod has.
func (c *Controller) changes(o *observed) ([]child.Change, error) {
	rdc := o.Object
	name := manifest.ConfigurationName(rdc)
	observedPolicy := c.policies.Observe(rdc, rdc.Name)
	operator := cmp.Or(c.operatorNamespace, manifest.NamespaceOfOperator(observedPolicy.Object))
	policy, err := manifest.NetworkPolicy(rdc, o.existingPods(), operator)
	if err != nil {
		return nil, err
	}
	changes := []child.Change{
		c.services.Reconcile(rdc, rdc.Name, c.services.Observe(rdc, rdc.Name), false, manifest.Service(rdc, o.Closed)),
		c.budgets.Reconcile(rdc, rdc.Name, c.budgets.Observe(rdc, rdc.Name), false, manifest.Budget(rdc, o.Pods)),
		c.policies.Reconcile(rdc, rdc.Name, observedPolicy, false, policy),
	}
	// It is immutable: one that exists stays.
	if found := c.configurations.Observe(rdc, name); found.Object == nil || found.Object.DeletionTimestamp != nil {
		changes = append(changes, c.configurations.Reconcile(rdc, name, found, false, manifest.Configuration(rdc)))
	}
	changes = append(changes, c.accessChanges(o)...)
	existing, err := objectsOf[*corev1.ConfigMap](c.configMapCache, rdc)
	if err != nil {
		return nil, err
	}
	for _, cm := range existing {
		revision := strings.TrimPrefix(cm.Name, rdc.Name+"-")
		if cm.Name != name && !o.Revisions[revision] && metav1.IsControlledBy(cm, rdc) {
			changes = append(changes, c.configurations.Reconcile(rdc, cm.Name, c.configurations.Observe(rdc, cm.Name), false, nil))
		}
	}
	return changes, nil
}

// The commands for claims and Pods.
var (
	createClaim = &verb{text: "create claim of", do: executor.createClaim, writes: func(o *observed, c command) write {
		return write{"create", "PersistentVolumeClaim", manifest.ClaimName(o.Object, c.on.Ordinal), nil, manifest.Claim(o.Object, c.on.Ordinal)}
	}}
	growClaim = &verb{text: "grow claim of", do: executor.growClaim, writes: func(o *observed, c command) write {
		grown := c.on.Claim.DeepCopy()
		grown.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: o.Object.Spec.Storage.Size}
		return write{"patch", "PersistentVolumeClaim", grown.Name, c.on.Claim, grown}
	}}
	deleteClaim = &verb{text: "delete claim of", logged: true, do: executor.deleteClaim, writes: func(_ *observed, c command) write {
		if c.on.Claim.DeletionTimestamp != nil {
			return write{}
		}
		return write{verb: "delete", kind: "PersistentVolumeClaim", name: c.on.Claim.Name}
	}}
	createPod = &verb{text: "create Pod", do: executor.createPod, writes: func(o *observed, c command) write {
		return write{"create", "Pod", c.on.Name, nil, o.newPod(c.on)}
	}}
	deletePod = &verb{text: "delete Pod", logged: true, do: executor.deletePod, writes: func(_ *observed, c command) write {
		return write{verb: "delete", kind: "Pod", name: c.on.Name}
	}}
	// evictPod deletes a Pod if the PodDisruptionBudget allows it.
	evictPod = &verb{text: "evict Pod", logged: true, do: executor.evictPod, writes: func(_ *observed, c command) write {
		return write{verb: "evict", kind: "Pod", name: c.on.Name}
	}}
)

func (e executor) claimClient() typedcorev1.PersistentVolumeClaimInterface {
	return e.kube.CoreV1().PersistentVolumeClaims(e.o.Object.Namespace)
}

func (e executor) podClient() typedcorev1.PodInterface {
	return e.kube.CoreV1().Pods(e.o.Object.Namespace)
}

func (e executor) createClaim(ctx context.Context, c command) error {
	m := c.on
	created, err := e.claimClient().Create(ctx, manifest.Claim(e.o.Object, m.Ordinal), metav1.CreateOptions{FieldManager: glassback.Name})
	if err != nil {
		return nameTaken(err, "PersistentVolumeClaim "+manifest.ClaimName(e.o.Object, m.Ordinal))
	}
	e.written.Record(ctx, e.key(), "create persistentvolumeclaims", e.claims, created)
	return nil
}

func (e executor) createPod(ctx context.Context, c command) error {
	m := c.on
	if err := e.checkAccount(ctx); err != nil {
		return err
	}
	created, err := e.podClient().Create(ctx, e.o.newPod(m), metav1.CreateOptions{FieldManager: glassback.Name})
	switch {
	case isRejected(err):
		return problemError{reasonRejected, "The API server rejects a Pod: " + err.Error()}
	case err != nil:
		return nameTaken(err, "Pod "+m.Name)
	}
	e.written.Record(ctx, e.key(), "create pods", e.pods, created)
	return nil
}

// isRejected returns whether the API server rejects an object, and not because a quota is exceeded.
func isRejected(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || (apierrors.IsForbidden(err) && !isQuota(err))
}

// isQuota returns whether a quota is exceeded. In a dry run, this proves little: the present Pod still counts for the quota.
func isQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// nameTaken returns a problemError if err says that the object exists. Then the caches are stale, or they do not show the
// object because it lacks the label of this RedisCluster. Otherwise nameTaken returns err.
func nameTaken(err error, object string) error {
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return problemError{reasonConflict, object +
		" exists already, and does not have the labels of this RedisCluster: rename or delete one of the two"}
}

// growClaim requests a larger volume. If the API server refuses, the operator waits before it asks again: all else goes on.
func (e executor) growClaim(ctx context.Context, c command) error {
	m := c.on
	current := e.session
	if current.growthRefused != nil && e.clock.Since(current.growthRefusedAt) < secretEvery {
		return nil // That of another claim was refused a moment ago.
	}
	requests := corev1.ResourceList{corev1.ResourceStorage: e.o.Object.Spec.Storage.Size}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.Claim.UID, "resourceVersion": m.Claim.ResourceVersion},
		"spec":     map[string]any{"resources": map[string]any{"requests": requests}},
	})
	if err != nil {
		return err
	}
	grown, err := e.claimClient().Patch(ctx, m.Claim.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: glassback.Name})
	if isRejected(err) || isQuota(err) {
		current.growthRefused = &problem{reasonFailing, fmt.Sprintf("The API server refuses to grow the volume of %s: %s", m.Name, err)}
		current.growthRefusedAt = e.clock.Now()
		klog.FromContext(ctx).Info("Could not grow a volume", "pod", m.Name, "reason", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	current.growthRefused = nil
	e.written.Record(ctx, e.key(), "patch persistentvolumeclaims", e.claims, grown)
	return nil
}

// deleteClaim deletes exactly the observed claim. Kubernetes keeps it until its Pod is gone.
func (e executor) deleteClaim(ctx context.Context, c command) error {
	m := c.on
	if m.Claim.DeletionTimestamp != nil {
		return nil
	}
	err := e.claimClient().Delete(ctx, m.Claim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.Claim.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	e.written.RecordDelete(ctx, e.key(), "delete persistentvolumeclaims", e.claims, m.Claim)
	return nil
}

// deletePod deletes exactly the observed Pod. If the Pod was not ready, it must be unchanged since: a Pod that has become
// ready counts for the PodDisruptionBudget.
func (e executor) deletePod(ctx context.Context, c command) error {
	m := c.on
	preconditions := &metav1.Preconditions{UID: ptr.To(m.Pod.UID)}
	if !isReady(m.Pod) {
		preconditions.ResourceVersion = ptr.To(m.Pod.ResourceVersion)
	}
	err := e.podClient().Delete(ctx, m.Name, metav1.DeleteOptions{Preconditions: preconditions})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	e.recordDeletedPod(ctx, m, "delete pods")
	return nil
}

// recordDeletedPod records the write that deleted a Pod, and sends an event.
func (e executor) recordDeletedPod(ctx context.Context, m *member, verb string) {
	e.written.RecordDelete(ctx, e.key(), verb, e.pods, m.Pod)
	e.recorder.Eventf(e.o.Object, corev1.EventTypeNormal, "PodDeleted", "Deleted Pod %s: %s", m.Name, e.purpose())
}

// evictPod makes the API server evict exactly the observed Pod. It returns an evictionRefusedError if the PodDisruptionBudget does not
// allow the eviction now, and a problemError if several PodDisruptionBudgets select the Pod. If an earlier eviction of this Pod was
// allowed and did not complete, evictPod deletes the Pod.
func (e executor) evictPod(ctx context.Context, c command) error {
	m := c.on
	err := e.evict(ctx, m.Pod)
	cause, ofBudget := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	switch {
	case ofBudget && e.evictionAllowed(ctx, m.Pod):
		return e.deletePod(ctx, c)
	case ofBudget:
		// After the first refusal, the next sync follows soon, to report it. After later ones, a watch event starts the
		// next sync when the budget changes.
		wait := poll
		if e.o.EvictionRefused == "" {
			wait = brief
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = time.Duration(seconds) * time.Second
		}
		return evictionRefusedError{cause.Message, wait}
	case isInternal(err):
		return cmp.Or(e.findTwoBudgets(ctx, m.Pod), err)
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	e.recordDeletedPod(ctx, m, "evict pods")
	return nil
}

// evict sends one request to evict a Pod. The typed client's EvictV1 would retry up to ten times, after the delay in
// the answer's Retry-After, and block a worker meanwhile.
func (e executor) evict(ctx context.Context, pod *corev1.Pod) error {
	return e.kube.CoreV1().RESTClient().Post().MaxRetries(0).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}},
		}).Do(ctx).Error()
}

// maxAllowed is how long the operator may take to complete an eviction that was allowed. The PodDisruptionBudget counts the Pod as gone
// for 20 seconds longer: see DeletionTimeout in pkg/controller/disruption of Kubernetes.
const maxAllowed = 100 * time.Second

// evictionAllowed returns whether the PodDisruptionBudget has allowed an eviction of exactly this Pod, and still counts the Pod as gone.
// The API server writes the Pod to the status of the budget, and then deletes the Pod. If the client stops in between, the Pod is not
// deleted. Until the status no longer lists the Pod, the budget allows no eviction, not even of this Pod.
func (e executor) evictionAllowed(ctx context.Context, pod *corev1.Pod) bool {
	live, err := e.kube.PolicyV1().PodDisruptionBudgets(pod.Namespace).Get(ctx, e.o.Object.Name, metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(live, e.o.Object) {
		return false // The eviction stays refused.
	}
	at, ok := live.Status.DisruptedPods[pod.Name]
	return ok && at.After(pod.CreationTimestamp.Time) && e.clock.Since(at.Time) < maxAllowed
}

// isInternal returns whether the API server answered with an internal error. It answers an eviction in this way if several
// budgets select the Pod.
func isInternal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError
}

// findTwoBudgets returns a problemError if more than one PodDisruptionBudget selects the Pod; nil if not.
func (e executor) findTwoBudgets(ctx context.Context, pod *corev1.Pod) error {
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
		if !metav1.IsControlledBy(&b, e.o.Object) {
			others = append(others, b.Name)
		}
	}
	if count < 2 {
		return nil
	}
	return problemError{reasonBudgets, fmt.Sprintf("Pod %s cannot be evicted, since %d PodDisruptionBudgets select it. "+
		"Delete %s, or change what it selects", pod.Name, count, strings.Join(others, ", "))}
}

// evictionRefusedError reports that a PodDisruptionBudget does not allow an eviction now, and when to try again.
type evictionRefusedError struct {
	message string
	wait    time.Duration
}

func (e evictionRefusedError) Error() string { return e.message }

// problemError is an error that has a reason for the conditions.
type problemError problem

func (e problemError) Error() string { return e.Message }

// problemOf returns an error of commands as a problem.
func problemOf(err error) *problem {
	if known, ok := errors.AsType[problemError](err); ok {
		return new(problem(known))
	}
	return &problem{reasonFailing, withoutPort(err)}
}
