// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a process and its descendants with namespaces of their own (mount, network, process, IPC and UTS) and a cgroup of
// their own. In a sandbox, a Kubernetes node can change mounts, interfaces and packet filters without a change of the machine. A sandbox
// needs Linux and root.
//
//	Start ──clone(NEWNS, NEWNET, NEWPID, …)──▶ init, process 1: Init ──▶ the process of Config.Command
//	  │                                       1. mounts: its own; directories that a node writes to are in the cluster's directory
//	  │                                       2. network: a pair of interfaces and a default route
//	  │                                       3. waits for every process that lost its parent, as process 1 must
//	  ▼                                       4. ends: kills all, removes the cgroup
//	Wait removes the cgroup if it still exists
//
// # Cleaning up
//
// The kernel removes a namespace with its last process, and kills all processes of a process namespace when process 1 ends. It thus removes
// mounts, interfaces, routes, packet filters and processes, even if a process is killed. Kernel settings outside of a namespace cannot be
// written: /proc/sys is read-only except for /proc/sys/net, and private files cover the settings that a kubelet must write. Only the cgroup
// remains. Init removes it when Start's process is killed, and Wait removes it when Init is killed. If both are killed at once,
// RemoveCgroup removes it later.
//
// A sandbox does not protect the machine from its users: a privileged container gets from its runtime a /proc and a /sys that are writable,
// and a volume of type hostPath reaches the machine's own files.
//
// # cgroups
//
// With cgroup v1, the sandbox has a cgroup in every hierarchy of v1, and the name of the cgroup is the kubelet's cgroupRoot. With v2, the
// cgroup becomes the root of a cgroup namespace: controllers are enabled in it and not in the machine's own root. The machine's root must
// already delegate the controllers: Check verifies that and changes nothing.
package sandbox
