// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glassback/glassback/pkg/pipeline"
)

// AddInformer adds an informer, until it has stopped. Informers with the same resource and namespace ("": all namespaces)
// share a series: several controllers have children of one kind, and each watched Secret has a separate informer.
func (m *Metrics) AddInformer(resource, namespace string, informer *pipeline.Informer) {
	m.informers.add(labels{resource, namespace}, informer)
}

// informers reads the state of its informers at each scrape, and does nothing in between.
type informers struct {
	mu  sync.Mutex
	all []watchedInformer
	// failures counts the failures of stopped informers, since a counter must not decrease.
	failures map[labels]int64
}

type watchedInformer struct {
	labels
	*pipeline.Informer
}

type labels struct{ resource, namespace string }

// seen is the combined state of informers with the same labels. Its numbers are sums. It is synced or watching only if all informers are.
type seen struct {
	objects, queued, backlog int
	synced, watching         bool
}

var (
	informerLabels   = []string{"resource", "namespace"}
	informerObjects  = informerDesc("objects", "Objects in the cache.")
	informerSynced   = informerDesc("synced", "Whether the cache holds all of the first list (1), or not yet (0).")
	informerQueue    = informerDesc("queue_length", "Objects that came off the wire and are not in the cache yet.")
	informerBacklog  = informerDesc("backlog", "Notifications that event handlers have not had yet, of all handlers together.")
	informerWatching = informerDesc("watching",
		"Whether a WATCH is open (1). For a moment every few minutes none is (0): one ends, and the next begins.")
	informerWatchError = informerDesc("watch_errors_total", "LISTs and WATCHes that failed.")
)

func informerDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("glassback_informer_"+name, help, informerLabels, nil)
}

func (i *informers) add(l labels, informer *pipeline.Informer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop() // Without scrapes, nothing else calls drop.
	i.all = append(i.all, watchedInformer{l, informer})
}

// drop removes the stopped informers. The caller holds i.mu.
func (i *informers) drop() {
	i.all = slices.DeleteFunc(i.all, func(m watchedInformer) bool {
		if !m.IsStopped() {
			return false
		}
		if i.failures == nil {
			i.failures = map[labels]int64{}
		}
		i.failures[m.labels] += m.Failures()
		return true
	})
}

// running returns the informers that have not stopped.
func (i *informers) running() []watchedInformer {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop()
	return slices.Clone(i.all)
}

// look returns the state of the running informers, and the failures of all informers, also of stopped ones.
func (i *informers) look() (map[labels]*seen, map[labels]int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop()
	all, failures := map[labels]*seen{}, map[labels]int64{}
	maps.Copy(failures, i.failures)
	for _, m := range i.all {
		s := all[m.labels]
		if s == nil {
			s = &seen{synced: true, watching: true}
			all[m.labels] = s
		}
		stats, health := m.Stats(), m.Health()
		s.objects += len(m.GetStore().ListKeys())
		s.queued += stats.Queued
		for _, handler := range stats.Handlers {
			s.backlog += handler.Pending
		}
		s.synced = s.synced && health.Synced
		s.watching = s.watching && health.Watching
		failures[m.labels] += health.Failures
	}
	return all, failures
}

// Describe implements prometheus.Collector.
func (i *informers) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		informerObjects, informerSynced, informerQueue, informerBacklog, informerWatching, informerWatchError,
	} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (i *informers) Collect(to chan<- prometheus.Metric) {
	all, failures := i.look()
	for l, s := range all {
		gauge := func(desc *prometheus.Desc, value int) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), l.resource, l.namespace)
		}
		gauge(informerObjects, s.objects)
		gauge(informerQueue, s.queued)
		gauge(informerBacklog, s.backlog)
		gauge(informerSynced, oneIf(s.synced))
		gauge(informerWatching, oneIf(s.watching))
	}
	for l, n := range failures {
		to <- prometheus.MustNewConstMetric(informerWatchError, prometheus.CounterValue, float64(n), l.resource, l.namespace)
	}
}

// oneIf returns 1 if condition is true, and 0 otherwise.
func oneIf(condition bool) int {
	if condition {
		return 1
	}
	return 0
}
