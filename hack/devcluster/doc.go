// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command devcluster is a Kubernetes cluster in one binary, for the demo and the tests of Glassback: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl, and for the node kwok, or kubelet, kube-proxy and CoreDNS, all the originals, linked
// from their Go modules.
//
// Called by the name of a component, such as by a symbolic link named kubectl, it is that component. Called by any other name it is the
// command line that starts clusters of them and steers them: see devcluster --help.
//
//	main                  which of the two it is
//	├─ components         Kubernetes itself; nothing else links it
//	│  ├─ images          a component of our own: a registry that stands in for all others, of images made without one
//	│  └─ provisioner     and another one: volumes
//	└─ command            the command line, with cli: what it has in common with mkimage
//	   └─ cluster         the same in Go, for tests: starts a supervisor, asks it things
//	      ├─ supervisor   owns the processes of one cluster
//	      │  ├─ sandbox   where a real node does nothing to the machine
//	      │  └─ requirements  what a real node needs of the machine
//	      ├─ control      how the supervisor is asked
//	      ├─ state        the files on disk, and the lock that says which cluster runs
//	      └─ lifeline     ends a process with the one that started it
//
// Beside it are mkimage, which makes images from Debian's packages, and pause, the program that holds the namespaces of each Pod.
//
// It is a module of its own because k8s.io/kubernetes requires its staging modules at v0.0.0: whoever imports it must replace every one.
package main
