// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prometheus has only tests. They check that artifacts/prometheus uses metrics that the operator has.
//
// The engine of Prometheus evaluates every alert on samples made by hand: each alert has to fire on what it is for. The metrics in the
// queries of the dashboard and of the alerts have to be in docs/metrics.md, which has to agree with pkg/metrics. The engine and its
// dependencies are the reason for a module of its own.
package prometheus
