// Command devcluster is a Kubernetes control plane in one binary, for the demo and the tests of Glassback: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and kwok, all the originals, linked from their Go modules.
//
// Called by the name of a component, such as by a symbolic link named kubectl, it is that component. Called by any other name it is the
// command line that starts clusters of them and steers them: see devcluster --help.
//
//	main                  which of the two it is
//	├─ components         Kubernetes itself; nothing else links it
//	└─ command            the command line
//	   └─ cluster         the same in Go, for tests: starts a supervisor, asks it things
//	      ├─ supervisor   owns the processes of one cluster
//	      ├─ control      how the supervisor is asked
//	      ├─ state        what is on disk, and the lock that says who lives
//	      └─ lifeline     nobody outlives who started it
//
// It is a module of its own because k8s.io/kubernetes requires its staging modules at v0.0.0: whoever imports it must replace every one.
package main
