// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/must"
)

// Authority is a CA of a test.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an Authority.
func NewAuthority(t testing.TB) Authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	key, der := signed(t, template, template, nil)
	certificate, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	return Authority{certificate, key}
}

// signed returns a new key and its certificate. With no key of the parent, it signs itself.
func signed(t testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	must.Succeed(t, err)
	return key, der
}

// Issue returns the data of a Secret, as cert-manager writes it, with a new certificate for names of tests, after the changes.
func (a Authority) Issue(t testing.TB, change ...func(*x509.Certificate)) map[string][]byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must.Succeed(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{"tls.default.svc", "world.default.svc"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(100 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(template)
	}
	key, der := signed(t, template, a.certificate, a.key)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must.Succeed(t, err)
	text := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return map[string][]byte{
		"tls.crt": text("CERTIFICATE", der), "tls.key": text("EC PRIVATE KEY", keyDER), "ca.crt": text("CERTIFICATE", a.certificate.Raw),
	}
}
