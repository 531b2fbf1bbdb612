// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// backdate is the time by which a certificate is valid before its creation, so that API servers with slow clocks accept it too.
const backdate = 24 * time.Hour

// authority is a CA: a certificate that signs others, and its key.
type authority struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
	keyPEM  []byte
}

// newAuthority makes a CA that is valid for a lifetime from now on.
func newAuthority(now time.Time, lifetime time.Duration) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a CA: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// A unique name: with two CAs of the same name, a client may try the wrong one.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("glassback-webhook-ca-%x", serial)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign a CA: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("write the key of a CA: %w", err)
	}
	return parseAuthority(encode(der), keyPEM)
}

// parseAuthority parses a CA from PEM. It returns an error for a CA that cannot sign.
func parseAuthority(certPEM, keyPEM []byte) (*authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err // The error does not quote the key.
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok:
		return nil, errors.New("the key cannot sign")
	case !pair.Leaf.IsCA || pair.Leaf.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, errors.New("the certificate is not that of a CA")
	case constrained(pair.Leaf):
		return nil, errors.New("the CA is constrained to certain names or uses")
	}
	// Only the first certificate, as this package writes it.
	return &authority{cert: pair.Leaf, key: key, certPEM: encode(pair.Leaf.Raw), keyPEM: keyPEM}, nil
}

// constrained reports whether a CA limits the certificates that it may sign. API servers might not trust its leaves.
func constrained(ca *x509.Certificate) bool {
	return len(ca.ExtKeyUsage)+len(ca.UnknownExtKeyUsage)+
		len(ca.PermittedDNSDomains)+len(ca.ExcludedDNSDomains)+len(ca.PermittedIPRanges)+len(ca.ExcludedIPRanges) > 0
}

// leaf signs a serving certificate for names: DNS names and IP addresses. The certificate is valid from the start of the CA until lifetime
// from now, or until the end of the CA.
func (a *authority) leaf(names []string, now time.Time, lifetime time.Duration) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a serving certificate: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "glassback-webhook"},
		NotBefore:    a.cert.NotBefore,
		NotAfter:     earlier(now.Add(lifetime), a.cert.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a serving certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read a serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}, nil
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

// valid reports whether a certificate is valid now.
func valid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

// parseBundle returns the certificates in PEM text. It leaves out other text.
func parseBundle(text []byte) []*x509.Certificate {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != cert.CertificateBlockType {
			continue
		}
		if parsed, err := x509.ParseCertificate(block.Bytes); err == nil {
			certs = append(certs, parsed)
		}
	}
	return certs
}

// formatBundle returns certificates as PEM text, always in the same order.
func formatBundle(certs []*x509.Certificate) []byte {
	certs = slices.Clone(certs)
	slices.SortFunc(certs, func(a, b *x509.Certificate) int { return bytes.Compare(a.Raw, b.Raw) })
	var text bytes.Buffer
	for _, c := range certs {
		text.Write(encode(c.Raw))
	}
	return text.Bytes()
}

func holds(certs []*x509.Certificate, c *x509.Certificate) bool {
	return slices.ContainsFunc(certs, c.Equal)
}
