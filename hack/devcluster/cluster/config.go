// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/hack/devcluster/supervisor"
)

// The components, in the order in which they are started.
const (
	Etcd              = state.Etcd
	APIServer         = state.APIServer
	ControllerManager = state.ControllerManager
	Scheduler         = state.Scheduler
	Kwok              = state.Kwok     // only with a simulated node
	Registry          = state.Registry // this and the following: only with a real node
	Containerd        = state.Containerd
	Kubelet           = state.Kubelet
	KubeProxy         = state.KubeProxy
	CoreDNS           = state.CoreDNS
	Provisioner       = state.Provisioner
)

// The kinds of node.
const (
	NodeSimulated = state.NodeSimulated // nodes that kwok simulates: Pods run and Jobs complete without containers
	NodeReal      = state.NodeReal      // one node that runs containers: see RealNodeMissing
	NodeNone      = state.NodeNone      // no node; by default only etcd and the API server run
)

// Domain is the domain of the names of Services.
const Domain = state.Domain

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 2 * time.Minute

// Config describes the cluster to start.
type Config = state.Spec

// IsBadConfig reports whether Start rejected its Config before it started anything.
func IsBadConfig(err error) bool {
	_, rejected := errors.AsType[configError](err)
	return rejected
}

// configError is an error about a Config, as opposed to a failure of the start. Its text is for the user.
type configError string

func (e configError) Error() string { return string(e) }

func bad(format string, args ...any) error { return configError(fmt.Sprintf(format, args...)) }

// complete checks the Config and sets the defaults of all fields but Dir.
func complete(s Config) (Config, error) {
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Node == "" {
		s.Node = NodeSimulated
		if len(s.Components) > 0 && !slices.Contains(s.Components, Kwok) {
			s.Node = NodeNone
		}
	}
	s.IPv6 = s.IPv6 || os.Getenv(IPv6Env) != ""
	asked := s.Components
	s.ControlPlane = cmp.Or(s.ControlPlane, os.Getenv(ControlPlaneEnv))
	var err error
	if s.ControlPlane != "" {
		if s.ControlPlane, err = resolve(s.ControlPlane); err != nil {
			return s, bad("control plane: %v", err)
		}
	}
	if s.Components, err = components(s.Node, s.Components); err != nil {
		return s, err
	}
	if s.Node == NodeReal {
		if len(asked) > 0 {
			return s, bad("components: a real node needs all of them")
		}
		if s.ControlPlane != "" {
			return s, bad("control plane %s: a kubelet must not be newer than its API server, so there is no real node", s.ControlPlane)
		}
		err = completeReal(&s)
		return s, err
	}
	if s.Images != "" {
		return s, bad("images, but node %q runs no containers: use %q", s.Node, NodeReal)
	}
	switch {
	case s.Nodes < 0:
		return s, bad("%d nodes: 0 or more", s.Nodes)
	case s.Node == NodeNone && s.Nodes > 0:
		return s, bad("%d nodes, but node %q means none", s.Nodes, NodeNone)
	case s.Node == NodeSimulated && s.Nodes == 0:
		s.Nodes = 1
	}
	return s, check(s)
}

// check checks the timeout, the API server's port and the extra arguments.
func check(s Config) error {
	if s.Timeout < 0 {
		return bad("timeout %s: want a positive duration", s.Timeout)
	}
	if s.APIPort < 0 || s.APIPort > 65535 {
		return bad("API port %d: want 1 to 65535, or 0 for a free port", s.APIPort)
	}
	for name := range s.ExtraArgs {
		if !s.Has(name) {
			return bad("arguments for %q, which this cluster does not have: it has %s", name, strings.Join(s.Components, ", "))
		}
	}
	return nil
}

// completeReal sets the defaults of a real node. It returns an error if this machine cannot run one.
func completeReal(s *Config) error {
	if s.Nodes > 1 {
		return bad("%d nodes: there is one, if it is real", s.Nodes)
	}
	s.Nodes = 1
	if slices.Contains(supervisor.NodePorts(), s.APIPort) {
		return bad("API port %d: a real node has something else there", s.APIPort)
	}
	if err := check(*s); err != nil {
		return err
	}
	images, err := imagesOf(*s)
	if err != nil {
		return err
	}
	if err := supervisor.CheckRealNode(images); err != nil {
		return configError(err.Error())
	}
	s.Images = images
	return nil
}

// imagesOf returns the path of the image store.
func imagesOf(c Config) (string, error) {
	if c.Images != "" {
		return resolve(c.Images)
	}
	binary, err := binaryOf(c)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(binary), "images"), nil
}

// binaryOf returns the path of devcluster.
func binaryOf(c Config) (string, error) {
	if c.Binary != "" {
		return resolve(c.Binary)
	}
	binary, err := FindBinary()
	if err != nil {
		return "", err
	}
	return resolve(binary)
}

// directory returns the absolute path of the cluster's directory, which need not exist. It resolves symbolic links, since a real node
// cannot follow all of them.
func directory(s state.Spec) (string, error) {
	abs, err := filepath.Abs(s.Dir)
	if err != nil {
		return "", fmt.Errorf("find directory: %w", err)
	}
	there, missing := abs, ""
	for {
		real, err := filepath.EvalSymlinks(there)
		if err == nil {
			abs = filepath.Join(real, missing)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find directory: %w", err)
		}
		there, missing = filepath.Dir(there), filepath.Join(filepath.Base(there), missing)
	}
	// A colon separates entries of KUBECONFIG and PATH. The other characters have a meaning in the configuration of some component.
	odd := string(filepath.ListSeparator)
	if s.Node == NodeReal {
		odd += "\"'`\\{}$%"
	}
	for _, r := range abs {
		if strings.ContainsRune(odd, r) || r < ' ' || r == utf8.RuneError {
			return "", bad("directory %q: it must have no %q in its path", abs, r)
		}
	}
	return abs, nil
}

// resolve returns the absolute path of an existing path, without symbolic links.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	return abs, nil
}

// RealNodeMissing returns nil if this machine can run a real node. Otherwise the error says in one line what is missing, and what to do.
func RealNodeMissing() error {
	images, err := imagesOf(Config{})
	if err != nil {
		return err
	}
	return supervisor.CheckRealNode(images)
}

// needs maps a component to the component that it cannot run without.
var needs = map[string]string{APIServer: Etcd, ControllerManager: APIServer, Scheduler: APIServer, Kwok: APIServer}

// components returns the components for the kind of node in the order of their start, or checks the requested ones.
func components(node string, asked []string) ([]string, error) {
	all, known := state.Components(node)
	if !known {
		return nil, bad("unknown kind of node %q: %s, %s or %s", node, NodeSimulated, NodeReal, NodeNone)
	}
	if len(asked) == 0 {
		if node == NodeNone {
			return []string{Etcd, APIServer}, nil
		}
		return all, nil
	}
	for _, name := range asked {
		if !slices.Contains(state.AllComponents(), name) {
			return nil, bad("unknown component %q: %s", name, strings.Join(state.AllComponents(), ", "))
		}
		if !slices.Contains(all, name) {
			return nil, bad("component %q has nothing to do with node %q", name, node)
		}
		if need := needs[name]; need != "" && !slices.Contains(asked, need) {
			return nil, bad("component %q needs %q", name, need)
		}
	}
	if node == NodeSimulated && !slices.Contains(asked, Kwok) {
		return nil, bad("node %q needs component %q", node, Kwok)
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(asked, name) }), nil
}

// Environment variables, for tests.
const (
	BinaryEnv       = "DEVCLUSTER_BIN"           // the path of devcluster
	ControlPlaneEnv = "DEVCLUSTER_CONTROL_PLANE" // Config.ControlPlane
	IPv6Env         = "DEVCLUSTER_IPV6"          // Config.IPv6, if it is not empty
)

// productModule is the module in whose bin directory the binary is built.
const productModule = "module github.com/glassback/glassback\n"

// FindBinary returns the path of devcluster: the value of the environment variable DEVCLUSTER_BIN, or bin/devcluster in the product's
// module, which contains the working directory. The error says how to build it.
func FindBinary() (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("find devcluster, which %s says is %s: %w", BinaryEnv, path, err)
		}
		return filepath.Abs(path)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working directory: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.Contains(string(mod), productModule) {
			path := filepath.Join(dir, "bin", "devcluster")
			if _, err := os.Stat(path); err != nil {
				return "", fmt.Errorf("no %s: run \"make devcluster\"", path)
			}
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no bin/devcluster above the working directory: run \"make devcluster\", or set %s", BinaryEnv)
		}
		dir = parent
	}
}
