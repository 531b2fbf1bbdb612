// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"sync/atomic"
	"time"
)

// Metrics counts the requests for one path. Many goroutines call it at once.
type Metrics interface {
	// Started counts a request.
	Started()
	// Finished counts its answer, with the HTTP status and the time that it took.
	Finished(status int, took time.Duration)
}

// MetricsProvider returns the Metrics of paths, such as
// "/validate-app-aiops-org-v1-application".
type MetricsProvider interface {
	ForWebhook(path string) Metrics
	// ForServer returns a function that counts a connection which a Bounded listener refuses.
	ForServer(name string) (refused func())
}

var provider atomic.Pointer[MetricsProvider]

// SetMetricsProvider sets the provider that counts the requests of the Handlers created from
// now on. Without a provider, requests are not counted.
func SetMetricsProvider(p MetricsProvider) { provider.Store(&p) }

func metricsOf(path string) Metrics {
	if p := provider.Load(); p != nil {
		return (*p).ForWebhook(path)
	}
	return noMetrics{}
}

func refusedBy(name string) func() {
	if p := provider.Load(); p != nil {
		return (*p).ForServer(name)
	}
	return func() {}
}

type noMetrics struct{}

func (noMetrics) Started()                    {}
func (noMetrics) Finished(int, time.Duration) {}
