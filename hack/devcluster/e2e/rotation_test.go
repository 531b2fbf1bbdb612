// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// brief are lifetimes with which a new CA replaces the old one within seconds. Every number has a reason:
//
//   - Settle is far longer than the API server needs to get a new caBundle from its watch. It also covers the error of times in whole
//     seconds.
//   - A leaf must be renewed in the last third of Leaf, which is 2.5 s. The keeper checks once in every Settle, so that a sync may be a
//     second late.
//   - A CA must take over in the last third of Authority, which is 7.5 s. This needs one Settle, and another one until every replica
//     serves a leaf of the new CA.
var brief = certificate.Lifetimes{Authority: 22500 * time.Millisecond, Leaf: 7500 * time.Millisecond, Settle: 1250 * time.Millisecond}

const (
	askers   = 4
	reviews  = 10_000 // admission requests: two for every object
	replicas = 3
)

// TestNoRequestFailsWhileCertificatesRotate creates objects with dryRun. For each object, the API server sends two admission requests to
// any of three replicas. In total it sends 10,000 requests, each over a new connection. Meanwhile the replicas renew CAs and leaves and
// restart, and a user damages the Secret. No request may fail.
func TestNoRequestFailsWhileCertificatesRotate(t *testing.T) {
	heavy.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	w.installCRDs(t)
	r := newRotation(t, w)
	r.watch(t)
	for range replicas {
		r.must(t, r.begin(t))
	}
	w.called(t, r.ns)

	begun := time.Now()
	answers := r.ask(t, r.ns, askers)
	restarts := r.restartOften(t)
	r.force(t)
	r.spoil(t, "deleted", func(ctx context.Context) error {
		return r.kube.CoreV1().Secrets(r.ns).Delete(ctx, certificate.SecretName, metav1.DeleteOptions{})
	})
	garbage := map[string][]byte{}
	for _, key := range []string{"ca.crt", "tls.crt", "tls.key", "next.crt", "next.key"} {
		garbage[key] = []byte("garbage")
	}
	r.spoil(t, "edited to garbage", func(ctx context.Context) error { return r.replace(ctx, garbage) })
	expired := expiredAuthority(t)
	r.spoil(t, "replaced by an expired CA", func(ctx context.Context) error { return r.replace(ctx, expired) })
	r.planned(t, 2)
	eventually(t, 5*time.Minute, func(context.Context) error {
		if n := r.reviews.Load(); n < reviews {
			return fmt.Errorf("the API server has sent %d of %d admission requests", n, reviews)
		}
		return nil
	})
	got := answers.end()
	restarted := restarts()
	took := time.Since(begun)

	t.Logf("%d objects in %s, %.0f a second; %d admission requests; %d handshakes; %d CAs, %d of which took over as planned or asked; "+
		"%d leaves; %d restarts",
		got.asked, took.Round(time.Second), float64(got.asked)/took.Seconds(), r.reviews.Load(), r.handshakes.Load(), r.authorities(),
		r.promotions.Load(), r.leaves(), restarted)
	got.check(t)
	if got.sizes[3] > 0 {
		t.Errorf("the API server called no webhook for %d objects", got.sizes[3])
	}
	if r.handshakes.Load() < reviews || restarted < 10 || r.promotions.Load() < 3 || r.authorities() < 7 {
		t.Error("there were too few rotations or restarts")
	}
}

// rotation runs replicas of the operator's webhooks in this process, behind one address.
type rotation struct {
	*world
	ns       string
	url      *url.URL
	balancer *balancer
	logger   klog.Logger
	running  sync.WaitGroup

	restarting sync.Mutex // held while a replica restarts, or while restarts are forbidden
	replicas   []*replica
	begun      int // number of replicas that were ever started

	secret     cache.Store // has the present Secret
	reviews    atomic.Int64
	handshakes atomic.Int64
	promotions atomic.Int64 // how often a staged CA took over

	mu       sync.Mutex
	seenCAs  map[string]bool
	seenLeaf map[*tls.Certificate]bool
}

func newRotation(t *testing.T, w *world) *rotation {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(t, err)
	log := &logBuffer{}
	artifacts := t.ArtifactDir() // A cleanup cannot call this.
	r := &rotation{
		world: w, ns: w.bareNamespace(t), url: &url.URL{Scheme: "https", Host: listener.Addr().String()},
		balancer: &balancer{listener: listener, shares: map[*share]bool{}},
		logger:   textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log), textlogger.Verbosity(2))),
		seenCAs:  map[string]bool{}, seenLeaf: map[*tls.Certificate]bool{},
	}
	r.running.Go(r.balancer.run)
	t.Cleanup(func() {
		r.restarting.Lock()
		defer r.restarting.Unlock()
		for _, replica := range r.replicas {
			replica.stop()
		}
		listener.Close()
		r.running.Wait()
		if t.Failed() {
			file := filepath.Join(artifacts, "replicas.log")
			if err := os.WriteFile(file, []byte(log.String()), 0o644); err != nil {
				t.Error(err)
			}
			t.Logf("the log of the replicas is in %s (go test -artifacts keeps it)", file)
		}
	})
	return r
}

// watch keeps the present Secret in r.secret, and counts promotions.
func (r *rotation) watch(t *testing.T) {
	factory := informers.NewSharedInformerFactoryWithOptions(r.kube, 0, informers.WithNamespace(r.ns),
		informers.WithTweakListOptions(only(certificate.SecretName)))
	informer := factory.Core().V1().Secrets().Informer()
	r.secret = informer.GetStore()
	note := func(secret *corev1.Secret) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, key := range []string{"tls.crt", "next.crt"} {
			if ca := parse(secret.Data[key]); ca != nil && time.Now().Before(ca.NotAfter) {
				r.seenCAs[string(ca.Raw)] = true
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { note(obj.(*corev1.Secret)) },
		UpdateFunc: func(old, obj any) {
			note(obj.(*corev1.Secret))
			if next := old.(*corev1.Secret).Data["next.crt"]; next != nil && bytes.Equal(next, obj.(*corev1.Secret).Data["tls.crt"]) {
				r.promotions.Add(1)
			}
		},
	})
	r.must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
}

func only(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// parse returns the first certificate in PEM text, or nil.
func parse(text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	c, _ := x509.ParseCertificate(block.Bytes)
	return c
}

// current returns the CA that signs, or nil, and whether another CA is staged.
func (r *rotation) current() (ca *x509.Certificate, staged bool) {
	obj, exists, _ := r.secret.GetByKey(r.ns + "/" + certificate.SecretName)
	if !exists {
		return nil, false
	}
	data := obj.(*corev1.Secret).Data
	return parse(data["tls.crt"]), data["next.crt"] != nil
}

// replica is the part of an operator that serves webhooks.
type replica struct {
	*share
	stop func() // ends the replica after it has answered its requests
}

// begin starts a replica, and waits until the replica has a certificate. The replica gets connections as soon as it listens. The caller
// must hold r.restarting, unless no other goroutine runs yet.
func (r *rotation) begin(t *testing.T) error {
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(t.Context()), r.logger.WithValues("replica", r.begun)))
	r.begun++
	own := informers.NewSharedInformerFactoryWithOptions(r.kube, 0, informers.WithNamespace(r.ns),
		informers.WithTweakListOptions(only(certificate.SecretName)))
	all := informers.NewSharedInformerFactoryWithOptions(r.kube, 0, informers.WithTweakListOptions(only(webhook.NameByURL(r.url))))
	secrets := own.Core().V1().Secrets()
	mutating := all.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
	validating := all.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
	api, namespaces := r.kube.AdmissionregistrationV1(), []string{r.ns}
	keeper := certificate.New(certificate.Config{
		Store: certificate.SecretStore{Secrets: secrets.Lister().Secrets(r.ns), Client: r.kube.CoreV1().Secrets(r.ns)},
		Registrations: []certificate.Registration{
			webhook.Own(mutating.GetStore(), api.MutatingWebhookConfigurations(),
				func(caBundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
					return desired(r.url, namespaces, caBundle).mutating
				}),
			webhook.Own(validating.GetStore(), api.ValidatingWebhookConfigurations(),
				func(caBundle []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
					return desired(r.url, namespaces, caBundle).validating
				}),
		},
		Shared: true, Names: []string{r.url.Hostname()}, Lifetimes: brief, Now: time.Now, Clock: clock.RealClock{},
	})
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"Secret": secrets.Informer(), "MutatingWebhookConfiguration": mutating, "ValidatingWebhookConfiguration": validating,
	} {
		if err := keeper.Watch(informer, kind); err != nil {
			cancel()
			return err
		}
	}

	s := newShare(r.url)
	handler := webhook.NewHandler(r.glassback)
	// Every connection has only one request, so that every request needs a handshake. Also, no connection is idle when a replica ends: the API
	// server could be about to use it.
	once := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Connection", "close")
		handler.ServeHTTP(w, request)
		r.reviews.Add(1)
	})
	var running sync.WaitGroup
	running.Go(func() {
		if err := webhook.Serve(ctx, s, once, r.counted(keeper.Leaf()), 0); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	running.Go(func() {
		own.StartWithContext(ctx)
		all.StartWithContext(ctx)
		own.WaitForCacheSyncWithContext(ctx)
		all.WaitForCacheSyncWithContext(ctx)
		keeper.Run(ctx, ctx)
		own.Shutdown()
		all.Shutdown()
	})
	r.balancer.add(s)
	r.replicas = append(r.replicas, &replica{s, func() {
		r.balancer.remove(s)
		s.open.Wait() // http.Server drops new connections while it shuts down.
		cancel()
		running.Wait()
	}})
	_, err := s.leaf(t.Context())
	return err
}

// counted counts handshakes, and the different leaves in them.
func (r *rotation) counted(leaf *certificate.Leaf) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c, err := leaf.GetCertificate(hello)
		r.handshakes.Add(1)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seenLeaf[c] = true
		return c, err
	}
}

func (r *rotation) leaves() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seenLeaf)
}

func (r *rotation) authorities() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seenCAs)
}

// leaf waits until the replica has a leaf, and returns the leaf.
func (s *share) leaf(ctx context.Context) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	client, server := net.Pipe()
	defer client.Close()
	s.open.Add(1)
	s.hand(server)
	conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("a replica has no certificate after %s: %w", soon, err)
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// restartOften restarts a random replica about once a second, but never the first one. A restart ends a replica, and starts another one
// without any of its state. The returned function ends the restarts.
func (r *rotation) restartOften(t *testing.T) (end func() (restarted int)) {
	ctx, cancel := context.WithCancel(t.Context())
	var restarting sync.WaitGroup
	restarted := 0
	restarting.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := r.restart(t); err != nil && ctx.Err() == nil {
					t.Errorf("after %d restarts: %v", restarted, err)
				}
				restarted++
			}
		}
	})
	end = func() int {
		cancel()
		restarting.Wait()
		return restarted
	}
	t.Cleanup(func() { end() })
	return end
}

func (r *rotation) restart(t *testing.T) error {
	r.restarting.Lock()
	defer r.restarting.Unlock()
	i := 1 + mathrand.IntN(len(r.replicas)-1)
	r.replicas[i].stop()
	r.replicas = slices.Delete(r.replicas, i, i+1)
	return r.begin(t)
}

// force requests another CA by the annotation, and waits until the new CA signs.
func (r *rotation) force(t *testing.T) {
	t.Helper()
	before, _ := r.current()
	eventually(t, soon, func(ctx context.Context) error {
		secret, err := r.kube.CoreV1().Secrets(r.ns).Get(ctx, certificate.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, certificate.AnnotationRotate, "now")
		_, err = r.kube.CoreV1().Secrets(r.ns).Update(ctx, secret, metav1.UpdateOptions{})
		return err // This can be a conflict with a write of a replica.
	})
	eventually(t, soon, func(context.Context) error {
		if now, _ := r.current(); now == nil || now.Equal(before) {
			return errors.New("no other CA has taken over")
		}
		return nil
	})
}

// planned waits until a number of CAs have taken over by schedule, without a request.
func (r *rotation) planned(t *testing.T, takeovers int64) {
	t.Helper()
	before := r.promotions.Load()
	eventually(t, time.Duration(takeovers)*brief.Authority, func(context.Context) error {
		if n := r.promotions.Load() - before; n < takeovers {
			return fmt.Errorf("%d CAs have taken over, want %d", n, takeovers)
		}
		return nil
	})
}

// spoil damages the Secret while no rotation runs: no CA is staged, and every replica serves a leaf of the CA that signs.
//
// The replicas keep their leaves, whose CA stays in every caBundle, until the API server trusts the new CA. During this time, spoil forbids
// restarts. A new replica would have only the new CA to sign with. A handshake that waits for the leaf of such a replica uses the caBundle
// of its beginning, which can lack the new CA.
func (r *rotation) spoil(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	var before *x509.Certificate
	eventually(t, brief.Authority, func(ctx context.Context) error {
		r.restarting.Lock()
		ca, staged := r.current()
		ready := ca != nil && !staged
		for _, replica := range r.replicas {
			leaf, err := replica.leaf(ctx)
			ready = ready && err == nil && leaf.CheckSignatureFrom(ca) == nil
		}
		if !ready {
			r.restarting.Unlock()
			return fmt.Errorf("before the Secret is %s: a rotation still runs", what)
		}
		before = ca
		return nil
	})
	defer r.restarting.Unlock()
	begun := time.Now()
	r.must(t, do(t.Context()))
	eventually(t, soon, func(ctx context.Context) error {
		secret, err := r.kube.CoreV1().Secrets(r.ns).Get(ctx, certificate.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := parse(secret.Data["tls.crt"])
		if now == nil || now.Equal(before) || time.Now().After(now.NotAfter) {
			return fmt.Errorf("the Secret that was %s has no new CA", what)
		}
		if _, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"]); err != nil {
			return fmt.Errorf("the Secret that was %s: %w", what, err)
		}
		c, err := r.getConfigurations(ctx, webhook.NameByURL(r.url))
		if err != nil {
			return err
		}
		for _, ca := range []*x509.Certificate{before, now} {
			if !bytes.Contains(c.bundle(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})) {
				return fmt.Errorf("the Secret was %s: the caBundle lacks %s", what, ca.Subject)
			}
		}
		return nil
	})
	t.Logf("the Secret was %s: repaired after %s", what, time.Since(begun).Round(time.Millisecond))
	time.Sleep(brief.Settle) // After this, the API server certainly trusts the new CA.
}

// replace replaces all data of the Secret.
func (r *rotation) replace(ctx context.Context, data map[string][]byte) error {
	secret, err := r.kube.CoreV1().Secrets(r.ns).Get(ctx, certificate.SecretName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	secret.Data = maps.Clone(data)
	_, err = r.kube.CoreV1().Secrets(r.ns).Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

// expiredAuthority returns the data of a Secret with an expired CA, as from an old backup.
func expiredAuthority(t *testing.T) map[string][]byte {
	t.Helper()
	certificate, key := signed(t, authorityTemplate("expired", -2*time.Hour, -time.Hour), nil, nil)
	return map[string][]byte{"ca.crt": certificatePEM(certificate), "tls.crt": certificatePEM(certificate), "tls.key": keyPEM(t, key)}
}

// authorityTemplate returns the template of a CA that is valid from and to these times from now.
func authorityTemplate(name string, from, to time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
}

// signed returns a certificate and its new key. The CA signs it; without one, it signs itself.
func signed(t *testing.T, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	must.Succeed(t, err)
	certificate, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	return certificate, key
}

func certificatePEM(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	must.Succeed(t, err)
	return text
}

// balancer gives every new connection to a random replica, as a Service does.
type balancer struct {
	listener net.Listener

	mu     sync.Mutex
	shares map[*share]bool
}

// run accepts connections until the listener is closed.
func (b *balancer) run() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.any().hand(conn)
	}
}

// any returns a random share for a new connection.
func (b *balancer) any() *share {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Collect(maps.Keys(b.shares))
	s := all[mathrand.IntN(len(all))]
	s.open.Add(1) // The lock is held, so that the share cannot end before this.
	return s
}

func (b *balancer) add(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares[s] = true
}

func (b *balancer) remove(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.shares, s)
}

// share is the net.Listener of one replica. It accepts the connections that the balancer gives to the replica.
type share struct {
	given chan net.Conn
	open  sync.WaitGroup // counts the open connections
	ended chan struct{}
	end   sync.Once
	addr  net.Addr
}

// shared is a connection of a share.
type shared struct {
	net.Conn
	close func()
}

func (s *shared) Close() error {
	s.close()
	return s.Conn.Close()
}

func newShare(u *url.URL) *share {
	return &share{given: make(chan net.Conn), ended: make(chan struct{}), addr: address(u.Host)}
}

// hand gives a connection to the replica.
func (s *share) hand(conn net.Conn) {
	select {
	case s.given <- &shared{conn, sync.OnceFunc(s.open.Done)}:
	case <-s.ended:
		s.open.Done()
		conn.Close()
	}
}

func (s *share) Accept() (net.Conn, error) {
	select {
	case conn := <-s.given:
		return conn, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

func (s *share) Close() error {
	s.end.Do(func() { close(s.ended) })
	return nil
}

func (s *share) Addr() net.Addr { return s.addr }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
