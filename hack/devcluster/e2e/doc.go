// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the operator's binary on a real API server: cases that a fake one may get wrong, and killed processes. It needs
// bin/devcluster and bin/glassback (make devcluster build).
//
// Most tests have a cluster of their own, with a simulated node or none. They run in parallel: one heavy test, and light ones on the other
// processors (see places). The flag -parallel has no effect. Tests that measure run alone. The tests that call onNode share one cluster
// with a real node. Tests on a real node also need the files that "make node image" makes. GLASSBACK_E2E_NODE=simulated skips these tests.
package e2e
