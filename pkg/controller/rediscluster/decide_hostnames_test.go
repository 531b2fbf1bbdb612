// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

func nameOf(ordinal int) string { return podName(six().rdc, ordinal) + domain }

// withBalancers is a cluster with load balancers that have IPs and a hostname. The operator has labelled the Pods.
func withBalancers(o *observed) {
	hostnames("{pod}" + domain)(o.rdc)
	served(o)
	serviceIs(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, s.Spec.Ports[:1]
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "balancer" + domain}}
	}, all...)(o)
	selected(all...)(o)
}

// names makes members announce hostnames, which all nodes know. They tell clients what endpoints says.
func names(endpoints string, ordinals ...int) alter {
	return func(o *observed) {
		recorded(map[string]*string{directiveHostname: ptr.To(""), directiveEndpoints: ptr.To("ip")}, ordinals...)(o)
		for _, i := range ordinals {
			running(directiveHostname+" "+nameOf(i)+", "+directiveEndpoints+" "+endpoints, i)(o)
			each(o, idOf(i), func(e *redisnode.Entry) { e.Hostname = nameOf(i) })
			saidBy(o, i, idOf(i)).Hostname = nameOf(i)
		}
	}
}

// withDefaults has members with the defaults of Redis.
func withDefaults(ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			o.members[i].directives = maps.Clone(hostnameDefaults)
		}
	}
}

// reachedByName are members that the operator reached by their hostnames.
func reachedByName(ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			o.members[i].reachedAt = address{IP: nameOf(i), Port: 6379}
		}
	}
}

func TestDecideHostnames(t *testing.T) {
	const both = directiveHostname + " " + directiveEndpoints
	set := func(names string, ordinals ...int) []string {
		var upkeep []string
		for _, i := range ordinals {
			upkeep = append(upkeep, "set directives of "+podName(six().rdc, i)+" "+names)
		}
		return upkeep
	}
	noNames := func(o *observed) { external(v1.ExternalLoadBalancer)(o.rdc) }
	decisions{
		"all nodes get their names at once": {
			with(six(), withBalancers, withDefaults(all...)),
			waits("Waiting to reach demo-0 at demo-0.example.com:6379").making(set(directiveHostname, all...)...),
		},
		"the load balancers have no address yet": {
			with(six(), withBalancers, names("ip", all...), serviceIs(func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }, 0)),
			waits("Waiting for the address of the Service demo-0"),
		},
		"the Pods are selected first": {
			with(six(), withBalancers, names("ip", all...), podIs(func(p *corev1.Pod) { delete(p.Labels, LabelExternal) }, 2)),
			does("Preparing 1 nodes", "label demo-2"),
		},
		"clients get names when all nodes are reached by them": {
			with(six(), withBalancers, names("ip", all...), reachedByName(all...)),
			waits("Waiting until demo-0 tells clients the hostname").making(set(directiveEndpoints, all...)...),
		},
		"one node is not reached by its name": {
			with(six(), withBalancers, names("ip", all...), reachedByName(all[1:]...)),
			waits("Waiting to reach demo-0"),
		},
		"a node does not tell names before it knows all of them": {
			with(six(), withBalancers, names("ip", all...), reachedByName(all...), func(o *observed) { saidBy(o, 2, idOf(3)).Hostname = "" }),
			waits("Waiting until demo-0").making(set(directiveEndpoints, 0, 1, 3, 4, 5)...),
		},
		"the name of a failed node is not needed": {
			with(six(), withBalancers, names("ip", 0, 1, 2, 3, 4), reachedByName(all...), silenced(time.Second, 5), clearStatus,
				func(o *observed) { each(o, idOf(5), func(e *redisnode.Entry) { e.Failed = true }) }),
			waits("Waiting").making(set(directiveEndpoints, 0, 1, 2, 3, 4)...),
		},
		"the name of a failed master is needed": {
			with(six(), withBalancers, names("ip", 0, 1, 2, 3, 4), reachedByName(all...), silenced(time.Second, 5), clearStatus,
				func(o *observed) {
					each(o, idOf(5), func(e *redisnode.Entry) { e.Failed, e.Slots = true, redisnode.NewSlots(1) })
				}),
			waits("Waiting"),
		},
		"all nodes tell names": {with(six(), withBalancers, names("hostname", all...)), settledIs},
		"a container that restarted tells names again, although the operator does not reach it": {
			with(six(), withBalancers, names("hostname", all...), withDefaults(2), func(o *observed) { saidBy(o, 2, idOf(2)).Hostname = "" }),
			waits("Waiting to reach demo-2").making(set(directiveHostname, 2)...),
		},
		"and then it tells names": {
			with(six(), withBalancers, names("hostname", all...), names("ip", 2)),
			waits("Waiting to reach demo-2").making(set(directiveEndpoints, 2)...),
		},
		"a container that restarted with an old name gets the new one at once": {
			with(six(), withBalancers, names("hostname", all...), names("ip", 2), func(o *observed) {
				o.members[2].directives[directiveHostname] = "old" + domain
				saidBy(o, 2, idOf(2)).Hostname = "old" + domain
			}),
			waits("Waiting to reach demo-2").making(set(both, 2)...),
		},
		"a name that a user took away by CONFIG SET": {
			with(six(), withBalancers, names("hostname", all...), func(o *observed) { saidBy(o, 2, idOf(2)).Hostname = "" }),
			waits("Waiting to reach demo-2").making(set(directiveHostname, 2)...),
		},
		"another name waits until the node is reached by it": {
			with(six(), withBalancers, names("hostname", all...), func(o *observed) { hostnames("{pod}.other" + domain)(o.rdc) }),
			waits("Waiting to reach demo-0 at demo-0.other.example.com:6379"),
		},
		"a node that is reached by another name gets it": {
			with(six(), withBalancers, names("hostname", all...), func(o *observed) {
				hostnames("{pod}.other" + domain)(o.rdc)
				o.members[4].reachedAt = address{IP: "demo-4.other" + domain, Port: 6379}
			}),
			waits("Waiting to reach demo-0").making(set(directiveHostname, 4)...),
		},
		"no names any more: all nodes first tell IPs": {
			with(six(), withBalancers, names("hostname", all...), noNames),
			waits("Waiting").making(set(directiveEndpoints, all...)...),
		},
		"no names any more: no name goes while one node tells names": {
			with(six(), withBalancers, names("ip", all...), names("hostname", 3), noNames),
			waits("Waiting").making(set(directiveEndpoints, 3)...),
		},
		"no names any more: no name goes while a silent node may tell names": {
			with(six(), withBalancers, names("ip", all...), silenced(time.Second, 3), noNames),
			waits("Waiting"),
		},
		"no names any more: a container that does not run tells none": {
			with(six(), withBalancers, names("ip", all...), silenced(time.Second, 3), noNames, podIs(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName}}
			}, 3)),
			waits("Waiting").making(set(directiveHostname, 0, 1, 2, 4, 5)...),
		},
		"no access any more: no Service goes while a silent node may tell names": {
			with(six(), withBalancers, names("ip", all...), silenced(time.Second, 3), func(o *observed) { noAccess(o.rdc) }),
			waits("Waiting for demo-3"),
		},
		"no names any more: then the names go": {
			with(six(), withBalancers, names("ip", all...), noNames),
			waits("Waiting").making(set(directiveHostname, all...)...),
		},
		"no access any more: the Services stay until all nodes tell IPs": {
			with(six(), withBalancers, names("ip", all...), names("hostname", 3), func(o *observed) { noAccess(o.rdc) }),
			decision{step: "Setting directives", upkeep: set(directiveEndpoints, 3), wait: brief},
		},
		"no access any more: then they are deleted": {
			with(six(), withBalancers, names("ip", all...), func(o *observed) { noAccess(o.rdc) }),
			decision{step: "Setting directives", wait: brief,
				upkeep: append(set(directiveHostname, all...), every("delete Service demo-%d", all...)...)},
		},
		"the Service of a node that left": {
			with(six(), withBalancers, names("hostname", all...), func(o *observed) { o.services = append(o.services, serviceOf(o.rdc, 6)) }),
			decision{upkeep: []string{"delete Service demo-6"}, wait: poll},
		},
		"from the IPs of load balancers: the nodes return to those of their Pods": {
			with(six(), withBalancers, names("hostname", all...), announcing(all...), serviceIs(func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: machineIP}}
				s.Spec.Ports = serviceOf(six().rdc, 0).Spec.Ports
				s.Spec.Ports[0].Port, s.Spec.Ports[1].Port = int32(nodePortsOf(ordinalIn(s)).Port), int32(nodePortsOf(ordinalIn(s)).Bus)
			}, all...)),
			does("demo-3 announces", "announce address of demo-3 "+ipOf(3)+":6379@16379"),
		},
		"Redis before 7.0 has no names, and no Pod is replaced for that": {
			with(six(), withBalancers, withDefaults(all...), ruled(fixed(directiveHostname, directiveEndpoints))),
			waits("Waiting to reach demo-0"),
		},
		"a node that forbids CONFIG after it got its name stays": {
			with(six(), withBalancers, names("hostname", all...), ruled(fixed(anyDirective)), func(o *observed) { noAccess(o.rdc) }),
			decision{wait: poll},
		},
		"what users prefer by spec.config is theirs": {
			with(six(), running(both+" hostname", all...), func(o *observed) {
				o.rdc.Spec.Config = configOf(directiveEndpoints + " hostname")
				for _, m := range o.members {
					m.pod.Annotations[AnnotationRevision] = revision(o.rdc)
				}
				served(o)
			}),
			decision{upkeep: every("delete Service demo-%d", all...), wait: poll},
		},
	}.run(t)
}

func ordinalIn(s *corev1.Service) int {
	ordinal, _ := ordinalOf("demo-", s.Name)
	return ordinal
}

// TestTheDefaultsOfHostnamesAreRecorded has a node that started with its name: without spec.access, it returns to no name.
func TestTheDefaultsOfHostnamesAreRecorded(t *testing.T) {
	for sentence, test := range map[string]struct {
		before, want map[string]string
	}{
		"a node without a name":         {hostnameDefaults, hostnameDefaults},
		"a node that started with it":   {map[string]string{directiveHostname: nameOf(3), directiveEndpoints: "ip"}, hostnameDefaults},
		"a node that a user gave names": {map[string]string{directiveHostname: "a", directiveEndpoints: "unknown-endpoint"}, nil},
	} {
		o := with(six(), withBalancers, func(o *observed) {
			o.members[3].directives = test.before
			saidBy(o, 3, idOf(3)).Hostname = test.before[directiveHostname]
		})
		set, want := o.members[3].withDirectives([]string{directiveHostname, directiveEndpoints}), test.want
		if want == nil {
			want = test.before
		}
		for name, value := range want {
			if set[name] == nil || *set[name] != value {
				t.Errorf("%s: the value before of %s is %v, want %q", sentence, name, set[name], value)
			}
		}
	}
}

func TestPortsOfServicesWithHostnames(t *testing.T) {
	withPorts := func(numbers ...int32) *corev1.Service {
		s := serviceOf(six().rdc, 0)
		for i, number := range numbers {
			s.Spec.Ports[i].Port = number
		}
		s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, s.Spec.Ports[:len(numbers)]
		return s
	}
	for sentence, test := range map[string]struct {
		existing *corev1.Service
		used     bool
		want     address
	}{
		"a new Service": {nil, true, address{Port: 6379}},
		"one with other ports that a node announces":    {withPorts(7000, 17000), true, address{Port: 7000, Bus: 17000}},
		"one that no node announces":                    {withPorts(7000, 17000), false, address{Port: 6379}},
		"one without a port of the bus":                 {withPorts(7000), true, address{Port: 6379}},
		"one without a port of the bus, and not in use": {withPorts(6379), false, address{Port: 6379}},
	} {
		o := with(six(), withBalancers)
		if got := o.servicePorts(o.members[0], test.existing, test.used); got != test.want {
			t.Errorf("%s has the ports %v, want %v", sentence, got, test.want)
		}
	}
	o := with(six(), withBalancers, func(o *observed) { o.rdc.Spec.Addr = "10.0.0.1:7000" })
	if got := o.servicePorts(o.members[0], nil, false); got != (address{Port: 6379}) {
		t.Errorf("the Service of a Pod that is not replaced yet has the ports %v", got)
	}
}

func TestStatusWithHostnames(t *testing.T) {
	o := with(six(), withBalancers, names("hostname", 0, 1, 2), names("ip", 3, 4, 5), ruled(fixed(directiveHostname)))
	o.members[4].whyUnreached, o.members[4].addressMissedFor = "no such host", time.Minute
	for i, n := range statusOf(o, decide(o), outcome{}).Nodes {
		want := ""
		if i < 3 {
			want = nameOf(i) + ":6379"
		}
		if n.Address != want {
			t.Errorf("%s has the address %q, want %q", n.Pod, n.Address, want)
		}
	}
	var all []string
	for _, p := range memberProblems(o) {
		all = append(all, p.Reason+" "+p.Message)
	}
	for _, want := range []string{
		"DirectiveRejected Redis in demo-0 cannot set cluster-announce-hostname and cluster-preferred-endpoint-type while it runs: use an",
		"AddressUnreachable The operator has not reached demo-4 by its hostname, at demo-4.example.com:6379, for more than 30s, and waits",
	} {
		if !slices.ContainsFunc(all, func(p string) bool { return strings.HasPrefix(p, want) }) {
			t.Errorf("the problems are %q, and none is %q", all, want)
		}
	}
}

// A node is reached by its name on the ports for clients. Its certificate must have that name: clients verify it.
func TestANodeIsReachedByItsName(t *testing.T) {
	const plain, secure = "demo-3.example.com:6379 ", "demo-3.example.com:6380 demo-3.example.com"
	const both = plain + "(connected)" + secure
	for sentence, test := range map[string]struct {
		alters []alter
		want   string
	}{
		"without TLS":     {[]alter{withBalancers}, plain},
		"TLS for clients": {[]alter{specTLS(v1.TLSPreferred), withBalancers, secured(transportPlain, false, all...)}, both},
		"TLS among nodes": {[]alter{specTLS(v1.TLSPreferred), withBalancers, secured(transportBoth, true, all...)}, both},
		"TLS alone":       {[]alter{specTLS(v1.TLSRequired), withBalancers, secured(transportOnly, true, all...)}, secure},
	} {
		o := with(six(), test.alters...)
		o.rdc.Status.TLS = &v1.TLSStatus{Fingerprint: "pinned"}
		m, got := o.members[3], ""
		dial := func(host string, port int, login redisnode.Login) Node {
			text := fmt.Sprintf("%s:%d %s%s", host, port, login.TLS.Name, login.TLS.Pin)
			return portNode{id: m.id, asked: func() { got += text }, connected: func() { got += text + "(connected)" }}
		}
		c := &Controller{sessions: &sessions{byKey: map[cache.ObjectName]*session{}, dial: dial}}
		if err := c.reach(t.Context(), o.rdc, m, o.externalOf(m)); err != nil || got != test.want {
			t.Errorf("%s: asked at %q (%v), want %q", sentence, got, err, test.want)
		}
	}
}

// A hostname that Redis rejects is not tried again, and another one is.
func TestARejectedHostname(t *testing.T) {
	rejects := ruled(directiveRules{refused: map[[3]string]bool{{v1.DefaultImage, directiveHostname, nameOf(3)}: true}})
	o := with(six(), withBalancers, withDefaults(all...), rejects)
	p := o.hostnameProblem()
	if p == nil || p.Message != "Redis in demo-3 rejected the hostname demo-3.example.com: change spec.access.external.hostname" {
		t.Errorf("the problem is %v", p)
	}
	if commands := textsOf(directiveCommands(o)); len(commands) != 5 {
		t.Errorf("the commands are %q", commands)
	}
	hostnames("{pod}.other" + domain)(o.rdc)
	o.markOutdated()
	if commands := textsOf(directiveCommands(o)); len(commands) != 6 || o.hostnameProblem() != nil {
		t.Errorf("with another name, the commands are %q, and the problem is %v", commands, o.hostnameProblem())
	}
}
