package supervisor

import (
	"net"
	"strconv"

	"github.com/glassback/glassback/hack/devcluster/state"
)

const (
	// serviceCIDR has room for a quarter of a million Services: a /24 is full after 254.
	serviceCIDR = "10.96.0.0/14"
	// podCIDR is where kwok takes Pod addresses from.
	podCIDR = "10.128.0.0/9"
	// simulatedNodeIP is reported as the address of every simulated node. Nothing listens there.
	simulatedNodeIP = "10.0.0.1"
	// eventTTL is short, for runs of thousands of Jobs an hour leave many Events.
	eventTTL = "15m"
	// The clients of kube-controller-manager and kube-scheduler: the default of 20 requests a second starves everything else.
	clientQPS   = "400"
	clientBurst = "800"
)

// serviceIP is the ClusterIP of the Service "kubernetes": the first of serviceCIDR.
var serviceIP = net.IPv4(10, 96, 0, 1)

// peerPort is the key of etcd's second port.
const peerPort = "etcd-peer"

// portKeys lists what needs a port of its own, given the components.
func portKeys(components []string) []string {
	var keys []string
	for _, c := range components {
		keys = append(keys, c)
		if c == state.Etcd {
			keys = append(keys, peerPort)
		}
	}
	return keys
}

// arguments returns the command line of a component, without its name.
func arguments(component string, spec state.Spec, ports map[string]int) []string {
	c := commandLine{dir: state.Dir(spec.Dir), ports: ports, images: spec.Images, real: spec.Node == state.NodeReal}
	switch component {
	case state.Etcd:
		return c.etcd()
	case state.APIServer:
		return c.apiServer()
	case state.ControllerManager:
		return c.controllerManager()
	case state.Scheduler:
		return c.scheduler()
	case state.Kwok:
		return c.kwok()
	default:
		return c.realNode(component)
	}
}

// realNode returns the command line of a component of a real node.
func (c commandLine) realNode(component string) []string {
	switch component {
	case state.Registry:
		return []string{"--listen=" + loopback(c.ports[component]), "--store=" + c.dir.Path("node", "images"), "--store=" + c.images}
	case state.Containerd:
		return []string{"--config=" + nodeFile(c.dir, "containerd.toml")}
	case state.Kubelet:
		return []string{
			"--config=" + nodeFile(c.dir, "kubelet.json"),
			"--kubeconfig=" + c.pki("kubelet.kubeconfig"),
			"--root-dir=" + kubeletRoot,
			"--cert-dir=" + kubeletRoot + "/pki",
			"--hostname-override=" + nodePrefix + "1",
			"--node-ip=" + realNodeIP,
		}
	case state.KubeProxy:
		return []string{"--config=" + nodeFile(c.dir, "kube-proxy.json")}
	case state.CoreDNS:
		return []string{"-conf=" + nodeFile(c.dir, "Corefile")}
	case state.Provisioner:
		return []string{
			"--kubeconfig=" + c.pki("provisioner.kubeconfig"),
			"--directory=" + c.dir.Path("node", "volumes"),
			"--node=" + nodePrefix + "1",
			"--listen=" + loopback(c.ports[component]),
		}
	}
	return nil
}

type commandLine struct {
	dir    state.Dir
	ports  map[string]int
	images string
	real   bool // the node is
}

func (c commandLine) pki(file string) string { return c.dir.Path("pki", file) }

func (c commandLine) port(component string) string { return strconv.Itoa(c.ports[component]) }

func (c commandLine) url(key string) string { return "https://" + loopback(c.ports[key]) }

func (c commandLine) etcd() []string {
	return []string{
		"--name=devcluster",
		"--data-dir=" + c.dir.Path("etcd"),
		"--listen-client-urls=" + c.url(state.Etcd),
		"--advertise-client-urls=" + c.url(state.Etcd),
		"--listen-peer-urls=" + c.url(peerPort),
		"--initial-advertise-peer-urls=" + c.url(peerPort),
		"--initial-cluster=devcluster=" + c.url(peerPort),
		"--cert-file=" + c.pki("etcd.crt"),
		"--key-file=" + c.pki("etcd.key"),
		"--client-cert-auth",
		"--trusted-ca-file=" + c.pki(etcdCACert),
		"--peer-cert-file=" + c.pki("etcd.crt"),
		"--peer-key-file=" + c.pki("etcd.key"),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + c.pki(etcdCACert),
		// A killed process loses nothing without fsync, only a crashed machine does, and its clusters are gone anyway.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
}

func (c commandLine) apiServer() []string {
	return append(c.reach(),
		"--etcd-servers="+c.url(state.Etcd),
		"--etcd-cafile="+c.pki(etcdCACert),
		"--etcd-certfile="+c.pki("apiserver-etcd-client.crt"),
		"--etcd-keyfile="+c.pki("apiserver-etcd-client.key"),
		"--secure-port="+c.port(state.APIServer),
		"--tls-cert-file="+c.pki("apiserver.crt"),
		"--tls-private-key-file="+c.pki("apiserver.key"),
		"--client-ca-file="+c.pki(caCert),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+c.pki(serviceAccount+".crt"),
		"--service-account-signing-key-file="+c.pki(serviceAccount+".key"),
		"--requestheader-client-ca-file="+c.pki(frontProxyCACert),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+c.pki("front-proxy-client.crt"),
		"--proxy-client-key-file="+c.pki("front-proxy-client.key"),
		"--service-cluster-ip-range="+serviceCIDR,
		"--event-ttl="+eventTTL,
		// Without it, SIGTERM is followed by a minute in which every open watch is waited for.
		"--shutdown-watch-termination-grace-period=1s",
		"--allow-privileged",
	)
}

// reach is how the API server is reached and reaches others. With a real node it is what containers reach as the Service "kubernetes".
func (c commandLine) reach() []string {
	if c.real {
		return []string{
			"--bind-address=0.0.0.0",
			"--advertise-address=" + realNodeIP,
			"--kubelet-client-certificate=" + c.pki("apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + c.pki("apiserver-kubelet-client.key"),
			"--kubelet-certificate-authority=" + c.pki(caCert),
			"--kubelet-preferred-address-types=InternalIP",
		}
	}
	return []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// A loopback address is not allowed in an EndpointSlice, so the Service "kubernetes" has no endpoints.
		"--endpoint-reconciler-type=none",
	}
}

func (c commandLine) controllerManager() []string {
	kubeconfig := c.pki("kube-controller-manager.kubeconfig")
	return append(c.serving(state.ControllerManager, kubeconfig),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.pki(serviceAccount+".key"),
		"--root-ca-file="+c.pki(caCert),
		"--cluster-signing-cert-file="+c.pki(caCert),
		"--cluster-signing-key-file="+c.pki(caKey),
		"--kube-api-qps="+clientQPS,
		"--kube-api-burst="+clientBurst,
	)
}

func (c commandLine) scheduler() []string {
	return append(c.serving(state.Scheduler, c.pki("kube-scheduler.kubeconfig")),
		"--kube-api-qps="+clientQPS,
		"--kube-api-burst="+clientBurst,
	)
}

// serving is what kube-controller-manager and kube-scheduler have in common.
func (c commandLine) serving(component, kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + c.port(component),
		"--tls-cert-file=" + c.pki("component.crt"),
		"--tls-private-key-file=" + c.pki("component.key"),
		"--leader-elect=false", // there is only one: spares the lease and its writes
	}
}

func (c commandLine) kwok() []string {
	return []string{
		"--kubeconfig=" + c.pki("kwok.kubeconfig"),
		"--manage-all-nodes",
		"--cidr=" + podCIDR,
		"--node-ip=" + simulatedNodeIP,
		// Without leases it renews the nodes' status. With them, it forgets the Pods that it hears of before it hears of its own lease: as
		// after a restart of the API server.
		"--node-lease-duration-seconds=0",
		"--server-address=" + loopback(c.ports[state.Kwok]),
	}
}
