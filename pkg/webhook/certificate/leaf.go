/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
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

// GetCertificate is for tls.Config. A handshake that comes before there is a certificate
// waits for it, as long as the client does.
func (l *Leaf) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	select {
	case <-l.given:
		return l.held.Load().cert, nil
	case <-hello.Context().Done():
		return nil, errors.New("there is no serving certificate yet")
	}
}

func (l *Leaf) store(cert *tls.Certificate, ca *x509.Certificate) {
	l.held.Store(&signed{cert, ca})
	l.once.Do(func() { close(l.given) })
}
