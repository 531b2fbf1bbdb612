/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package e2e tests the operator's binary on a real API server: what a fake one
// can lie about, and what happens when processes are killed. It needs bin/devcluster
// and bin/glassback (make devcluster build).
package e2e
