/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Leaf is the serving certificate that a Keeper has signed last. It is in memory alone.
type Leaf struct {
	held  atomic.Pointer[signed]
	given chan struct{} // closed once there is one
	once  sync.Once
}

// signed is a serving certificate and the CA that has signed it.
type signed struct {
	cert *tls.Certificate
	ca   *x509.Certificate
}

// firstPatience is how long a handshake waits for the first certificate: longer than an
// API server does. Nothing else ends the wait, not even that the client leaves.
const firstPatience = 10 * time.Second

// GetCertificate is for tls.Config. A handshake that comes before there is a certificate
// waits for it.
func (l *Leaf) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(hello.Context(), firstPatience)
	defer cancel()
	select {
	case <-l.given:
		return l.held.Load().cert, nil
	case <-ctx.Done():
		return nil, errors.New("there is no serving certificate yet")
	}
}

func (l *Leaf) store(cert *tls.Certificate, ca *x509.Certificate) {
	l.held.Store(&signed{cert, ca})
	serving(cert)
	l.once.Do(func() { close(l.given) })
}

var expiryObserver atomic.Pointer[func(time.Time)]

// SetExpiryObserver has observe called with the expiry of the serving certificate, whenever
// another one is served, from now on.
func SetExpiryObserver(observe func(time.Time)) { expiryObserver.Store(&observe) }

// serving reports a new serving certificate to the observer.
func serving(cert *tls.Certificate) {
	if observe := expiryObserver.Load(); observe != nil {
		(*observe)(cert.Leaf.NotAfter)
	}
}
