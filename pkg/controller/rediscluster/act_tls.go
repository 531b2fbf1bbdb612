// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"slices"
)

// recordTLS writes the transport to exactly the observed Pod. Its node does not switch yet.
func (e executor) recordTLS(ctx context.Context, m *member, transport string) error {
	annotation := map[string]any{AnnotationTLS: nil}
	if transport != transportPlain {
		annotation[AnnotationTLS] = transport
	}
	return e.patchPod(ctx, m, "annotations", annotation)
}

// noFailover is the directive that keeps replicas from being elected.
const noFailover = "cluster-replica-no-failover"

// switchTLS makes the named nodes follow the annotations of their Pods, all at once. If this changes the protocol among the nodes,
// switchTLS first keeps all replicas from being elected.
func (e executor) switchTLS(ctx context.Context, names []string) error {
	tls := e.o.membersWhere((*member).knowsTransport)
	named := slices.DeleteFunc(slices.Clone(tls), func(m *member) bool { return !slices.Contains(names, m.name) })
	if slices.ContainsFunc(named, (*member).changesBus) {
		if err := inParallel(tls, func(m *member) error { return e.node(m).SetDirective(ctx, noFailover, "yes") }); err != nil {
			return err
		}
		delete(e.sessions.get(e.o.rdc).since, factNoFailover) // Its age counts from the last switch.
	}
	return inParallel(named, func(m *member) error {
		transport, port := m.pod.Annotations[AnnotationTLS], portFor(m.pod, false)
		if transport == transportOnly {
			port = 0
		}
		announcedBus := 0
		if m.isElsewhere() {
			announcedBus = m.announced().Bus
		}
		return e.node(m).SwitchTLS(ctx, transport != transportPlain, port, m.own().Bus, announcedBus)
	})
}

// changesBus returns whether a switch to the transport of its Pod changes the protocol that the node uses with the other nodes.
func (m *member) changesBus() bool {
	among := m.pod.Annotations[AnnotationTLS] != transportPlain
	return m.view.TLS.Cluster != among || m.view.TLS.Replication != among
}

// endSwitch lets the named nodes be elected again.
func (e executor) endSwitch(ctx context.Context, names []string) error {
	some := e.o.membersWhere(func(m *member) bool { return slices.Contains(names, m.name) })
	return inParallel(some, func(m *member) error { return e.node(m).SetDirective(ctx, noFailover, "no") })
}

// loadCertificate makes a node load the files of its Secret again.
func (e executor) loadCertificate(ctx context.Context, m *member) error {
	err := e.node(m).ReloadCertificate(ctx)
	refused := refusedDirective(err)
	e.sessions.get(e.o.rdc).recordLoad(m, e.o.certificate.fingerprint, refused, e.clock.Now())
	if refused != nil {
		err = nil // See tlsProblem.
	}
	return err
}
