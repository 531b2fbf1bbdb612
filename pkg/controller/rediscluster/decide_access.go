// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/redisnode"
)

// The functions below decide which address each node announces: the IP of its Pod, or with spec.access.external the address of a Service of
// its own. A node tells the announced address to clients. The other nodes use it, too, for the bus and for replication. The operator always
// connects to the Pod. With TLS, a node announces two ports for clients: replication and each client use the one for their protocol.
//
//   - A node changes its address while it runs, by CONFIG SET. A container that restarts begins with the IP of its Pod.
//   - One node changes at a time. The next one follows once all nodes agree on the new address, and reach each other. Replicas come first,
//     since nothing is replicated from them. No node changes while any replica is not up to date.
//   - A node announces an address only after the operator has reached that node there. If the other nodes do not reach the node there, it
//     announces the IP of its Pod again. AnnotationUnreachable records the address that failed.
//   - A Service is deleted only when no node knows its address any more.

// own returns the address of the member's Pod.
func (m *member) own() manifest.Address {
	self := m.self()
	return manifest.Address{
		IP: m.ip(), Port: cmp.Or(manifest.PortFor(m.Pod, false), self.Port), TLS: manifest.PortFor(m.Pod, true),
		Bus: cmp.Or(manifest.PortNamed(m.Pod, manifest.PortBus), self.BusPort),
	}
}

// announced returns the address that the node of a member tells to others. Without a Service, it returns the address of the Pod.
func (m *member) announced() manifest.Address {
	self, own := m.self(), m.own()
	if self.IP == "" || (!manifest.IsExternal(m.Pod) && m.service == nil) {
		return own
	}
	a := addressOf(self)
	if manifest.HasTLS(m.Pod) { // The entry has only one of the two ports for clients.
		a.Port, a.TLS = own.Port, own.TLS
		if tls := m.View.TLS; tls != nil {
			a.Port, a.TLS = cmp.Or(tls.AnnouncedPort, own.Port), cmp.Or(tls.AnnouncedTLSPort, own.TLS)
		}
	}
	return a
}

// addressOf returns the address in an entry.
func addressOf(e *redisnode.Entry) manifest.Address {
	return manifest.Address{IP: e.IP, Port: e.Port, Bus: e.BusPort}
}

// isAt returns whether an entry has this address. With TLS, a node has two ports for clients, and the entry has only one of them.
func (m *member) isAt(e *redisnode.Entry, a manifest.Address) bool {
	if !manifest.IsExternal(m.Pod) {
		return e.IP == a.IP && (manifest.HasTLS(m.Pod) || e.Port == a.Port)
	}
	return e.IP == a.IP && a.HasPort(e.Port) && e.BusPort == a.Bus
}

// isAnnouncing returns whether the node of a member announces exactly this address.
func (m *member) isAnnouncing(a manifest.Address) bool {
	return m.isAt(m.self(), a) && (!manifest.IsExternal(m.Pod) || m.announced() == a)
}

// isElsewhere returns whether the node of a member announces another address than that of its Pod.
func (m *member) isElsewhere() bool { return m.answers() && !m.isAnnouncing(m.own()) }

// reachableAt returns whether an entry has an address of a member: that of its Pod, that of its Service, or the one that the member
// announces. The member need not answer.
func (m *member) reachableAt(e *redisnode.Entry) bool {
	return e.IP == m.ip() || manifest.Serves(m.service, addressOf(e)) || (m.answers() && e.IP == m.announced().IP)
}

// externalOf returns the address of the member's Service that its node can announce; the zero address if there is none.
func (o *observed) externalOf(m *member) manifest.Address {
	return manifest.ExternalAddress(o.Object, m.service, m.Pod)
}

// isGivenUp returns whether the other nodes did not reach the member at an address.
func (m *member) isGivenUp(a manifest.Address) bool {
	return m.Pod.Annotations[manifest.AnnotationUnreachable] == a.String()
}

// gaveUp returns whether any member has given up the address that it should announce. Then no other node announces a new address of its
// Service: the others would probably not reach that node, either, and each attempt interrupts replication.
func (o *observed) gaveUp() bool {
	return slices.ContainsFunc(o.Members, func(m *member) bool {
		to := o.externalOf(m)
		return to != manifest.Address{} && !o.leaving(m) && m.isGivenUp(to)
	})
}

// correctAddresses makes nodes announce the address of their Pod again, at once, if the others cannot reach them at the announced address.
// Then the Service of this address is gone, has another address or does not select the Pod, or the others have not reached the node for
// longer than addressPatience. A master that the others still reach keeps its address for now: see announceAddresses.
func correctAddresses(o *observed) *plan {
	var commands []command
	for _, m := range o.answering() {
		if !m.isElsewhere() || (!manifest.IsExternal(m.Pod) && m.service == nil && o.Object.Spec.External() == nil) {
			continue
		}
		at := m.announced()
		back := command{verb: announce, on: m, names: []string{m.own().String()}}
		switch {
		case !manifest.Serves(m.service, at), m.isGivenUp(at):
			if !m.View.Master || o.isUnreached(m) {
				commands = append(commands, back)
			}
		case !manifest.IsExternal(m.Pod):
			commands = append(commands, command{verb: labelPod, on: m})
		case m.UnreachedFor.Duration > o.addressPatience() && !o.tlsInterrupts():
			commands = append(commands, command{verb: giveUpAddress, on: m, names: []string{at.String()}}, back)
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return do(commands, "Correcting the addresses that nodes announce: %s", commands[0].on.Name)
}

// addressPatience is how long a node keeps the address of its Service if the other nodes do not reach the node there. Meanwhile, replicas
// of that node may be behind.
func (o *observed) addressPatience() time.Duration { return max(2*o.nodeTimeout(), 5*time.Second) }

// tlsInterrupts returns whether certificates, or a switch, may be why nodes do not reach each other. Then the addresses may be correct.
func (o *observed) tlsInterrupts() bool {
	transport, same := o.transport()
	secure := transport != manifest.TransportPlain
	return !same || (secure && o.badCertificate() != nil) || slices.ContainsFunc(o.Members, func(m *member) bool {
		return m.preventsFailover() || !m.hasTransport(transport) || (secure && (m.Untrusted || m.StaleCertificate))
	})
}

// isUnreached returns whether other nodes do not reach a member at the address that it announces, for the bus or for replication. Nodes
// that do not reach most of the others do not count, unless all nodes are like that: then the addresses of all nodes may be wrong.
func (o *observed) isUnreached(m *member) bool {
	if !m.isElsewhere() {
		return false
	}
	var witnesses, missing int
	for _, a := range o.answering() {
		e := a.entry(m.ID)
		if a == m || e == nil || !m.isAt(e, m.announced()) {
			continue
		}
		if o.reachesMost(a) {
			witnesses++
		}
		if !reaches(e) {
			missing++
			if o.reachesMost(a) {
				return true
			}
		}
	}
	return (witnesses == 0 && missing > 0) || slices.ContainsFunc(o.replicasOf(m), func(r *member) bool {
		return !r.View.LinkUp && !r.View.Syncing && r.View.MasterIP == m.announced().IP && m.announced().HasPort(r.View.MasterPort)
	})
}

// reaches returns whether a node reaches the node in this entry of its table. Connected does not suffice: Redis also sets it while the link
// is still connecting.
func reaches(e *redisnode.Entry) bool { return e.Connected && !e.MaybeFailed && !e.Failed }

// reachesMost returns whether a member is connected to at least half of the other members that answer.
func (o *observed) reachesMost(m *member) bool {
	reached, others := 0, 0
	for _, other := range o.answering() {
		if other == m {
			continue
		}
		others++
		if e := m.entry(other.ID); e != nil && reaches(e) {
			reached++
		}
	}
	return 2*reached >= others
}

// announceAddresses makes one node announce its desired address. The policies before it ensure that all nodes that answer agree. If a
// Service has no address yet, or the operator does not reach its node there, the node keeps its address and delays nothing else: see
// waitForAddresses.
func announceAddresses(o *observed) *plan {
	if o.Closed {
		return nil
	}
	unlabelled, changes := o.addressChanges()
	switch {
	case len(unlabelled) > 0:
		return do(unlabelled, "Preparing %d nodes for clients outside of the cluster", len(unlabelled))
	case len(changes) == 0:
		return nil
	}
	for _, m := range o.answering() {
		if o.isUnreached(m) || (!m.View.Master && !m.View.LinkUp) {
			return nil // The last change may be the cause. See waitForReplicas.
		}
	}
	return do(changes[:1], "%s announces the address %s: %d nodes are left", changes[0].on.Name, changes[0].names[0], len(changes))
}

// addressChanges returns the commands for the Pods that have no label yet, and for the nodes that should announce another address, replicas
// first. It omits a node until the operator has reached the node at the address of its Service.
func (o *observed) addressChanges() (unlabelled, changes []command) {
	stopped := o.gaveUp()
	for _, m := range o.answering() {
		to := o.externalOf(m)
		switch {
		case o.leaving(m), !manifest.IsExternal(m.Pod) && to == manifest.Address{}:
			continue
		case to == manifest.Address{} || m.isGivenUp(to) || (to.IsName() && manifest.IsExternal(m.Pod)):
			if to = m.own(); m.isAnnouncing(to) {
				continue
			}
		case manifest.IsExternal(m.Pod) && m.isAnnouncing(to):
			continue
		case !manifest.IsExternal(m.Pod):
			unlabelled = append(unlabelled, command{verb: labelPod, on: m})
			continue
		case m.ReachedAt != to:
			if !m.isElsewhere() || (manifest.Serves(m.service, m.announced()) && m.AddressMissedFor.Duration <= silentTooLong) {
				continue
			}
			to = m.own() // The announced address is no longer that of the Service, or the new one has not been reached for too long.
		}
		if to != m.own() && stopped {
			continue
		}
		changes = append(changes, command{verb: announce, on: m, names: []string{to.String()}})
	}
	slices.SortStableFunc(changes, func(a, b command) int { return compareBool(a.on.View.Master, b.on.View.Master) })
	return unlabelled, changes
}

// changesAddress returns whether a node is about to announce another address, or is not reached at the one that it announces. This state
// ends: a node that is not reached gives up its address, and then no other node changes its address.
func (o *observed) changesAddress() bool {
	unlabelled, changes := o.addressChanges()
	return len(unlabelled)+len(changes) > 0 || slices.ContainsFunc(o.Members, func(m *member) bool { return m.UnreachedFor.Duration > 0 })
}

// waitForAddresses reports that nodes do not announce the addresses of their Services yet. It is the last policy: nothing else waits for
// an address.
func waitForAddresses(o *observed) *plan {
	if o.Object.Spec.External() == nil {
		return nil
	}
	for _, m := range o.answering() {
		to := o.externalOf(m)
		switch {
		case o.leaving(m) || (to != manifest.Address{} && (m.offers(to) || m.isGivenUp(to))):
		case to == manifest.Address{}:
			return wait(check, "Waiting for the address of the Service %s", m.Name)
		case m.ReachedAt == to && o.gaveUp():
		case m.ReachedAt == to && to.IsName():
			return wait(check, "Waiting until %s tells clients the hostname %s", m.Name, to.IP)
		default:
			return wait(check, "Waiting to reach %s at %s: %s", m.Name, to, m.WhyUnreached)
		}
	}
	return nil
}

// serviceCommands returns the commands that delete Services that the spec does not want. A Service stays while any node knows its address,
// or clients may get its hostname. If only the type of the Service differs from the spec, the Service is then created again.
func serviceCommands(o *observed) []command {
	if len(o.answering()) == 0 {
		return nil
	}
	external := o.Object.Spec.External()
	var commands []command
	for _, s := range o.Services {
		pod := slices.ContainsFunc(o.Members, func(m *member) bool {
			return m.service == s && (m.Pod != nil || m.Ordinal < int(*o.Object.Spec.Size))
		})
		wanted := external != nil && pod && s.Spec.Type == corev1.ServiceType(external.Type)
		if !wanted && s.DeletionTimestamp == nil && !o.isAnnounced(s) && !o.clientsMayGetHostname(s.Name) {
			commands = append(commands, command{verb: deleteService, names: []string{s.Name}})
		}
	}
	return commands
}

// isAnnounced returns whether any node that answers knows a node at the address of a Service.
func (o *observed) isAnnounced(s *corev1.Service) bool {
	return slices.ContainsFunc(o.answering(), func(m *member) bool {
		return slices.ContainsFunc(m.View.Table, func(e redisnode.Entry) bool { return manifest.Serves(s, addressOf(&e)) })
	})
}

// matchServices sets the Service of each member.
func (o *observed) matchServices() {
	for _, m := range o.Members {
		m.service = nil
		for _, s := range o.Services {
			if s.Labels[manifest.LabelExternal] == strconv.Itoa(m.Ordinal) && s.Name == m.Name {
				m.service = s
			}
		}
	}
}

// addressProblem returns the problem that clients outside of the cluster, or the other nodes, do not reach a member; nil if there is none.
func (o *observed) addressProblem(m *member) *problem {
	if !m.answers() || o.leaving(m) || o.Closed {
		return nil
	}
	to := o.externalOf(m)
	switch {
	case to == manifest.Address{}:
		return nil
	case m.isGivenUp(to):
		return &problem{reasonUnreachable, fmt.Sprintf("The other nodes did not reach %s at %s, so it announces the IP of its Pod, and no "+
			"other node changes its address. Correct the network, and then: kubectl annotate pod %s %s-",
			m.Name, to, m.Name, manifest.AnnotationUnreachable)}
	case m.AddressMissedFor.Duration > silentTooLong && m.isAnnouncing(to):
		return &problem{reasonUnreachable, fmt.Sprintf("The operator has not reached %s at %s also without TLS for more than %s, so the nodes "+
			"keep TLS: %s", m.Name, to, silentTooLong, m.WhyUnreached)}
	case m.AddressMissedFor.Duration > silentTooLong && to.IsName():
		return &problem{reasonUnreachable, fmt.Sprintf("The operator has not reached %s by its hostname, at %s, for more than %s, and waits "+
			"for that: %s", m.Name, to, silentTooLong, m.WhyUnreached)}
	case m.AddressMissedFor.Duration > silentTooLong:
		return &problem{reasonUnreachable, fmt.Sprintf("The operator has not reached %s at %s for more than %s, so it does not announce "+
			"it: %s", m.Name, to, silentTooLong, m.WhyUnreached)}
	}
	return nil
}

// announces returns whether a plan is about the addresses of nodes.
func (p plan) announces() bool {
	return slices.Contains([]string{"correctAddresses", "announceAddresses", "waitForAddresses"}, p.Policy)
}

// servicePorts returns the ports of the Service of a node. With a hostname, clients connect to the ports that the node announces: those of
// its Pod. The other nodes do not use the Service then, so it has no port of the bus. A Service that already has this port keeps its ports
// while it is used.
func (o *observed) servicePorts(m *member, existing *corev1.Service, used bool) manifest.Address {
	if o.Object.Spec.HostnameOf(m.Name) == "" || (used && existing != nil && manifest.ExternalPorts(existing).Bus > 0) {
		return manifest.KeptPorts(o.Object, o.tlsPort(), existing)
	}
	port, _ := manifest.Ports(o.Object)
	a := manifest.Address{Port: port, TLS: o.tlsPort()}
	if m.Pod != nil {
		a.Port, a.TLS = cmp.Or(manifest.PortFor(m.Pod, false), a.Port), cmp.Or(manifest.PortFor(m.Pod, true), a.TLS)
	}
	return a
}
