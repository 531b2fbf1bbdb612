// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"math/big"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// TestNodeRedisTLS adds TLS to a cluster with users, requires it, renews the certificate, and removes TLS, while a client writes. The
// operator is killed in the middle of both switches, and a container is killed while TLS is required.
func TestNodeRedisTLS(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	o := n.operate(t, onlyRedis)
	c := n.redis(t, withStorage, func(rdc *redisv1.RedisCluster) {
		rdc.Spec.Users = []redisv1.User{{Name: redisv1.UserDefault, Rules: "nopass ~* &* +@all"}}
	})
	c.ready(t, "formation")
	ca := c.newAuthority(t)
	ca.issue(t, 1)
	plain := c.port
	killed := func(what string) {
		t.Helper()
		o.killAt(redisPatience, acting("switch TLS of"))
		o = n.operate(t, onlyRedis)
		c.switched(t, what)
	}

	w := c.write(t)
	c.patch(t, fmt.Sprintf(`{"spec": {"tls": {"secretRef": {"name": "redis-tls"}, "port": %d}}}`, securePort))
	killed("TLS")
	c.protocols(t, redisv1.ProtocolBoth, redisv1.ProtocolTLS)
	w.kept("TLS")
	w.end()

	before := c.uids(t)
	c.tls, c.port = &tls.Config{RootCAs: ca.pool, ServerName: c.name + "." + c.ns + ".svc", MinVersion: tls.VersionTLS12}, securePort
	w = c.write(t)
	c.patch(t, `{"spec": {"tls": {"mode": "Required"}}}`)
	c.switched(t, "TLS alone")
	c.protocols(t, redisv1.ProtocolTLS, redisv1.ProtocolTLS)
	pods, err := c.pods(t.Context())
	c.must(t, err)
	for _, pod := range pods {
		if conn, err := c.in.dial(t.Context(), "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(plain))); err == nil {
			t.Errorf("%s still listens on the port without TLS", pod.Name)
			_ = conn.Close() // Nothing was sent.
		}
	}
	c.signal(t, c.master(t), syscall.SIGKILL)
	c.heals(t, "a container that ended with TLS alone")
	w.kept("TLS alone")

	// The kubelet writes a changed Secret into a Pod when it next syncs the Pod. A change of the Pod makes it do that at once.
	fingerprint := ca.issue(t, 2)
	if out, err := c.kubectl(t, "annotate", "pods", "--all", "--namespace", c.ns, "certificate=renewed"); err != nil {
		t.Fatal(out)
	}
	eventually(t, redisPatience, func(ctx context.Context) error {
		rdc, err := c.get(ctx)
		if err == nil && rdc.Status.TLS.Fingerprint != fingerprint {
			err = fmt.Errorf("status.tls is %+v, want the fingerprint %s", rdc.Status.TLS, fingerprint)
		}
		return err
	})
	w.kept("a renewed certificate")
	c.patch(t, `{"spec": {"tls": {"mode": "Preferred"}}}`)
	c.switched(t, "TLS and plain")
	if after := c.uids(t); !maps.Equal(before, after) {
		t.Errorf("the Pods are %v, and were %v", after, before)
	}
	w.kept("TLS and plain")
	w.end()

	c.tls, c.port = nil, plain
	w = c.write(t)
	c.patch(t, `{"spec": {"tls": null}}`)
	killed("no TLS")
	if rdc, err := c.get(t.Context()); err != nil || rdc.Status.TLS != nil {
		t.Errorf("status.tls is %+v (error %v), want none", rdc.Status.TLS, err)
	}
	w.kept("no TLS")
}

// switched waits until the RedisCluster is Ready, and then until the nodes agree: after a switch, they connect again, and learn which of
// them can be elected.
func (c *realRedis) switched(t *testing.T, what string) {
	t.Helper()
	eventually(t, redisPatience, c.reported)
	c.heals(t, what)
}

// protocols fails the test unless the status has these protocols, for clients and among the nodes.
func (c *realRedis) protocols(t *testing.T, clients, nodes redisv1.Protocol) {
	t.Helper()
	rdc, err := c.get(t.Context())
	c.must(t, err)
	if status := rdc.Status.TLS; status == nil || status.Clients != clients || status.Nodes != nodes {
		t.Errorf("status.tls is %+v, want %s for clients and %s among the nodes", status, clients, nodes)
	}
}

// authority is a CA that writes the Secret of a RedisCluster, as cert-manager does.
type authority struct {
	c           *realRedis
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

func (c *realRedis) newAuthority(t *testing.T) *authority {
	t.Helper()
	certificate, key := signed(t, authorityTemplate("CA of "+c.name, -time.Hour, time.Hour), nil, nil)
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return &authority{c, certificate, key, pool}
}

// issue writes a new certificate into the Secret, and returns its fingerprint.
func (a *authority) issue(t *testing.T, serial int64) string {
	t.Helper()
	leaf, key := signed(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{a.c.name + "." + a.c.ns + ".svc"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, a.key)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "redis-tls"}, Data: map[string][]byte{
		"ca.crt": certificatePEM(a.certificate), "tls.crt": certificatePEM(leaf), "tls.key": keyPEM(t, key),
	}}
	secrets := a.c.kube.CoreV1().Secrets(a.c.ns)
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if serial > 1 {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	a.c.must(t, err)
	return redisnode.Fingerprint(leaf.Raw)
}
