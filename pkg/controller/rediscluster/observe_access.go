// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/redisnode"
)

// reachTimeout limits the total time for the ports of a node to which the operator only connects. The answers on the other ports may take
// viewTimeout. So unreached nodes delay a sync by at most the sum of both, and ports that drop all packets by at most reachTimeout.
const reachTimeout = time.Second

// reachEvery is how often the operator tries to reach a node at an address that the node does not announce yet.
const reachEvery = 3 * time.Second

// reached is the last attempt to reach a node at the address of its Service.
type reached struct {
	address manifest.Address
	at      time.Time
	why     string // why the node was not reached; "" if it was
}

// externalServices returns the Services for clients outside of the cluster that a RedisCluster controls, by their names.
func (c *Controller) externalServices(rdc *v1.RedisCluster) ([]*corev1.Service, error) {
	ours, err := objectsOf[*corev1.Service](c.serviceCache, rdc)
	if err != nil {
		return nil, err
	}
	ours = slices.DeleteFunc(ours, func(s *corev1.Service) bool {
		_, external := s.Labels[manifest.LabelExternal]
		return !external || !metav1.IsControlledBy(s, rdc)
	})
	slices.SortFunc(ours, func(a, b *corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	return ours, nil
}

// accessChanges returns the changes of the Services of spec.access. Those for clients outside of the cluster are deleted by commands, once
// no node announces their addresses. Until then, a Service of another type stays unchanged.
func (c *Controller) accessChanges(o *observed) []child.Change {
	rdc, name := o.Object, manifest.ClientServiceName(o.Object)
	changes := []child.Change{
		c.services.Reconcile(rdc, name, c.services.Observe(rdc, name), false, manifest.ClientService(rdc, o.Closed)),
	}
	external, unused := rdc.Spec.External(), c.sessions.get(rdc).unusedServices
	if external == nil {
		return changes
	}
	for _, m := range o.Members {
		observed := c.services.Observe(rdc, m.Name)
		if m.Ordinal >= int(*rdc.Spec.Size) || (observed.Object != nil && observed.Object.Spec.Type != corev1.ServiceType(external.Type)) {
			continue
		}
		ports := o.servicePorts(m, observed.Object, !unused[m.Name])
		desired := manifest.ExternalService(rdc, m.Ordinal, ports)
		changes = append(changes, c.services.Reconcile(rdc, m.Name, observed, false, desired))
	}
	return changes
}

// reachNodes tries to reach nodes at the addresses that they will announce. If the nodes are about to use the port without TLS, it also
// tries the addresses that they announce already. The same node must answer: another node may have the address.
func (c *Controller) reachNodes(ctx context.Context, o *observed) {
	current, now := c.sessions.get(o.Object), map[types.UID]reached{}
	transport, _ := o.transport()
	opens := transport == manifest.TransportBoth && o.wantedTransport() == manifest.TransportPlain
	var mu sync.Mutex
	var attempts goroutines
	for _, m := range o.answering() {
		to := o.externalOf(m)
		if to == (manifest.Address{}) || !manifest.IsExternal(m.Pod) || m.isGivenUp(to) || (m.offers(to) && (to.IsName() || !opens)) {
			continue
		}
		last := current.reachedNodes[m.Pod.UID]
		if last.address == to && o.Now.Sub(last.at) < reachEvery {
			mu.Lock()
			now[m.Pod.UID] = last
			mu.Unlock()
			continue
		}
		attempts.run(func() {
			attempt := reached{address: to, at: o.Now}
			if err := c.reach(ctx, o.Object, m, to); err != nil {
				attempt.why = withoutPort(err)
			}
			mu.Lock()
			defer mu.Unlock()
			now[m.Pod.UID] = attempt
		})
	}
	attempts.wait()
	current.reachedNodes = now
	for _, m := range o.answering() {
		attempt, tried := now[m.Pod.UID]
		switch {
		case !tried:
		case attempt.why == "":
			m.ReachedAt = attempt.address
		default:
			m.WhyUnreached = attempt.why
		}
	}
}

// reach returns an error unless the node of a member answers at an address on the ports that the other nodes use, with TLS if it has a
// certificate. The other ports must accept a connection: the one of the bus, and the one without TLS while the nodes do not use it. The
// operator sends no password to them. A node with a certificate is asked at a hostname only with TLS, and its certificate must have that
// name.
func (c *Controller) reach(ctx context.Context, rdc *v1.RedisCluster, m *member, a manifest.Address) error {
	_, login := c.sessions.connection(rdc, m.Pod)
	plain := login
	plain.TLS = redisnode.TLS{}
	asked, open := map[int]redisnode.Login{a.Port: plain}, []int{a.Bus}
	if a.IsName() {
		login.TLS.Name, login.TLS.Pin, open = a.IP, "", nil
	}
	if manifest.HasTLS(m.Pod) {
		asked[a.TLS] = login
		transport := m.Pod.Annotations[manifest.AnnotationTLS]
		among, alone := transport != manifest.TransportPlain, transport == manifest.TransportOnly
		if m.knowsTransport() {
			among, alone = among || m.View.TLS.Cluster, !m.View.TLS.Plain
		}
		if among || a.IsName() {
			delete(asked, a.Port)
			if !alone {
				open = append(open, a.Port)
			}
		}
	}
	connecting, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for _, port := range open {
		node := c.sessions.dial(a.IP, port, redisnode.Login{})
		err := node.Connect(connecting)
		node.Close()
		if err != nil {
			return err
		}
	}
	asking, end := context.WithTimeout(ctx, viewTimeout)
	defer end()
	for _, port := range slices.Sorted(maps.Keys(asked)) {
		node := c.sessions.dial(a.IP, port, asked[port])
		view, err := node.View(asking)
		node.Close()
		switch {
		case err != nil:
			return err
		case view.ID != m.ID:
			return errors.New("another node answers there")
		}
	}
	return nil
}

// recordServices remembers the Services whose addresses no node announces, for the next sync: a sync writes Services before it asks the
// nodes.
func (s *session) recordServices(o *observed) {
	s.unusedServices = map[string]bool{}
	for _, service := range o.Services {
		s.unusedServices[service.Name] = len(o.answering()) > 0 && !o.isAnnounced(service)
	}
}

// recallAddresses copies into o for how long nodes have not been reached.
func (s *session) recallAddresses(o *observed) {
	interrupted := o.tlsInterrupts()
	for _, m := range o.answering() {
		if !interrupted && o.isUnreached(m) {
			m.UnreachedFor = duration(s.ageOf(factUnreached+m.Name+" "+m.announced().String(), o.Now))
		}
		if m.WhyUnreached != "" {
			m.AddressMissedFor = duration(s.ageOf(factAddressMissed+m.Name, o.Now))
		}
	}
}
