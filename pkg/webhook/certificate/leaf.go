// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

// Leaf is the last serving certificate that a Keeper signed. It is in memory only.
type Leaf struct {
	held  atomic.Pointer[signed]
	given chan struct{} // closed once held is set
	once  sync.Once
}

// signed is a serving certificate and the CA that has signed it.
type signed struct {
	cert *tls.Certificate
	ca   *x509.Certificate
}

// firstCertificateTimeout is how long a handshake waits for the first certificate: longer than an API
// server waits. Nothing else ends the wait, not even a client that disconnects.
const firstCertificateTimeout = 10 * time.Second

// GetCertificate is for tls.Config. A handshake before the first certificate waits for it.
func (l *Leaf) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(hello.Context(), firstCertificateTimeout)
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

// SetExpiryObserver sets the function that is called for each new serving certificate, with its expiry.
func SetExpiryObserver(observe func(time.Time)) { expiryObserver.Store(&observe) }

// serving reports a new serving certificate to the observer.
func serving(cert *tls.Certificate) {
	if observe := expiryObserver.Load(); observe != nil {
		(*observe)(cert.Leaf.NotAfter)
	}
}
