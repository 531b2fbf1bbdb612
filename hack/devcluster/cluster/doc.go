// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts and controls a local Kubernetes cluster from Go. It does for tests what the command devcluster does for users.
//
//	c, err := cluster.Start(ctx, cluster.Config{})
//	if err != nil { … }
//	defer c.Stop()
//	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
//	err = c.Kill(ctx, cluster.APIServer)    // SIGKILL; it stays dead
//	err = c.Restart(ctx, cluster.APIServer) // same port, same data; returns when it is ready
//
// The test does not link Kubernetes' servers: the package runs the prebuilt binary (make devcluster), and needs only client-go. Stop ends
// the cluster. The cluster also ends when the process that started it ends in any other way, such as a panic or SIGKILL: see packages
// lifeline and supervisor.
//
// Clusters share nothing, so tests may have several at once: ports are free ones, and everything else is in a directory of their own.
package cluster
