// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts and steers a local Kubernetes cluster from Go: what the command devcluster does, for tests.
//
//	c, err := cluster.Start(ctx, cluster.Config{})
//	if err != nil { … }
//	defer c.Stop()
//	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
//	err = c.Kill(ctx, cluster.APIServer)    // SIGKILL; it stays dead
//	err = c.Restart(ctx, cluster.APIServer) // same port, same data; returns when it is ready
//
// Nothing of Kubernetes' servers is linked into the test: the package runs the prebuilt binary (make devcluster), and needs client-go
// only. The cluster ends with Stop, and also when the process that started it ends in any other way, a panic or SIGKILL included: see
// packages lifeline and supervisor.
//
// Clusters share nothing, so tests may have several at once: ports are free ones, and everything else is in a directory of their own.
package cluster
