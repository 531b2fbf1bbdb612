// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/must"
)

func TestDecide(t *testing.T) {
	const day = 24 * time.Hour
	life := DefaultLifetimes.Authority
	ca, next, old, foreign := authorityAt(t, start), authorityAt(t, start), authorityAt(t, start), authorityAt(t, start)
	minted := &authority{} // what decide mints, filled in then
	certs := func(all ...*authority) []*x509.Certificate {
		var certs []*x509.Certificate
		for _, a := range all {
			certs = append(certs, a.cert)
		}
		return certs
	}
	cas := func(all ...*authority) []*authority { return all }
	type want struct {
		current, next *authority
		trusted       []*authority
		did           string
	}
	for name, test := range map[string]struct {
		held    contents
		after   time.Duration // since start
		bundles [][]*x509.Certificate
		settled []*authority
		want
	}{
		"nothing yet: a CA is made": {contents{}, 0, nil, nil, want{minted, nil, cas(minted), "made a CA"}},
		"with a third of its life left, the next is staged": {contents{current: ca, trusted: certs(ca)}, life * 2 / 3, nil, nil,
			want{ca, minted, cas(ca, minted), "staged the next CA"}},
		"the next is staged at once on request": {contents{current: ca, trusted: certs(ca), rotate: true}, day, nil, nil,
			want{ca, minted, cas(ca, minted), "staged the next CA"}},
		"the next waits until it is trusted": {contents{current: ca, next: next, trusted: certs(ca, next)}, day, nil, []*authority{ca},
			want{ca, next, cas(ca, next), ""}},
		"the next takes over, and the one before stays trusted": {contents{current: ca, next: next, trusted: certs(ca, next)}, day,
			[][]*x509.Certificate{certs(ca, next)}, []*authority{ca, next}, want{next, nil, cas(next, ca), "had the staged CA take over"}},
		"the one before stays trusted, also if a user took it out": {contents{current: ca, next: next, trusted: certs(next)}, day,
			nil, []*authority{next}, want{next, nil, cas(next, ca), "had the staged CA take over"}},
		"each CA before goes at its own time": {contents{current: next, trusted: certs(next, ca, old), retired: map[string]time.Time{
			fingerprint(ca.cert): start, fingerprint(old.cert): start.Add(day)}}, 7*day + time.Minute, nil, nil,
			want{next, nil, cas(next, old), "dropped a CA"}},
		"a time that is still to come counts from now": {
			contents{current: next, trusted: certs(next, ca), retired: retired(start.Add(100*day), ca)}, day, nil, nil,
			want{next, nil, cas(next, ca), ""},
		},
		"an expired CA is replaced, and trusted no longer": {
			contents{current: old, trusted: certs(old)}, life, [][]*x509.Certificate{certs(old)}, nil,
			want{minted, nil, cas(minted), "made a CA"},
		},
		"an expired CA is replaced by one that is staged": {
			contents{current: &authority{cert: expired(t)}, next: next, trusted: certs(next)}, 0, nil, nil,
			want{next, nil, cas(next), "take over from one that cannot sign"},
		},
		"a deleted Secret: the CA that is served stays trusted": {contents{}, 0, [][]*x509.Certificate{certs(ca)}, nil,
			want{minted, nil, cas(minted, ca), "had CAs trusted again"}},
		"a CA from elsewhere: the same": {contents{current: foreign, trusted: certs(foreign)}, 0, [][]*x509.Certificate{certs(ca)}, nil,
			want{foreign, nil, cas(foreign, ca), "had CAs trusted again"}},
		"what has been dropped from the Secret does not come back from a caBundle": {contents{current: next, trusted: certs(next)}, 8 * day,
			[][]*x509.Certificate{certs(next, ca)}, nil, want{next, nil, cas(next), ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{
				now: start.Add(test.after), bundles: test.bundles, lifetimes: DefaultLifetimes,
				settled: func(c *x509.Certificate) bool { return holds(certs(test.settled...), c) },
			}
			mints := 0
			before := slices.Clone(test.held.trusted)
			got, did, err := decide(test.held, s, func() (*authority, error) {
				mints++
				*minted = *authorityAt(t, s.now)
				return minted, nil
			})
			if err != nil || mints > 1 {
				t.Fatalf("%d CAs were made, error %v", mints, err)
			}
			if got.current != test.want.current || got.next != test.want.next {
				t.Errorf("another CA signs, or is next: did %q", did)
			}
			if string(formatBundle(got.trusted)) != string(formatBundle(certs(test.want.trusted...))) {
				t.Errorf("%d CAs are trusted, want %d others: did %q", len(got.trusted), len(test.want.trusted), did)
			}
			if text := strings.Join(did, "; "); (text == "") != (test.did == "") || !strings.Contains(text, test.did) {
				t.Errorf("did %q, want %q", text, test.did)
			}
			if got.rotate {
				t.Error("it would rotate again")
			}
			if !slices.Equal(before, test.held.trusted) {
				t.Error("what was given to decide has changed")
			}
			// Deciding again changes nothing more.
			s.bundles = [][]*x509.Certificate{got.trusted}
			s.settled = func(*x509.Certificate) bool { return false }
			if _, did, err := decide(got, s, func() (*authority, error) { return nil, errors.New("another CA") }); err != nil || len(did) > 0 {
				t.Errorf("at once it did %q more, error %v", did, err)
			}
		})
	}
}

func retired(at time.Time, cas ...*authority) map[string]time.Time {
	times := map[string]time.Time{}
	for _, ca := range cas {
		times[fingerprint(ca.cert)] = at
	}
	return times
}

func expired(t *testing.T) *x509.Certificate {
	return authorityAt(t, start.Add(-2*DefaultLifetimes.Authority)).cert
}

func TestTheSecretIsReadAsItWasWritten(t *testing.T) {
	ca, next, old := authorityAt(t, start), authorityAt(t, start), authorityAt(t, start)
	c := contents{current: ca, next: next, retired: retired(start, old), rotate: true,
		trusted: []*x509.Certificate{ca.cert, next.cert, old.cert}}
	shared := map[string][]byte{"theirs": []byte("stays"), keyNext: []byte("is replaced")}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"theirs": "stays", AnnotationRotate: ""}}, Data: shared,
	}
	if !c.write(secret) {
		t.Error("writing it changed nothing")
	}
	if string(shared[keyNext]) != "is replaced" {
		t.Error("a map that others may share was written to")
	}
	if c.write(secret) {
		t.Error("writing the same changed something")
	}
	if string(secret.Data["theirs"]) != "stays" || secret.Annotations["theirs"] != "stays" {
		t.Error("what is not the operator's was lost")
	}
	got, problems := read(secret)
	if len(problems) > 0 || !got.current.cert.Equal(ca.cert) || !got.next.cert.Equal(next.cert) {
		t.Fatalf("other CAs were read: %v", problems)
	}
	if string(formatBundle(got.trusted)) != string(formatBundle(c.trusted)) || !maps.EqualFunc(got.retired, c.retired, time.Time.Equal) ||
		!got.rotate {
		t.Errorf("read %d trusted, retired %v, rotate %t", len(got.trusted), got.retired, got.rotate)
	}
}

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// authorityAt returns a CA that was made at a time.
func authorityAt(t testing.TB, at time.Time) *authority {
	t.Helper()
	a, err := newAuthority(at, DefaultLifetimes.Authority)
	must.Succeed(t, err)
	return a
}

func TestALeafIsForItsNamesAndForClientsWithASlowClock(t *testing.T) {
	ca := authorityAt(t, start)
	leaf, err := ca.leaf([]string{"glassback-webhook.glassback-system.svc", "10.0.0.7", "::1"}, start, DefaultLifetimes.Leaf)
	must.Succeed(t, err)
	for _, name := range []string{"glassback-webhook.glassback-system.svc", "10.0.0.7", "::1"} {
		slow := x509.VerifyOptions{Roots: poolOf(ca), DNSName: name, CurrentTime: start.Add(-23 * time.Hour)}
		if _, err := leaf.Leaf.Verify(slow); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if want := start.Add(DefaultLifetimes.Leaf); !leaf.Leaf.NotAfter.Equal(want) {
		t.Errorf("it is valid until %s, want %s", leaf.Leaf.NotAfter, want)
	}
	late, err := ca.leaf([]string{"x"}, ca.cert.NotAfter.Add(-time.Hour), DefaultLifetimes.Leaf)
	if err != nil || !late.Leaf.NotAfter.Equal(ca.cert.NotAfter) {
		t.Errorf("it is valid until %s, its CA until %s", late.Leaf.NotAfter, ca.cert.NotAfter)
	}
}

func TestWhatCannotSignIsNoAuthority(t *testing.T) {
	ca, other := authorityAt(t, start), authorityAt(t, start)
	leaf, err := ca.leaf([]string{"x"}, start, time.Hour)
	must.Succeed(t, err)
	for name, test := range map[string]struct{ cert, key []byte }{
		"no key":                {ca.certPEM, nil},
		"the key of another":    {ca.certPEM, other.keyPEM},
		"a leaf":                {encode(leaf.Certificate[0]), ca.keyPEM},
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

func poolOf(cas ...*authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AddCert(ca.cert)
	}
	return pool
}
