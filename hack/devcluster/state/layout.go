// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The components, in the order in which they are started.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	Registry          = "registry"
	Containerd        = "containerd"
	Kubelet           = "kubelet"
	KubeProxy         = "kube-proxy"
	CoreDNS           = "coredns"
	Provisioner       = "provisioner"
)

// The kinds of node a cluster can have.
const (
	NodeSimulated = "simulated" // kwok answers for the nodes: Pods run and Jobs complete without any container
	NodeReal      = "real"      // containers run, in namespaces of the cluster's own; Linux and root
	NodeNone      = "none"      // no node, and no component that puts Pods on nodes
)

// controlPlane are the components that every cluster can have.
var controlPlane = []string{Etcd, APIServer, ControllerManager, Scheduler}

// nodeComponents are the additional components of each kind of node.
var nodeComponents = map[string][]string{
	NodeSimulated: {Kwok},
	NodeReal:      {Registry, Containerd, Kubelet, KubeProxy, CoreDNS, Provisioner},
	NodeNone:      nil,
}

// Components returns the components that a cluster with the given kind of node can have, in the order in which they are started. It returns
// false if there is no such kind.
func Components(node string) ([]string, bool) {
	added, known := nodeComponents[node]
	return slices.Concat(controlPlane, added), known
}

// AllComponents lists every component that any cluster can have.
func AllComponents() []string {
	return slices.Concat(controlPlane, nodeComponents[NodeSimulated], nodeComponents[NodeReal])
}

// Domain is the domain of a cluster. It is not cluster.local, so that what needs that name fails.
const Domain = "cluster.test"

// Spec is the configuration of a cluster. The zero Spec means a cluster with one simulated node, in a temporary directory. Package cluster
// checks it, and sets the defaults.
type Spec struct {
	// Binary is the path of devcluster. Empty: see cluster.FindBinary.
	Binary string `json:"-"`
	// Dir is the cluster's directory; it is created, or reused if it holds a dead cluster. Empty: a temporary one.
	Dir string `json:"dir"`
	// Node is the kind of node. Empty: NodeSimulated, or NodeNone if Components has no Kwok.
	Node string `json:"node"`
	// Nodes is the number of nodes. 0: one, unless Node is NodeNone.
	Nodes int `json:"nodes"`
	// Components are the components that run. Empty: all that the kind of node needs. A cluster of only Etcd and APIServer is fast, for
	// tests and benchmarks: it stores objects, and no controller acts on them.
	Components []string `json:"components"`
	// APIPort is the API server's port on 127.0.0.1. 0: any free one.
	APIPort int `json:"apiPort,omitempty"`
	// ExtraArgs are added to the command lines of the components, for example {APIServer: {"--v=4"}}.
	ExtraArgs map[string][]string `json:"extraArgs,omitempty"`
	// Images is the image store of a real node (package images). Empty: the directory images beside Binary.
	Images string `json:"images,omitempty"`
	// ControlPlane is the path of a program with APIServer, ControllerManager and Scheduler of another version of Kubernetes: see build.sh.
	// Empty: the environment variable DEVCLUSTER_CONTROL_PLANE, and without it Binary.
	ControlPlane string `json:"controlPlane,omitempty"`
	// IPv6 is whether the first address of each Pod and Service on a real node is of IPv6, and the second of IPv4. False: the environment
	// variable DEVCLUSTER_IPV6; without it, the first is of IPv4, and the second of IPv6.
	IPv6 bool `json:"ipv6,omitempty"`
	// Timeout is the time in which the cluster must be ready. 0: cluster.DefaultTimeout.
	Timeout time.Duration `json:"timeout"`
	// Progress, if set, is called with a line for each step.
	Progress func(line string) `json:"-"`
}

// Has reports whether the cluster has the component.
func (s Spec) Has(component string) bool { return slices.Contains(s.Components, component) }

// Record is the content of state.json. The supervisor writes it, and programs read it to reach the supervisor.
type Record struct {
	Spec       Spec           `json:"spec"`
	Made       string         `json:"made,omitempty"`    // the topmost directory that was made for the cluster, or ""
	Supervisor int            `json:"supervisor"`        // process id; Remove kills this process if it does not end on request
	Control    string         `json:"control,omitempty"` // host:port; empty until the supervisor listens
	Token      string         `json:"token,omitempty"`
	Ports      map[string]int `json:"ports,omitempty"`
	Ready      bool           `json:"ready"`
	Sandbox    *Sandbox       `json:"sandbox,omitempty"` // of a real node
}

// Sandbox identifies the sandbox of a real node on the machine: see package sandbox.
type Sandbox struct {
	// Cgroup is the name of its cgroup, in every hierarchy.
	Cgroup string `json:"cgroup"`
	// Init is the process id of its first process, and Network the inode of its network namespace. Zero until it runs.
	Init    int    `json:"init,omitempty"`
	Network uint64 `json:"network,omitempty"`
}

// Dir is the directory of a cluster.
type Dir string

// Path returns the path of a file below the directory.
func (d Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.Path("kubeconfig") }

// Log returns the path of a component's log.
func (d Dir) Log(component string) string { return d.Path("logs", component+".log") }

func (d Dir) record() string { return d.Path("state.json") }

// made lists the files that a cluster makes in its directory, in the order of their removal. The lock is last: it guards the removal. The
// record is next to last: it marks the other files as those of a cluster.
var made = []string{"kubeconfig", "pki", "etcd", "logs", "bin", "tmp", "node", "state.json.new", "state.json", "lock"}

// Load reads the directory's record. If it does not exist, the error says in one line what to do.
func (d Dir) Load() (*Record, error) {
	data, err := os.ReadFile(d.record())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no cluster in %s: start one with \"devcluster up --dir %s\"", d, d)
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster state: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("decode %s: %w", d.record(), err)
	}
	return &r, nil
}

// Exists reports whether the directory has a record.
func (d Dir) Exists() bool {
	_, err := os.Lstat(d.record())
	return !errors.Is(err, fs.ErrNotExist)
}

// Save replaces the directory's record in one step, so that no reader sees a part of it.
func (d Dir) Save(r *Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cluster state: %w", err)
	}
	next := d.record() + ".new"
	if err := os.WriteFile(next, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write cluster state: %w", err)
	}
	if err := os.Rename(next, d.record()); err != nil {
		return fmt.Errorf("replace cluster state: %w", err)
	}
	return nil
}

// CheckForeign returns an error if the directory has no record, but files with names that a cluster needs.
func (d Dir) CheckForeign() error {
	if d.Exists() {
		return nil
	}
	var taken []string
	for _, name := range made {
		if name == "lock" || name == "state.json" || name == "state.json.new" {
			continue
		}
		if _, err := os.Lstat(d.Path(name)); err == nil {
			taken = append(taken, name)
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s is not the directory of a cluster, yet it already holds %s: choose another --dir", d, strings.Join(taken, ", "))
	}
	return nil
}

// Clean removes the files of an earlier cluster in the directory, except the lock. The caller holds the lock.
func (d Dir) Clean() error {
	for _, name := range made {
		if name == "lock" {
			continue
		}
		if err := os.RemoveAll(d.Path(name)); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// Missing returns the topmost directory on the path of this one, itself included, that does not exist; "" if all exist.
func (d Dir) Missing() string {
	missing := ""
	for path := string(d); ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = path
	}
}

// Remove cleans the directory, and removes the lock and the directories from itself up to made, which were created with it. It keeps
// directories with other files. The caller holds the lock.
func (d Dir) Remove(made string) error {
	if err := d.Clean(); err != nil {
		return err
	}
	if err := os.Remove(d.Path("lock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove lock: %w", err)
	}
	for path := string(d); made != "" && strings.HasPrefix(path, made); path = filepath.Dir(path) {
		_ = os.Remove(path) // keeps a directory that still has other files
	}
	return nil
}
