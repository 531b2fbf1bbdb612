// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
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

	cachedSecret, err := store.Get()
	liveSecret, liveErr := store.Live(ctx)
	if cachedSecret != nil || liveSecret != nil || errors.Join(err, liveErr) != nil {
		t.Errorf("without a Secret: %v and %v, errors %v and %v", cachedSecret, liveSecret, err, liveErr)
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

func TestTheConfigMapIsTheCaBundle(t *testing.T) {
	const namespace = "glassback-system"
	ctx, client := t.Context(), fake.NewClientset()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	c := ConfigMap{ConfigMaps: listers.NewConfigMapLister(indexer).ConfigMaps(namespace), Client: client.CoreV1().ConfigMaps(namespace)}
	if bundles, err := c.Bundles(); len(bundles) > 0 || err != nil {
		t.Errorf("there is none: %q, %v", bundles, err)
	}
	for i, immutable := range []bool{false, true, false} {
		want := strings.Repeat("CA", i+1)
		if upToDate, err := c.UpToDate([]byte(want)); upToDate || err != nil {
			t.Errorf("before write %d: up to date %v, %v", i, upToDate, err)
		}
		must.Succeed(t, c.Trust(ctx, []byte(want)))
		written, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, ConfigMapName, metav1.GetOptions{})
		must.Succeed(t, err)
		if written.Data["ca.crt"] != want || written.Immutable != nil {
			t.Errorf("write %d: %v", i, written)
		}
		if i == 0 {
			if err := c.Trust(ctx, []byte(want)); !apierrors.IsConflict(err) {
				t.Errorf("another replica was first: got %v, want a conflict, which is retried quietly", err)
			}
		}
		cached := written.DeepCopy()
		if immutable {
			cached.Immutable = ptr.To(true)
		}
		must.Succeed(t, indexer.Add(cached))
		if upToDate, err := c.UpToDate([]byte(want)); !upToDate || err != nil {
			t.Errorf("after write %d: up to date %v, %v", i, upToDate, err)
		}
	}
}

// Who may write the ConfigMap cannot make API servers trust a CA of its own.
func TestAPublishedCAIsNotTrusted(t *testing.T) {
	foreign := authorityAt(t, time.Now())
	webhooks, published := &registration{}, &registration{bundle: foreign.certPEM}
	store := &MemoryStore{}
	k := New(Config{
		Store: store, Registrations: []Registration{webhooks}, Published: published, Names: []string{"127.0.0.1"}, Shared: true,
		Lifetimes: DefaultLifetimes, Now: time.Now, Clock: clock.RealClock{},
	})
	for range 3 {
		_, err := k.Sync(klog.NewContext(t.Context(), klog.Logger{}), key)
		must.Succeed(t, err)
	}
	if all := string(store.secret.Data[keyTrusted]); all == "" || all != string(webhooks.bundle) || all != string(published.bundle) ||
		strings.Contains(all, string(foreign.certPEM)) {
		t.Errorf("trusted are %d CAs, in the webhooks %d, published %d: want the operator's own alone",
			len(parseBundle([]byte(all))), len(parseBundle(webhooks.bundle)), len(parseBundle(published.bundle)))
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
	k := New(Config{Store: refusing{secret}, Names: []string{"x"}, Lifetimes: DefaultLifetimes, Now: clock.Now, Clock: clock, Shared: true})
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

// Out of a cluster a Keeper stores the Secret in memory: the second sync serves. CAs of processes that are gone do not pile up in a
// registration that outlived them.
func TestAKeeperInMemory(t *testing.T) {
	r := &registration{bundle: formatBundle([]*x509.Certificate{authorityAt(t, time.Now()).cert, authorityAt(t, time.Now()).cert})}
	k := New(Config{
		Store: &MemoryStore{}, Registrations: []Registration{r}, Names: []string{"127.0.0.1"}, Lifetimes: DefaultLifetimes,
		Now: time.Now, Clock: clock.RealClock{},
	})
	for range 3 {
		_, err := k.Sync(klog.NewContext(t.Context(), klog.Logger{}), key)
		must.Succeed(t, err)
	}
	held := k.leaf.held.Load()
	if held == nil || !held.cert.Leaf.IPAddresses[0].IsLoopback() || string(r.bundle) != string(encode(held.ca.Raw)) {
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

// pairOf returns a serving certificate and its key as files have them.
func pairOf(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	leaf, err := authorityAt(t, start).leaf([]string{name}, start, DefaultLifetimes.Leaf)
	must.Succeed(t, err)
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(leaf.PrivateKey)
	must.Succeed(t, err)
	return encode(leaf.Certificate[0]), keyPEM
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}

func TestFilesAreShownAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	certPEM, keyPEM := pairOf(t, "first")
	put(t, dir, CertFile, certPEM)
	put(t, dir, KeyFile, keyPEM)
	f, err := OpenFiles(dir, nil)
	must.Succeed(t, err)
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	hello := helloOf(t, klog.NewContext(t.Context(), logger))
	shows := func(want string) {
		t.Helper()
		got, err := f.GetCertificate(hello)
		if err != nil || got.Leaf.DNSNames[0] != want {
			t.Fatalf("shows %v (%v), want %s", got.Leaf.DNSNames, err, want)
		}
	}
	shows("first")

	certPEM, keyPEM = pairOf(t, "second")
	put(t, dir, CertFile, certPEM) // and not yet the key
	shows("first")
	shows("first")
	if n := strings.Count(log.String(), "Serving the last certificate that could be read"); n != 1 {
		t.Errorf("that the files do not belong together was logged %d times, want once:\n%s", n, &log)
	}
	put(t, dir, KeyFile, keyPEM)
	shows("second")

	must.Succeed(t, os.Remove(filepath.Join(dir, CertFile)))
	shows("second")
	put(t, dir, CertFile, []byte("garbage"))
	shows("second")
	certPEM, keyPEM = pairOf(t, "third")
	put(t, dir, CertFile, certPEM)
	put(t, dir, KeyFile, keyPEM)
	shows("third")
	if strings.Contains(log.String(), "PRIVATE") {
		t.Error("the log shows the key")
	}
}

// helloOf returns the beginning of a handshake in a context: there is no other way to one than a handshake.
func helloOf(t *testing.T, ctx context.Context) *tls.ClientHelloInfo {
	t.Helper()
	var hello *tls.ClientHelloInfo
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	done := make(chan error, 1)
	go func() {
		done <- tls.Client(client, &tls.Config{ServerName: "x", MinVersion: tls.VersionTLS12}).Handshake()
	}()
	enough := errors.New("enough")
	err := tls.Server(server, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h
		return nil, enough
	}}).HandshakeContext(ctx)
	<-done
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return hello
}

func TestFilesThatAreNoPairAreRefusedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	certPEM, _ := pairOf(t, "x")
	_, otherKey := pairOf(t, "y")
	for _, step := range []struct {
		add  string
		data []byte
		says string
	}{{"another-file", nil, CertFile}, {CertFile, certPEM, KeyFile}, {KeyFile, otherKey, "does not match"}} {
		put(t, dir, step.add, step.data)
		if _, err := OpenFiles(dir, nil); err == nil || !strings.Contains(err.Error(), step.says) {
			t.Errorf("got %v, want %q", err, step.says)
		}
	}
}

func TestAHandshakeWaitsForTheFirstCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expiry time.Time
		l, ca := &Leaf{given: make(chan struct{}), serving: func(until time.Time) { expiry = until }}, authorityAt(t, time.Now())
		cert, err := ca.leaf([]string{"x"}, time.Now(), time.Hour)
		must.Succeed(t, err)
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		shaken := make(chan error, 2)
		go func() {
			shaken <- tls.Client(client, &tls.Config{ServerName: "x", RootCAs: poolOf(ca), MinVersion: tls.VersionTLS12}).Handshake()
		}()
		go func() {
			shaken <- tls.Server(server, &tls.Config{GetCertificate: l.GetCertificate, MinVersion: tls.VersionTLS12}).Handshake()
		}()
		synctest.Wait()
		select {
		case err := <-shaken:
			t.Fatalf("the handshake ended before there was a certificate: %v", err)
		default:
		}
		gone, cancel := context.WithCancel(t.Context())
		hello := helloOf(t, gone)
		cancel()
		if cert, err := l.GetCertificate(hello); err == nil {
			t.Errorf("who does not wait any longer got %v", cert)
		}
		l.store(cert, ca.cert)
		for range 2 {
			if err := <-shaken; err != nil {
				t.Error(err)
			}
		}
		if !expiry.Equal(cert.Leaf.NotAfter) {
			t.Errorf("the observer got %s, want %s", expiry, cert.Leaf.NotAfter)
		}
	})
}
