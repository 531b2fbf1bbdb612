// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
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
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// authority is a CA of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	key, der := signed(t, template, template, nil)
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

// signed returns a new key and its certificate. With no key of the parent, it signs itself.
func signed(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// issue returns the data of a Secret, as cert-manager writes it.
func (a authority) issue(t *testing.T, change ...func(*x509.Certificate)) map[string][]byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{"tls.default.svc", "access.default.svc"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(100 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(template)
	}
	key, der := signed(t, template, a.certificate, a.key)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return map[string][]byte{
		"tls.crt": text("CERTIFICATE", der), "tls.key": text("EC PRIVATE KEY", keyDER), "ca.crt": text("CERTIFICATE", a.certificate.Raw),
	}
}

// setTLS creates the Secret of spec.tls, or changes it.
func (w *world) setTLS(data map[string][]byte) {
	w.t.Helper()
	w.byPerson(func() {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "redis-tls"}, Type: corev1.SecretTypeTLS, Data: data}
		_, err := w.kube.CoreV1().Secrets("default").Create(context.Background(), secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = w.kube.CoreV1().Secrets("default").Update(context.Background(), secret, metav1.UpdateOptions{})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	})
}

func (w *world) tlsSecret() *corev1.Secret {
	secret, err := w.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), "default", "redis-tls")
	if err != nil {
		return nil
	}
	return secret.(*corev1.Secret)
}

// connect returns the operator's connection to the node of a Pod.
func (w *world) connect(p *corev1.Pod) Node {
	port, trust := ConnectionTo(w.rdc(), p, w.tlsSecret())
	login := w.login(p)
	login.TLS = trust
	return Dial(p.Status.PodIP, port, login)
}

// writeCertificates does what a kubelet does with changed Secrets.
func (w *world) writeCertificates() {
	secret := w.tlsSecret()
	if w.slow || secret == nil {
		return
	}
	for _, p := range w.pods() {
		if !hasTLS(p) {
			continue
		}
		for key, text := range secret.Data {
			if err := os.WriteFile(filepath.Join(w.certificates(p), key), text, 0o600); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func (w *world) certificates(p *corev1.Pod) string {
	name := "tls " + string(p.UID)
	if w.dirs[name] == "" {
		w.dirs[name] = w.t.TempDir()
	}
	return w.dirs[name]
}

// makeTLS runs tls.sh, and returns the directives of it.
func (w *world) makeTLS(p *corev1.Pod) []string {
	if !hasTLS(p) {
		return nil
	}
	dir := w.certificates(p)
	conf := filepath.Join(dir, "tls.conf")
	for name, text := range map[string]string{"tls.sh": tlsScript, "next.sh": "exit 0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	run := exec.Command("sh", filepath.Join(dir, "tls.sh"), "next.sh")
	run.Env = append(os.Environ(), "GLASSBACK_TLS="+p.Annotations[AnnotationTLS], "GLASSBACK_TLS_DIR="+dir, "GLASSBACK_TLS_CONF="+conf,
		"GLASSBACK_CONFIG="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		w.t.Fatalf("tls.sh: %v: %s", err, out)
	}
	text, err := os.ReadFile(conf)
	if err != nil {
		w.t.Fatal(err)
	}
	return append([]string{
		"tls-cert-file " + dir + "/tls.crt", "tls-key-file " + dir + "/tls.key", "tls-ca-cert-file " + dir + "/ca.crt",
	}, strings.Split(strings.TrimSpace(string(text)), "\n")...)
}

// clientTLS is how a client verifies the nodes.
func (w *world) clientTLS() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.tlsSecret().Data["ca.crt"])
	return &tls.Config{RootCAs: roots, ServerName: serverName(w.rdc()), MinVersion: tls.VersionTLS12}
}

// speaks returns whether the port of each Pod answers to clients: without TLS, and with it.
func (w *world) speaks(p *corev1.Pod) (plain, secure bool) {
	ping := func(conn io.ReadWriteCloser, err error) bool {
		if err != nil {
			return false
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			return false
		}
		answer := make([]byte, 7)
		_, err = io.ReadFull(conn, answer)
		return err == nil && string(answer) == "+PONG\r\n"
	}
	address := func(overTLS bool) string { return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(portFor(p, overTLS))) }
	conn, err := net.DialTimeout("tcp", address(false), time.Second)
	plain = ping(conn, err)
	secured, err := tls.Dial("tcp", address(true), w.clientTLS())
	return plain, ping(secured, err)
}

// busIsSecure returns whether the node of a Pod speaks TLS on the port of the bus, and its replication uses TLS.
func (w *world) busIsSecure(p *corev1.Pod) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(p.Status.PodIP, "16379"), time.Second)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) // The answer counts.
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	err = secure.Handshake()
	if err == nil { // With TLS 1.3, the server asks for our certificate after it.
		return true
	}
	var alert tls.AlertError
	return errors.As(err, &alert)
}

// expectTLS checks what all nodes speak, and the status.
func (w *world) expectTLS(plain, secure, bus bool) {
	w.t.Helper()
	for _, p := range w.pods() {
		gotPlain, gotSecure := w.speaks(p)
		if gotPlain != plain || gotSecure != secure {
			w.t.Errorf("%s answers without TLS: %t, want %t; with TLS: %t, want %t", p.Name, gotPlain, plain, gotSecure, secure)
		}
		if got := w.busIsSecure(p); got != bus {
			w.t.Errorf("%s speaks TLS on its bus: %t, want %t", p.Name, got, bus)
		}
		node := w.connect(p)
		values, err := node.Directives(context.Background(), []string{noFailover, "tls-replication", "cluster-announce-bus-port"})
		node.Close()
		if err != nil || values[noFailover] != "no" || (values["tls-replication"] == "yes") != bus ||
			(values["cluster-announce-bus-port"] == "0") != (w.rdc().Spec.External() == nil) {
			w.t.Errorf("%s has %v (%v)", p.Name, values, err)
		}
	}
	status := w.rdc().Status.TLS
	switch {
	case !secure && status != nil:
		w.t.Errorf("status.tls is %+v", status)
	case !secure:
	case status == nil, (status.Clients == v1.ProtocolTLS) == plain, (status.Nodes == v1.ProtocolTLS) != bus:
		w.t.Errorf("status.tls is %+v", status)
	}
}

func withTLSMode(mode v1.TLSMode) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) {
		rdc.Spec.TLS = nil
		if mode != "" {
			rdc.Spec.TLS = &v1.TLS{SecretRef: v1.SecretReference{Name: "redis-tls"}, Mode: mode}
		}
		rdc.Default()
	}
}

// expectPorts waits until every node names the port of each Pod for clients without TLS to such a client. With Redis 7.0, a node learns
// that port of another one only from a PING of that node.
func (w *world) expectPorts(of func(*corev1.Pod) int) {
	w.t.Helper()
	begun, ports := time.Now(), map[string]int{}
	for _, p := range w.pods() {
		ports[w.view(p.Name).ID] = of(p)
	}
	for _, p := range w.pods() {
		w.until("the ports that "+p.Name+" names to clients without TLS", func() bool {
			node := Dial(p.Status.PodIP, redistest.DefaultPort, w.login(p))
			defer node.Close()
			view, err := node.View(context.Background())
			return err == nil && !slices.ContainsFunc(view.Table, func(e redisnode.Entry) bool { return e.Port != ports[e.ID] })
		})
	}
	w.t.Logf("after %s, all nodes name the ports without TLS", time.Since(begun))
}

// TestTLSComesAndGoes adds TLS to a running cluster, requires it, renews the certificate, and takes all of it back, while clients write.
func TestTLSComesAndGoes(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "tls")
			w.ready("the cluster to be formed")
			if lives != nil {
				w.lives = lives()
			}
			ca, first := newAuthority(t), w.uids()
			load := w.load(t)
			load.everyKey()
			w.change(withTLSMode(v1.TLSPreferred))
			w.until("the Secret to be missed", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonNoCertificate })
			w.setTLS(ca.issue(t))
			w.later(secretEvery)
			w.ready("TLS")
			w.expectTLS(true, true, true)
			before := w.uids()
			for name, uid := range before {
				if uid == first[name] {
					t.Errorf("%s was not replaced", name)
				}
			}
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}

			w.until("all nodes to name the ports with TLS", func() bool {
				return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool {
					return slices.ContainsFunc(w.view(p.Name).Table, func(e redisnode.Entry) bool { return e.Port != v1.DefaultTLSPort })
				})
			})
			w.overTLS = true
			load = w.load(t)
			w.until("clients with TLS to write", func() bool { return load.total.Load() > 0 })
			w.change(withTLSMode(v1.TLSRequired))
			w.ready("TLS alone")
			w.expectTLS(false, true, true)

			renewed := ca.issue(t)
			w.slow = true
			w.setTLS(renewed)
			w.later(secretEvery)
			for range 5 {
				w.sync()
			}
			w.slow = false
			served := parseCertificate(w.rdc(), w.tlsSecret(), time.Now()).fingerprint
			w.until("the renewed certificate to be served", func() bool { return w.rdc().Status.TLS.Fingerprint == served })
			for _, p := range w.pods() {
				if view := w.view(p.Name); view.TLS.Certificate != served {
					t.Errorf("%s serves %s, want %s", p.Name, view.TLS.Certificate, served)
				}
			}

			// A container that restarts comes back with TLS alone.
			w.servers[w.pod("tls-1").UID].Kill()
			w.ready("the cluster after a restart")
			w.expectTLS(false, true, true)

			w.change(withTLSMode(v1.TLSPreferred))
			w.ready("TLS and plain again")
			w.expectTLS(true, true, true)
			w.expectPorts(func(*corev1.Pod) int { return redistest.DefaultPort })
			if now := w.uids(); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Errorf("Pods were replaced: %v, and before %v", now, before)
			}
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}

			w.overTLS = false
			load = w.load(t)
			w.change(withTLSMode(""))
			w.ready("no TLS")
			if slices.ContainsFunc(w.pods(), hasTLS) || w.rdc().Status.TLS != nil {
				t.Errorf("a Pod has still a certificate, or the status: %+v", w.rdc().Status.TLS)
			}
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			t.Logf("%d lives, %d writes", w.deaths+1, len(w.all))
			text := strings.Join(w.takeEvents(), " ") + w.describe()
			if strings.Contains(text, "PRIVATE") || strings.Contains(text, strings.Split(string(renewed["tls.key"]), "\n")[1]) {
				t.Errorf("a key is in %s", text)
			}
		})
	}
}

// TestASwitchIsEnded ends the life of the operator before each of the writes of a switch, and then stays away for longer than the
// timeout of the nodes. The nodes have lost each other then. The next life ends the switch, and no write is lost.
func TestASwitchIsEnded(t *testing.T) {
	t.Parallel()
	for _, at := range []int{3, 8, 14, 17} { // Annotations are written; failovers are forbidden; nodes switch.
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "tls")
			w.setTLS(newAuthority(t).issue(t))
			w.change(withTLSMode(v1.TLSPreferred))
			w.ready("the cluster with TLS")
			w.overTLS = true
			load := w.load(t)
			load.everyKey()
			w.change(withTLSMode("")) // It switches before a Pod is replaced.
			done, lived := 0, w.deaths
			w.lives = func(int) bool { // Nodes are written to in parallel: after the first write that fails, none succeeds.
				if w.deaths > lived || !slices.Contains([]string{"patch pods", "SWITCH TLS", "CONFIG SET " + noFailover}, w.last) {
					return true
				}
				done++
				return done <= at
			}
			w.until("the operator to die", func() bool { return w.deaths > lived })
			time.Sleep(5 * time.Second)
			w.until("the switch", func() bool {
				return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool {
					return hasTLS(p) && (p.Annotations[AnnotationTLS] != "" || w.busIsSecure(p))
				})
			})
			w.ready("no TLS")
			for _, event := range w.takeEvents() {
				if strings.Contains(event, "Failover") && strings.Contains(event, "which is gone") {
					t.Errorf("a replica took over by force: %s", event)
				}
			}
			w.overTLS = false
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
		})
	}
}
