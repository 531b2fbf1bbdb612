// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/must"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// authorityAt returns a CA that was made at a time.
func authorityAt(t testing.TB, at time.Time) *authority {
	t.Helper()
	a, err := newAuthority(at, DefaultLifetimes.Authority)
	must.Succeed(t, err)
	return a
}

func TestALeafIsTrustedByWhoTrustsItsCA(t *testing.T) {
	ca, other := authorityAt(t, start), authorityAt(t, start)
	leaf, err := ca.leaf([]string{"glassback-webhook.glassback-system.svc", "10.0.0.7", "::1"}, start, DefaultLifetimes.Leaf)
	must.Succeed(t, err)
	for name, test := range map[string]struct {
		trusted []*x509.Certificate
		name    string
		at      time.Time
		err     string
	}{
		"by its name":                   {[]*x509.Certificate{ca.cert}, "glassback-webhook.glassback-system.svc", start, ""},
		"by an address":                 {[]*x509.Certificate{ca.cert}, "10.0.0.7", start, ""},
		"by another address":            {[]*x509.Certificate{ca.cert}, "::1", start, ""},
		"with another CA beside":        {[]*x509.Certificate{other.cert, ca.cert}, "10.0.0.7", start, ""},
		"by a client with a slow clock": {[]*x509.Certificate{ca.cert}, "10.0.0.7", start.Add(-23 * time.Hour), ""},
		"until it expires":              {[]*x509.Certificate{ca.cert}, "10.0.0.7", start.Add(DefaultLifetimes.Leaf - time.Second), ""},
		"not after it has": {
			[]*x509.Certificate{ca.cert}, "10.0.0.7", start.Add(DefaultLifetimes.Leaf + time.Second), "expired",
		},
		"not by a client that trusts another CA": {[]*x509.Certificate{other.cert}, "10.0.0.7", start, "unknown authority"},
		"not by a name that it was not made for": {[]*x509.Certificate{ca.cert}, "other.svc", start, "valid for glassback-webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(formatBundle(test.trusted)) {
				t.Fatal("the bundle cannot be read")
			}
			_, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: test.name, CurrentTime: test.at})
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

func TestALeafDoesNotOutliveItsCA(t *testing.T) {
	ca := authorityAt(t, start)
	leaf, err := ca.leaf([]string{"x"}, ca.cert.NotAfter.Add(-time.Hour), DefaultLifetimes.Leaf)
	must.Succeed(t, err)
	if !leaf.Leaf.NotAfter.Equal(ca.cert.NotAfter) {
		t.Errorf("it is valid until %s, its CA until %s", leaf.Leaf.NotAfter, ca.cert.NotAfter)
	}
}

func TestWhatCannotSignIsNoAuthority(t *testing.T) {
	ca, other := authorityAt(t, start), authorityAt(t, start)
	leaf, err := ca.leaf([]string{"x"}, start, time.Hour)
	must.Succeed(t, err)
	for name, test := range map[string]struct{ cert, key []byte }{
		"nothing":               {nil, nil},
		"no key":                {ca.certPEM, nil},
		"no certificate":        {nil, ca.keyPEM},
		"the key of another":    {ca.certPEM, other.keyPEM},
		"a leaf":                {encode(leaf.Certificate[0]), ca.keyPEM},
		"garbage":               {[]byte("garbage"), []byte("garbage")},
		"a cut-off certificate": {ca.certPEM[:len(ca.certPEM)/2], ca.keyPEM},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseAuthority(test.cert, test.key)
			if err == nil {
				t.Fatal("it is taken for a CA")
			}
			if strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), string(ca.keyPEM[40:60])) {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
	if again, err := parseAuthority(ca.certPEM, ca.keyPEM); err != nil || !again.cert.Equal(ca.cert) {
		t.Errorf("a CA is not read as it was written: %v", err)
	}
}

func TestBundles(t *testing.T) {
	a, b := authorityAt(t, start).cert, authorityAt(t, start).cert
	if one, other := string(formatBundle([]*x509.Certificate{a, b})), string(formatBundle([]*x509.Certificate{b, a})); one != other {
		t.Error("the text depends on the order")
	}
	text := append([]byte("# a comment\n-----BEGIN JUNK-----\nAAAA\n-----END JUNK-----\n"), formatBundle([]*x509.Certificate{a, b})...)
	text = append(text, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...)
	if got := parseBundle(text); len(got) != 2 || !holds(got, a) || !holds(got, b) {
		t.Errorf("%d certificates were read, want both", len(got))
	}
}

func poolOf(cas ...*authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AddCert(ca.cert)
	}
	return pool
}
