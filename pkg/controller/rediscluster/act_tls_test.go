// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// demoTLS returns the Secret of spec.tls.
func demoTLS(t *testing.T, data map[string][]byte) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "redis-tls", Namespace: "default"}, Data: data}
}

// A Secret that does not exist, or that the nodes cannot use, replaces no Pod, and no ConfigMap of a new revision is made.
func TestACertificateThatIsNotValidReplacesNoPod(t *testing.T) {
	s := newStage(t, with(six())).settle()
	s.clock.SetTime(time.Now())
	s.edit(withTLSMode(v1.TLSPreferred))
	syncs := func() (writes []string) {
		for range 3 {
			some, _, err := s.sync()
			if err != nil {
				t.Fatal(err)
			}
			writes = append(writes, some...)
			s.catchUp()
		}
		return slices.DeleteFunc(writes, func(w string) bool { return strings.HasPrefix(w, "update redisclusters ") })
	}
	expect := func(reason string) {
		t.Helper()
		if writes := syncs(); len(writes) > 0 {
			t.Errorf("it does %q, want nothing", writes)
		}
		if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != reason {
			t.Errorf("Degraded is %s: %s; want %s", c.Reason, c.Message, reason)
		}
	}
	expect(reasonNoCertificate)
	s.add(demoTLS(t, newAuthority(t).issue(t))) // Its name is of another cluster.
	s.clock.Step(secretEvery)
	expect(reasonCertificate)
}

// Before the first node switches the protocol of the bus, no replica can be elected any more. A node that only closes or opens its port
// without TLS stays connected to the others.
func TestASwitchKeepsReplicasFromBeingElected(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	switching := func(alters ...alter) ([]string, int) {
		s := newStage(t, with(six(), alters...))
		s.clock.SetTime(time.Now())
		for range 3 {
			if _, _, err := s.sync(); err != nil {
				t.Fatal(err)
			}
			s.catchUp()
		}
		first := slices.IndexFunc(s.commands, func(c string) bool { return strings.Contains(c, "switch TLS") })
		if first < 0 {
			t.Fatalf("nodes got %q, and none switched", s.commands)
		}
		return s.commands, first
	}
	commands, first := switching(specTLS(v1.TLSPreferred), secured("both", false, all...))
	for _, i := range all {
		if at := slices.Index(commands, ipOf(i)+" config set cluster-replica-no-failover yes"); at < 0 || at > first {
			t.Errorf("nodes got %q", commands)
			return
		}
	}
	commands, _ = switching(specTLS(v1.TLSRequired), secured("only", true, all...), tlsIs(func(s *redisnode.TLSState) { s.Plain = true }, 3))
	if slices.ContainsFunc(commands, func(c string) bool { return strings.Contains(c, noFailover) }) {
		t.Errorf("nodes got %q", commands)
	}
}

// While spec.tls is removed, a Pod that is created gets the certificate, and the transport of the others. Without the Secret, or after the
// nodes have left TLS, it gets none.
func TestAPodOfAClusterThatLeavesTLS(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	secret := demoTLS(t, newAuthority(t).issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"demo.default.svc"} }))
	for sentence, test := range map[string]struct {
		secret     *corev1.Secret
		annotation string
		hasTLS     bool
	}{
		"the nodes use TLS":         {secret, "both", true},
		"the nodes have left it":    {secret, "", false},
		"the Secret does not exist": {nil, "both", false},
		"the Secret is not valid":   {demoTLS(t, newAuthority(t).issue(t)), "both", false}, // It has another name.
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t, with(six(), secured(test.annotation, test.annotation != "", all...)))
			s.clock.SetTime(time.Now())
			if test.secret != nil {
				s.add(test.secret)
			}
			s.destroy("pods", "demo-4")
			for range 3 {
				if _, _, err := s.sync(); err != nil {
					t.Fatal(err)
				}
				s.catchUp()
				if loads := slices.ContainsFunc(s.commands, func(c string) bool {
					return strings.HasSuffix(c, "reload certificate")
				}); loads && !test.hasTLS {
					t.Errorf("nodes load the Secret: %q", s.commands)
				}
			}
			p, err := s.kube.CoreV1().Pods("default").Get(t.Context(), "demo-4", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if hasTLS(p) != test.hasTLS || (test.hasTLS && portFor(p, true) != v1.DefaultTLSPort) {
				t.Errorf("the Pod has TLS: %t, want %t; its port is %d", hasTLS(p), test.hasTLS, portFor(p, true))
			}
		})
	}
}

// A Secret that cannot be read is a problem, and the operator still syncs: it trusts the certificate in the status.
func TestACertificateThatCannotBeRead(t *testing.T) {
	s := newStage(t, with(six(), specTLS(v1.TLSPreferred), secured("both", true, 0, 1, 2, 3, 4, 5)))
	s.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no answer")
	})
	for range 3 {
		if _, _, err := s.sync(); err != nil {
			t.Fatal(err)
		}
		s.catchUp()
	}
	if c := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded); c.Reason != reasonNoCertificate ||
		!strings.Contains(c.Message, "no answer") {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
}

// A node loads a renewed certificate once in a while, until it serves the certificate: the kubelet may not have written it yet.
func TestACertificateIsNotLoadedWithEachSync(t *testing.T) {
	s := newStage(t, with(six(), specTLS(v1.TLSPreferred), secured("both", true, 0, 1, 2, 3, 4, 5)))
	s.clock.SetTime(time.Now())
	s.add(demoTLS(t, newAuthority(t).issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"demo.default.svc"} })))
	loads := func() (n int) {
		for range 3 {
			if _, _, err := s.sync(); err != nil {
				t.Fatal(err)
			}
			s.catchUp()
			for _, c := range s.commands {
				if strings.HasSuffix(c, "reload certificate") {
					n++
				}
			}
		}
		return n
	}
	for range 2 {
		if n := loads(); n != 6 {
			t.Errorf("6 nodes got %d commands to load their certificate within %s, want one each", n, loadEvery)
		}
		s.clock.Step(loadEvery)
	}
}

// TestARefusedCertificateIsReportedOnce has nodes that refuse the certificate of the Secret each time. The status says so all the time,
// and is written once.
func TestARefusedCertificateIsReportedOnce(t *testing.T) {
	s := newStage(t, with(six(), specTLS(v1.TLSPreferred), secured("both", true, 0, 1, 2, 3, 4, 5)))
	s.clock.SetTime(time.Now())
	s.add(demoTLS(t, newAuthority(t).issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"demo.default.svc"} })))
	for i := range 6 {
		s.errs[ipOf(i)+" reload"] = fmt.Errorf("CONFIG SET: %w", &redisnode.RefusedDirectiveError{Reason: "Unable to update TLS configuration"})
	}
	reported, writes := false, 0
	for range 10 * 4 {
		some, _, err := s.sync()
		if err != nil {
			t.Fatal(err)
		}
		degraded := meta.FindStatusCondition(s.rdc().Status.Conditions, glassback.ConditionDegraded)
		now := degraded != nil && degraded.Reason == reasonCertificateNotLoaded
		if reported && !now {
			t.Fatalf("the status is %+v, after it had reported the certificate", degraded)
		}
		if reported && slices.Contains(some, statusWrite) {
			writes++
		}
		reported = now
		s.catchUp()
		s.clock.Step(loadEvery / 4)
	}
	if !reported || writes > 0 {
		t.Errorf("reported: %t; %d writes of the status followed", reported, writes)
	}
}
