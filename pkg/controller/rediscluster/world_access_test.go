// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// proxy does what kube-proxy does with one port of a Service: it forwards connections to the Pod that the Service selects.
type proxy struct {
	listener net.Listener

	mu     sync.Mutex
	target string // "" refuses connections
	conns  map[net.Conn]bool
}

func newProxy(t testing.TB, address string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, conns: map[net.Conn]bool{}}
	t.Cleanup(p.close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.forward(conn)
		}
	}()
	return p
}

func (p *proxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *proxy) forward(from net.Conn) {
	defer from.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if target == "" {
		return
	}
	to, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	p.conns[from] = true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(to, from) // Each end closes the other one.
		to.Close()
	}()
	_, _ = io.Copy(from, to)
	p.mu.Lock()
	delete(p.conns, from)
	p.mu.Unlock()
}

// set sets the target. Without a target, it ends all connections.
func (p *proxy) set(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for conn := range p.conns {
		if target == "" {
			conn.Close()
		}
	}
}

func (p *proxy) close() {
	p.listener.Close()
	p.set("")
}

// services returns the Services for clients outside of the cluster.
func (w *world) services() []corev1.Service {
	version := corev1.SchemeGroupVersion
	list, err := w.kube.Tracker().List(version.WithResource("services"), version.WithKind("Service"), "default")
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.(*corev1.ServiceList).Items, func(s corev1.Service) bool { return s.Labels[LabelExternal] == "" })
}

// proxyServices allocates ports for Services, and forwards connections to their Pods. A load balancer gets its IP from the test.
func (w *world) proxyServices() {
	w.t.Helper()
	seen := map[string]bool{}
	for _, s := range w.services() {
		var pod *corev1.Pod
		for _, p := range w.pods() {
			selected := klabels.SelectorFromSet(s.Spec.Selector).Matches(klabels.Set(p.Labels))
			if server := w.servers[p.UID]; selected && server != nil && server.Running() {
				pod = p
			}
		}
		changed := false
		for i := range s.Spec.Ports {
			port := &s.Spec.Ports[i]
			key := fmt.Sprintf("%s %s %s", s.Name, s.Spec.Type, port.Name)
			seen[key] = true
			if w.proxies[key] == nil && s.Spec.Type == corev1.ServiceTypeNodePort {
				w.proxies[key] = newProxy(w.t, net.JoinHostPort(w.machine, "0"))
			}
			if ip := ipOfBalancer(&s); w.proxies[key] == nil && ip != "" {
				w.proxies[key] = newProxy(w.t, net.JoinHostPort(ip, strconv.Itoa(int(port.Port))))
			}
			forwarder := w.proxies[key]
			if forwarder == nil {
				continue
			}
			if s.Spec.Type == corev1.ServiceTypeNodePort && int(port.NodePort) != forwarder.port() {
				port.NodePort, changed = int32(forwarder.port()), true
			}
			target := ""
			if pod != nil && !w.blocked[s.Name+" "+port.Name] {
				target = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(portNamed(pod, port.Name)))
			}
			forwarder.set(target)
		}
		if changed {
			if err := w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), &s, "default"); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for key, p := range w.proxies {
		if !seen[key] {
			p.close()
			delete(w.proxies, key)
		}
	}
}

// outside returns a client that reaches the addresses of Services alone.
func (w *world) outside() *redis.ClusterClient {
	var seeds []string
	var secure *tls.Config
	if w.overTLS {
		secure = w.clientTLS()
	}
	ips := map[string]bool{}
	for _, n := range w.rdc().Status.Nodes {
		if n.Address != "" {
			host, _, _ := net.SplitHostPort(n.Address)
			seeds = append(seeds, net.JoinHostPort(host, strconv.Itoa(w.portOutside(w.pod(n.Pod), w.overTLS))))
			ips[host] = true
		}
	}
	if len(seeds) == 0 {
		w.t.Fatal("no node has an address outside of the cluster")
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: seeds[:1], MaxRedirects: 3,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, _, _ := net.SplitHostPort(address); !ips[host] {
				return nil, fmt.Errorf("%s is not outside of the cluster", address)
			}
			return w.dialer(secure)(ctx, network, address)
		},
	})
}

// dialer returns a function that connects to an IP, or to a hostname that resolve knows.
func (w *world) dialer(secure *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		address, dialer := net.JoinHostPort(w.resolve(host), port), &net.Dialer{Timeout: time.Second}
		if secure != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, network, address)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// expectOutside checks that every node announces the address of its Service, and that a client outside of the cluster reads and writes keys
// of all masters.
func (w *world) expectOutside() {
	w.t.Helper()
	for _, n := range w.rdc().Status.Nodes {
		if ip, _, _ := net.SplitHostPort(n.Address); ip == "" || ip == n.IP {
			w.t.Errorf("%s has the address %q", n.Pod, n.Address)
		}
		for _, e := range w.view(n.Pod).Table {
			if slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool { return p.Status.PodIP == e.IP }) {
				w.t.Errorf("%s knows %+v by the IP of its Pod", n.Pod, e)
			}
		}
	}
	w.writesOutside()
}

// writesOutside checks that a client outside of the cluster reads and writes keys of all masters.
func (w *world) writesOutside() {
	w.t.Helper()
	client := w.outside()
	defer client.Close()
	for i := range 100 {
		key, value := fmt.Sprintf("outside:%d", i), time.Now().String()
		if err := client.Set(w.t.Context(), key, value, 0).Err(); err != nil {
			w.t.Fatalf("a client outside of the cluster: %v", err)
		}
		if got, err := client.Get(w.t.Context(), key).Result(); err != nil || got != value {
			w.t.Fatalf("%s is %q (%v), want %q", key, got, err, value)
		}
	}
}

// expectInside checks that nothing is left of the access from outside: a RedisCluster stays Ready while the access is removed. The status
// that nothing is done any more comes before the deletion of the last Service, and an operator that is killed between them deletes it in
// its next life.
func (w *world) expectInside() {
	w.t.Helper()
	w.until("the end of the operation", func() bool { return w.condition(glassback.ConditionProgressing).Status == metav1.ConditionFalse })
	w.until("the Services to be deleted", func() bool { return len(w.services()) == 0 })
	for _, n := range w.rdc().Status.Nodes {
		if n.Address != "" {
			w.t.Errorf("%s has the address %s", n.Pod, n.Address)
		}
		for _, e := range w.view(n.Pod).Table {
			if (e.Port != redistest.DefaultPort && e.Port != portFor(w.pod(n.Pod), true)) || e.BusPort != redistest.DefaultPort+redistest.BusOffset {
				w.t.Errorf("%s knows %+v", n.Pod, e)
			}
		}
	}
}

// opened syncs until every node announces an address that is not the IP of its Pod. Then it checks them, and the cluster.
func (w *world) opened(what string) {
	w.t.Helper()
	w.until(what, func() bool {
		rdc := w.rdc()
		for _, p := range w.pods() {
			node := w.connect(p)
			view, err := node.View(w.t.Context())
			node.Close()
			if err != nil || slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.Myself && e.IP == p.Status.PodIP }) {
				return false
			}
		}
		return len(w.pods()) == int(*rdc.Spec.Size) && !slices.ContainsFunc(rdc.Status.Nodes, func(n v1.Node) bool { return n.Address == "" })
	})
	w.ready(what)
	w.expectOutside()
}

func external(of v1.ExternalType) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Spec.Access = &v1.Access{Service: &v1.ClientService{}, External: &v1.ExternalAccess{Type: of}}
	}
}

func noAccess(rdc *v1.RedisCluster) { rdc.Spec.Access = nil }

// newOpenWorld returns a world whose Pods run on a machine with an IP.
func newOpenWorld(t *testing.T, change ...func(*v1.RedisCluster)) *world {
	t.Helper()
	w := newWorld(t, "access", change...)
	w.machine, w.proxies, w.blocked = redistest.FreeIP(t), map[string]*proxy{}, map[string]bool{}
	return w
}

// masterPod returns the name of a Pod with a master, or with a replica.
func (w *world) podWith(role v1.Role) string {
	for _, n := range w.rdc().Status.Nodes {
		if n.Role == role {
			return n.Pod
		}
	}
	w.t.Fatalf("no node is a %s", role)
	return ""
}

// TestAccessComesAndGoes opens a cluster for clients outside of it, restarts, replaces and adds nodes meanwhile, and closes it again, while
// clients write.
func TestAccessComesAndGoes(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newOpenWorld(t)
			w.ready("the cluster to be formed")
			if lives != nil {
				w.lives = lives()
			}
			first := w.uids()
			load := w.load(t)
			load.everyKey()
			w.change(external(v1.ExternalNodePort))
			w.ready("the access from outside")
			w.expectOutside()
			if now := w.uids(); fmt.Sprint(now) != fmt.Sprint(first) {
				t.Errorf("Pods were replaced: %v, and before %v", now, first)
			}
			if _, err := w.kube.CoreV1().Services("default").Get(t.Context(), "access-clients", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			w.change(noAccess)
			w.ready("the access from inside alone")
			w.expectInside()
			if now := w.uids(); fmt.Sprint(now) != fmt.Sprint(first) {
				t.Errorf("Pods were replaced: %v, and before %v", now, first)
			}
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			for _, event := range w.takeEvents() {
				if strings.Contains(event, "Failover") || strings.Contains(event, "Healing") {
					t.Errorf("there was the event %q", event)
				}
			}
			t.Logf("%d lives, %d writes", w.deaths+1, len(w.all))
		})
	}
}

// TestAccessOutlivesChanges restarts, replaces, adds and removes nodes of a cluster with access from outside, while clients write.
func TestAccessOutlivesChanges(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newOpenWorld(t, external(v1.ExternalNodePort), storage)
			w.ready("the cluster to be formed")
			w.expectOutside()
			if lives != nil {
				w.lives = lives()
			}
			load := w.load(t)
			load.everyKey()
			w.servers[w.pod(w.podWith(v1.RoleReplica)).UID].Stop()
			w.opened("the cluster after the restart of a replica")
			w.servers[w.pod(w.podWith(v1.RoleMaster)).UID].Stop()
			w.opened("the cluster after the restart of a master")
			w.deletePods(w.podWith(v1.RoleReplica))
			w.opened("another Pod")
			w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Size = ptr.To[int32](8) })
			w.opened("eight nodes")
			w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Size = ptr.To[int32](6) })
			w.opened("six nodes")
			w.until("the Services of the nodes that left to be deleted", func() bool { return len(w.services()) == 6 })
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			t.Logf("%d lives, %d writes", w.deaths+1, len(w.all))
		})
	}
}

// TestAccessWithTLS opens a cluster, and adds TLS. It closes and opens the cluster with TLS alone, takes TLS back, and closes the cluster.
// Meanwhile, clients write.
func TestAccessWithTLS(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newOpenWorld(t, external(v1.ExternalNodePort))
			w.setTLS(newAuthority(t).issue(t))
			w.ready("the cluster to be formed")
			if lives != nil {
				w.lives = lives()
			}
			write := func(overTLS bool) *writer {
				w.overTLS = overTLS
				load := w.load(t)
				w.until("clients to write", func() bool { return load.total.Load() > 1000 })
				return load
			}
			kept := func(load *writer) {
				t.Helper()
				if lost := load.lost(); lost > 0 {
					t.Errorf("%d keys lost what was acknowledged", lost)
				}
			}
			load := write(false)
			w.change(withTLSMode(v1.TLSPreferred))
			w.opened("TLS with access from outside")
			w.expectTLS(true, true, true)
			w.expectPorts(func(p *corev1.Pod) int { return w.portOutside(p, false) })
			w.overTLS = true
			w.expectOutside()
			w.overTLS = false
			kept(load)

			load = write(true)
			w.change(withTLSMode(v1.TLSRequired))
			w.ready("TLS alone")
			w.expectTLS(false, true, true)
			w.expectOutside()
			before := w.uids()
			w.change(noAccess)
			w.ready("TLS alone, from inside")
			w.expectInside()
			w.change(external(v1.ExternalNodePort))
			w.opened("TLS alone, from outside")
			if now := w.uids(); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Errorf("Pods were replaced: %v, and before %v", now, before)
			}
			w.change(withTLSMode(v1.TLSPreferred))
			w.ready("TLS and plain")
			w.expectPorts(func(p *corev1.Pod) int { return w.portOutside(p, false) })
			kept(load)

			load = write(false)
			w.change(withTLSMode(""))
			w.opened("no TLS")
			w.until("the Services to have no port for TLS", func() bool {
				return !slices.ContainsFunc(w.services(), func(s corev1.Service) bool { return externalPorts(&s).TLS != 0 })
			})
			w.change(noAccess)
			w.ready("the access from inside alone")
			w.expectInside()
			kept(load)
			for _, event := range w.takeEvents() {
				if strings.Contains(event, "Healing") || strings.Contains(event, "which is gone") {
					t.Errorf("there was the event %q", event)
				}
			}
			t.Logf("%d lives, %d writes", w.deaths+1, len(w.all))
		})
	}
}

// portOutside returns the port of a Pod's Service for clients.
func (w *world) portOutside(p *corev1.Pod, overTLS bool) int {
	services := w.services()
	return externalPorts(&services[slices.IndexFunc(services, func(s corev1.Service) bool { return s.Name == p.Name })]).port(overTLS)
}

// TestAnUnreachableAddressIsGivenUp blocks the port of the bus, which the operator does not try: the nodes return to the IPs of their Pods.
func TestAnUnreachableAddressIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, role := range []v1.Role{v1.RoleReplica, v1.RoleMaster} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			w := newOpenWorld(t)
			w.ready("the cluster to be formed")
			load := w.load(t)
			load.everyKey()
			blocked := w.podWith(role)
			w.blocked[blocked+" "+portBus] = true
			w.change(external(v1.ExternalNodePort))
			w.until("the address to be given up", func() bool {
				c := w.condition(glassback.ConditionDegraded)
				return c.Reason == reasonUnreachable && strings.Contains(c.Message, blocked) && w.pod(blocked).Annotations[AnnotationUnreachable] != ""
			})
			w.until("the node to return", func() bool {
				return slices.ContainsFunc(w.rdc().Status.Nodes, func(n v1.Node) bool { return n.Pod == blocked && n.Address == "" })
			})
			w.until("the nodes to reach each other", func() bool { return w.unreached() == "" })

			delete(w.blocked, blocked+" "+portBus)
			w.byPerson(func() {
				pod := w.pod(blocked).DeepCopy()
				delete(pod.Annotations, AnnotationUnreachable)
				if _, err := w.kube.CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			})
			w.ready("the access from outside")
			w.expectOutside()
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
		})
	}
}

// TestServicesThatAreReplaced deletes all Services under the nodes that announce their addresses.
func TestServicesThatAreReplaced(t *testing.T) {
	t.Parallel()
	w := newOpenWorld(t, external(v1.ExternalNodePort))
	w.ready("the cluster to be formed")
	load := w.load(t)
	load.everyKey()
	before := w.rdc().Status.Nodes
	w.byPerson(func() {
		for _, s := range w.services() {
			if err := w.kube.CoreV1().Services("default").Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	w.until("other addresses", func() bool {
		return !slices.ContainsFunc(w.rdc().Status.Nodes, func(n v1.Node) bool {
			return n.Address == "" || slices.ContainsFunc(before, func(b v1.Node) bool { return b.Pod == n.Pod && b.Address == n.Address })
		})
	})
	w.ready("the access from outside")
	w.expectOutside()
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost what was acknowledged", lost)
	}
}

// TestLoadBalancers waits for the IPs of load balancers. Then it changes the type of the Services to NodePort, and back.
func TestLoadBalancers(t *testing.T) {
	t.Parallel()
	w := newOpenWorld(t)
	w.ready("the cluster to be formed")
	load := w.load(t)
	load.everyKey()
	w.change(external(v1.ExternalLoadBalancer))
	w.until("the wait for addresses", func() bool {
		return strings.Contains(w.condition(glassback.ConditionProgressing).Message, "Waiting for the address of the Service access-0")
	})
	w.balance()
	w.ready("load balancers")
	w.expectOutside()
	before := fmt.Sprint(w.uids(), w.rdc().Status.Nodes)
	w.change(func(rdc *v1.RedisCluster) {
		rdc.Spec.Access.External.LoadBalancerSourceRanges = []string{"127.0.0.0/8"}
	})
	w.ready("source ranges")
	if slices.ContainsFunc(w.services(), func(s corev1.Service) bool { return len(s.Spec.LoadBalancerSourceRanges) != 1 }) {
		t.Error("a load balancer has no source ranges")
	}
	if now := fmt.Sprint(w.uids(), w.rdc().Status.Nodes); now != before {
		t.Errorf("the nodes are %s, and were %s", now, before)
	}
	w.change(external(v1.ExternalNodePort))
	w.ready("node ports")
	w.expectOutside()
	if slices.ContainsFunc(w.services(), func(s corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeNodePort }) {
		t.Error("a load balancer is left")
	}
	w.change(external(v1.ExternalLoadBalancer))
	w.until("load balancers again", func() bool {
		w.balance()
		nodes := w.rdc().Status.Nodes
		return !slices.ContainsFunc(nodes, func(n v1.Node) bool { return !strings.HasSuffix(n.Address, ":6379") })
	})
	w.ready("load balancers again")
	w.expectOutside()
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost what was acknowledged", lost)
	}
}
