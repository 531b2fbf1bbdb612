// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command devcluster is a Kubernetes cluster in one binary, for the demo and the tests of Glassback. It links the original Go modules of
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl. For simulated nodes, it links kwok; for a real node, kubelet,
// kube-proxy and CoreDNS.
//
// If its file name is the name of a component, it runs that component: a symbolic link named kubectl, for example, runs kubectl.
// Otherwise it is a command line that starts and controls clusters: see devcluster --help.
//
//	main                  runs a component or the command line
//	├─ components         Kubernetes itself; only this package links it
//	│  ├─ images          a component of this project: a registry that replaces all others
//	│  └─ provisioner     another one: it makes volumes
//	└─ command            the command line
//	   └─ cluster         the same for Go tests: starts a supervisor, and sends it requests
//	      ├─ supervisor   owns the processes of one cluster; the requests to it, and what a real node requires
//	      │  └─ sandbox   isolates a real node from the machine
//	      ├─ state        the files on disk, and the lock of a running cluster
//	      └─ lifeline     ends a process when its parent ends
//
// mkimage makes images from Debian's packages. pause is the program that holds the namespaces of each Pod.
//
// devcluster is a module of its own: k8s.io/kubernetes requires its staging modules at v0.0.0, so a module that imports it must replace
// each of them.
package main
