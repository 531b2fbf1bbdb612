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

	serving func(expiry time.Time) // called for each certificate; nil for no such call
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
	if l.serving != nil {
		l.serving(cert.Leaf.NotAfter)
	}
	l.once.Do(func() { close(l.given) })
}
