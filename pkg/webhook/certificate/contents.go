/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package certificate

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
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

	annotationRetired = "glassback.dev/retired-at" // since when the CAs that are trusted and do not sign do not
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
	retired map[string]time.Time // since when the latter do not, by fingerprint
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
	c.retired = parseTimes(secret.Annotations[annotationRetired])
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
	delete(annotations, annotationRetired)
	if len(c.retired) > 0 {
		annotations[annotationRetired] = formatTimes(c.retired)
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

// fingerprint is what a CA is called in an annotation: enough of its SHA-256 to tell it
// from the others.
func fingerprint(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.Raw)
	return hex.EncodeToString(sum[:8])
}

// parseTimes reads "fingerprint=time,…", and leaves out what it cannot read.
func parseTimes(text string) map[string]time.Time {
	times := map[string]time.Time{}
	for entry := range strings.SplitSeq(text, ",") {
		name, at, _ := strings.Cut(entry, "=")
		if parsed, err := time.Parse(time.RFC3339, at); err == nil {
			times[name] = parsed
		}
	}
	return times
}

func formatTimes(times map[string]time.Time) string {
	entries := make([]string, 0, len(times))
	for _, name := range slices.Sorted(maps.Keys(times)) {
		entries = append(entries, name+"="+times[name].UTC().Format(time.RFC3339))
	}
	return strings.Join(entries, ",")
}
