// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prometheus has only tests. They check that artifacts/prometheus uses metrics that the operator has.
//
// Every query of the dashboard, and every alert, is evaluated by the engine of Prometheus: on scrapes of two operators that are really run,
// where queries have to find something and no alert may fire; and alerts on samples made by hand, each of which has to fire on what it is
// for. The engine and its dependencies are the reason for a module of its own.
package prometheus
