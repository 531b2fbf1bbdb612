// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/pkg/must"
)

// pipe returns the two ends of a connection.
func pipe(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client, server = net.Pipe()
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

func newLeaf() *Leaf { return &Leaf{given: make(chan struct{})} }

func TestAHandshakeWaitsForTheFirstCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ca := newLeaf(), authorityAt(t, time.Now())
		cert, err := ca.leaf([]string{"x"}, time.Now(), time.Hour)
		must.Succeed(t, err)
		client, server := pipe(t)
		shaken := make(chan error, 2)
		go func() {
			shaken <- tls.Client(client, &tls.Config{ServerName: "x", RootCAs: poolOf(ca), MinVersion: tls.VersionTLS12}).Handshake()
		}()
		go func() {
			shaken <- tls.Server(server, &tls.Config{GetCertificate: l.GetCertificate, MinVersion: tls.VersionTLS12}).Handshake()
		}()
		synctest.Wait()
		select {
		case err := <-shaken:
			t.Fatalf("the handshake ended before there was a certificate: %v", err)
		default:
		}
		l.store(cert, ca.cert)
		for range 2 {
			if err := <-shaken; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTheExpiryIsReported(t *testing.T) {
	var expiries []time.Time
	SetExpiryObserver(func(until time.Time) { expiries = append(expiries, until) })
	t.Cleanup(func() { expiryObserver.Store(nil) })
	l, ca := newLeaf(), authorityAt(t, start)
	for _, life := range []time.Duration{time.Hour, 2 * time.Hour} {
		cert, err := ca.leaf([]string{"x"}, start, life)
		must.Succeed(t, err)
		l.store(cert, ca.cert)
		if got := expiries[len(expiries)-1]; !got.Equal(cert.Leaf.NotAfter) {
			t.Errorf("it is served until %s, and the observer got %s", cert.Leaf.NotAfter, got)
		}
	}

	dir := t.TempDir()
	certPEM, keyPEM := pairOf(t, "first")
	put(t, dir, CertFile, certPEM)
	put(t, dir, KeyFile, keyPEM)
	f, err := OpenFiles(dir)
	must.Succeed(t, err)
	for range 2 { // What is read again, and is the same, is no news.
		if _, err := f.GetCertificate(helloOf(t, t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if len(expiries) != 3 || !expiries[2].Equal(f.pair.Leaf.NotAfter) {
		t.Errorf("files that are valid until %s: the observer got %s", f.pair.Leaf.NotAfter, expiries)
	}
}

func TestAHandshakeDoesNotWaitLongerThanTheClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hello := helloOf(t, ctx)
	cancel()
	if cert, err := newLeaf().GetCertificate(hello); err == nil {
		t.Errorf("got %v", cert)
	}
}
