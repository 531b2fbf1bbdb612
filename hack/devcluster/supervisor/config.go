// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"embed"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"text/template"

	"github.com/glassback/glassback/hack/devcluster/sandbox"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// configFiles are templates (text/template) of a configuration:
//
//	config/args         the command line of each component, one argument in a line
//	config/node         the configuration files of a real node, as they are in its directory node/etc
//	config/manifests    the objects of a new cluster
//
//go:embed all:config
var configFiles embed.FS

// The network of a real node. It is inside the sandbox of the node, so clusters do not share it.
const (
	realNodeIP  = "10.0.0.1"
	realNodeIP6 = "fd00:10::1"
	dnsPort     = 53 // of CoreDNS
	// kubeletPort is the port at which a kubelet serves logs and exec.
	kubeletPort = 10250
	// proxyPort is the port at which kube-proxy serves its metrics.
	proxyPort = 10249
)

// nodeIPs are the addresses of a real node.
var nodeIPs = []net.IP{net.ParseIP(realNodeIP), net.ParseIP(realNodeIP6)}

// serviceIPs are those that the Service "kubernetes" can have: the first of each of ServiceCIDRs.
var serviceIPs = []net.IP{net.IPv4(10, 96, 0, 1), net.ParseIP("fd00:10:96::1")}

// Paths inside a sandbox.
const (
	kubeletRoot      = "/var/lib/kubelet"
	containerdRoot   = "/var/lib/containerd"
	containerdState  = "/run/containerd"
	containerdSocket = containerdState + "/containerd.sock"
	podLogs          = "/var/log/pods"
	cniData          = "/var/lib/cni"
)

// The name of a node is nodePrefix and an ordinal from 1.
const nodePrefix = "devcluster-"

// constants are the values that several templates use, or a template and the code.
var constants = template.FuncMap{
	"nodeIP": constant(realNodeIP), "nodeName": constant(nodePrefix + "1"), "clusterDomain": constant(state.Domain),
	"dnsIP": constant("10.96.0.10"), "dnsPort": constant(dnsPort), "kubeletPort": constant(kubeletPort), "proxyPort": constant(proxyPort),
	"kubeletRoot": constant(kubeletRoot), "containerdRoot": constant(containerdRoot), "containerdState": constant(containerdState),
	"containerdSocket": constant(containerdSocket), "podLogs": constant(podLogs), "cniData": constant(cniData),
	"kwokUser": constant(kwokUser), "corednsUser": constant(corednsUser), "kubeletClient": constant(kubeletClient),
}

func constant[T any](value T) func() T { return func() T { return value } }

// peerPort is the key of etcd's second port.
const peerPort = "etcd-peer"

// portKeys returns the keys of the ports that these components need: the provisioner needs none, each other one, and etcd two.
func portKeys(components []string) []string {
	var keys []string
	for _, c := range components {
		switch c {
		case state.Provisioner:
		case state.Etcd:
			keys = append(keys, c, peerPort)
		default:
			keys = append(keys, c)
		}
	}
	return keys
}

// NodePorts returns the fixed ports of a real node. They are inside its sandbox.
func NodePorts() []int { return []int{dnsPort, kubeletPort, proxyPort} }

// configuration is the input of the templates.
type configuration struct {
	Spec  state.Spec
	Ports map[string]int
	// Only for a real node:
	Plugins    string // the directory of the CNI plugins
	Runtime    string // the OCI runtime
	CgroupRoot string // the kubelet's name for the sandbox's cgroup
	Overlay    bool   // whether the file system of the cluster's directory supports overlayfs
}

// Real reports whether the node is real.
func (c configuration) Real() bool { return c.Spec.Node == state.NodeReal }

// Nodes returns the names of the nodes.
func (c configuration) Nodes() []string {
	var names []string
	for i := range c.Spec.Nodes {
		names = append(names, nodePrefix+strconv.Itoa(i+1))
	}
	return names
}

// NodeIPs, PodCIDRs and ServiceCIDRs have both families of a real node. A Pod or a Service that chooses none has an address of the first.
func (c configuration) NodeIPs() []string { return c.families(realNodeIP, realNodeIP6) }

func (c configuration) PodCIDRs() []string { return c.families("10.128.0.0/16", "fd00:10:128::/64") }

// ServiceCIDRs have room for a quarter of a million Services: a /24 is full after 254.
func (c configuration) ServiceCIDRs() []string { return c.families("10.96.0.0/14", "fd00:10:96::/108") }

func (c configuration) families(four, six string) []string {
	if c.Real() && c.Spec.IPv6 {
		return []string{six, four}
	}
	return []string{four, six}
}

// render executes the template of a file of config.
func (c configuration) render(name string) (string, error) {
	text, err := configFiles.ReadFile(name)
	if err != nil {
		return "", err
	}
	dir := state.Dir(c.Spec.Dir)
	parsed, err := template.New(name).Funcs(constants).Funcs(template.FuncMap{
		"path":     dir.Path,
		"join":     func(list []string) string { return strings.Join(list, ",") },
		"pki":      func(file string) string { return dir.Path("pki", file) },
		"nodeFile": func(file string) string { return dir.Path("node", "etc", file) },
		"port":     func(key string) int { return c.Ports[key] },
		"address":  func(key string) string { return loopback(c.Ports[key]) },
	}).Parse(string(text))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = parsed.Execute(&out, c)
	return out.String(), err
}

// arguments returns the command line of a component, without its name.
func (c configuration) arguments(component string) ([]string, error) {
	text, err := c.render("config/args/" + component + ".txt")
	if err != nil {
		return nil, fmt.Errorf("make command line of %s: %w", component, err)
	}
	var args []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			args = append(args, line)
		}
	}
	return args, nil
}

// writeNodeFiles writes the configuration files of a real node.
func (c configuration) writeNodeFiles() error {
	const root = "config/node/"
	return fs.WalkDir(configFiles, root[:len(root)-1], func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := state.Dir(c.Spec.Dir).Path("node", "etc", strings.TrimPrefix(name+"/", root))
		if entry.IsDir() {
			return os.MkdirAll(path, 0o700)
		}
		text, err := c.render(name)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), 0o644)
	})
}

// kernelSettings are the kernel settings that a kubelet requires, by their paths below /proc/sys (k8s.io/kubernetes/pkg/kubelet/cm,
// setupKernelTunables). The sandbox shows files with these values, and leaves the settings of the machine alone.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// sandboxOf returns the configuration of the sandbox of a real node.
func sandboxOf(dir state.Dir, cgroup string, visible ...string) sandbox.Config {
	node := func(name string) string { return dir.Path("node", name) }
	return sandbox.Config{
		Cgroup: cgroup,
		Addresses: []netip.Prefix{
			netip.PrefixFrom(netip.MustParseAddr(realNodeIP), 24), netip.PrefixFrom(netip.MustParseAddr(realNodeIP6), 64),
		},
		Visible: append([]string{string(dir)}, visible...),
		Binds: []sandbox.Bind{
			{Source: node("kubelet"), Target: kubeletRoot},
			{Source: node("containerd"), Target: containerdRoot},
			{Source: node("cni"), Target: cniData},
			{Source: node("pod-logs"), Target: podLogs},
			{Source: node("container-logs"), Target: "/var/log/containers"},
		},
		Settings: kernelSettings,
	}
}
