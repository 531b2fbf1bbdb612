/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package loop

import (
	"sync/atomic"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// Result is what came of a sync.
type Result int

// The results, in the order of their names in metrics.
const (
	Success Result = iota
	// Error: it failed, or panicked, and runs again after a backoff.
	Error
	// Requeue: somebody else wrote first, and it runs again. Nothing is wrong.
	Requeue
	// RequeueAfter: it asked to run again at a time.
	RequeueAfter
	// Results is how many there are.
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

// Metrics counts what the Loops of one name do. Many workers call it at once.
type Metrics interface {
	// Workers: a Loop has begun to run with so many workers, or with -n, has ended.
	Workers(n int)
	// Started: a worker begins a sync. causes are not kept, nor changed.
	Started(causes []trace.Cause)
	// Finished: it has ended, by a panic too.
	Finished(result Result, took time.Duration)
	// Panicked: it has panicked. Finished follows.
	Panicked()
}

// MetricsProvider makes the Metrics of Loops. Several may have one name: the controllers
// of several namespaces do.
type MetricsProvider interface {
	ForController(name string) Metrics
}

var provider atomic.Pointer[MetricsProvider]

// SetMetricsProvider has what the Loops do counted that are made from now on. Without it,
// nobody counts.
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
