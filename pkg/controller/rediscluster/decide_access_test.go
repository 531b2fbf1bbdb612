// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"math/rand"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

const machineIP = "192.0.2.1"

// nodePortsOf is the address of a member's Service in the tables below.
func nodePortsOf(ordinal int) address { return address{machineIP, 30000 + ordinal, 0, 31000 + ordinal} }

func serviceOf(rdc *v1.RedisCluster, ordinal int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: podName(rdc, ordinal), Labels: map[string]string{LabelExternal: strconv.Itoa(ordinal)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rdc, kind)},
	}}
	at := nodePortsOf(ordinal)
	s.Spec.Type = corev1.ServiceTypeNodePort
	s.Spec.Ports = []corev1.ServicePort{
		{Name: portRedis, Port: 6379, NodePort: int32(at.Port)}, {Name: portBus, Port: 16379, NodePort: int32(at.Bus)},
	}
	return s
}

// served gives each member a Service. All Pods are on machines with the same IP.
func served(o *observed) {
	if len(o.services) > 0 {
		return
	}
	for _, m := range o.members {
		o.services = append(o.services, serviceOf(o.rdc, m.ordinal))
		if m.pod != nil {
			m.pod.Status.HostIP = machineIP
		}
	}
	o.matchServices()
}

// opening is a cluster to which clients outside of it are to have access.
func opening(o *observed) {
	external(v1.ExternalNodePort)(o.rdc)
	served(o)
}

func serviceIs(f func(*corev1.Service), ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			f(o.members[i].service)
		}
	}
}

// withoutService takes the Services of members away.
func withoutService(ordinals ...int) alter {
	return func(o *observed) {
		o.services = slices.DeleteFunc(o.services, func(s *corev1.Service) bool {
			return slices.ContainsFunc(ordinals, func(i int) bool { return s.Name == podName(o.rdc, i) })
		})
		o.matchServices()
	}
}

// selected gives Pods the label by which their Services select them.
func selected(ordinals ...int) alter {
	return podIs(func(p *corev1.Pod) { p.Labels[LabelExternal] = p.Name[len("demo-"):] }, ordinals...)
}

// reachedNodes are members that the operator reached at the addresses of their Services.
func reachedNodes(ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			o.members[i].reachedAt = nodePortsOf(i)
		}
	}
}

// announcing makes members announce the addresses of their Services, as all others know.
func announcing(ordinals ...int) alter {
	return func(o *observed) {
		selected(ordinals...)(o)
		for _, i := range ordinals {
			each(o, idOf(i), func(e *redisnode.Entry) { setAddress(e, nodePortsOf(i)) })
			setAddress(saidBy(o, i, idOf(i)), nodePortsOf(i))
			if tls := o.members[i].view.TLS; tls != nil {
				tls.AnnouncedPort, tls.AnnouncedTLSPort = nodePortsOf(i).Port, securePortOf(i)
			}
		}
	}
}

func securePortOf(ordinal int) int { return 32000 + ordinal }

// secureAt is the address of a member's Service if its node has TLS.
func secureAt(ordinal int) address {
	a := nodePortsOf(ordinal)
	a.TLS = securePortOf(ordinal)
	return a
}

// openingTLS is a cluster with TLS to which clients outside of it are to have access.
func openingTLS(annotation string, bus bool) alter {
	return func(o *observed) {
		specTLS(v1.TLSPreferred)(o)
		opening(o)
		secured(annotation, bus, allSix...)(o)
		for i, m := range o.members {
			m.service.Spec.Ports = append(m.service.Spec.Ports, corev1.ServicePort{Name: portTLS, Port: 6380, NodePort: int32(securePortOf(i))})
		}
	}
}

// closing is a cluster with access that leaves TLS.
func closing(annotation string) alter {
	return func(o *observed) {
		openingTLS(annotation, true)(o)
		o.rdc.Spec.TLS.Mode = modeLeaving
	}
}

// reachedSecurely are members that the operator reached at the addresses of their Services, with TLS.
func reachedSecurely(o *observed) {
	for i, m := range o.members {
		m.reachedAt = secureAt(i)
	}
}

func setAddress(e *redisnode.Entry, a address) { e.IP, e.Port, e.BusPort = a.IP, a.Port, a.Bus }

// announcingAlone makes a member announce the address of its Service, of which no other member has heard.
func announcingAlone(ordinal int) alter {
	return func(o *observed) {
		selected(ordinal)(o)
		setAddress(saidBy(o, ordinal, idOf(ordinal)), nodePortsOf(ordinal))
	}
}

func unreachedFor(d time.Duration, ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			o.members[i].unreachedFor = d
		}
	}
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

func copies(v *redisnode.View) { v.Syncing = true }

// otherHost is another IP of all machines.
func otherHost(o *observed) {
	for _, m := range o.members {
		m.pod.Status.HostIP = "192.0.2.7"
	}
}

// missing are members that the operator has not reached at the addresses of their Services for this time.
func missing(d time.Duration, ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			o.members[i].whyUnreached, o.members[i].addressMissedFor = "no route", d
		}
	}
}

// givenUp gives Pods the annotation with the addresses of their Services.
func givenUp(ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			o.members[i].pod.Annotations[AnnotationUnreachable] = nodePortsOf(i).String()
		}
	}
}

func balancedBy(o *observed) { external(v1.ExternalLoadBalancer)(o.rdc) }

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
		for _, m := range s.members {
			if m.answers() && slices.ContainsFunc(m.view.Table, func(e redisnode.Entry) bool {
				return slices.ContainsFunc(s.services, func(of *corev1.Service) bool { return of.Name == c.names[0] && serves(of, addressOf(&e)) })
			}) {
				return "is announced, as " + m.name + " knows"
			}
		}
		return ""
	}
	if !c.on.answers() {
		return "does not answer"
	}
	if c.verb == announce && c.names[0] != c.on.own().String() && (c.names[0] != c.on.reachedAt.String() || !isExternal(c.on.pod)) {
		return "was not reached there"
	}
	return ""
}

func TestDecideAccess(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	back := func(i int) string {
		return "announce address of demo-" + strconv.Itoa(i) + " " + ipOf(i) + ":6379@16379"
	}
	decisions{
		"Pods are labelled before their nodes announce anything": {
			with(six(), opening),
			does("Preparing 6 nodes", every("label demo-%d", all...)...),
		},
		"a replica is first": {
			with(six(), opening, selected(all...), reachedNodes(all...)),
			does("demo-3 announces the address 192.0.2.1:30003@31003: 6 nodes are left", "announce address of demo-3 192.0.2.1:30003@31003"),
		},
		"a master comes after all replicas": {
			with(six(), opening, announcing(3, 4, 5), selected(0, 1, 2), reachedNodes(all...)),
			does("demo-0 announces the address 192.0.2.1:30000@31000: 3 nodes are left", "announce address of demo-0 192.0.2.1:30000@31000"),
		},
		"a master waits for its replica": {
			with(six(), opening, announcing(3, 4, 5), selected(0, 1, 2), reachedNodes(all...), linkDown(3)),
			waits("Waiting for demo-3 to be up to date with its master"),
		},
		"no node changes while any replica is behind": {
			with(six(), opening, announcing(0, 3, 4, 5), selected(1, 2), reachedNodes(all...), linkDown(3)),
			waits("Waiting for demo-3 to be up to date with its master"),
		},
		"no node changes while one that leaves is not reached": {
			with(sixAnd(replica(0)), sized(6), opening, announcing(3, 6), selected(all...), reachedNodes(all...), missed(6, 0)),
			does("Removing demo-6", append(every("forget demo-%d id-6", all...), "delete Pod demo-6")...),
		},
		"all announce them": {
			with(six(), opening, announcing(all...)),
			settledIs,
		},
		"an address that is not allocated delays nothing else": {
			with(sixAnd(newcomer(), newcomer()), opening, serviceIs(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 }, all...)),
			does("Introducing", "meet demo-6 demo-0", "meet demo-7 demo-0"),
		},
		"an address is not allocated": {
			with(six(), opening, announcing(0, 1, 2, 4, 5), serviceIs(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 }, 3)),
			waits("Waiting for the address of the Service demo-3"),
		},
		"a node is not reached, and the others go on": {
			with(six(), opening, selected(all...), reachedNodes(0, 1, 2, 5)),
			does("demo-5 announces", "announce address of demo-5 192.0.2.1:30005@31005"),
		},
		"another address was reached": {
			with(six(), opening, announcing(0, 1, 2, 4, 5), selected(3), reachedNodes(3),
				serviceIs(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 1 }, 3)),
			waits("Waiting to reach demo-3 at 192.0.2.1:1@31003"),
		},
		"the others have not heard of it": {
			with(six(), opening, announcingAlone(3)),
			does("Introducing", "meet demo-0 demo-3", "meet demo-1 demo-3", "meet demo-2 demo-3", "meet demo-4 demo-3", "meet demo-5 demo-3"),
		},
		"another port of the bus is another address": {
			with(six(), opening, announcing(all...), func(o *observed) { saidBy(o, 0, idOf(3)).BusPort = 16379 }),
			does("Introducing", "meet demo-0 demo-3"),
		},
		"the next one waits until the others reach it": {
			with(six(), opening, announcing(3), selected(all...), reachedNodes(all...), missed(3, 0), unreachedFor(time.Second, 3)),
			waitsBriefly("demo-0 does not reach demo-3"),
		},
		"the others do not reach it": {
			with(six(), opening, announcing(3), selected(all...), reachedNodes(all...), missed(3, 0), unreachedFor(time.Minute, 3)),
			does("Correcting", "give up address of demo-3 192.0.2.1:30003@31003", back(3)),
		},
		"the operator ended after it gave an address up": {
			with(six(), opening, announcing(3), selected(all...), reachedNodes(all...), missed(3, 0), givenUp(3)),
			does("Correcting", back(3)),
		},
		"an address that was given up is left alone": {
			with(six(), opening, announcing(0, 1, 2, 4, 5), selected(3), reachedNodes(3), givenUp(3)),
			settledIs,
		},
		"the Services of two nodes are gone": {
			with(six(), opening, announcing(all...), withoutService(0, 3)),
			does("Correcting", back(3)),
		},
		"the Services of all nodes are gone: replicas return at once": {
			with(six(), opening, announcing(all...), withoutService(all...)),
			does("Correcting", back(3), back(4), back(5)),
		},
		"masters return one after the other while they are reached": {
			with(six(), opening, announcing(0, 1, 2), withoutService(all...)),
			does("demo-0 announces", back(0)),
		},
		"and wait for replicas": {
			with(six(), opening, announcing(0, 1, 2), withoutService(all...), linkDown(5)),
			waits("Waiting for demo-5 to be up to date"),
		},
		"masters that are not reached return at once": {
			with(six(), opening, announcing(0, 1, 2), withoutService(all...), missed(0, 3), missed(1, 3)),
			does("Correcting", back(0), back(1)),
		},
		"a master that is reached at an address that its Service had": {
			with(six(), opening, announcing(all...), serviceIs(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 1 }, 0)),
			does("demo-0 announces", back(0)),
		},
		"another IP of the machine": {
			with(six(), opening, announcing(all...), otherHost, reachedNodes(0), func(o *observed) { o.members[0].reachedAt.IP = "192.0.2.7" }),
			does("demo-0 announces", "announce address of demo-0 192.0.2.7:30000@31000"),
		},
		"another IP at which no node is reached yet": {
			with(six(), opening, announcing(all...), otherHost, missing(time.Second, all...)),
			waits("Waiting to reach demo-0 at 192.0.2.7:30000@31000: no route"),
		},
		"another IP at which no node is reached for long": {
			with(six(), opening, announcing(all...), otherHost, missing(time.Minute, all...)),
			does("demo-3 announces", back(3)),
		},
		"while a node has given its address up, no other announces one": {
			with(six(), opening, announcing(4), selected(all...), reachedNodes(all...), givenUp(3)),
			settledIs,
		},
		"not even while it is silent": {
			with(six(), opening, announcing(4), selected(all...), reachedNodes(all...), givenUp(3), silenced(time.Minute, 3)),
			waits("Waiting for demo-3"),
		},
		"but others return": {
			with(six(), served, announcing(4), selected(all...), givenUp(3)),
			does("demo-4 announces", back(4)).making(every("delete Service demo-%d", 0, 1, 2, 3, 5)...),
		},
		"another address was given up": {
			with(six(), opening, announcing(4), selected(all...), reachedNodes(all...), givenUp(3), reachedNodes(3),
				podIs(func(p *corev1.Pod) { p.Annotations[AnnotationUnreachable] = "192.0.2.9:1@2" }, 3)),
			does("demo-3 announces", "announce address of demo-3 192.0.2.1:30003@31003"),
		},
		"a Service has another port": {
			with(six(), opening, announcing(all...), serviceIs(func(s *corev1.Service) { s.Spec.Ports[1].NodePort = 1 }, 3)),
			does("Correcting", back(3)),
		},
		"a Pod lost its label": {
			with(six(), opening, announcing(all...), podIs(func(p *corev1.Pod) { delete(p.Labels, LabelExternal) }, 3)),
			does("Correcting", "label demo-3"),
		},
		"a container restarted": {
			with(six(), opening, announcing(0, 1, 2, 4, 5), selected(3), reachedNodes(3)),
			does("demo-3 announces", "announce address of demo-3 192.0.2.1:30003@31003"),
		},
		"a leaving node keeps its address": {
			with(sixAnd(newcomer()), opening, announcing(all...), sized(6), forgotten(idOf(6), all...)),
			does("Removing demo-6", "delete Pod demo-6"),
		},
		"no access any more: one after the other, replicas first": {
			with(six(), served, announcing(all...)),
			does("demo-3 announces the address "+ipOf(3)+":6379@16379: 6 nodes are left", back(3)),
		},
		"no access any more: Services are deleted when no node knows their addresses": {
			with(six(), served, selected(all...), announcing(2)),
			does("demo-2 announces", back(2)).making(every("delete Service demo-%d", 0, 1, 3, 4, 5)...),
		},
		"no access any more: no Service is deleted while a silent node may announce its address": {
			with(six(), served, announcing(5), silenced(time.Minute, 5)),
			waits("Waiting for demo-5").making(every("delete Service demo-%d", 0, 1, 2, 3, 4)...),
		},
		"no access any more: no Service is deleted while no node answers": {
			with(six(), served, announcing(all...), silenced(time.Minute, all...)),
			waits("Waiting for demo-0"),
		},
		"another type: the Services stay until no node announces their addresses": {
			with(six(), served, balancedBy, announcing(all...)),
			does("demo-3 announces", back(3)),
		},
		"another type: then they are deleted": {
			with(six(), served, balancedBy, selected(all...)),
			waits("Waiting for the address of the Service demo-0").making(every("delete Service demo-%d", all...)...),
		},
		"the Service of a node that left": {
			with(six(), opening, announcing(all...), func(o *observed) { o.services = append(o.services, serviceOf(o.rdc, 6)) }),
			decision{upkeep: []string{"delete Service demo-6"}, wait: poll},
		},
		"with TLS, a node announces the port for TLS, too": {
			with(six(), openingTLS(transportBoth, true), selected(all...), reachedSecurely),
			does("demo-3 announces", "announce address of demo-3 "+secureAt(3).String()),
		},
		"with TLS, all announce both ports": {
			with(six(), openingTLS(transportBoth, true), announcing(all...)),
			settledIs,
		},
		"with TLS, all announce both ports, and others know the one for TLS": {
			with(six(), openingTLS(transportOnly, true), spec(func(s *v1.RedisClusterSpec) { s.TLS.Mode = v1.TLSRequired }), announcing(all...),
				func(o *observed) {
					for _, i := range all {
						each(o, idOf(i), func(e *redisnode.Entry) { e.Port = securePortOf(i) })
					}
				}),
			settledIs,
		},
		"with TLS, the port for TLS is not allocated": {
			with(six(), openingTLS(transportBoth, true), selected(all...), serviceIs(func(s *corev1.Service) { s.Spec.Ports[2].NodePort = 0 }, 0)),
			waits("Waiting for the address of the Service demo-0"),
		},
		"with TLS, the operator has reached the port without TLS alone": {
			with(six(), openingTLS(transportBoth, true), selected(all...), reachedNodes(all...)),
			waits("Waiting to reach demo-0 at " + secureAt(0).String()),
		},
		"with TLS, a Service has another port for TLS": {
			with(six(), openingTLS(transportBoth, true), announcing(all...), serviceIs(func(s *corev1.Service) { s.Spec.Ports[2].NodePort = 1 }, 3)),
			does("Correcting", back(3)+",,tls-port=6380"),
		},
		"with TLS, another port for TLS is known of a node": {
			with(six(), openingTLS(transportBoth, true), announcing(all...), func(o *observed) { saidBy(o, 0, idOf(3)).Port = securePortOf(4) }),
			does("Introducing", "meet demo-0 demo-3"),
		},
		"with TLS, no access any more": {
			with(six(), openingTLS(transportBoth, true), announcing(all...), func(o *observed) { noAccess(o.rdc) }),
			does("demo-3 announces", back(3)+",,tls-port=6380"),
		},
		"with TLS, the others do not reach a node": {
			with(six(), openingTLS(transportBoth, true), announcing(all...), missed(3, 0), unreachedFor(time.Minute, 3)),
			does("Correcting", "give up address of demo-3 "+secureAt(3).String(), back(3)+",,tls-port=6380"),
		},
		"with TLS, the certificate has expired": {
			with(six(), openingTLS(transportBoth, true), announcing(all...), missed(3, 0), unreachedFor(time.Minute, 3), invalidCertificate),
			waitsBriefly("demo-0 does not reach demo-3"),
		},
		"TLS alone is left by way of both ports": {
			with(six(), closing(transportOnly), announcing(all...)),
			does("Preparing to switch", every("record TLS of demo-%d both", all...)...),
		},
		"if the operator ends meanwhile, the next one goes the same way": {
			with(six(), closing(transportOnly), announcing(all...), podIs(func(p *corev1.Pod) { p.Annotations[AnnotationTLS] = transportBoth }, 0)),
			does("Preparing to switch", every("record TLS of demo-%d both", all[1:]...)...),
		},
		"the ports are opened, and the switch is not taken back": {
			with(six(), closing(transportBoth), announcing(all...), tlsIs(func(s *redisnode.TLSState) { s.Plain = false }, all...)),
			decision{step: "Switching 6 nodes", commands: []string{"switch TLS of demo-0 demo-1 demo-2 demo-3 demo-4 demo-5"}, wait: soon},
		},
		"a port without TLS is not reached": {
			with(six(), closing(transportBoth), announcing(all...), reachedSecurely, func(o *observed) { o.members[4].reachedAt = address{} }),
			waits("Waiting to reach demo-4 at " + secureAt(4).String() + " also without TLS"),
		},
		"all ports without TLS are reached": {
			with(six(), closing(transportBoth), announcing(all...), reachedSecurely),
			does("Preparing to switch", every("record TLS of demo-%d ", all...)...),
		},
		"a node at the IP of its Pod needs no port of a Service": {
			with(six(), closing(transportBoth), announcing(0, 1, 2, 4, 5), selected(3), reachedSecurely, func(o *observed) {
				o.members[3].reachedAt = address{}
				o.members[3].pod.Annotations[AnnotationUnreachable] = secureAt(3).String()
			}),
			does("Preparing to switch", every("record TLS of demo-%d ", all...)...),
		},
		"a switch is completed before an address changes": {
			with(six(), openingTLS(transportBoth, false), selected(all...), reachedSecurely),
			decision{step: "Switching 6 nodes", commands: []string{"switch TLS of demo-0 demo-1 demo-2 demo-3 demo-4 demo-5"}, wait: soon},
		},
		"a switch begins after all addresses": {
			with(six(), openingTLS(transportPlain, false), announcing(0, 1, 2, 4, 5), selected(3), reachedSecurely),
			does("demo-3 announces", "announce address of demo-3 "+secureAt(3).String()),
		},
		"a Pod without a certificate among those with one": {
			with(six(), openingTLS(transportPlain, false),
				func(o *observed) { o.members[3].pod, o.members[3].view.TLS = podAt(withTLSSpec(o.rdc, nil), 3), nil },
				announcing(0, 1, 2, 4, 5), selected(3), reachedNodes(3),
				podIs(func(p *corev1.Pod) { p.Status.HostIP = machineIP }, 3)),
			does("demo-3 announces", "announce address of demo-3 "+nodePortsOf(3).String()),
		},
		"a replica asks at the port of another node": {
			with(six(), opening, announcing(all...), viewed(func(v *redisnode.View) {
				v.LinkUp, v.MasterIP, v.MasterPort = false, machineIP, 30001
			}, 3)),
			does("Connecting 1 replicas", "replicate demo-3 demo-0"),
		},
		"without Services, the port alone does not matter": {
			with(six(), viewed(func(v *redisnode.View) { v.LinkUp, v.MasterIP, v.MasterPort = false, ipOf(0), 1 }, 3)),
			waits("Waiting for demo-3 to be up to date with its master"),
		},
		"without Services, a node that announces another IP is introduced": {
			with(six(), func(o *observed) { each(o, idOf(3), func(e *redisnode.Entry) { e.IP = machineIP }) }),
			does("Introducing", "meet demo-0 demo-3", "meet demo-1 demo-3", "meet demo-2 demo-3", "meet demo-4 demo-3", "meet demo-5 demo-3"),
		},
		"a replica asks at the address of its master": {
			with(six(), opening, announcing(all...), viewed(func(v *redisnode.View) {
				v.LinkUp, v.MasterIP, v.MasterPort = false, machineIP, 30000
			}, 3)),
			waits("Waiting for demo-3 to be up to date with its master"),
		},
	}.run(t)
}

func TestExternalAddress(t *testing.T) {
	rdc := six().rdc
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
	hosts := v1.ExternalAccess{Type: v1.ExternalNodePort, Hosts: []v1.Host{
		{Name: "other", IP: "192.0.2.8"}, {Name: "machine", IP: "192.0.2.7"},
	}}
	for name, test := range map[string]struct {
		spec    *v1.ExternalAccess
		service *corev1.Service
		want    address
	}{
		"no access":                     {nil, serviceOf(rdc, 0), address{}},
		"no Service":                    {&v1.ExternalAccess{Type: v1.ExternalNodePort}, nil, address{}},
		"ports of the machine":          {&v1.ExternalAccess{Type: v1.ExternalNodePort}, serviceOf(rdc, 0), nodePortsOf(0)},
		"another IP of the machine":     {&hosts, serviceOf(rdc, 0), address{"192.0.2.7", 30000, 0, 31000}},
		"no port of the bus":            {&v1.ExternalAccess{Type: v1.ExternalNodePort}, unnamed, address{}},
		"a Service that is deleted":     {&v1.ExternalAccess{Type: v1.ExternalNodePort}, deleted, address{}},
		"a Service of another type":     {&v1.ExternalAccess{Type: v1.ExternalLoadBalancer}, serviceOf(rdc, 0), address{}},
		"a load balancer without an IP": {&v1.ExternalAccess{Type: v1.ExternalLoadBalancer}, balancer(), address{}},
		"a load balancer with a name": {&v1.ExternalAccess{Type: v1.ExternalLoadBalancer},
			balancer(corev1.LoadBalancerIngress{Hostname: "a.example.com"}), address{}},
		"a load balancer": {&v1.ExternalAccess{Type: v1.ExternalLoadBalancer},
			balancer(corev1.LoadBalancerIngress{IP: "192.0.2.9"}), address{"192.0.2.9", 6379, 0, 16379}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := rdc.DeepCopy()
			changed.Spec.Access = &v1.Access{External: test.spec}
			got := externalAddress(changed, test.service, pod)
			if got != test.want {
				t.Errorf("the address is %v, want %v", got, test.want)
			}
			if got != (address{}) && !serves(test.service, got) {
				t.Errorf("the Service does not serve %v", got)
			}
			if again := addressIn(got.String()); got != (address{}) && again != got {
				t.Errorf("%s is read as %v", got, again)
			}
		})
	}
	if got := addressIn(address{"fd00::1", 1, 3, 2}.String()); got != (address{"fd00::1", 1, 3, 2}) {
		t.Errorf("an IPv6 address is read as %v", got)
	}
}

// TestPortsOfServicesStay has another port of the cluster. The API server would allocate other ports of the machines.
func TestPortsOfServicesStay(t *testing.T) {
	rdc := six().rdc
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
		for _, p := range externalService(rdc, 0, keptPorts(rdc, test.tls, test.existing)).Spec.Ports {
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
			[]alter{announcing(3), podIs(func(p *corev1.Pod) { delete(p.Labels, LabelExternal) }, 3)}, "",
		},
	} {
		o := with(six(), append(append([]alter{opening}, test.alters...), silenced(time.Minute, 3), clearStatus)...)
		if o.identify(); o.members[3].id != test.want {
			t.Errorf("%s: the ID is %q, want %q", name, o.members[3].id, test.want)
		}
	}
}

// TestUnreachedNodes tells a node whose address is wrong from one that does not reach the others.
func TestUnreachedNodes(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	others := func(by int) alter {
		return func(o *observed) {
			for _, i := range all {
				if i != by {
					missed(i, by)(o)
				}
			}
		}
	}
	for name, test := range map[string]struct {
		alters []alter
		want   []int
	}{
		"all are reached":                 {[]alter{announcing(all...)}, nil},
		"one is not reached by one other": {[]alter{announcing(all...), missed(3, 0)}, []int{3}},
		"one does not reach any other":    {[]alter{announcing(all...), others(0)}, nil},
		"no node reaches another": {
			[]alter{announcing(all...), others(0), others(1), others(2), others(3), others(4), others(5)}, all,
		},
		"the IP of a Pod is not reached":               {[]alter{announcing(0, 1, 2, 4, 5), missed(3, 0)}, nil},
		"one has not heard of the address":             {[]alter{announcing(0, 1, 2, 4, 5), announcingAlone(3), missed(3, 0)}, nil},
		"a link that is shown as connected, and fails": {[]alter{announcing(all...), doubted(3, 0)}, []int{3}},
		"one that fails to reach any other": {
			[]alter{announcing(all...), doubted(1, 0), doubted(2, 0), doubted(3, 0), doubted(4, 0), doubted(5, 0)}, nil,
		},
		"a replica asks there in vain":           {[]alter{announcing(all...), inVain(0, 3)}, []int{0}},
		"a replica asks there, and copies":       {[]alter{announcing(all...), inVain(0, 3), viewed(copies, 3)}, nil},
		"a replica asks at another address":      {[]alter{announcing(all...), inVain(1, 3)}, nil},
		"no other node answers":                  {[]alter{announcing(all...), silenced(time.Minute, 1, 2, 3, 4, 5)}, nil},
		"a node that is not reached is not seen": {[]alter{announcing(all...), missed(3, 0), silenced(time.Minute, 3)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := with(six(), append([]alter{opening}, test.alters...)...)
			var got []int
			for _, m := range o.members {
				if m.answers() && o.isUnreached(m) {
					got = append(got, m.ordinal)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("not reached are %v, want %v", got, test.want)
			}
		})
	}
}

// TestTLSInterrupts tells addresses that are wrong from certificates and switches by which nodes do not reach each other.
func TestTLSInterrupts(t *testing.T) {
	tls := func(alters ...alter) []alter { return append([]alter{openingTLS(transportBoth, true)}, alters...) }
	for name, test := range map[string]struct {
		alters []alter
		want   bool
	}{
		"no TLS":                          {[]alter{opening}, false},
		"TLS":                             {tls(), false},
		"a certificate that has expired":  {tls(invalidCertificate), true},
		"but the nodes do not use it yet": {[]alter{openingTLS(transportPlain, false), invalidCertificate}, false},
		"a node that is not trusted": {
			tls(func(o *observed) { silenced(time.Second, 2)(o); o.members[2].untrusted = true }), true,
		},
		"a node with another certificate": {tls(func(o *observed) { o.members[2].staleCertificate = true }), true},
		"links of before a switch":        {tls(noFailoverFor(time.Second, 2)), true},
		"Pods that differ":                {tls(podIs(func(p *corev1.Pod) { delete(p.Annotations, AnnotationTLS) }, 2)), true},
		"nodes that differ":               {tls(tlsIs(func(s *redisnode.TLSState) { s.Cluster = false }, 2)), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := with(six(), append([]alter{test.alters[0], announcing(allSix...), missed(3, 0)}, test.alters[1:]...)...)
			if got := o.tlsInterrupts(); got != test.want {
				t.Errorf("TLS interrupts: %t, want %t", got, test.want)
			}
			s := &session{since: map[string]time.Time{}, seen: map[string]bool{}}
			s.recallAddresses(o)
			if got := o.members[3].unreachedFor > 0; got == test.want {
				t.Errorf("that the node is not reached counts: %t", got)
			}
		})
	}
}

func TestStatusHasAddresses(t *testing.T) {
	o := with(six(), opening, announcing(0, 3), selected(1, 2, 4), givenUp(1))
	o.members[2].whyUnreached, o.members[2].addressMissedFor = "no route", time.Minute
	o.members[4].whyUnreached, o.members[4].addressMissedFor = "no route", time.Second
	status := statusOf(o, decide(o), outcome{})
	for i, n := range status.Nodes {
		want := map[int]string{0: "192.0.2.1:30000", 3: "192.0.2.1:30003"}[i]
		if n.Address != want {
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
	if op := operation(o, plan{policy: "announceAddresses", step: "some"}); op.Type != opConfigure {
		t.Errorf("the operation is %s", op.Type)
	}
}
