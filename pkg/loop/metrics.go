// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"sync/atomic"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// Result is the outcome of a sync.
type Result int

// The results. Package metrics has a name for each.
const (
	Success Result = iota
	// Error: the sync failed, or panicked. It runs again after a backoff.
	Error
	// Requeue: the sync met a conflict with another writer. It runs again after a backoff.
	Requeue
	// RequeueAfter: the sync succeeded, and asked to run again after a delay.
	RequeueAfter
	// Results is the number of results.
	Results = iota
)

func resultOf(after time.Duration, err error) Result {
	switch {
	case isConflict(err):
		return Requeue
	case err != nil:
		return Error
	case after > 0:
		return RequeueAfter
	}
	return Success
}

// Metrics counts the work of the Loops of one name. Many workers call it at once.
type Metrics interface {
	// Workers is called with n when a Loop begins to run with n workers, and with -n when it ends.
	Workers(n int)
	// Started is called when a worker begins a sync. It neither keeps nor changes causes.
	Started(causes []trace.Cause)
	// Finished is called when a sync has ended, also by a panic.
	Finished(result Result, took time.Duration)
	// Panicked is called when a sync has panicked, before Finished.
	Panicked()
}

// MetricsProvider makes the Metrics of Loops. Loops may share a name: with --namespaces, each namespace has a Loop of each controller.
type MetricsProvider interface {
	ForController(name string) Metrics
}

var provider atomic.Pointer[MetricsProvider]

// SetMetricsProvider sets the provider for the Loops that New returns from now on. Without a provider, nothing is counted.
func SetMetricsProvider(p MetricsProvider) { provider.Store(&p) }

func metricsOf(name string) Metrics {
	if p := provider.Load(); p != nil {
		return (*p).ForController(name)
	}
	return noMetrics{}
}

type noMetrics struct{}

func (noMetrics) Workers(int)                    {}
func (noMetrics) Started([]trace.Cause)          {}
func (noMetrics) Finished(Result, time.Duration) {}
func (noMetrics) Panicked()                      {}
