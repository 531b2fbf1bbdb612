// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/glassback/glassback/pkg/must"
)

// The world of a simulation: one Secret, two configurations and what is published, some replicas of the
// operator with caches that are behind, and some API servers with caches that are behind.
type world struct {
	*testing.T
	random  *rand.Rand
	now     time.Time
	clock   *clocktesting.FakeClock
	version int

	secret     *corev1.Secret
	bundles    [3]versioned
	replicas   []*replica
	apiServers []*apiServer

	secretWrites, promotions int
	secretFault, bundleFault time.Time // when a user last meddled
	verified                 map[string]*x509.Certificate
}

type versioned struct {
	bundle  []byte
	version int
}

// replica is an operator, with what its caches hold.
type replica struct {
	*Keeper
	world   *world
	skew    time.Duration // of what it believes the API server's clock to be
	secret  *corev1.Secret
	bundles [3]versioned
	synced  time.Time
	first   time.Time // when it first had a certificate
	read    time.Time
	deaf    time.Time // until when the watch of the Secret silently brings nothing
}

type apiServer struct {
	bundles [3]versioned
	read    time.Time
}

// How far caches may be behind.
const (
	replicaLag   = 10 * time.Second
	apiServerLag = 25 * time.Second
)

// seeds are how many worlds each simulation plays.
const seeds = uint64(2)

var simulated = Lifetimes{Authority: 2 * time.Hour, Leaf: 20 * time.Minute, Settle: time.Minute}

func newWorld(t *testing.T, seed uint64, replicas int) *world {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		T: t, random: rand.New(rand.NewPCG(seed, 0)), now: start, clock: clocktesting.NewFakeClock(start),
		apiServers: []*apiServer{{}, {}}, secretFault: start, verified: map[string]*x509.Certificate{},
	}
	for range replicas {
		w.replicas = append(w.replicas, w.newReplica())
	}
	return w
}

func (w *world) newReplica() *replica {
	r := &replica{world: w, skew: time.Duration(w.random.Int64N(int64(10*time.Second))) - 5*time.Second}
	r.Keeper = New(Config{
		Store: simulatedStore{r}, Registrations: []Registration{simulatedRegistration{r, 0}, simulatedRegistration{r, 1}},
		Published: simulatedRegistration{r, 2}, Shared: true, Names: []string{"glassback-webhook.glassback-system.svc"}, Lifetimes: simulated,
		Now: func() time.Time { return w.now.Add(r.skew) }, Clock: w.clock,
	})
	r.refresh() // A replica begins with caches that are up to date.
	return r
}

func (r *replica) issuer() *x509.Certificate {
	if held := r.leaf.held.Load(); held != nil {
		return held.ca
	}
	return nil
}

func (r *replica) refresh() {
	r.secret, r.bundles, r.read = r.world.secret, r.world.bundles, r.world.now
}

type simulatedStore struct{ *replica }

func (s simulatedStore) Get() (*corev1.Secret, error)                 { return s.secret, nil }
func (s simulatedStore) Live(context.Context) (*corev1.Secret, error) { return s.world.secret, nil }
func (s simulatedStore) Put(_ context.Context, secret *corev1.Secret) error {
	live := ""
	if s.world.secret != nil {
		live = s.world.secret.ResourceVersion
	}
	if secret.ResourceVersion != live {
		return apierrors.NewConflict(corev1.Resource("secrets"), SecretName, fmt.Errorf("%q is not %q", secret.ResourceVersion, live))
	}
	if live != "" && bytes.Equal(secret.Data[keyCurrent], s.world.secret.Data[keyNext]) {
		s.world.promotions++
	}
	s.world.secretWrites++
	s.world.put(secret)
	return nil
}

func (w *world) put(secret *corev1.Secret) {
	w.version++
	w.secret = secret.DeepCopy()
	w.secret.ResourceVersion = strconv.Itoa(w.version)
}

type simulatedRegistration struct {
	*replica
	n int
}

func (r simulatedRegistration) Bundles() ([][]byte, error) {
	return [][]byte{r.bundles[r.n].bundle}, nil
}
func (r simulatedRegistration) UpToDate(caBundle []byte) (bool, error) {
	return bytes.Equal(r.bundles[r.n].bundle, caBundle), nil
}
func (r simulatedRegistration) Trust(_ context.Context, caBundle []byte) error {
	live := &r.world.bundles[r.n]
	if live.version != r.bundles[r.n].version {
		return apierrors.NewConflict(corev1.Resource("configurations"), "glassback",
			fmt.Errorf("%d is not %d", r.bundles[r.n].version, live.version))
	}
	r.world.version++
	*live = versioned{caBundle, r.world.version}
	return nil
}

// tick lets some seconds pass, in which caches are filled and replicas sync, all in any order, and none later than it may.
func (w *world) tick() {
	step := time.Duration(1+w.random.IntN(10)) * time.Second
	w.now = w.now.Add(step)
	w.clock.Step(step)
	for _, i := range w.random.Perm(len(w.replicas)) {
		r := w.replicas[i]
		// Each cache by itself.
		late := w.now.Sub(r.read) > replicaLag
		if late || w.random.IntN(3) == 0 {
			r.bundles, r.read = w.bundles, w.now
		}
		if (late || w.random.IntN(3) == 0) && w.now.After(r.deaf) {
			r.secret = w.secret
		}
		if w.random.IntN(200) == 0 {
			r.deaf = w.now.Add(5 * time.Minute)
		}
		if w.random.IntN(2) == 0 || w.now.Sub(r.synced) > simulated.Settle {
			w.sync(r)
		}
	}
	for _, s := range w.apiServers {
		if w.random.IntN(3) == 0 || w.now.Sub(s.read) > apiServerLag-10*time.Second {
			s.bundles, s.read = w.bundles, w.now
		}
	}
}

func (w *world) sync(r *replica) {
	r.synced = w.now
	if _, err := r.Sync(klog.NewContext(context.Background(), klog.Logger{}), key); err != nil && !onlyConflicts(err) {
		w.Fatalf("%s: sync: %v", w.now, err)
	}
	if r.leaf.held.Load() != nil && r.first.IsZero() {
		r.first = w.now
	}
}

func onlyConflicts(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if !onlyConflicts(err) {
				return false
			}
		}
		return true
	}
	return apierrors.IsConflict(err)
}

// check has every API server call every replica, for each configuration.
func (w *world) check() {
	for i, r := range w.replicas {
		held := r.leaf.held.Load()
		if held == nil {
			continue // A handshake waits.
		}
		for j, s := range w.apiServers {
			for n, b := range s.bundles {
				if err := w.verify(held, b.bundle); err != nil && !w.excused(r) {
					w.Fatalf("%s: API server %d does not trust replica %d by configuration %d: %v", w.now, j, i, n, err)
				}
			}
		}
	}
}

// excused reports whether no replica could have avoided that r is not trusted.
func (w *world) excused(r *replica) bool {
	since := func(t time.Time) time.Duration { return w.now.Sub(t) }
	switch {
	case since(w.bundleFault) < replicaLag+apiServerLag+simulated.Settle:
		return true // A user has spoiled a caBundle.
	case since(r.first) < replicaLag+apiServerLag && since(w.secretFault) < 3*simulated.Settle:
		return true // It has begun with a CA that was just made, since there is no other.
	}
	return false
}

func (w *world) verify(held *signed, bundle []byte) error {
	id := string(held.cert.Certificate[0]) + string(bundle)
	if w.verified[id] == nil {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := held.cert.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: w.now,
			DNSName: "glassback-webhook.glassback-system.svc", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}); err != nil {
			return err
		}
		w.verified[id] = held.cert.Leaf
	}
	if !valid(held.cert.Leaf, w.now) || !valid(held.ca, w.now) {
		return fmt.Errorf("expired: it is valid until %s, and its CA until %s", held.cert.Leaf.NotAfter, held.ca.NotAfter)
	}
	return nil
}

// meddle does what people and accidents do.
func (w *world) meddle() {
	switch w.random.IntN(8) {
	case 0:
		w.secret, w.secretFault = nil, w.now
	case 1:
		w.edit(func(s *corev1.Secret) { s.Data[keyCurrentKey] = []byte("garbage") })
	case 2:
		w.edit(func(s *corev1.Secret) { s.Data = nil })
	case 3:
		w.edit(func(s *corev1.Secret) { s.Data[keyTrusted] = []byte("garbage") })
	case 4: // a foreign CA, or one of a backup
		w.edit(func(s *corev1.Secret) {
			other, err := newAuthority(w.now, simulated.Authority)
			must.Succeed(w, err)
			s.Data = map[string][]byte{keyCurrent: other.certPEM, keyCurrentKey: other.keyPEM}
		})
	case 5:
		w.bundleFault = w.now
		w.version++
		w.bundles[w.random.IntN(3)] = versioned{[]byte("garbage"), w.version}
	default:
		w.replicas[w.random.IntN(len(w.replicas))] = w.newReplica()
	}
}

func (w *world) edit(change func(*corev1.Secret)) {
	if w.secret == nil {
		return
	}
	edited := w.secret.DeepCopy()
	if edited.Data == nil {
		edited.Data = map[string][]byte{}
	}
	change(edited)
	w.put(edited)
	w.secretFault = w.now
}

// Every API server gets an answer from a replica whose certificate it trusts, while CAs rotate
// as planned, however late caches are and whichever process restarts.
func TestNoCallFailsForACertificateWhileCAsRotate(t *testing.T) {
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, 3)
			for w.now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) < 4*time.Hour {
				w.tick()
				w.check()
				if w.random.IntN(15) == 0 {
					w.replicas[w.random.IntN(len(w.replicas))] = w.newReplica()
				}
				if w.random.IntN(60) == 0 {
					w.rotate()
				}
			}
			if w.promotions < 8 {
				t.Errorf("%d CAs have taken over: this showed too little", w.promotions)
			}
		})
	}
}

// rotate asks for another CA.
func (w *world) rotate() {
	if w.secret != nil {
		asked := w.secret.DeepCopy()
		if asked.Annotations == nil {
			asked.Annotations = map[string]string{}
		}
		asked.Annotations[AnnotationRotate] = "now"
		w.put(asked)
	}
}

// The Keeper repairs every change of a user to the Secret or the configurations, and the calls
// that can succeed do. Left alone, everything ends at one CA, and no more writes.
func TestWhatUsersBreakIsRepaired(t *testing.T) {
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, 3)
			for range 1200 {
				w.tick()
				w.check()
				if w.random.IntN(60) == 0 {
					w.meddle()
				}
			}
			// No restart and no rotation, and time for the leaves of the last CA to expire.
			for range 400 {
				w.tick()
				w.check()
			}
			held, problems := read(w.secret)
			if len(problems) > 0 || held.current == nil {
				t.Fatalf("the Secret is broken: %v", problems)
			}
			for i, r := range w.replicas {
				if got := r.issuer(); got == nil || !held.current.cert.Equal(got) && held.next == nil && len(held.retirees()) == 0 {
					t.Errorf("replica %d serves a certificate of another CA", i)
				}
			}
			for n, b := range w.bundles {
				if !bytes.Equal(b.bundle, w.secret.Data[keyTrusted]) {
					t.Errorf("configuration %d trusts others than the Secret", n)
				}
			}
		})
	}
}

// Many replicas that start at once agree on one CA, with one write. After that they write nothing: w.version counts all writes.
func TestManyReplicasThatStartAtOnceMakeOneCA(t *testing.T) {
	w := newWorld(t, 1, 50)
	for range 100 {
		w.tick()
		w.check()
	}
	if w.secretWrites != 1 {
		t.Errorf("the Secret was written %d times, want once", w.secretWrites)
	}
	held, _ := read(w.secret)
	for i, r := range w.replicas {
		if ca := r.issuer(); ca == nil || !ca.Equal(held.current.cert) {
			t.Errorf("replica %d does not serve a certificate of the one CA", i)
		}
	}
	settled := w.version
	for range 100 {
		w.tick()
	}
	if w.version != settled {
		t.Errorf("%d writes although there was nothing to do", w.version-settled)
	}
}
