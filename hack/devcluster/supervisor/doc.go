// Package supervisor runs a cluster: it makes the certificates, starts the components in their order, waits for each to be ready, and owns
// their processes until the end. It runs as a process of its own, "devcluster supervise", started by package cluster.
//
// # Who ends whom
//
//	parent (devcluster up | run, a test)
//	  │ lifeline        cut before ready, or in run and tests at any time: the supervisor ends the cluster and removes its files
//	  ▼
//	supervisor
//	  │ lifeline each   cut, because the supervisor was killed: the component exits at once
//	  ▼
//	etcd  kube-apiserver  kube-controller-manager  kube-scheduler  kwok
//
// With a real node the supervisor has two halves, and process 1 of a sandbox (package sandbox) between them:
//
//	parent
//	  │ lifeline
//	  ▼
//	supervisor, outside     has the directory and its lock, opens the two ports that are reached from outside, and cleans up
//	  │ lifeline
//	  ▼
//	process 1 of the sandbox
//	  │ lifeline
//	  ▼
//	supervisor, inside      all that is said here of a supervisor; serves the ports
//	  │ lifeline each
//	  ▼
//	etcd  kube-apiserver  kube-controller-manager  kube-scheduler  registry  containerd  kubelet  kube-proxy  coredns  provisioner
//	                                                                  ▼
//	                                                              containers
//
// "devcluster up" detaches its lifeline when the cluster is ready; from then on the control server's stop, or SIGTERM, ends it.
//
// All of them hold the same lock on the cluster's directory (package state), so that whoever finds it free knows that nothing is left.
//
// # Order
//
// etcd, and with it what runs containers, then the API server, then what is created through it (permissions, simulated nodes, the Service
// of the DNS), then all others together. The cluster is usable when namespace default has its ServiceAccount and every node is Ready and
// untainted.
//
// A component that dies stays dead until a request restarts it: a test that kills one must find it dead. It restarts with the same
// arguments on the same port, which stays reserved in the meantime (type reservation).
package supervisor
