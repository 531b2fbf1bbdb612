// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// objectMetric is a metric of each object of a kind that has it.
type objectMetric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	has   func(T) bool
	value func(T) float64
}

// objectMetrics are the metrics of a kind.
type objectMetrics[T any] []objectMetric[T]

// Describe sends the descriptions of all metrics.
func (all objectMetrics[T]) Describe(to chan<- *prometheus.Desc) {
	for i := range all {
		to <- all[i].desc
	}
}

// collect sends the metrics of an object.
func (all objectMetrics[T]) collect(to chan<- prometheus.Metric, object T, labels ...string) {
	for i := range all {
		if m := &all[i]; m.has(object) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(object), labels...)
		}
	}
}
