// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

const machineIP = "192.0.2.1"

// nodePortsOf is the address of a member's Service in the tables below.
func nodePortsOf(ordinal int) manifest.Address {
	return manifest.Address{IP: machineIP, Port: 30000 + ordinal, Bus: 31000 + ordinal}
}

func serviceOf(rdc *v1.RedisCluster, ordinal int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: manifest.PodName(rdc, ordinal), Labels: map[string]string{manifest.LabelExternal: strconv.Itoa(ordinal)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rdc, kind)},
	}}
	at := nodePortsOf(ordinal)
	s.Spec.Type = corev1.ServiceTypeNodePort
	s.Spec.Ports = []corev1.ServicePort{
		{Name: manifest.PortRedis, Port: 6379, NodePort: int32(at.Port)}, {Name: manifest.PortBus, Port: 16379, NodePort: int32(at.Bus)},
	}
	return s
}

// served gives each member a Service. All Pods are on machines with the same IP.
func served(o *observed) {
	if len(o.Services) > 0 {
		return
	}
	for _, m := range o.Members {
		o.Services = append(o.Services, serviceOf(o.Object, m.Ordinal))
		if m.Pod != nil {
			m.Pod.Status.HostIP = machineIP
		}
	}
	o.matchServices()
}

// opening is a cluster to which clients outside of it are to have access.
func opening(o *observed) {
	external(v1.ExternalNodePort)(o.Object)
	served(o)
}

func serviceIs(f func(*corev1.Service), ordinals ...int) alter {
	return changed(func(m *member) { f(m.service) }, ordinals...)
}

// withoutService takes the Services of members away.
func withoutService(ordinals ...int) alter {
	return func(o *observed) {
		o.Services = slices.DeleteFunc(o.Services, func(s *corev1.Service) bool {
			return slices.ContainsFunc(ordinals, func(i int) bool { return s.Name == manifest.PodName(o.Object, i) })
		})
		o.matchServices()
	}
}

// selected gives Pods the label by which their Services select them.
func selected(ordinals ...int) alter {
	return podIs(func(p *corev1.Pod) { p.Labels[manifest.LabelExternal] = p.Name[len("demo-"):] }, ordinals...)
}

// reachedNodes are members that the operator reached at the addresses of their Services.
func reachedNodes(ordinals ...int) alter {
	return changed(func(m *member) { m.ReachedAt = nodePortsOf(m.Ordinal) }, ordinals...)
}

// announcing makes members announce the addresses of their Services, as all others know.
func announcing(ordinals ...int) alter {
	return func(o *observed) {
		selected(ordinals...)(o)
		for _, i := range ordinals {
			each(o, idOf(i), func(e *redisnode.Entry) { setAddress(e, nodePortsOf(i)) })
			setAddress(saidBy(o, i, idOf(i)), nodePortsOf(i))
			if tls := o.Members[i].View.TLS; tls != nil {
				tls.AnnouncedPort, tls.AnnouncedTLSPort = nodePortsOf(i).Port, securePortOf(i)
			}
		}
	}
}

func securePortOf(ordinal int) int { return 32000 + ordinal }

// secureAt is the address of a member's Service if its node has TLS.
func secureAt(ordinal int) manifest.Address {
	a := nodePortsOf(ordinal)
	a.TLS = securePortOf(ordinal)
	return a
}

// openingTLS is a cluster with TLS to which clients outside of it are to have access.
func openingTLS(annotation string, bus bool) alter {
	return func(o *observed) {
		specTLS(v1.TLSPreferred)(o)
		opening(o)
		secured(annotation, bus, all...)(o)
		for i, m := range o.Members {
			m.service.Spec.Ports = append(m.service.Spec.Ports,
				corev1.ServicePort{Name: manifest.PortTLS, Port: 6380, NodePort: int32(securePortOf(i))})
		}
	}
}

// closing is a cluster with access that leaves TLS.
func closing(annotation string) alter {
	return func(o *observed) {
		openingTLS(annotation, true)(o)
		o.Object.Spec.TLS.Mode = modeLeaving
	}
}

// reachedSecurely are six members that the operator reached at the addresses of their Services, with TLS.
var reachedSecurely = changed(func(m *member) { m.ReachedAt = secureAt(m.Ordinal) }, all...)

func setAddress(e *redisnode.Entry, a manifest.Address) {
	e.IP, e.Port, e.BusPort = a.IP, a.Port, a.Bus
}

// announcingAlone makes a member announce the address of its Service, of which no other member has heard.
func announcingAlone(ordinal int) alter {
	return func(o *observed) {
		selected(ordinal)(o)
		setAddress(saidBy(o, ordinal, idOf(ordinal)), nodePortsOf(ordinal))
	}
}

func unreachedFor(d time.Duration, ordinals ...int) alter {
	return changed(func(m *member) { m.UnreachedFor = duration(d) }, ordinals...)
}

// doubted makes one member say "fail?" of another, at a link that it shows as connected.
func doubted(ordinal, by int) alter {
	return func(o *observed) { saidBy(o, by, idOf(ordinal)).MaybeFailed = true }
}

// inVain makes a replica ask for data at the address of a Service, in vain.
func inVain(ordinal, by int) alter {
	return viewed(func(v *redisnode.View) {
		v.LinkUp, v.MasterIP, v.MasterPort = false, machineIP, nodePortsOf(ordinal).Port
	}, by)
}

// otherHost is another IP of all machines.
var otherHost = podIs(func(p *corev1.Pod) { p.Status.HostIP = "192.0.2.7" }, all...)

// missing are members that the operator has not reached at the addresses of their Services for this time.
func missing(d time.Duration, ordinals ...int) alter {
	return changed(func(m *member) { m.WhyUnreached, m.AddressMissedFor = "no route", duration(d) }, ordinals...)
}

// givenUp gives Pods the annotation with the addresses of their Services.
func givenUp(ordinals ...int) alter {
	return changed(func(m *member) { m.Pod.Annotations[manifest.AnnotationUnreachable] = nodePortsOf(m.Ordinal).String() }, ordinals...)
}

func balancedBy(o *observed) { external(v1.ExternalLoadBalancer)(o.Object) }

// accessHappenings are what may happen to the addresses of nodes.
func accessHappenings() []happening {
	all := func(words string, a alter) happening {
		return happening{words, func(*rand.Rand, int) alter { return a }}
	}
	one := func(words string, f func(...int) alter) happening {
		return happening{words, func(r *rand.Rand, n int) alter { return f(r.Intn(n)) }}
	}
	return []happening{
		all("opening", opening), all("Services", served), all("load balancers", balancedBy),
		one("labelled", selected), one("announces", announcing), one("reached", reachedNodes), one("given up", givenUp),
		one("announces, and no other node has heard", func(i ...int) alter { return announcingAlone(i[0]) }),
		one("not reached", func(i ...int) alter { return unreachedFor(time.Hour, i...) }),
		one("no Service", withoutService),
	}
}

// harmOfAddress is about the address of a node.
func (s scene) harmOfAddress(c command) string {
	if c.verb == deleteService {
		for _, m := range s.Members {
			if m.answers() && slices.ContainsFunc(m.View.Table, func(e redisnode.Entry) bool {
				return slices.ContainsFunc(s.Services, func(of *corev1.Service) bool {
					return of.Name == c.names[0] && manifest.Serves(of, addressOf(&e))
				})
			}) {
				return "is announced, as " + m.Name + " knows"
			}
		}
		return ""
	}
	if !c.on.answers() {
		return "does not answer"
	}
	if c.verb == announce && c.names[0] != c.on.own().String() && (c.names[0] != c.on.ReachedAt.String() || !manifest.IsExternal(c.on.Pod)) {
		return "was not reached there"
	}
	return ""
}

func TestDecideAccess(t *testing.T) {
	back := func(i int) string { return fmt.Sprintf("announce address of demo-%d %s:6379@16379", i, ipOf(i)) }
	forth := func(i int) string { return fmt.Sprintf("announce address of demo-%d %s", i, nodePortsOf(i)) }
	port := func(which int, number int32, ordinals ...int) alter {
		return serviceIs(func(s *corev1.Service) { s.Spec.Ports[which].NodePort = number }, ordinals...)
	}
	announced, without3 := announcing(all...), announcing(0, 1, 2, 4, 5)
	prepared := func(o *observed) { opening(o); selected(all...)(o); reachedNodes(all...)(o) }
	tls := openingTLS(manifest.TransportBoth, true)
	unreached3 := func(o *observed) { missed(3, 0)(o); unreachedFor(time.Minute, 3)(o) }
	switched := decision{step: "Switching 6", commands: []string{"switch TLS of demo-0 demo-1 demo-2 demo-3 demo-4 demo-5"}, wait: soon}
	cases{
		{"Pods are labelled before their nodes announce anything", with(six(), opening), sends(every("label demo-%d", all...)...)},
		{"a replica is first", with(six(), prepared), sends("announce address of demo-3 192.0.2.1:30003@31003")},
		{"a master comes after all replicas", with(six(), prepared, announcing(3, 4, 5)), sends(forth(0))},
		{"no node changes while any replica is behind", with(six(), prepared, announcing(0, 3, 4, 5), linkDown(3)),
			waits("for demo-3 to be up to date with its master")},
		{"no node changes while one that leaves is not reached",
			with(sixAnd(replica(0)), sized(6), prepared, announcing(3, 6), missed(6, 0)),
			sends(append(every("forget demo-%d id-6", all...), "delete Pod demo-6")...)},
		{"an address that is not allocated delays nothing else", with(sixAnd(newcomer(), newcomer()), opening, port(0, 0, all...)),
			sends("meet demo-6 demo-0", "meet demo-7 demo-0")},
		{"an address is not allocated", with(six(), opening, without3, port(0, 0, 3)), waits("for the address of the Service demo-3")},
		{"a node is not reached, and the others go on", with(six(), opening, selected(all...), reachedNodes(0, 1, 2, 5)), sends(forth(5))},
		{"another address was reached", with(six(), opening, without3, selected(3), reachedNodes(3), port(0, 1, 3)),
			waits("to reach demo-3 at 192.0.2.1:1@31003")},
		{"another port of the bus is another address",
			with(six(), opening, announced, func(o *observed) { saidBy(o, 0, idOf(3)).BusPort = 16379 }), sends("meet demo-0 demo-3")},
		{"the next one waits until the others reach it", with(six(), prepared, announcing(3), missed(3, 0), unreachedFor(time.Second, 3)),
			waitsBriefly("demo-0 does not reach demo-3")},
		{"the others do not reach it", with(six(), prepared, announcing(3), unreached3),
			sends("give up address of demo-3 192.0.2.1:30003@31003", back(3))},
		{"the operator ended after it gave an address up", with(six(), prepared, announcing(3), missed(3, 0), givenUp(3)), sends(back(3))},
		{"an address that was given up is left alone", with(six(), opening, without3, selected(3), reachedNodes(3), givenUp(3)), settledIs},
		{"the Services of two nodes are gone", with(six(), opening, announced, withoutService(0, 3)), sends(back(3))},
		{"the Services of all nodes are gone: replicas return at once", with(six(), opening, announced, withoutService(all...)),
			sends(back(3), back(4), back(5))},
		{"masters return one after the other while they are reached", with(six(), opening, announcing(0, 1, 2), withoutService(all...)),
			sends(back(0))},
		{"masters that are not reached return at once",
			with(six(), opening, announcing(0, 1, 2), withoutService(all...), missed(0, 3), missed(1, 3)), sends(back(0), back(1))},
		{"a master that is reached at an address that its Service had", with(six(), opening, announced, port(0, 1, 0)), sends(back(0))},
		{"another IP of the machine",
			with(six(), opening, announced, otherHost, reachedNodes(0), func(o *observed) { o.Members[0].ReachedAt.IP = "192.0.2.7" }),
			sends("announce address of demo-0 192.0.2.7:30000@31000")},
		{"another IP at which no node is reached yet", with(six(), opening, announced, otherHost, missing(time.Second, all...)),
			waits("to reach demo-0 at 192.0.2.7:30000@31000: no route")},
		{"another IP at which no node is reached for long", with(six(), opening, announced, otherHost, missing(time.Minute, all...)),
			sends(back(3))},
		{"while a node has given its address up, no other announces one", with(six(), prepared, announcing(4), givenUp(3)), settledIs},
		{"not even while it is silent", with(six(), prepared, announcing(4), givenUp(3), silenced(time.Minute, 3)), waits("for demo-3")},
		{"but others return", with(six(), served, announcing(4), selected(all...), givenUp(3)),
			sends(back(4)).making(every("delete Service demo-%d", 0, 1, 2, 3, 5)...)},
		{"another address was given up", with(six(), prepared, announcing(4), givenUp(3),
			podIs(func(p *corev1.Pod) { p.Annotations[manifest.AnnotationUnreachable] = "192.0.2.9:1@2" }, 3)), sends(forth(3))},
		{"a leaving node keeps its address", with(sixAnd(newcomer()), opening, announced, sized(6), forgotten(idOf(6), all...)),
			sends("delete Pod demo-6")},
		{"no access any more: one after the other, replicas first", with(six(), served, announced), sends(back(3))},
		{"no access any more: Services are deleted when no node knows their addresses",
			with(six(), served, selected(all...), announcing(2)),
			sends(back(2)).making(every("delete Service demo-%d", 0, 1, 3, 4, 5)...)},
		{"no access any more: no Service is deleted while a silent node may announce its address",
			with(six(), served, announcing(5), silenced(time.Minute, 5)),
			waits("for demo-5").making(every("delete Service demo-%d", 0, 1, 2, 3, 4)...)},
		{"no access any more: no Service is deleted while no node answers",
			with(six(), served, announced, silenced(time.Minute, all...)), waits("for demo-0")},
		{"the Services of another type are deleted", with(six(), served, balancedBy, selected(all...)),
			waits("for the address of the Service demo-0").making(every("delete Service demo-%d", all...)...)},
		{"the Service of a node that left",
			with(six(), opening, announced, func(o *observed) { o.Services = append(o.Services, serviceOf(o.Object, 6)) }),
			settledIs.making("delete Service demo-6")},
		{"with TLS, a node announces the port for TLS, too", with(six(), tls, selected(all...), reachedSecurely),
			sends("announce address of demo-3 " + secureAt(3).String())},
		{"with TLS, all announce both ports, and others know the one for TLS",
			with(six(), openingTLS(manifest.TransportOnly, true), spec(func(s *v1.RedisClusterSpec) { s.TLS.Mode = v1.TLSRequired }), announced,
				func(o *observed) {
					for _, i := range all {
						each(o, idOf(i), func(e *redisnode.Entry) { e.Port = securePortOf(i) })
					}
				}), settledIs},
		{"with TLS, the port for TLS is not allocated", with(six(), tls, selected(all...), port(2, 0, 0)),
			waits("for the address of the Service demo-0")},
		{"with TLS, the operator has reached the port without TLS alone", with(six(), tls, selected(all...), reachedNodes(all...)),
			waits("to reach demo-0 at " + secureAt(0).String())},
		{"with TLS, a Service has another port for TLS", with(six(), tls, announced, port(2, 1, 3)), sends(back(3) + ",,tls-port=6380")},
		{"with TLS, another port for TLS is known of a node",
			with(six(), tls, announced, func(o *observed) { saidBy(o, 0, idOf(3)).Port = securePortOf(4) }), sends("meet demo-0 demo-3")},
		{"with TLS, the others do not reach a node", with(six(), tls, announced, unreached3),
			sends("give up address of demo-3 "+secureAt(3).String(), back(3)+",,tls-port=6380")},
		{"with TLS, the certificate has expired", with(six(), tls, announced, unreached3, invalidCertificate),
			waitsBriefly("demo-0 does not reach demo-3")},
		{"TLS alone is left by way of both ports", with(six(), closing(manifest.TransportOnly), announced),
			sends(every("record TLS of demo-%d both", all...)...)},
		{"if the operator ends meanwhile, the next one goes the same way",
			with(six(), closing(manifest.TransportOnly), announced,
				podIs(func(p *corev1.Pod) { p.Annotations[manifest.AnnotationTLS] = manifest.TransportBoth }, 0)),
			sends(every("record TLS of demo-%d both", all[1:]...)...)},
		{"the ports are opened, and the switch is not taken back",
			with(six(), closing(manifest.TransportBoth), announced, tlsIs(func(s *redisnode.TLSState) { s.Plain = false }, all...)), switched},
		{"a port without TLS is not reached",
			with(six(), closing(manifest.TransportBoth), announced, reachedSecurely,
				func(o *observed) { o.Members[4].ReachedAt = manifest.Address{} }),
			waits("to reach demo-4 at " + secureAt(4).String() + " also without TLS")},
		{"all ports without TLS are reached", with(six(), closing(manifest.TransportBoth), announced, reachedSecurely),
			sends(every("record TLS of demo-%d ", all...)...)},
		{"a node at the IP of its Pod needs no port of a Service",
			with(six(), closing(manifest.TransportBoth), without3, selected(3), reachedSecurely, changed(func(m *member) {
				m.ReachedAt, m.Pod.Annotations[manifest.AnnotationUnreachable] = manifest.Address{}, secureAt(3).String()
			}, 3)), sends(every("record TLS of demo-%d ", all...)...)},
		{"a switch is completed before an address changes",
			with(six(), openingTLS(manifest.TransportBoth, false), selected(all...), reachedSecurely), switched},
		{"a switch begins after all addresses",
			with(six(), openingTLS(manifest.TransportPlain, false), without3, selected(3), reachedSecurely),
			sends("announce address of demo-3 " + secureAt(3).String())},
		{"a Pod without a certificate among those with one",
			with(six(), openingTLS(manifest.TransportPlain, false), func(o *observed) {
				o.Members[3].Pod, o.Members[3].View.TLS = podAt(manifest.WithTLSSpec(o.Object, nil), 3), nil
				o.Members[3].Pod.Status.HostIP = machineIP
			}, without3, selected(3), reachedNodes(3)), sends(forth(3))},
		{"a replica asks at the port of another node", with(six(), opening, announced, inVain(1, 3)), sends("replicate demo-3 demo-0")},
		{"without Services, the port alone does not matter",
			with(six(), viewed(func(v *redisnode.View) { v.LinkUp, v.MasterIP, v.MasterPort = false, ipOf(0), 1 }, 3)),
			waits("for demo-3 to be up to date with its master")},
		{"without Services, a node that announces another IP is introduced",
			with(six(), func(o *observed) { each(o, idOf(3), func(e *redisnode.Entry) { e.IP = machineIP }) }),
			sends(every("meet demo-%d demo-3", 0, 1, 2, 4, 5)...)},
	}.run(t)
}

func TestExternalAddress(t *testing.T) {
	rdc := six().Object
	pod := podAt(rdc, 0)
	pod.Status.HostIP, pod.Spec.NodeName = machineIP, "machine"
	balancer := func(ingress ...corev1.LoadBalancerIngress) *corev1.Service {
		s := serviceOf(rdc, 0)
		s.Spec.Type, s.Status.LoadBalancer.Ingress = corev1.ServiceTypeLoadBalancer, ingress
		return s
	}
	deleted := serviceOf(rdc, 0)
	deleted.DeletionTimestamp = &metav1.Time{Time: seenAt}
	unnamed := serviceOf(rdc, 0)
	unnamed.Spec.Ports = unnamed.Spec.Ports[:1]
	hosts := []v1.Host{{Name: "other", IP: "192.0.2.8"}, {Name: "machine", IP: "192.0.2.7"}}
	nodePort, atHosts := v1.ExternalAccess{Type: v1.ExternalNodePort}, v1.ExternalAccess{Type: v1.ExternalNodePort, Hosts: hosts}
	balanced := v1.ExternalAccess{Type: v1.ExternalLoadBalancer}
	for name, test := range map[string]struct {
		spec    *v1.ExternalAccess
		service *corev1.Service
		want    manifest.Address
	}{
		"no access":                     {nil, serviceOf(rdc, 0), manifest.Address{}},
		"no Service":                    {&nodePort, nil, manifest.Address{}},
		"ports of the machine":          {&nodePort, serviceOf(rdc, 0), nodePortsOf(0)},
		"another IP of the machine":     {&atHosts, serviceOf(rdc, 0), manifest.Address{IP: "192.0.2.7", Port: 30000, Bus: 31000}},
		"no port of the bus":            {&nodePort, unnamed, manifest.Address{}},
		"a Service that is deleted":     {&nodePort, deleted, manifest.Address{}},
		"a Service of another type":     {&balanced, serviceOf(rdc, 0), manifest.Address{}},
		"a load balancer without an IP": {&balanced, balancer(), manifest.Address{}},
		"a load balancer with a name":   {&balanced, balancer(corev1.LoadBalancerIngress{Hostname: "a.example.com"}), manifest.Address{}},
		"a load balancer": {&balanced, balancer(corev1.LoadBalancerIngress{IP: "192.0.2.9"}),
			manifest.Address{IP: "192.0.2.9", Port: 6379, Bus: 16379}},
	} {
		rdc.Spec.Access = &v1.Access{External: test.spec}
		got := manifest.ExternalAddress(rdc, test.service, pod)
		if got != test.want || (got != (manifest.Address{}) && !manifest.Serves(test.service, got)) {
			t.Errorf("%s: the address is %v, want %v, and the Service serves it: %t", name, got, test.want, manifest.Serves(test.service, got))
		}
	}
	for _, a := range []manifest.Address{nodePortsOf(0), {IP: "fd00::1", Port: 1, TLS: 3, Bus: 2}} {
		if got := manifest.AddressIn(a.String()); got != a {
			t.Errorf("%s is read as %v", a, got)
		}
	}
}

// TestPortsOfServicesStay has another port of the cluster. The API server would allocate other ports of the machines.
func TestPortsOfServicesStay(t *testing.T) {
	rdc := six().Object
	external(v1.ExternalNodePort)(rdc)
	existing, unnamed := serviceOf(rdc, 0), serviceOf(rdc, 0)
	unnamed.Spec.Ports = unnamed.Spec.Ports[:1]
	rdc.Spec.Addr = "10.0.0.1:7000"
	for name, test := range map[string]struct {
		existing *corev1.Service
		tls      int
		want     []int32
	}{
		"a new Service":                     {nil, 0, []int32{7000, 17000}},
		"one that exists":                   {existing, 0, []int32{6379, 16379}},
		"one without a port of the bus":     {unnamed, 0, []int32{7000, 17000}},
		"one that gets TLS":                 {existing, 6380, []int32{6379, 16379, 6380}},
		"one that gets TLS at its old port": {existing, 6379, []int32{6379, 16379, 6380}},
	} {
		var got []int32
		for _, p := range manifest.ExternalService(rdc, 0, manifest.KeptPorts(rdc, test.tls, test.existing)).Spec.Ports {
			got = append(got, *p.Port)
			if p.TargetPort.StrVal != *p.Name {
				t.Errorf("%s: the port %s leads to %v", name, *p.Name, p.TargetPort)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s has the ports %v, want %v", name, got, test.want)
		}
	}
}

// TestASilentNodeHasItsAddress has a member whose ID only the other nodes know.
func TestASilentNodeHasItsAddress(t *testing.T) {
	for name, test := range map[string]struct {
		alters []alter
		want   string
	}{
		"at the IP of its Pod":        {nil, idOf(3)},
		"at the address of a Service": {[]alter{announcing(3)}, idOf(3)},
		"a new Pod does not have the address of the one before": {
			[]alter{announcing(3), podIs(func(p *corev1.Pod) { delete(p.Labels, manifest.LabelExternal) }, 3)}, ""},
	} {
		o := with(six(), append(append([]alter{opening}, test.alters...), silenced(time.Minute, 3), clearStatus)...)
		if o.identify(); o.Members[3].ID != test.want {
			t.Errorf("%s: the ID is %q, want %q", name, o.Members[3].ID, test.want)
		}
	}
}

// TestUnreachedNodes tells a node whose address is wrong from one that does not reach the others.
func TestUnreachedNodes(t *testing.T) {
	others := func(by int) alter {
		return func(o *observed) {
			for _, i := range all {
				if i != by {
					missed(i, by)(o)
				}
			}
		}
	}
	announced, without3 := announcing(all...), announcing(0, 1, 2, 4, 5)
	copies := viewed(func(v *redisnode.View) { v.Syncing = true }, 3)
	for name, test := range map[string]struct {
		alters []alter
		want   []int
	}{
		"all are reached":                   {[]alter{announced}, nil},
		"one is not reached by one other":   {[]alter{announced, missed(3, 0)}, []int{3}},
		"one does not reach any other":      {[]alter{announced, others(0)}, nil},
		"no node reaches another":           {[]alter{announced, others(0), others(1), others(2), others(3), others(4), others(5)}, all},
		"the IP of a Pod is not reached":    {[]alter{without3, missed(3, 0)}, nil},
		"one has not heard of the address":  {[]alter{without3, announcingAlone(3), missed(3, 0)}, nil},
		"a link seems connected, and fails": {[]alter{announced, doubted(3, 0)}, []int{3}},
		"one fails to reach any other": {
			[]alter{announced, doubted(1, 0), doubted(2, 0), doubted(3, 0), doubted(4, 0), doubted(5, 0)}, nil},
		"a replica asks there in vain":           {[]alter{announced, inVain(0, 3)}, []int{0}},
		"a replica asks there, and copies":       {[]alter{announced, inVain(0, 3), copies}, nil},
		"a replica asks at another address":      {[]alter{announced, inVain(1, 3)}, nil},
		"no other node answers":                  {[]alter{announced, silenced(time.Minute, 1, 2, 3, 4, 5)}, nil},
		"a node that is not reached is not seen": {[]alter{announced, missed(3, 0), silenced(time.Minute, 3)}, nil},
	} {
		var got []int
		o := with(six(), append([]alter{opening}, test.alters...)...)
		for _, m := range o.Members {
			if m.answers() && o.isUnreached(m) {
				got = append(got, m.Ordinal)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: not reached are %v, want %v", name, got, test.want)
		}
	}
}

// TestTLSInterrupts tells addresses that are wrong from certificates and switches by which nodes do not reach each other.
func TestTLSInterrupts(t *testing.T) {
	tls := func(alters ...alter) []alter {
		return append([]alter{openingTLS(manifest.TransportBoth, true)}, alters...)
	}
	for name, test := range map[string]struct {
		alters []alter
		want   bool
	}{
		"no TLS":                          {[]alter{opening}, false},
		"TLS":                             {tls(), false},
		"a certificate that has expired":  {tls(invalidCertificate), true},
		"but the nodes do not use it yet": {[]alter{openingTLS(manifest.TransportPlain, false), invalidCertificate}, false},
		"a node that is not trusted":      {tls(func(o *observed) { silenced(time.Second, 2)(o); o.Members[2].Untrusted = true }), true},
		"a node with another certificate": {tls(func(o *observed) { o.Members[2].StaleCertificate = true }), true},
		"links of before a switch":        {tls(noFailoverFor(time.Second, 2)), true},
		"Pods that differ":                {tls(podIs(func(p *corev1.Pod) { delete(p.Annotations, manifest.AnnotationTLS) }, 2)), true},
		"nodes that differ":               {tls(tlsIs(func(s *redisnode.TLSState) { s.Cluster = false }, 2)), true},
	} {
		o := with(six(), append([]alter{test.alters[0], announcing(all...), missed(3, 0)}, test.alters[1:]...)...)
		interrupts := o.tlsInterrupts()
		(&session{since: map[string]time.Time{}, seen: map[string]bool{}}).recallAddresses(o)
		if counts := o.Members[3].UnreachedFor.Duration > 0; interrupts != test.want || counts == test.want {
			t.Errorf("%s: TLS interrupts: %t, and that the node is not reached counts: %t", name, interrupts, counts)
		}
	}
}

func TestStatusHasAddresses(t *testing.T) {
	o := with(six(), opening, announcing(0, 3), selected(1, 2, 4), givenUp(1))
	missing(time.Minute, 2)(o)
	missing(time.Second, 4)(o)
	for i, n := range statusFor(o).Nodes {
		if want := map[int]string{0: "192.0.2.1:30000", 3: "192.0.2.1:30003"}[i]; n.Address != want {
			t.Errorf("%s has the address %q, want %q", n.Pod, n.Address, want)
		}
	}
	var reasons []string
	for _, p := range memberProblems(o) {
		reasons = append(reasons, p.Reason+" "+p.Message[:min(len(p.Message), 60)])
	}
	want := []string{
		"AddressUnreachable The other nodes did not reach demo-1 at 192.0.2.1:30001@3100",
		"AddressUnreachable The operator has not reached demo-2 at 192.0.2.1:30002@31002",
	}
	if !slices.Equal(reasons, want) {
		t.Errorf("the problems are %q, want %q", reasons, want)
	}
	if op := operation(o, plan{Policy: "announceAddresses", Step: "some"}); op.Type != opConfigure {
		t.Errorf("the operation is %s", op.Type)
	}
}

func nameOf(ordinal int) string { return manifest.PodName(six().Object, ordinal) + domain }

// withBalancers is a cluster with load balancers that have IPs and a hostname. The operator has labelled the Pods.
func withBalancers(o *observed) {
	hostnames("{pod}" + domain)(o.Object)
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
	return changed(func(m *member) { m.directives = maps.Clone(hostnameDefaults) }, ordinals...)
}

// reachedByName are members that the operator reached by their hostnames.
func reachedByName(ordinals ...int) alter {
	return changed(func(m *member) { m.ReachedAt = manifest.Address{IP: nameOf(m.Ordinal), Port: 6379} }, ordinals...)
}

func TestDecideHostnames(t *testing.T) {
	const both = directiveHostname + " " + directiveEndpoints
	set := func(names string, ordinals ...int) []string {
		return every("set directives of demo-%d "+names, ordinals...)
	}
	hostname := func(of, by int, is string) alter {
		return func(o *observed) { saidBy(o, by, idOf(of)).Hostname = is }
	}
	failed := func(slots ...int) alter {
		return func(o *observed) {
			each(o, idOf(5), func(e *redisnode.Entry) { e.Failed, e.Slots = true, redisnode.NewSlots(slots...) })
		}
	}
	named, tells := names("ip", all...), names("hostname", all...)
	noNames := func(o *observed) { external(v1.ExternalLoadBalancer)(o.Object) }
	closed := func(o *observed) { noAccess(o.Object) }
	renamed := func(o *observed) { hostnames("{pod}.other" + domain)(o.Object) }
	cases{
		{"all nodes get their names at once", with(six(), withBalancers, withDefaults(all...)),
			waits("to reach demo-0 at demo-0.example.com:6379").making(set(directiveHostname, all...)...)},
		{"the load balancers have no address yet",
			with(six(), withBalancers, named, serviceIs(func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }, 0)),
			waits("for the address of the Service demo-0")},
		{"clients get names when all nodes are reached by them", with(six(), withBalancers, named, reachedByName(all...)),
			waits("until demo-0 tells clients the hostname").making(set(directiveEndpoints, all...)...)},
		{"one node is not reached by its name", with(six(), withBalancers, named, reachedByName(all[1:]...)), waits("to reach demo-0")},
		{"a node does not tell names before it knows all of them",
			with(six(), withBalancers, named, reachedByName(all...), hostname(3, 2, "")),
			waits("until demo-0").making(set(directiveEndpoints, 0, 1, 3, 4, 5)...)},
		{"the name of a failed node is not needed",
			with(six(), withBalancers, names("ip", 0, 1, 2, 3, 4), reachedByName(all...), silenced(time.Second, 5), clearStatus, failed()),
			waits("Waiting").making(set(directiveEndpoints, 0, 1, 2, 3, 4)...)},
		{"the name of a failed master is needed",
			with(six(), withBalancers, names("ip", 0, 1, 2, 3, 4), reachedByName(all...), silenced(time.Second, 5), clearStatus, failed(1)),
			waits("Waiting")},
		{"all nodes tell names", with(six(), withBalancers, tells), settledIs},
		{"a container that restarted tells names again, although the operator does not reach it",
			with(six(), withBalancers, tells, withDefaults(2), hostname(2, 2, "")),
			waits("to reach demo-2").making(set(directiveHostname, 2)...)},
		{"and then it tells names", with(six(), withBalancers, tells, names("ip", 2)),
			waits("to reach demo-2").making(set(directiveEndpoints, 2)...)},
		{"a container that restarted with an old name gets the new one at once",
			with(six(), withBalancers, tells, names("ip", 2), hostname(2, 2, "old"+domain),
				changed(func(m *member) { m.directives[directiveHostname] = "old" + domain }, 2)),
			waits("to reach demo-2").making(set(both, 2)...)},
		{"another name waits until the node is reached by it", with(six(), withBalancers, tells, renamed),
			waits("to reach demo-0 at demo-0.other.example.com:6379")},
		{"a node that is reached by another name gets it", with(six(), withBalancers, tells, renamed,
			changed(func(m *member) { m.ReachedAt = manifest.Address{IP: "demo-4.other" + domain, Port: 6379} }, 4)),
			waits("to reach demo-0").making(set(directiveHostname, 4)...)},
		{"no names any more: no name goes while one node tells names", with(six(), withBalancers, named, names("hostname", 3), noNames),
			waits("Waiting").making(set(directiveEndpoints, 3)...)},
		{"no names any more: no name goes while a silent node may tell names",
			with(six(), withBalancers, named, silenced(time.Second, 3), noNames), waits("Waiting")},
		{"no names any more: a container that does not run tells none",
			with(six(), withBalancers, named, silenced(time.Second, 3), noNames, podIs(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: manifest.ContainerName}}
			}, 3)), waits("Waiting").making(set(directiveHostname, 0, 1, 2, 4, 5)...)},
		{"no names any more: then the names go", with(six(), withBalancers, named, noNames),
			waits("Waiting").making(set(directiveHostname, all...)...)},
		{"no access any more: no Service goes while a silent node may tell names",
			with(six(), withBalancers, named, silenced(time.Second, 3), closed), waits("for demo-3")},
		{"no access any more: the Services stay until all nodes tell IPs", with(six(), withBalancers, named, names("hostname", 3), closed),
			waitsBriefly("Setting directives").making(set(directiveEndpoints, 3)...)},
		{"no access any more: then they are deleted", with(six(), withBalancers, named, closed), waitsBriefly("Setting directives").making(
			append(set(directiveHostname, all...), every("delete Service demo-%d", all...)...)...)},
		{"from the IPs of load balancers: the nodes return to those of their Pods",
			with(six(), withBalancers, tells, announcing(all...), changed(func(m *member) {
				m.service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: machineIP}}
				m.service.Spec.Ports = serviceOf(six().Object, 0).Spec.Ports
				at := nodePortsOf(m.Ordinal)
				m.service.Spec.Ports[0].Port, m.service.Spec.Ports[1].Port = int32(at.Port), int32(at.Bus)
			}, all...)), sends("announce address of demo-3 " + ipOf(3) + ":6379@16379")},
		{"Redis before 7.0 has no names, and no Pod is replaced for that",
			with(six(), withBalancers, withDefaults(all...), ruled(fixed(directiveHostname, directiveEndpoints))), waits("to reach demo-0")},
		{"a node that forbids CONFIG after it got its name stays", with(six(), withBalancers, tells, ruled(fixed(anyDirective)), closed),
			settledIs},
		{"what users prefer by spec.config is theirs", with(six(), running(both+" hostname", all...),
			spec(func(s *v1.RedisClusterSpec) { s.Config = configOf(directiveEndpoints + " hostname") }), served),
			settledIs.making(every("delete Service demo-%d", all...)...)},
	}.run(t)
}

// TestTheDefaultsOfHostnamesAreRecorded has a node that started with its name: without spec.access, it returns to no name.
func TestTheDefaultsOfHostnamesAreRecorded(t *testing.T) {
	atStart := map[string]string{directiveHostname: nameOf(3), directiveEndpoints: "ip"}
	byUser := map[string]string{directiveHostname: "a", directiveEndpoints: "unknown-endpoint"}
	for sentence, test := range map[string]struct{ before, want map[string]string }{
		"a node without a name":         {hostnameDefaults, hostnameDefaults},
		"a node that started with it":   {atStart, hostnameDefaults},
		"a node that a user gave names": {byUser, byUser},
	} {
		o := with(six(), withBalancers, func(o *observed) {
			o.Members[3].directives = test.before
			saidBy(o, 3, idOf(3)).Hostname = test.before[directiveHostname]
		})
		set := o.Members[3].withDirectives([]string{directiveHostname, directiveEndpoints})
		for name, value := range test.want {
			if set[name] == nil || *set[name] != value {
				t.Errorf("%s: the value before of %s is %v, want %q", sentence, name, set[name], value)
			}
		}
	}
}

func TestPortsOfServicesWithHostnames(t *testing.T) {
	withPorts := func(numbers ...int32) *corev1.Service {
		s := serviceOf(six().Object, 0)
		for i, number := range numbers {
			s.Spec.Ports[i].Port = number
		}
		s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, s.Spec.Ports[:len(numbers)]
		return s
	}
	for sentence, test := range map[string]struct {
		existing *corev1.Service
		used     bool
		want     manifest.Address
	}{
		"a new Service": {nil, true, manifest.Address{Port: 6379}},
		"one with other ports that a node announces":    {withPorts(7000, 17000), true, manifest.Address{Port: 7000, Bus: 17000}},
		"one that no node announces":                    {withPorts(7000, 17000), false, manifest.Address{Port: 6379}},
		"one without a port of the bus":                 {withPorts(7000), true, manifest.Address{Port: 6379}},
		"one without a port of the bus, and not in use": {withPorts(6379), false, manifest.Address{Port: 6379}},
	} {
		o := with(six(), withBalancers)
		if got := o.servicePorts(o.Members[0], test.existing, test.used); got != test.want {
			t.Errorf("%s has the ports %v, want %v", sentence, got, test.want)
		}
	}
	o := with(six(), withBalancers, func(o *observed) { o.Object.Spec.Addr = "10.0.0.1:7000" })
	if got := o.servicePorts(o.Members[0], nil, false); got != (manifest.Address{Port: 6379}) {
		t.Errorf("the Service of a Pod that is not replaced yet has the ports %v", got)
	}
}

func TestStatusWithHostnames(t *testing.T) {
	o := with(six(), withBalancers, names("hostname", 0, 1, 2), names("ip", 3, 4, 5), ruled(fixed(directiveHostname)))
	o.Members[4].WhyUnreached, o.Members[4].AddressMissedFor = "no such host", duration(time.Minute)
	for i, n := range statusOf(o, decide(o), child.Outcomes{}).Nodes {
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
		"TLS for clients": {[]alter{specTLS(v1.TLSPreferred), withBalancers, secured(manifest.TransportPlain, false, all...)}, both},
		"TLS among nodes": {[]alter{specTLS(v1.TLSPreferred), withBalancers, secured(manifest.TransportBoth, true, all...)}, both},
		"TLS alone":       {[]alter{specTLS(v1.TLSRequired), withBalancers, secured(manifest.TransportOnly, true, all...)}, secure},
	} {
		o := with(six(), test.alters...)
		o.Object.Status.TLS = &v1.TLSStatus{Fingerprint: "pinned"}
		m, got := o.Members[3], ""
		dial := func(host string, port int, login redisnode.Login) Node {
			text := fmt.Sprintf("%s:%d %s%s", host, port, login.TLS.Name, login.TLS.Pin)
			return portNode{id: m.ID, asked: func() { got += text }, connected: func() { got += text + "(connected)" }}
		}
		c := &Controller{sessions: &sessions{byKey: map[cache.ObjectName]*session{}, dial: dial}}
		if err := c.reach(t.Context(), o.Object, m, o.externalOf(m)); err != nil || got != test.want {
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
	if commands := inWords(directiveCommands(o)); len(commands) != 5 {
		t.Errorf("the commands are %q", commands)
	}
	hostnames("{pod}.other" + domain)(o.Object)
	o.markOutdated()
	if commands := inWords(directiveCommands(o)); len(commands) != 6 || o.hostnameProblem() != nil {
		t.Errorf("with another name, the commands are %q, and the problem is %v", commands, o.hostnameProblem())
	}
}
