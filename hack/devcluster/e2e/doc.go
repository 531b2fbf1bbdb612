// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the operator's binary on a real API server: what a fake one can lie about, and what happens when processes are killed.
// It needs bin/devcluster and bin/glassback (make devcluster build).
//
// Most tests have a cluster of their own, with a simulated node or none. They mostly wait, and run two at a time. Tests that
// measure run alone, and so do those with Redis on a real node: the probes of a Redis Cluster keep two CPUs busy. The tests on a
// real node share one: see onNode. They need what "make node image" makes too, and GLASSBACK_E2E_NODE=simulated skips them.
package e2e
