// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
	keyTrusted    = "ca.crt"   // the content of caBundle: the certificates of all trusted CAs
	keyCurrent    = "tls.crt"  // the CA that signs
	keyCurrentKey = "tls.key"  // and its key
	keyNext       = "next.crt" // the CA that will sign, during a rotation
	keyNextKey    = "next.key"

	annotationRetired = "glassback.dev/retired-at" // the times at which trusted CAs stopped signing
)

// AnnotationRotate on the Secret, with any value, makes the keeper stage the next CA at once.
const AnnotationRotate = "glassback.dev/rotate"

// contents is the parsed Secret.
type contents struct {
	current *authority // signs; nil if no CA can sign
	next    *authority // will sign; nil most of the time
	// trusted are the CAs that API servers are to trust: current, next, and those that signed before.
	trusted []*x509.Certificate
	retired map[string]time.Time // when a CA stopped signing, by fingerprint
	rotate  bool
}

// read returns the readable contents of a Secret, and an error for each unreadable part. The Secret may be nil.
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

// write writes c into a Secret, and reports whether that changed it. It leaves other keys and annotations alone.
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

// retirees returns the trusted CAs that do not sign any more.
func (c contents) retirees() []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(c.trusted), c.signs)
}

// signs reports whether ca is the current or the next CA.
func (c contents) signs(ca *x509.Certificate) bool {
	return c.current != nil && c.current.cert.Equal(ca) || c.next != nil && c.next.cert.Equal(ca)
}

// fingerprint returns the name of a CA in an annotation: a part of its SHA-256, which is long enough to be unique.
func fingerprint(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.Raw)
	return hex.EncodeToString(sum[:8])
}

// parseTimes parses "fingerprint=time,…", and leaves out invalid entries.
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
