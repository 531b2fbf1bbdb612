// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a process, and all that it starts, where it can do to the machine what a Kubernetes node does, and the machine is
// afterwards as it was: in mount, network, process, IPC and UTS namespaces of its own, with a cgroup of its own. It needs Linux and root.
//
//	Start ──clone(NEWNS, NEWNET, NEWPID, …)──▶ init, process 1: Init ──▶ the process of Config.Command
//	  │                                       1. mounts: private; what a node writes to is bound to the cluster's directory
//	  │                                       2. network: a pair of interfaces and a default route
//	  │                                       3. waits for every process that lost its parent, as process 1 must
//	  ▼                                       4. ends: kills all, removes the cgroup
//	Wait removes the cgroup once more
//
// # Nothing is left
//
// Namespaces go with their last process, and all processes of a process namespace go with its first: the kernel sees to mounts, interfaces,
// routes, packet filters and processes, whoever is killed. Kernel settings that are not a namespace's own cannot be written: /proc/sys is
// read-only but for /proc/sys/net, and private files lie over those that a kubelet insists on. What is left is the cgroup. Init removes it
// when Start's process is killed, Wait when Init is; if both are killed at once, RemoveCgroup does it later.
//
// One who wants to can still change the machine: a privileged container gets from its runtime a /proc and a /sys that are writable, and
// a volume of type hostPath leads to the machine's own files.
//
// # cgroups
//
// With cgroup v1 the cgroup is made in every hierarchy, and its name is the kubelet's cgroupRoot. With v2 the cgroup becomes the root of a
// cgroup namespace, so that controllers are enabled in it and not in the machine's own root; that it hands down the controllers is asked
// for and never changed (see Check).
package sandbox
