// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// switchTLS makes the named nodes use what their annotations say, all at once. First it keeps all replicas from being elected, if the nodes
// use another protocol among themselves then.
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
		return e.node(m).SwitchTLS(ctx, transport != transportPlain, port, m.self().BusPort)
	})
}

// changesBus returns whether the node uses another protocol with the other nodes after a switch to the transport of its Pod.
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
	e.sessions.get(e.o.rdc).recordLoad(m, e.o.certificate.fingerprint, e.clock.Now())
	if refused := refusedDirective(err); refused != nil {
		return problemError{reasonCertificateNotLoaded,
			fmt.Sprintf("%s does not load the certificate of the Secret: %s. Its log says why", m.name, refused.Reason)}
	}
	return err
}

// inParallel calls do for all members at once, and returns the errors. It passes a panic on: in a goroutine of its own, a panic would
// end the process.
func inParallel(members []*member, do func(*member) error) error {
	var calls sync.WaitGroup
	errs, panics := make([]error, len(members)), make([]any, len(members))
	for i, m := range members {
		calls.Go(func() {
			defer func() { panics[i] = recover() }()
			if err := do(m); err != nil {
				errs[i] = fmt.Errorf("%s: %w", m.name, err)
			}
		})
	}
	calls.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	return errors.Join(errs...)
}
