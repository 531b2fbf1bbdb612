// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import "time"

// Metrics counts the requests for one path. Many goroutines call it at once.
type Metrics interface {
	// Started counts a request.
	Started()
	// Finished counts its answer, with the HTTP status and the time that it took.
	Finished(status int, took time.Duration)
}

// MetricsOf returns the Metrics of a path, such as "/validate-app-aiops-org-v1-application". A nil MetricsOf counts nothing.
type MetricsOf func(path string) Metrics

func (m MetricsOf) path(path string) Metrics {
	if m == nil {
		return noMetrics{}
	}
	return m(path)
}

type noMetrics struct{}

func (noMetrics) Started()                    {}
func (noMetrics) Finished(int, time.Duration) {}
