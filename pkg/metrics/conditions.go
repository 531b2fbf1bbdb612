// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/descriptor"
)

// maxConditionSeries limits the series of one kind: any client that may write a status can write any reason. In a cluster with 500
// namespaces, the kind with the most series has about that many.
const maxConditionSeries = 2000

// conditions shows the conditions of the objects that the caches hold. Like informers, it costs nothing until it is scraped.
type conditions struct {
	informers  *informers
	maxObjects int // the number of objects that are shown one by one
}

var (
	conditionsDesc = prometheus.NewDesc("glassback_conditions", "Objects of a kind in a namespace that have this condition. "+
		"A kind has 2,000 such series at most: namespaces take turns, and what is wrong comes first. "+
		"One more, without the other labels, counts the remaining objects.",
		[]string{"kind", "namespace", "type", "status", "reason"}, nil)
	objectConditionDesc = prometheus.NewDesc("glassback_object_condition", "Always 1: the labels are a condition of one object. "+
		"--metrics-objects limits the number of objects: namespaces take turns, and those that are not ready come first.",
		[]string{"kind", "namespace", "name", "type", "status", "reason"}, nil)
)

// conditionSeries are the labels of conditionsDesc.
type conditionSeries struct{ kind, namespace, condition, status, reason string }

// compareSeries puts series of faults first: alerts need them.
func compareSeries(a, b conditionSeries) int {
	return cmp.Or(oneIf(a.isFine())-oneIf(b.isFine()), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.condition, b.condition),
		cmp.Compare(a.status, b.status), cmp.Compare(a.reason, b.reason))
}

// isFine returns whether the condition shows no fault.
func (s *conditionSeries) isFine() bool {
	switch s.condition {
	case glassback.ConditionDegraded, redisv1.ConditionDataLoss:
		return s.status != string(metav1.ConditionTrue)
	case glassback.ConditionReady, redisv1.ConditionSlotsCovered:
		return s.status == string(metav1.ConditionTrue)
	}
	return true
}

// conditionedObject is an object with its conditions.
type conditionedObject struct {
	kind, namespace, name string
	conditions            []metav1.Condition
}

// compareObjects puts objects that are not ready first.
func compareObjects(a, b conditionedObject) int {
	rank := func(o conditionedObject) int {
		return oneIf(meta.IsStatusConditionTrue(o.conditions, glassback.ConditionReady))
	}
	return cmp.Or(rank(a)-rank(b), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// count returns the number of objects by series, for each kind, and the objects themselves if they are shown one by one.
func (c *conditions) count() (kinds map[string]map[conditionSeries]int, objects []conditionedObject) {
	kinds = map[string]map[conditionSeries]int{}
	for _, m := range c.informers.running() {
		for _, cached := range m.GetStore().List() {
			object, ok := cached.(descriptor.Object)
			if !ok {
				break // a built-in kind
			}
			if kinds[m.Kind()] == nil {
				kinds[m.Kind()] = map[conditionSeries]int{}
			}
			found := object.Conditions()
			for i := range found {
				condition := &found[i]
				kinds[m.Kind()][conditionSeries{m.Kind(), object.GetNamespace(), condition.Type, string(condition.Status), condition.Reason}]++
			}
			if c.maxObjects > 0 {
				objects = append(objects, conditionedObject{m.Kind(), object.GetNamespace(), object.GetName(), found})
			}
		}
	}
	return kinds, objects
}

// bound returns at most maxConditionSeries series. If there are more, the last series is the sum of all series that do not fit.
func bound(kind string, counts map[conditionSeries]int) map[conditionSeries]int {
	if len(counts) <= maxConditionSeries {
		return counts
	}
	bounded := make(map[conditionSeries]int, maxConditionSeries)
	sorted := slices.SortedFunc(maps.Keys(counts), compareSeries)
	for i, series := range inTurns(sorted, func(s conditionSeries) string { return s.namespace }) {
		if i < maxConditionSeries-1 {
			bounded[series] = counts[series]
		} else {
			bounded[conditionSeries{kind: kind}] += counts[series]
		}
	}
	return bounded
}

// Describe implements prometheus.Collector.
func (c *conditions) Describe(to chan<- *prometheus.Desc) {
	to <- conditionsDesc
	to <- objectConditionDesc
}

// Collect implements prometheus.Collector.
func (c *conditions) Collect(to chan<- prometheus.Metric) {
	kinds, objects := c.count()
	for kind, counts := range kinds {
		for s, n := range bound(kind, counts) {
			to <- prometheus.MustNewConstMetric(conditionsDesc, prometheus.GaugeValue, float64(n),
				s.kind, s.namespace, s.condition, s.status, s.reason)
		}
	}
	slices.SortFunc(objects, compareObjects)
	objects = inTurns(objects, func(o conditionedObject) string { return o.namespace })
	for _, o := range objects[:min(len(objects), c.maxObjects)] {
		for i := range o.conditions {
			condition := &o.conditions[i]
			to <- prometheus.MustNewConstMetric(objectConditionDesc, prometheus.GaugeValue, 1,
				o.kind, o.namespace, o.name, condition.Type, string(condition.Status), condition.Reason)
		}
	}
}
