// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs a cluster. It makes the certificates, starts the components in order, waits until each is ready, and ends their
// processes with the cluster. It runs in a process of its own, "devcluster supervise", which package cluster starts.
//
// # How processes end
//
// A parent holds the write end of each child's lifeline, a pipe (package lifeline). A child ends when the write end closes.
//
//	parent (devcluster up | run, a test)
//	  │ lifeline        closes: the supervisor ends the cluster and removes its files
//	  ▼
//	supervisor
//	  │ one lifeline for each component
//	  │                 closes because the supervisor was killed: the component exits at once
//	  ▼
//	etcd  kube-apiserver  kube-controller-manager  kube-scheduler  kwok
//
// When the cluster is ready, "devcluster up" detaches its lifeline. After that, a stop request to the control server or SIGTERM ends the
// supervisor. "devcluster run" and tests keep the lifeline.
//
// With a real node the supervisor has two processes. Process 1 of a sandbox (package sandbox) is between them:
//
//	parent
//	  │ lifeline
//	  ▼
//	supervisor, outside     holds the directory and its lock, opens the control server's port and the API server's, removes the files
//	  │ lifeline
//	  ▼
//	process 1 of the sandbox
//	  │ lifeline
//	  ▼
//	supervisor, inside      does the rest of a supervisor's work, and serves the two ports
//	  │ one lifeline for each component but containerd
//	  ▼
//	etcd  kube-apiserver  kube-controller-manager  kube-scheduler  registry  containerd  kubelet  kube-proxy  coredns  provisioner
//	                                                                  ▼
//	                                                              containers
//
// All of these processes hold the same lock on the cluster's directory (package state), except containerd and the containers. These end
// with process 1 of the sandbox. So a free lock means that no process of the cluster is left.
//
// # Order
//
// etcd, the registry and containerd start first, then the API server. Next, the supervisor creates objects that other components need:
// permissions, simulated nodes, the Service of the DNS. Then all other components start together. The cluster is usable when namespace
// default has its ServiceAccount and every node is Ready and untainted.
//
// A component that ends is not started again until a request restarts it: a test that kills a component must find it dead. It restarts with
// the same arguments on the same port, which stays reserved in the meantime (type reservation).
package supervisor
