// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"slices"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The commands for TLS.
var (
	// The Pod of on gets the annotation for a switch to the named transport.
	recordTLS = &verb{text: "record TLS of", do: executor.recordTLS, writes: func(_ *observed, c command) write {
		return patched(c, func(pod *metav1.ObjectMeta) {
			if delete(pod.Annotations, manifest.AnnotationTLS); c.names[0] != manifest.TransportPlain {
				metav1.SetMetaDataAnnotation(pod, manifest.AnnotationTLS, c.names[0])
			}
		})
	}}
	// The named nodes use what the annotations of their Pods say.
	switchTLS = &verb{text: "switch TLS of", do: executor.switchTLS}
	// The named nodes can be elected again.
	endSwitch = &verb{text: "allow failover of", do: executor.endSwitch}
	// on reads its files again.
	loadCertificate = &verb{text: "load certificate of", do: executor.loadCertificate}
)

// recordTLS writes the transport to exactly the observed Pod. Its node does not switch yet.
func (e executor) recordTLS(ctx context.Context, c command) error {
	annotation := map[string]any{manifest.AnnotationTLS: nil}
	if c.names[0] != manifest.TransportPlain {
		annotation[manifest.AnnotationTLS] = c.names[0]
	}
	return e.patchPod(ctx, c.on, "annotations", annotation)
}

// noFailover is the directive that keeps replicas from being elected.
const noFailover = "cluster-replica-no-failover"

// switchTLS makes the named nodes follow the annotations of their Pods, all at once. If this changes the protocol among the nodes,
// switchTLS first keeps all replicas from being elected.
func (e executor) switchTLS(ctx context.Context, c command) error {
	tls := e.o.membersWhere((*member).knowsTransport)
	named := slices.DeleteFunc(slices.Clone(tls), func(m *member) bool { return !slices.Contains(c.names, m.Name) })
	if slices.ContainsFunc(named, (*member).changesBus) {
		if err := inParallel(tls, func(m *member) error { return e.node(m).SetDirective(ctx, noFailover, "yes") }); err != nil {
			return err
		}
		delete(e.session.since, factNoFailover) // Its age counts from the last switch.
	}
	return inParallel(named, func(m *member) error {
		transport, port := m.Pod.Annotations[manifest.AnnotationTLS], manifest.PortFor(m.Pod, false)
		if transport == manifest.TransportOnly {
			port = 0
		}
		announcedBus := 0
		if m.isElsewhere() {
			announcedBus = m.announced().Bus
		}
		return e.node(m).SwitchTLS(ctx, transport != manifest.TransportPlain, port, m.own().Bus, announcedBus)
	})
}

// changesBus returns whether a switch to the transport of its Pod changes the protocol that the node uses with the other nodes.
func (m *member) changesBus() bool {
	among := m.Pod.Annotations[manifest.AnnotationTLS] != manifest.TransportPlain
	return m.View.TLS.Cluster != among || m.View.TLS.Replication != among
}

// endSwitch lets the named nodes be elected again.
func (e executor) endSwitch(ctx context.Context, c command) error {
	some := e.o.membersWhere(func(m *member) bool { return slices.Contains(c.names, m.Name) })
	return inParallel(some, func(m *member) error { return e.node(m).SetDirective(ctx, noFailover, "no") })
}

// loadCertificate makes a node load the files of its Secret again.
func (e executor) loadCertificate(ctx context.Context, c command) error {
	m := c.on
	err := e.node(m).ReloadCertificate(ctx)
	refused := refusedDirective(err)
	e.session.recordLoad(m, e.o.Certificate.Fingerprint, refused, e.clock.Now())
	if refused != nil {
		err = nil // See tlsProblem.
	}
	return err
}
