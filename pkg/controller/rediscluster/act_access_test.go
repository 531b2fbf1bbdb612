// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// allocate gives the Services of members their ports and UIDs, as the API server does.
func (s *stage) allocate() {
	s.t.Helper()
	resource := corev1.SchemeGroupVersion.WithResource("services")
	for _, i := range all {
		found, err := s.kube.Tracker().Get(resource, "default", manifest.PodName(s.rdc(), i))
		if err != nil {
			continue
		}
		service, at := found.(*corev1.Service).DeepCopy(), nodePortsOf(i)
		service.UID = types.UID("service-" + service.Name)
		service.Spec.Ports[0].NodePort, service.Spec.Ports[1].NodePort = int32(at.Port), int32(at.Bus)
		must.Succeed(s.t, s.kube.Tracker().Update(resource, service, "default"))
	}
}

// addServices adds the Services of all members, with their ports, and gives the Pods a machine.
func (s *stage) addServices() {
	s.t.Helper()
	for _, i := range all {
		service := serviceOf(s.rdc(), i)
		service.Namespace, service.Labels[v1.LabelRedisCluster] = "default", s.rdc().Name
		s.add(service)
		s.setPod(service.Name, func(p *corev1.Pod) { p.Status.HostIP = machineIP })
	}
	s.allocate()
}

// setPod changes a Pod, as another client does.
func (s *stage) setPod(name string, change func(*corev1.Pod)) {
	s.t.Helper()
	pod := s.pod(name)
	change(pod)
	update(s.t, s.kube, "pods", pod)
}

// steps runs some syncs, and returns the commands to nodes.
func (s *stage) steps(n int) []string {
	s.t.Helper()
	var commands []string
	for range n {
		s.synced()
		commands = append(commands, s.commands...)
		s.allocate()
		s.catchUp()
		s.clock.Step(reachEvery)
	}
	return commands
}

// A node announces an address only if that node answers there. The tables of the nodes do not change: so no second node follows.
func TestANodeAnnouncesWhereItWasReached(t *testing.T) {
	onMachine := podIs(func(p *corev1.Pod) { p.Status.HostIP = machineIP }, all...)
	for name, test := range map[string]struct {
		there int // the member that answers at the address of the machine; -1 for none
		want  []string
	}{
		"no node answers":      {-1, nil},
		"another node answers": {6, nil},
		"the node answers":     {4, []string{"10.1.0.4 announce 192.0.2.1 30004 0 31004"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, with(six(), func(o *observed) { external(v1.ExternalNodePort)(o.Object) }, onMachine))
			switch {
			case test.there == 6:
				s.views[machineIP] = &redisnode.View{ID: "other"}
			case test.there >= 0:
				s.views[machineIP] = s.views[ipOf(test.there)]
			}
			commands := slices.Compact(s.steps(5))
			if !slices.Equal(commands, test.want) {
				t.Errorf("nodes get %q, want %q", commands, test.want)
			}
			for _, i := range all {
				if p := s.pod(manifest.PodName(s.rdc(), i)); p.Labels[manifest.LabelExternal] == "" {
					t.Errorf("Pod %d has the labels %v", i, p.Labels)
				}
			}
		})
	}
}

// portNode is a node that answers on one port.
type portNode struct {
	Node
	id               string
	asked, connected func() // called by View and by Connect; may be nil
	err              error
	slow             time.Duration // how long an answer takes; a connection takes a quarter of it
}

func (p portNode) Connect(ctx context.Context) error {
	if p.connected != nil {
		p.connected()
	}
	return cmp.Or(p.wait(ctx, p.slow/4), p.err)
}

func (p portNode) wait(ctx context.Context, takes time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes):
		return nil
	}
}

func (p portNode) View(ctx context.Context) (*redisnode.View, error) {
	if err := p.wait(ctx, p.slow); err != nil {
		return nil, err
	}
	if p.asked != nil {
		p.asked()
	}
	return &redisnode.View{ID: p.id}, p.err
}
func (portNode) Close() {}

// dialing is a controller that reaches the ports that dial returns.
func dialing(dial func(port int, login redisnode.Login) Node) *Controller {
	return &Controller{sessions: &sessions{byKey: map[cache.ObjectName]*session{}, dial: func(_ string, port int, login redisnode.Login) Node {
		return dial(port, login)
	}}}
}

// A node is reached on every port. The other nodes use those on which it is asked for its ID: with TLS, it shows its certificate.
func TestANodeIsReachedOnEachPort(t *testing.T) {
	untold := tlsIs(func(s *redisnode.TLSState) { *s = redisnode.TLSState{} }, 3)
	among, alone := openingTLS(manifest.TransportBoth, true), openingTLS(manifest.TransportOnly, true)
	for name, test := range map[string]struct {
		alters        []alter
		other, closed int // the ports at which another node answers, and at which none does
		want          string
		err           string
	}{
		"no TLS":                              {[]alter{opening}, 0, 0, "30003", ""},
		"no TLS among nodes":                  {[]alter{openingTLS(manifest.TransportPlain, false)}, 0, 0, "30003 32003 with TLS", ""},
		"TLS among nodes":                     {[]alter{among}, 0, 0, "32003 with TLS", ""},
		"TLS alone":                           {[]alter{alone}, 0, 30003, "32003 with TLS", ""},
		"no bus":                              {[]alter{among}, 0, 31003, "", "no connection to 31003"},
		"no port without TLS":                 {[]alter{among}, 0, 30003, "", "no connection to 30003"},
		"no TLS on its port":                  {[]alter{among}, 0, 32003, "32003 with TLS", "no connection to 32003"},
		"another node with TLS":               {[]alter{among}, 32003, 0, "32003 with TLS", "another node answers there"},
		"TLS that a node does not tell":       {[]alter{among, untold}, 0, 0, "32003 with TLS", ""},
		"TLS alone that a node does not tell": {[]alter{alone, untold}, 0, 30003, "32003 with TLS", ""},
		"another node without TLS":            {[]alter{openingTLS("", false)}, 30003, 0, "30003", "another node answers there"},
	} {
		t.Run(name, func(t *testing.T) {
			o := with(six(), test.alters...)
			m := o.Members[3]
			var asked []string
			c := dialing(func(port int, login redisnode.Login) Node {
				text, node := strconv.Itoa(port), portNode{id: m.ID}
				if login.TLS.Name == demoName {
					text += " with TLS"
				}
				node.asked = func() { asked = append(asked, text) }
				if port == test.other {
					node.id = "other"
				}
				if port == test.closed {
					node.err = fmt.Errorf("no connection to %d", port)
				}
				return node
			})
			got := ""
			if err := c.reach(t.Context(), o.Object, m, o.externalOf(m)); err != nil {
				got = err.Error()
			}
			if got != test.err || strings.Join(asked, " ") != test.want {
				t.Errorf("asked at %q, with the error %q, want %q and %q", asked, got, test.want, test.err)
			}
		})
	}
}

// Nodes that leave TLS are reached on the port without TLS where they announce it, and not before they open it.
func TestThePortWithoutTLSIsReachedBeforeItsUse(t *testing.T) {
	for name, test := range map[string]struct {
		alter alter
		want  bool
	}{
		"TLS alone":                         {closing(manifest.TransportOnly), false},
		"both ports":                        {closing(manifest.TransportBoth), true},
		"both ports, and the spec keeps it": {openingTLS(manifest.TransportBoth, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := with(six(), test.alter, announcing(all...))
			dialing(func(port int, _ redisnode.Login) Node {
				node := portNode{id: idOf(port - 32000)}
				if port == 30003 {
					node.err = errors.New("closed")
				}
				return node
			}).reachNodes(t.Context(), o)
			for _, m := range o.Members {
				if got := m.ReachedAt == secureAt(m.Ordinal); got != (test.want && m.Ordinal != 3) {
					t.Errorf("%s was reached: %t", m.Name, got)
				}
			}
			if got := o.Members[3].WhyUnreached; (got != "") != test.want {
				t.Errorf("demo-3 was not reached: %q", got)
			}
			o.Members[3].AddressMissedFor = duration(silentTooLong + 1)
			if p := o.addressProblem(o.Members[3]); test.want && (p == nil || !strings.Contains(p.Message, "keep TLS: closed")) {
				t.Errorf("the problem is %v", p)
			}
		})
	}
}

// A node that answers late is reached, within the bound of a sync. One that does not, such as one whose ports drop all packets, is not, and
// delays a sync no longer.
func TestANodeIsReachedOverALongWay(t *testing.T) {
	for slow, want := range map[time.Duration]bool{reachTimeout + reachTimeout/2: true, viewTimeout + 1: false, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			o := with(six(), openingTLS(manifest.TransportBoth, true), selected(all...))
			begun := time.Now()
			dialing(func(port int, _ redisnode.Login) Node {
				return portNode{id: idOf(port - 32000), slow: slow}
			}).reachNodes(t.Context(), o)
			if got := o.Members[3].ReachedAt == secureAt(3); got != want {
				t.Errorf("with answers after %s, the node was reached: %t", slow, got)
			}
			if took := time.Since(begun); took > reachTimeout+viewTimeout {
				t.Errorf("with answers after %s, it took %s", slow, took)
			}
		})
	}
}

// A Service is deleted with its UID, and only if the RedisCluster controls it.
func TestServicesAreDeletedByTheirUID(t *testing.T) {
	o := with(six(), served, selected(all...))
	s := newStage(t, o)
	s.addServices()
	foreign := serviceOf(o.Object, 7)
	foreign.Namespace, foreign.OwnerReferences = "default", nil
	foreign.Labels[v1.LabelRedisCluster] = o.Object.Name
	s.add(foreign)
	s.catchUp()
	var deleted []string
	for range 3 {
		s.synced()
		for _, action := range s.kube.Actions() {
			if d, ok := action.(clienttesting.DeleteActionImpl); ok && d.GetResource().Resource == "services" {
				if p := d.GetDeleteOptions().Preconditions; p == nil || p.UID == nil || string(*p.UID) != "service-"+d.GetName() {
					t.Errorf("%s is deleted with the preconditions %+v", d.GetName(), p)
				}
				deleted = append(deleted, d.GetName())
			}
		}
		s.catchUp()
	}
	if want := every("demo-%d", all...); !slices.Equal(deleted, want) {
		t.Errorf("the Services %q are deleted, want %q", deleted, want)
	}
}

// An address at which the other nodes do not reach a node is in an annotation of its Pod before the node leaves it.
func TestAnAddressIsGivenUpBeforeTheNodeLeavesIt(t *testing.T) {
	o := with(six(), opening, announcing(all...), missed(3, 0))
	s := newStage(t, o)
	s.addServices()
	s.catchUp()
	s.steps(3)
	s.clock.Step(o.addressPatience())
	s.synced()
	if p := s.pod("demo-3"); p.Annotations[manifest.AnnotationUnreachable] != nodePortsOf(3).String() {
		t.Errorf("the annotations are %v", p.Annotations)
	}
	if got := strings.Join(s.commands, ", "); got != "10.1.0.3 announce 10.1.0.3 0 0 0" {
		t.Errorf("nodes get %q", got)
	}
}

// The Services select Pods, and the ones for clients inside of the cluster have no port of the bus.
func TestServicesOfAccess(t *testing.T) {
	rdc := six().Object
	if manifest.ClientService(rdc, false) != nil {
		t.Error("there is a Service for clients without spec.access")
	}
	external(v1.ExternalLoadBalancer)(rdc)
	rdc.Spec.Access.Service.Annotations = map[string]string{"a": "b"}
	rdc.Spec.Access.External.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	clients, node := manifest.ClientService(rdc, false), manifest.ExternalService(rdc, 3, manifest.KeptPorts(rdc, 0, nil))
	if *clients.Name != "demo-clients" || len(clients.Spec.Ports) != 1 || clients.Spec.PublishNotReadyAddresses != nil ||
		clients.Annotations["a"] != "b" || clients.Spec.Selector[manifest.LabelExternal] != "" || clients.Labels[manifest.LabelExternal] != "" {
		t.Errorf("the Service for clients is %+v", clients)
	}
	if *node.Name != "demo-3" || len(node.Spec.Ports) != 2 || !*node.Spec.PublishNotReadyAddresses ||
		node.Spec.Selector[manifest.LabelExternal] != "3" ||
		node.Labels[manifest.LabelExternal] != "3" || !slices.Equal(node.Spec.LoadBalancerSourceRanges, []string{"192.0.2.0/24"}) ||
		*node.Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("the Service of a node is %+v", node)
	}
}

// addTLS adds the Secret of spec.tls, with a certificate for a name.
func (s *stage) addTLS(name string) {
	s.t.Helper()
	data := redistest.NewAuthority(s.t).Issue(s.t, func(c *x509.Certificate) { c.DNSNames = []string{name} })
	s.add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "redis-tls", Namespace: "default"}, Data: data})
}

// nexts runs three syncs, and returns their writes but those of the status, with the commands to nodes.
func (s *stage) nexts() (writes []string) {
	s.t.Helper()
	for range 3 {
		writes = append(writes, s.next()...)
	}
	return slices.DeleteFunc(writes, func(w string) bool { return w == statusWrite })
}

func loads(command string) bool { return strings.HasSuffix(command, "reload certificate") }

const demoName = "demo.default.svc"

// withCertificateToLoad is a stage whose nodes use TLS with an old certificate.
func withCertificateToLoad(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, with(six(), specTLS(v1.TLSPreferred), secured("both", true, all...)))
	s.clock.SetTime(time.Now())
	s.addTLS(demoName)
	return s
}

// A Secret that does not exist, or that the nodes cannot use, replaces no Pod, and no ConfigMap of a new revision is made.
func TestACertificateThatIsNotValidReplacesNoPod(t *testing.T) {
	s := newStage(t, with(six())).settle()
	s.clock.SetTime(time.Now())
	s.edit(withTLSMode(v1.TLSPreferred))
	expect := func(reason string) {
		t.Helper()
		wantWrites(t, s.nexts())
		if c := s.is(glassback.ConditionDegraded); c.Reason != reason {
			t.Errorf("Degraded is %s: %s; want %s", c.Reason, c.Message, reason)
		}
	}
	expect(reasonNoCertificate)
	s.addTLS("another.default.svc")
	s.clock.Step(secretEvery)
	expect(reasonCertificate)
}

// Before the first node switches the protocol of the bus, no replica can be elected any more. A node that only closes or opens its port
// without TLS stays connected to the others.
func TestASwitchKeepsReplicasFromBeingElected(t *testing.T) {
	switching := func(alters ...alter) ([]string, int) {
		s := newStage(t, with(six(), alters...))
		s.clock.SetTime(time.Now())
		s.nexts()
		first := slices.IndexFunc(s.commands, func(c string) bool { return strings.Contains(c, "switch TLS") })
		if first < 0 {
			t.Fatalf("nodes got %q, and none switched", s.commands)
		}
		return s.commands, first
	}
	commands, first := switching(specTLS(v1.TLSPreferred), secured("both", false, all...))
	for _, i := range all {
		if at := slices.Index(commands, ipOf(i)+" config set cluster-replica-no-failover yes"); at < 0 || at > first {
			t.Fatalf("nodes got %q", commands)
		}
	}
	commands, _ = switching(specTLS(v1.TLSRequired), secured("only", true, all...),
		tlsIs(func(s *redisnode.TLSState) { s.Plain = true }, 3))
	if slices.ContainsFunc(commands, func(c string) bool { return strings.Contains(c, noFailover) }) {
		t.Errorf("nodes got %q", commands)
	}
}

// While spec.tls is removed, a Pod that is created gets the certificate, and the transport of the others. Without the Secret, or after the
// nodes have left TLS, it gets none.
func TestAPodOfAClusterThatLeavesTLS(t *testing.T) {
	for sentence, test := range map[string]struct {
		name, annotation string // the name in the certificate; "" if there is no Secret
		hasTLS           bool
	}{
		"the nodes use TLS":         {demoName, "both", true},
		"the nodes have left it":    {demoName, "", false},
		"the Secret does not exist": {"", "both", false},
		"the Secret is not valid":   {"another.default.svc", "both", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, with(six(), secured(test.annotation, test.annotation != "", all...)))
			s.clock.SetTime(time.Now())
			if test.name != "" {
				s.addTLS(test.name)
			}
			s.destroy("pods", "demo-4")
			if writes := s.nexts(); slices.ContainsFunc(writes, loads) && !test.hasTLS {
				t.Errorf("nodes load the Secret: %q", writes)
			}
			if p := s.pod("demo-4"); manifest.HasTLS(p) != test.hasTLS || (test.hasTLS && manifest.PortFor(p, true) != v1.DefaultTLSPort) {
				t.Errorf("the Pod has TLS: %t, want %t; its port is %d", manifest.HasTLS(p), test.hasTLS, manifest.PortFor(p, true))
			}
		})
	}
}

// A Secret that cannot be read is a problem, and the operator still syncs: it trusts the certificate in the status.
func TestACertificateThatCannotBeRead(t *testing.T) {
	s := newStage(t, with(six(), specTLS(v1.TLSPreferred), secured("both", true, all...)))
	s.fails("get", "secrets", errors.New("no answer"))
	s.nexts()
	if c := s.is(glassback.ConditionDegraded); c.Reason != reasonNoCertificate || !strings.Contains(c.Message, "no answer") {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
}

// A node loads a renewed certificate once in a while, until it serves the certificate: the kubelet may not have written it yet.
func TestACertificateIsNotLoadedWithEachSync(t *testing.T) {
	s := withCertificateToLoad(t)
	for range 2 {
		if n := countFunc(s.nexts(), loads); n != 6 {
			t.Errorf("6 nodes got %d commands to load their certificate within %s, want one each", n, loadEvery)
		}
		s.clock.Step(loadEvery)
	}
}

// TestARefusedCertificateIsReportedOnce has nodes that refuse the certificate of the Secret each time. The status says so all the time,
// and is written once.
func TestARefusedCertificateIsReportedOnce(t *testing.T) {
	s := withCertificateToLoad(t)
	for i := range 6 {
		s.errs[ipOf(i)+" reload"] = fmt.Errorf("CONFIG SET: %w", &redisnode.RefusedDirectiveError{Reason: "Unable to update TLS configuration"})
	}
	reported := false
	for range 10 * 4 {
		writes := s.next()
		now := s.is(glassback.ConditionDegraded).Reason == reasonCertificateNotLoaded
		if reported && (!now || slices.Contains(writes, statusWrite)) {
			t.Fatalf("Degraded is %+v, after it had reported the certificate; writes %q", s.is(glassback.ConditionDegraded), writes)
		}
		reported = now
		s.clock.Step(loadEvery / 4)
	}
	if !reported {
		t.Error("nothing is reported")
	}
}
