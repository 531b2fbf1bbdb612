// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/requirements"
	"github.com/glassback/glassback/hack/devcluster/sandbox"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// What a real node's network consists of. All of it is inside its sandbox, so that clusters do not share any of it.
const (
	realNodeIP = "10.0.0.1"
	// realPodCIDR is where the containers' addresses come from.
	realPodCIDR = "10.128.0.0/16"
	// dnsIP is the ClusterIP of the Service "kube-dns", and dnsPort where CoreDNS listens at the node's address.
	dnsIP   = "10.96.0.10"
	dnsPort = 53
	// kubeletPort is where a kubelet serves logs and exec.
	kubeletPort = 10250
	// proxyPort is where kube-proxy tells its metrics.
	proxyPort = 10249
	// maxPods is less than realPodCIDR has addresses, and more than such a node can run.
	maxPods       = 250
	clusterDomain = "cluster.local"
)

// Paths as they are seen inside a sandbox.
const (
	kubeletRoot      = "/var/lib/kubelet"
	containerdRoot   = "/var/lib/containerd"
	containerdState  = "/run/containerd"
	containerdSocket = containerdState + "/containerd.sock"
	podLogs          = "/var/log/pods"
	cniData          = "/var/lib/cni"
)

// pauseImage holds the namespaces of every Pod.
const pauseImage = "registry.k8s.io/pause:3.10"

// NodePorts are the ports that a real node has besides those that are chosen. All of them are inside its sandbox.
func NodePorts() []int { return []int{dnsPort, kubeletPort, proxyPort} }

// kernelSettings are what a kubelet demands of the whole machine's kernel, by their paths below /proc/sys
// (k8s.io/kubernetes/pkg/kubelet/cm, setupKernelTunables). It gets files with these values.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// sandboxOf says what the sandbox of a real node is like.
func sandboxOf(dir state.Dir, cgroup string, visible ...string) sandbox.Config {
	node := func(name string) string { return dir.Path("node", name) }
	return sandbox.Config{
		Cgroup:  cgroup,
		Address: netip.PrefixFrom(netip.MustParseAddr(realNodeIP), 24),
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

// nodeFiles are the configuration files of a real node.
type nodeFiles struct {
	dir   state.Dir
	ports map[string]int
	found requirements.Found
	// cgroupRoot is what the kubelet calls the sandbox's cgroup.
	cgroupRoot string
	// overlay is whether file systems can be laid over each other in the cluster's directory.
	overlay bool
}

// nodeFile returns the path of a configuration file.
func nodeFile(dir state.Dir, name string) string { return dir.Path("node", "etc", name) }

// write writes all of them.
func (n nodeFiles) write() error {
	kubelet, err := json.MarshalIndent(n.kubelet(), "", "  ")
	if err != nil {
		return fmt.Errorf("encode configuration of kubelet: %w", err)
	}
	proxy, err := json.MarshalIndent(n.kubeProxy(), "", "  ")
	if err != nil {
		return fmt.Errorf("encode configuration of kube-proxy: %w", err)
	}
	files := map[string]string{
		"kubelet.json":                   string(kubelet),
		"kube-proxy.json":                string(proxy),
		"containerd.toml":                n.containerd(),
		"registries/_default/hosts.toml": n.registries(),
		"cni/10-devcluster.conflist":     cniNetwork,
		"Corefile":                       n.corefile(),
		"resolv.conf":                    resolvConf,
		"empty-resolv.conf":              "",
	}
	for name, text := range files {
		path := nodeFile(n.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return nil
}

func (n nodeFiles) kubelet() *kubeletconfig.KubeletConfiguration {
	pki := func(file string) string { return n.dir.Path("pki", file) }
	return &kubeletconfig.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Authentication: kubeletconfig.KubeletAuthentication{
			X509:      kubeletconfig.KubeletX509Authentication{ClientCAFile: pki(caCert)},
			Webhook:   kubeletconfig.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
			Anonymous: kubeletconfig.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
		},
		Authorization:     kubeletconfig.KubeletAuthorization{Mode: kubeletconfig.KubeletAuthorizationModeWebhook},
		TLSCertFile:       pki("kubelet.crt"),
		TLSPrivateKeyFile: pki("kubelet.key"),
		Port:              kubeletPort,
		HealthzPort:       ptr.To(int32(n.ports[state.Kubelet])),

		ContainerRuntimeEndpoint: "unix://" + containerdSocket,
		PodLogsDir:               podLogs,
		VolumePluginDir:          kubeletRoot + "/volume-plugins",
		ClusterDNS:               []string{dnsIP},
		ClusterDomain:            clusterDomain,
		ResolverConfig:           ptr.To(nodeFile(n.dir, "empty-resolv.conf")), // there is nothing outside to resolve
		MaxPods:                  maxPods,
		HairpinMode:              kubeletconfig.HairpinNone, // is for bridges

		CgroupRoot:             n.cgroupRoot,
		CgroupDriver:           "cgroupfs",
		FailCgroupV1:           ptr.To(false),
		FailSwapOn:             ptr.To(false),
		ProtectKernelDefaults:  true, // find the settings as they should be, and do not try to change them
		OOMScoreAdj:            ptr.To(int32(0)),
		MakeIPTablesUtilChains: ptr.To(false),

		// The disk is that of the machine, which is none of the cluster's business.
		EvictionHard: map[string]string{"memory.available": "50Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%"},
		ImageGCHighThresholdPercent: ptr.To(int32(100)),

		// One is waiting.
		SerializeImagePulls:       ptr.To(false),
		RegistryPullQPS:           ptr.To(int32(0)),
		EventRecordQPS:            ptr.To(int32(0)),
		KubeAPIQPS:                ptr.To(int32(200)),
		KubeAPIBurst:              400,
		NodeStatusUpdateFrequency: metav1.Duration{Duration: 5 * time.Second},
	}
}

func (n nodeFiles) kubeProxy() *proxyconfig.KubeProxyConfiguration {
	config := &proxyconfig.KubeProxyConfiguration{
		TypeMeta:           metav1.TypeMeta{APIVersion: proxyconfig.SchemeGroupVersion.String(), Kind: "KubeProxyConfiguration"},
		HostnameOverride:   nodePrefix + "1",
		BindAddress:        "0.0.0.0",
		HealthzBindAddress: loopback(n.ports[state.KubeProxy]),
		MetricsBindAddress: loopback(proxyPort),
		Mode:               "nftables",
		ClusterCIDR:        realPodCIDR,
		DetectLocalMode:    "ClusterCIDR",
		OOMScoreAdj:        ptr.To(int32(0)),
		NFTables: proxyconfig.KubeProxyNFTablesConfiguration{
			SyncPeriod:    metav1.Duration{Duration: 30 * time.Second},
			MinSyncPeriod: metav1.Duration{Duration: 50 * time.Millisecond}, // a second by default, by which Services lag behind Pods
		},
		// How many connections are tracked is the whole machine's to say.
		Conntrack: proxyconfig.KubeProxyConntrackConfiguration{MaxPerCore: ptr.To(int32(0)), Min: ptr.To(int32(0))},
	}
	config.ClientConnection.Kubeconfig = n.dir.Path("pki", "kube-proxy.kubeconfig")
	config.ClientConnection.QPS, config.ClientConnection.Burst = 200, 400
	return config
}

// containerd returns containerd's configuration, in the version that containerd 1.6, 1.7 and 2 understand.
func (n nodeFiles) containerd() string {
	snapshotter := "native"
	if n.overlay {
		snapshotter = "overlayfs"
	}
	return `version = 2
root = "` + containerdRoot + `"
state = "` + containerdState + `"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.nri.v1.nri"]

[grpc]
  address = "` + containerdSocket + `"

[metrics]
  address = "` + loopback(n.ports[state.Containerd]) + `"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  # Without CAP_SYS_RESOURCE a process cannot lower its score, and the sandbox of every Pod would fail.
  restrict_oom_score_adj = true
  # A profile would be loaded into the kernel of the whole machine.
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  max_concurrent_downloads = 8

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "` + snapshotter + `"
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = ` + strconv.Quote(n.found.Plugins) + `
  conf_dir = ` + strconv.Quote(nodeFile(n.dir, "cni")) + `

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = ` + strconv.Quote(nodeFile(n.dir, "registries")) + `
`
}

// registries makes the cluster's own registry stand in for all others.
func (n nodeFiles) registries() string {
	url := "http://" + loopback(n.ports[state.Registry])
	return `server = "` + url + `"

[host."` + url + `"]
  capabilities = ["pull", "resolve"]
`
}

// cniNetwork gives each Pod an interface pair of its own, and a route: what Pods send each other is routed, and so passes the rules of
// kube-proxy, also where the kernel shows bridged packets to no packet filter.
const cniNetwork = `{
  "cniVersion": "0.4.0",
  "name": "devcluster",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "dataDir": "` + cniData + `/networks",
        "ranges": [[{"subnet": "` + realPodCIDR + `"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
`

// corefile returns CoreDNS' configuration. Nothing is forwarded: there is nothing outside. Answers are kept for a moment only, so that a
// test sees what it just changed.
func (n nodeFiles) corefile() string {
	return `.:` + strconv.Itoa(dnsPort) + ` {
  bind ` + realNodeIP + `
  errors
  ready ` + loopback(n.ports[state.CoreDNS]) + `
  kubernetes ` + clusterDomain + ` in-addr.arpa ip6.arpa {
    kubeconfig ` + strconv.Quote(n.dir.Path("pki", "coredns.kubeconfig")) + `
    pods insecure
    ttl 1
  }
  cache 1
}
`
}

// resolvConf is what commands see that "devcluster exec" runs in the cluster's network.
const resolvConf = `nameserver ` + dnsIP + `
search default.svc.` + clusterDomain + ` svc.` + clusterDomain + ` ` + clusterDomain + `
options ndots:5
`
