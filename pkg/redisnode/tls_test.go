// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"
)

func TestVerifyCertificate(t *testing.T) {
	const name = "redis.example"
	now := time.Now()
	// Each certificate has signed itself, and so is its own CA.
	issue := func(from, to time.Duration) *x509.Certificate {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: now.Add(from), NotAfter: now.Add(to),
			IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	valid, other := issue(-time.Hour, time.Hour), issue(-time.Hour, time.Hour)
	expired, future := issue(-2*time.Hour, -time.Hour), issue(time.Hour, 2*time.Hour)
	old := issue(-2*maxExpired, -maxExpired-time.Hour)
	trusting := func(name, pin string, ca *x509.Certificate) TLS {
		return TLS{Name: name, Pin: pin, Authorities: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))}
	}
	for sentence, test := range map[string]struct {
		trust  TLS
		served *x509.Certificate
		ok     bool
	}{
		"one of the CA":                     {trusting(name, "", valid), valid, true},
		"one of another CA":                 {trusting(name, "", other), valid, false},
		"one with another name":             {trusting("other.example", "", valid), valid, false},
		"one that has expired":              {trusting(name, "", expired), expired, true},
		"one that expired long ago":         {trusting(name, "", old), old, false},
		"one of another CA that expired":    {trusting(name, "", other), expired, false},
		"one that is not valid yet":         {trusting(name, "", future), future, false},
		"the pinned one, of another CA":     {trusting("other.example", Fingerprint(valid.Raw), other), valid, true},
		"another one than the pinned one":   {trusting(name, Fingerprint(other.Raw), other), valid, false},
		"no CA is known, and no pinned one": {TLS{Name: name}, valid, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := test.trust.verify([]*x509.Certificate{test.served})
			if (err == nil) != test.ok || (err != nil && !errors.Is(err, ErrCertificate)) {
				t.Errorf("error %v, want none: %t", err, test.ok)
			}
		})
	}
}

// TestHangUpWithoutAConnection: if a context ends at the moment at which its command succeeds, the connection is closed before
// ReloadCertificate closes it.
func TestHangUpWithoutAConnection(*testing.T) {
	Dial("127.0.0.1", 1, Login{}).hangUp(nil)
}
