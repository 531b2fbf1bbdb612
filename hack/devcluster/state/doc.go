// Package state is what a running cluster leaves on disk for others to find: the layout of its directory, the record of how to reach its
// supervisor, and the lock that says whether it is alive.
//
// The directory D of a cluster holds
//
//	state.json   how it was asked for, its ports, the supervisor's control address and token
//	lock         locked for as long as the supervisor or any of its components lives
//	kubeconfig   cluster-admin
//	pki/         certificates, keys, and the components' own kubeconfigs
//	etcd/        etcd's data
//	logs/        one file per component, and supervisor.log
//	bin/         a kubectl, for "devcluster exec"
//	tmp/         the components' home and temporary files
//	node/        what a real node keeps: images, containers, volumes, the logs of Pods
//
// The lock is the only truth about life: a process id can be reused and a file outlives a crash, but the kernel lets go of a lock when the
// last process that holds it has gone. The supervisor takes it, and every component inherits the same open file.
//
// The supervisor is controlled over HTTP on loopback with a bearer token from state.json (mode 0600), rather than by a unix socket in D,
// because a socket's path may be no longer than about 100 bytes and D may.
package state
