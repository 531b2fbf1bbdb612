// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/must"
)

func TestSecretStore(t *testing.T) {
	const namespace = "glassback-system"
	ctx := t.Context()
	client := fake.NewClientset()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	store := SecretStore{Secrets: listers.NewSecretLister(indexer).Secrets(namespace), Client: client.CoreV1().Secrets(namespace)}

	if got, err := store.Get(); got != nil || err != nil {
		t.Errorf("Get without a Secret: %v, %v", got, err)
	}
	if got, err := store.Live(ctx); got != nil || err != nil {
		t.Errorf("Live without a Secret: %v, %v", got, err)
	}
	must.Succeed(t, store.Put(ctx, &corev1.Secret{Data: map[string][]byte{"a": []byte("1")}}))
	live, err := store.Live(ctx)
	if err != nil || live == nil || live.Name != SecretName || live.Labels["app.kubernetes.io/name"] != "glassback" ||
		string(live.Data["a"]) != "1" {
		t.Fatalf("Live after Put: %v, %v", live, err)
	}
	if err := store.Put(ctx, &corev1.Secret{}); !apierrors.IsConflict(err) {
		t.Errorf("another replica was first: got %v, want a conflict, which is retried quietly", err)
	}
	if again, err := store.Live(ctx); err != nil || string(again.Data["a"]) != "1" {
		t.Errorf("the first replica's Secret was overwritten: %v, %v", again, err)
	}

	cached := live.DeepCopy()
	cached.ResourceVersion = "7"
	must.Succeed(t, indexer.Add(cached))
	got, err := store.Get()
	if err != nil || got.ResourceVersion != "7" {
		t.Fatalf("Get: %v, %v", got, err)
	}
	changed := got.DeepCopy()
	changed.Data["a"] = []byte("2")
	must.Succeed(t, store.Put(ctx, changed))
	// A Secret that a user has made immutable.
	cached = changed.DeepCopy()
	cached.Immutable = ptr.To(true)
	cached.Data["a"] = []byte("3")
	must.Succeed(t, store.Put(ctx, cached))
	replaced, err := store.Live(ctx)
	if err != nil || replaced.Immutable != nil || string(replaced.Data["a"]) != "3" {
		t.Errorf("one that was immutable: %v, %v", replaced, err)
	}
	must.Succeed(t, store.Put(ctx, changed))
	updated, err := client.CoreV1().Secrets(namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if err != nil || string(updated.Data["a"]) != "2" {
		t.Errorf("after an update: %v, %v", updated, err)
	}
}

// Out of a cluster a Keeper stores the Secret in memory: the second sync serves.
func TestAKeeperInMemory(t *testing.T) {
	k := New(Config{
		Store: &MemoryStore{}, Names: []string{"127.0.0.1"}, Lifetimes: DefaultLifetimes, Now: time.Now, Clock: clock.RealClock{},
	})
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	for _, want := range []time.Duration{retryFirst, DefaultLifetimes.Settle, DefaultLifetimes.Settle} {
		if after, err := k.Sync(ctx, key); err != nil || after != want {
			t.Errorf("sync again after %s (%v), want %s", after, err, want)
		}
	}
	var shown *tls.Certificate
	if held := k.leaf.held.Load(); held != nil {
		shown = held.cert
	}
	if shown == nil || !shown.Leaf.IPAddresses[0].IsLoopback() {
		t.Fatalf("shows %v", shown)
	}
}

// refusing is a store that cannot be written.
type refusing struct{ secret *corev1.Secret }

func (r refusing) Get() (*corev1.Secret, error)                 { return r.secret, nil }
func (r refusing) Live(context.Context) (*corev1.Secret, error) { return r.secret, nil }
func (r refusing) Put(context.Context, *corev1.Secret) error {
	return apierrors.NewForbidden(corev1.Resource("secrets"), SecretName, errors.New("no right"))
}

// A Keeper that cannot write serves on, as long as there is a CA.
func TestAKeeperThatMayNotWriteServesOn(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	ca := authorityAt(t, start)
	secret := &corev1.Secret{}
	contents{current: ca, trusted: []*x509.Certificate{ca.cert}}.write(secret)
	k := New(Config{
		Store: refusing{secret}, Names: []string{"x"}, Lifetimes: DefaultLifetimes, Now: clock.Now, Clock: clock, Shared: true,
	})
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	for clock.Now().Before(ca.cert.NotAfter) {
		if _, err := k.Sync(ctx, key); err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		if held := k.leaf.held.Load(); held == nil || !valid(held.cert.Leaf, clock.Now()) {
			t.Fatalf("%s after the CA was made, nothing valid is served", clock.Since(start))
		}
		clock.Step(12 * time.Hour)
	}
	if _, err := k.Sync(ctx, key); !apierrors.IsForbidden(err) {
		t.Errorf("that the next CA cannot be written is not said: %v", err)
	}
}

// CAs of processes that are gone do not pile up in a registration that outlived them.
func TestAKeeperInMemoryTakesOverNoCA(t *testing.T) {
	r := &registration{bundle: formatBundle([]*x509.Certificate{authorityAt(t, time.Now()).cert, authorityAt(t, time.Now()).cert})}
	k := New(Config{
		Store: &MemoryStore{}, Registrations: []Registration{r}, Names: []string{"127.0.0.1"}, Lifetimes: DefaultLifetimes,
		Now: time.Now, Clock: clock.RealClock{},
	})
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	for range 3 {
		if _, err := k.Sync(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	held := k.leaf.held.Load()
	if held == nil || string(r.bundle) != string(encode(held.ca.Raw)) {
		t.Errorf("the caBundle has %d CAs, want that of what is served alone", len(parseBundle(r.bundle)))
	}
}

// Two that write the same caBundle, each as it sees fit, do not race one another.
func TestAKeeperDoesNotRaceOthersForACaBundle(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	r := &registration{}
	k := New(Config{
		Store: &MemoryStore{}, Registrations: []Registration{r}, Names: []string{"127.0.0.1"},
		Lifetimes: DefaultLifetimes, Now: clock.Now, Clock: clock,
	})
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	for range 2 * 60 { // a minute
		after, err := k.Sync(ctx, key)
		if err != nil || after <= 0 {
			t.Fatalf("sync again after %s: %v", after, err)
		}
		r.bundle = []byte("another opinion") // and its event
		clock.Step(time.Second / 2)
	}
	if r.writes < 2 || r.writes > 13 {
		t.Errorf("the caBundle was written %d times in a minute, want once every five seconds", r.writes)
	}
}

type registration struct {
	bundle []byte
	writes int
}

func (r *registration) Bundles() ([][]byte, error) { return [][]byte{r.bundle}, nil }
func (r *registration) UpToDate(caBundle []byte) (bool, error) {
	return bytes.Equal(r.bundle, caBundle), nil
}
func (r *registration) Trust(_ context.Context, caBundle []byte) error {
	r.bundle = caBundle
	r.writes++
	return nil
}
