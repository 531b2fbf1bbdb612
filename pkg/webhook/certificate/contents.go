/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package certificate

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The keys of the Secret.
const (
	keyTrusted    = "ca.crt"   // what caBundle says: the certificates of all CAs that are trusted
	keyCurrent    = "tls.crt"  // the CA that signs
	keyCurrentKey = "tls.key"  // and its key
	keyNext       = "next.crt" // the CA that will sign, while one takes over from the other
	keyNextKey    = "next.key"

	annotationSince = "glassback.dev/retired-at" // when a CA that is still trusted last ceased to sign
)

// AnnotationRotate on the Secret, with any value, has the next CA staged at once.
const AnnotationRotate = "glassback.dev/rotate"

// contents is what the Secret says.
type contents struct {
	current *authority // signs; nil if there is none that can
	next    *authority // will sign; nil most of the time
	// trusted are the CAs that API servers are to trust: current, next, and those that
	// signed before.
	trusted []*x509.Certificate
	retired time.Time // when one of the latter last ceased to sign
	rotate  bool
}

// read returns what a Secret says, as far as it can be understood, and what cannot.
// There need not be a Secret.
func read(secret *corev1.Secret) (contents, []error) {
	if secret == nil {
		return contents{}, nil
	}
	var c contents
	var errs []error
	pair := func(certKey, keyKey string) *authority {
		a, err := parseAuthority(secret.Data[certKey], secret.Data[keyKey])
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		return a
	}
	c.current = pair(keyCurrent, keyCurrentKey)
	if len(secret.Data[keyNext])+len(secret.Data[keyNextKey]) > 0 {
		c.next = pair(keyNext, keyNextKey)
	}
	c.trusted = parseBundle(secret.Data[keyTrusted])
	if at, err := time.Parse(time.RFC3339, secret.Annotations[annotationSince]); err == nil {
		c.retired = at
	}
	_, c.rotate = secret.Annotations[AnnotationRotate]
	return c, errs
}

// write makes a Secret say c, and reports whether it did not before. Keys and
// annotations of others stay.
func (c contents) write(secret *corev1.Secret) (changed bool) {
	data, annotations := maps.Clone(secret.Data), maps.Clone(secret.Annotations)
	if data == nil {
		data = map[string][]byte{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	data[keyTrusted] = formatBundle(c.trusted)
	data[keyCurrent], data[keyCurrentKey] = c.current.certPEM, c.current.keyPEM
	delete(data, keyNext)
	delete(data, keyNextKey)
	if c.next != nil {
		data[keyNext], data[keyNextKey] = c.next.certPEM, c.next.keyPEM
	}
	delete(annotations, annotationSince)
	if len(c.retirees()) > 0 {
		annotations[annotationSince] = c.retired.UTC().Format(time.RFC3339)
	}
	if !c.rotate {
		delete(annotations, AnnotationRotate)
	}
	changed = !maps.EqualFunc(data, secret.Data, bytes.Equal) || !maps.Equal(annotations, secret.Annotations)
	secret.Data, secret.Annotations = data, annotations
	return changed
}

// retirees returns the CAs that are trusted and do not sign.
func (c contents) retirees() []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(c.trusted), c.signs)
}

// signs reports whether a CA is the one that signs, or will be.
func (c contents) signs(ca *x509.Certificate) bool {
	return c.current != nil && c.current.cert.Equal(ca) || c.next != nil && c.next.cert.Equal(ca)
}
