/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedpolicyv1 "k8s.io/client-go/kubernetes/typed/policy/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
)

// applied are the kinds of children that are brought to what the spec says by applying
// it: all but Pods and their volumes, whose coming and going is the controller's trade.
type applied struct {
	owners         *child.Owners
	services       *child.Kind[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	budgets        *child.Kind[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]
	configurations *child.Kind[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	configMaps     corelisters.ConfigMapLister
}

func newApplied(config Config, written *loop.Written) applied {
	owners := child.NewOwners(kind.Kind, v1.LabelRedisCluster, written, config.Clock)
	return applied{
		owners: owners,
		services: child.New(owners, "Service", "services", config.Services.Informer().GetStore(),
			func(ns string) typedcorev1.ServiceInterface { return config.Kube.CoreV1().Services(ns) }, corev1ac.ExtractService),
		budgets: child.New(owners, "PodDisruptionBudget", "poddisruptionbudgets.policy", config.Budgets.Informer().GetStore(),
			func(ns string) typedpolicyv1.PodDisruptionBudgetInterface {
				return config.Kube.PolicyV1().PodDisruptionBudgets(ns)
			}, policyv1ac.ExtractPodDisruptionBudget),
		configurations: child.New(owners, "ConfigMap", "configmaps", config.ConfigMaps.Informer().GetStore(),
			func(ns string) typedcorev1.ConfigMapInterface { return config.Kube.CoreV1().ConfigMaps(ns) }, corev1ac.ExtractConfigMap),
		configMaps: config.ConfigMaps.Lister(),
	}
}

// outcome is what came of writes.
type outcome struct {
	wrote    bool
	problems []problem
	wait     time.Duration
}

// applyChildren brings the children up to date. One that fails does not hold up the others.
func (a applied) applyChildren(ctx context.Context, o *observed) (outcome, error) {
	rdc := o.rdc
	changes := []child.Change{
		a.services.Bring(rdc, rdc.Name, a.services.Observe(rdc, rdc.Name), false, child.Exactly(service(rdc))),
		a.budgets.Bring(rdc, rdc.Name, a.budgets.Observe(rdc, rdc.Name), false, child.Exactly(budget(rdc, o.pods))),
	}
	name := configurationName(rdc)
	changes = append(changes, a.configurations.Bring(rdc, name, a.configurations.Observe(rdc, name), false, once(configuration(rdc))))
	theirs, err := a.configMaps.ConfigMaps(rdc.Namespace).List(klabels.SelectorFromSet(selector(rdc)))
	if err != nil {
		return outcome{}, err
	}
	for _, cm := range theirs {
		revision := strings.TrimPrefix(cm.Name, rdc.Name+"-")
		if cm.Name != name && !o.revisions[revision] && metav1.IsControlledBy(cm, rdc) {
			changes = append(changes, a.configurations.Bring(rdc, cm.Name, a.configurations.Observe(rdc, cm.Name), false, nil))
		}
	}
	var out outcome
	var errs []error
	for _, change := range changes {
		done, err := change.Do(ctx)
		out.wrote = out.wrote || done.Wrote
		out.wait = loop.Soonest(out.wait, done.Wait)
		if done.Problem != nil {
			out.problems = append(out.problems, problem{done.Problem.Reason, done.Problem.Message})
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// uncounted returns how many of the Pods a PodDisruptionBudget does not count. One that
// does not exist, or is of an earlier version of the operator, has no such number.
func uncounted(budget *policyv1.PodDisruptionBudget, pods int) int {
	if budget == nil || budget.Spec.MinAvailable == nil {
		return 0
	}
	return max(0, pods-1-budget.Spec.MinAvailable.IntValue())
}

// once is the child.Want of what is made, and then left as it is: it is immutable.
func once(wanted *corev1ac.ConfigMapApplyConfiguration) child.Want[*corev1ac.ConfigMapApplyConfiguration] {
	return func(owned *corev1ac.ConfigMapApplyConfiguration) (*corev1ac.ConfigMapApplyConfiguration, error) {
		if owned != nil {
			return owned, nil
		}
		return wanted, nil
	}
}
