// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// domain is that of all hostnames in tests.
const domain = ".example.com"

// nowhere is an IP at which nothing listens.
const nowhere = "127.255.255.254"

// resolve does what DNS does with a hostname: it returns the IP of the load balancer. It returns an IP as it is.
func (w *world) resolve(host string) string {
	label, _, _ := strings.Cut(host, ".")
	if !strings.HasSuffix(host, domain) {
		return host
	}
	for _, s := range w.services() {
		if ip := ipOfBalancer(&s); s.Name == label && ip != "" {
			return ip
		}
	}
	return nowhere
}

// startHostname returns the directive that start.sh adds for a Pod with a hostname.
func (w *world) startHostname(p *corev1.Pod) []string {
	config, err := w.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), "default", p.Spec.Volumes[1].ConfigMap.Name)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, env := range p.Spec.Containers[0].Env {
		if env.Name == envHostname && strings.Contains(config.(*corev1.ConfigMap).Data["start.sh"], directiveHostname) {
			return []string{directiveHostname + " " + env.Value}
		}
	}
	return nil
}

// balance gives all load balancers an IP.
func (w *world) balance() {
	w.t.Helper()
	for _, s := range w.services() {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || ipOfBalancer(&s) != "" {
			continue
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: redistest.FreeIP(w.t)}}
		if err := w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("services"), &s, "default"); err != nil {
			w.t.Fatal(err)
		}
	}
}

func hostnames(template string) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Spec.Access = &v1.Access{External: &v1.ExternalAccess{Type: v1.ExternalLoadBalancer, Hostname: template}}
	}
}

// endpoints returns the hosts that the node of a Pod tells to clients.
func endpoints(ctx context.Context, p *corev1.Pod) ([]string, error) {
	if p.Status.PodIP == "" {
		return nil, errors.New("the Pod has no IP")
	}
	client := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(portFor(p, false))), DialTimeout: time.Second, ReadTimeout: time.Second,
	})
	defer client.Close()
	shards, err := client.Do(ctx, "CLUSTER", "SLOTS").Slice()
	var hosts []string
	for _, shard := range shards {
		for _, node := range shard.([]any)[2:] { // After the first and the last slot.
			host, _ := node.([]any)[0].(string)
			hosts = append(hosts, host)
		}
	}
	return hosts, err
}

// watchEndpoints asks all nodes for what they tell to clients until the test calls stop. It is an error if that is neither an IP nor a
// hostname: Redis tells "?" for a node without a name.
func (w *world) watchEndpoints() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var watching sync.WaitGroup
	answers := 0
	watching.Go(func() {
		for ctx.Err() == nil {
			for _, p := range w.pods() {
				hosts, err := endpoints(ctx, p)
				if err == nil {
					answers++
				}
				for _, host := range hosts {
					if net.ParseIP(host) == nil && !strings.HasSuffix(host, domain) {
						w.t.Errorf("%s tells clients the endpoint %q", p.Name, host)
					}
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		watching.Wait()
		if answers == 0 {
			w.t.Error("no node told clients an endpoint")
		}
	}
}

// unnamed describes why clients do not get hostnames with this suffix alone, or why nodes do not use the IPs of Pods alone. It returns ""
// if they do.
func (w *world) unnamed(suffix string) string {
	w.t.Helper()
	pods := w.pods()
	for _, p := range pods {
		hosts, err := endpoints(w.t.Context(), p)
		if err != nil || slices.ContainsFunc(hosts, func(host string) bool { return !strings.HasSuffix(host, suffix) }) {
			return fmt.Sprintf("%s tells clients %q (%v)", p.Name, hosts, err)
		}
		for _, e := range w.view(p.Name).Table {
			if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Status.PodIP == e.IP }) {
				return fmt.Sprintf("%s knows %+v", p.Name, e)
			}
		}
	}
	for _, n := range w.rdc().Status.Nodes {
		if n.Address != fmt.Sprintf("%s%s:%d", n.Pod, suffix, redistest.DefaultPort) {
			return fmt.Sprintf("the status has %+v", n)
		}
	}
	for _, s := range w.services() {
		if at := externalPorts(&s); at.Bus != 0 || at.Port != redistest.DefaultPort {
			return fmt.Sprintf("the Service %s has the ports %+v", s.Name, s.Spec.Ports)
		}
	}
	return ""
}

// named syncs until every node tells hostnames that end with suffix, and no others. Then it checks the cluster: a client outside of it
// reads and writes by these names alone.
func (w *world) named(what, suffix string) {
	w.t.Helper()
	w.until(what, func() bool {
		w.balance()
		return w.unnamed(suffix) == "" && len(w.rdc().Status.Nodes) == int(*w.rdc().Spec.Size)
	})
	w.ready(what)
	if why := w.unnamed(suffix); why != "" {
		w.t.Errorf("%s: %s", what, why)
	}
	w.writesOutside()
}

// TestHostnames lets the nodes of a cluster tell hostnames to clients, restarts and adds nodes, changes the names, and takes them back,
// while clients write.
func TestHostnames(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newOpenWorld(t, storage)
			w.ready("the cluster to be formed")
			if lives != nil {
				w.lives = lives()
			}
			first := fmt.Sprint(w.uids())
			unchanged := func() {
				t.Helper()
				if now := fmt.Sprint(w.uids()); now != first {
					t.Errorf("Pods were replaced: %s, and before %s", now, first)
				}
			}
			load := w.load(t)
			load.everyKey()
			stop := w.watchEndpoints()
			w.change(hostnames("{pod}" + domain))
			w.until("the wait for addresses", func() bool {
				return strings.Contains(w.condition(glassback.ConditionProgressing).Message, "Waiting for the address of the Service access-0")
			})
			w.named("hostnames", domain)
			unchanged()
			w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Size = ptr.To[int32](8) })
			w.named("eight nodes", domain)
			w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Size = ptr.To[int32](6) })
			w.until("the Services of the nodes that left to be deleted", func() bool { return len(w.services()) == 6 })
			w.named("six nodes", domain)
			w.change(hostnames("{pod}.other" + domain))
			w.named("other hostnames", ".other"+domain)
			w.deletePods(w.podWith(v1.RoleReplica)) // A Pod that is created now starts with its name.
			w.named("another Pod", ".other"+domain)
			first = fmt.Sprint(w.uids())
			stop()
			for _, role := range []v1.Role{v1.RoleReplica, v1.RoleMaster} { // They were created without a hostname.
				w.servers[w.pod(w.podWith(role)).UID].Stop()
				w.named("hostnames after the restart of a "+string(role), ".other"+domain)
			}

			stop = w.watchEndpoints()
			w.change(external(v1.ExternalLoadBalancer))
			w.opened("the IPs of load balancers")
			w.change(hostnames("{pod}" + domain))
			w.named("hostnames again", domain)
			w.change(noAccess)
			w.ready("the access from inside alone")
			w.expectInside()
			stop()
			w.until("no node to have a name", func() bool {
				return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool {
					hosts, err := endpoints(t.Context(), p)
					return err != nil || slices.ContainsFunc(hosts, func(host string) bool { return net.ParseIP(host) == nil }) ||
						slices.ContainsFunc(w.view(p.Name).Table, func(e redisnode.Entry) bool { return e.Hostname != "" })
				})
			})
			unchanged()
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			t.Logf("%d lives, %d writes", w.deaths+1, len(w.all))
		})
	}
}

// TestPodsStartWithHostnames replaces Pods of a cluster that was created with hostnames: no node is without its name for a moment.
func TestPodsStartWithHostnames(t *testing.T) {
	t.Parallel()
	w := newOpenWorld(t, storage, hostnames("{pod}"+domain))
	w.named("the cluster to be formed", domain)
	load := w.load(t)
	load.everyKey()
	stop := w.watchEndpoints()
	w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:8" })
	w.named("the Pods to be replaced", domain)
	w.deletePods(w.podWith(v1.RoleMaster))
	w.named("another Pod", domain)
	stop()
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost what was acknowledged", lost)
	}
}
