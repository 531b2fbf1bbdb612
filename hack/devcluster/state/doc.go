// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package state defines what a running cluster stores on disk: the layout of its directory, the record that other programs read to reach
// its supervisor, and the lock that shows whether the cluster is alive.
//
// The directory D of a cluster holds
//
//	state.json   the Spec of the cluster, its ports, the supervisor's control address and token
//	lock         locked while the supervisor or any of its components runs
//	kubeconfig   cluster-admin
//	pki/         certificates, keys, and the components' own kubeconfigs
//	etcd/        etcd's data
//	logs/        one file per component, and supervisor.log
//	bin/         a kubectl, for "devcluster exec"
//	tmp/         the components' home and temporary files
//	node/        the data of a real node: images, containers, volumes, the logs of Pods
//
// Only the lock shows reliably whether a cluster is alive. A process id can be reused, and a file outlives a crash, but the kernel releases
// a lock when the last process that holds it has ended. The supervisor takes the lock. Every component but containerd inherits the open
// file.
//
// Programs control the supervisor over HTTP on loopback, with a bearer token from state.json (mode 0600). There is no unix socket in D: the
// path of a socket can have about 100 bytes at most, and the path of D may be longer.
package state
