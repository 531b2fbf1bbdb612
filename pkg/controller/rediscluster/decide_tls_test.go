// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
)

// specTLS sets spec.tls, with a valid certificate.
func specTLS(mode v1.TLSMode) alter {
	return func(o *observed) {
		withTLSMode(mode)(o.rdc)
		o.certificate = &certificate{fingerprint: "new", notAfter: seenAt.Add(time.Hour)}
	}
}

// secured gives Pods a certificate, a transport by their annotation, and what their nodes do: the bus with TLS or not.
func secured(annotation string, bus bool, ordinals ...int) alter {
	return func(o *observed) {
		rdc := o.rdc.DeepCopy()
		if rdc.Spec.TLS == nil {
			withTLSMode(v1.TLSPreferred)(rdc)
		}
		for _, i := range ordinals {
			again := pod(rdc, i)
			m := o.members[i]
			m.pod.Spec, m.pod.Annotations = again.Spec, again.Annotations
			m.pod.Spec.NodeName = "machine"
			if annotation != "" {
				m.pod.Annotations[AnnotationTLS] = annotation
			}
			if m.view != nil {
				m.view.TLS = &redisnode.TLSState{Certificate: "new", Known: true, Cluster: bus, Replication: bus, Plain: annotation != transportOnly}
			}
		}
	}
}

func tlsIs(f func(*redisnode.TLSState), ordinals ...int) alter {
	return viewed(func(v *redisnode.View) { f(v.TLS) }, ordinals...)
}

// noFailoverFor has nodes prevent that replicas are elected.
func noFailoverFor(d time.Duration, ordinals ...int) alter {
	return func(o *observed) {
		tlsIs(func(s *redisnode.TLSState) { s.NoFailover = true }, ordinals...)(o)
		o.noFailoverFor = d
	}
}

// asking has replicas ask their masters for data at a port.
func asking(port int, ordinals ...int) alter {
	return func(o *observed) {
		for _, i := range ordinals {
			v := o.members[i].view
			v.MasterIP, v.MasterPort = ipOf(i-3), port
		}
	}
}

// seesPort has nodes see all others at a port.
func seesPort(port int, ordinals ...int) alter {
	return viewed(func(v *redisnode.View) {
		for i := range v.Table {
			v.Table[i].Port = port
		}
	}, ordinals...)
}

func invalidCertificate(o *observed) {
	o.certificate = &certificate{problem: &problem{reasonCertificate, "Secret redis-tls: it has expired"}}
}

// decideTLS decides, and returns the policy, the step and the commands.
func decideTLS(t *testing.T, alters ...alter) (plan, string) {
	t.Helper()
	o := with(six(), alters...)
	o.markCertificates()
	p := decide(o)
	recordtest.Check(t, Decisions, o, p)
	return p, p.policy + ": " + strings.Join(textsOf(append(p.upkeep, p.commands...)), ", ")
}

func TestDecideTLS(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	annotate := func(transport string, ordinals string) string {
		var texts []string
		for _, i := range ordinals {
			texts = append(texts, "record TLS of demo-"+string(i)+" "+transport)
		}
		return strings.Join(texts, ", ")
	}
	for sentence, test := range map[string]struct {
		alters []alter
		want   string // the policy and the commands; with … at the end, their beginning
	}{
		"without TLS, nothing is switched": {nil, ": "},
		"Pods are replaced for a certificate": {
			[]alter{specTLS(v1.TLSRequired)}, "rollPods: evict Pod demo-3",
		},
		"no Pod is replaced for a certificate that is not valid": {
			[]alter{specTLS(v1.TLSPreferred), invalidCertificate}, "rollPods: ",
		},
		"no Pod is created for a certificate that is not valid": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...), invalidCertificate, noPod(4)}, "forgetNodes: forget demo-0 id-4 …",
		},
		"while one Pod has no certificate, the nodes use no TLS": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, 0, 1, 2, 3, 4)}, "rollPods: evict Pod demo-5",
		},
		"once all have a certificate, all are prepared": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...)}, "startSwitch: " + annotate("both", "012345"),
		},
		"with Required, they are prepared for that": {
			[]alter{specTLS(v1.TLSRequired), secured("", false, all...)}, "startSwitch: " + annotate("only", "012345"),
		},
		"a switch does not begin while a node does not answer": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...), silenced(time.Minute, 4)}, "waitForReplicas: ",
		},
		"nor while a replica is behind": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...), linkDown(4)}, "waitForReplicas: ",
		},
		"nor while a node serves another certificate, which it loads": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...), tlsIs(func(s *redisnode.TLSState) { s.Certificate = "old" }, 4)},
			"startSwitch: load certificate of demo-4",
		},
		"nor with a certificate that is not valid": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...), invalidCertificate}, ": ",
		},
		"nor if a node does not allow CONFIG": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...), tlsIs(func(s *redisnode.TLSState) { s.Known = false }, 4)},
			"startSwitch: ",
		},
		"a switch that has begun goes on, whatever the nodes say, and no node switches yet": {
			[]alter{specTLS(v1.TLSPreferred), secured("", false, all...), secured("both", false, 0, 1), silenced(time.Minute, 4)},
			"completeSwitch: " + annotate("both", "2345"),
		},
		"when all are prepared, all switch at once, before anything else": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", false, all...), silenced(time.Hour, 5)},
			"completeSwitch: switch TLS of demo-0 demo-1 demo-2 demo-3 demo-4",
		},
		"those that have not switched follow, though the others have lost them": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), secured("both", false, 2, 5), func(o *observed) {
				failedByAll(o, idOf(2))
			}}, "completeSwitch: switch TLS of demo-2 demo-5",
		},
		"a node whose replication alone has switched follows": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), tlsIs(func(s *redisnode.TLSState) { s.Cluster = false }, 5)},
			"completeSwitch: switch TLS of demo-5",
		},
		"replicas can be elected once all nodes agree": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), noFailoverFor(defaultNodeTimeout+1, 1, 5)},
			"allowFailover: allow failover of demo-1 demo-5",
		},
		"not while a node does not say whether it has switched": {
			[]alter{
				specTLS(v1.TLSPreferred), secured("both", true, all...), noFailoverFor(defaultNodeTimeout+1, 1, 5),
				tlsIs(func(s *redisnode.TLSState) { *s = redisnode.TLSState{Certificate: "new"} }, 4),
			},
			"allowFailover: ",
		},
		"and not before": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), noFailoverFor(defaultNodeTimeout+1, 1, 5), missed(2, 0)},
			"waitForAgreement: ",
		},
		"nor while links of before may look alive": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), noFailoverFor(defaultNodeTimeout, 1, 5)}, "allowFailover: ",
		},
		"nor while a master may still take writes": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), noFailoverFor(time.Hour, 1, 5), silenced(minPatience-1, 2)},
			"waitForAgreement: ",
		},
		"a master that is lost during the switch is replaced": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), noFailoverFor(time.Hour, 1, 5), silenced(minPatience, 2)},
			"allowFailover: allow failover of demo-1 demo-5",
		},
		"replicas connect to the new port of their masters": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), asking(6379, 3, 5), asking(6380, 4), seesPort(6380, all...)},
			"reconnectReplicas: replicate demo-3 demo-0, replicate demo-5 demo-2",
		},
		"if they know it": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), asking(6379, 3, 4, 5)}, ": ",
		},
		"and to the old one after a switch back, if the link is down": {
			[]alter{specTLS(v1.TLSRequired), secured("", false, all...), asking(6380, 3, 4), seesPort(6380, all...), linkDown(4)},
			"reconnectReplicas: replicate demo-4 demo-1",
		},
		"but not of a master that is silent: its replica can be elected": {
			[]alter{
				secured("", false, all...), noFailoverFor(time.Hour, 0, 1, 3, 4, 5), asking(6380, 5), linkDown(5), silenced(minPatience, 2),
			},
			"allowFailover: allow failover of demo-0 demo-1 demo-3 demo-4 demo-5",
		},
		"a master that cannot start is replaced by its replica, and its Pod is not": {
			[]alter{
				secured("", false, all...), noFailoverFor(time.Hour, 0, 1, 3, 4, 5), silenced(minPatience, 2), podIs(both(old, crashing), 2),
			},
			"allowFailover: allow failover of demo-0 demo-1 demo-3 demo-4 demo-5",
		},
		"clients lose the port without TLS": {
			[]alter{specTLS(v1.TLSRequired), secured("both", true, all...)}, "startSwitch: " + annotate("only", "012345"),
		},
		"and get it back": {
			[]alter{specTLS(v1.TLSPreferred), secured("only", true, all...)}, "startSwitch: " + annotate("both", "012345"),
		},
		"a container that started with the old transport follows": {
			[]alter{specTLS(v1.TLSRequired), secured("only", true, all...), tlsIs(func(s *redisnode.TLSState) { s.Plain = true }, 3)},
			"completeSwitch: switch TLS of demo-3",
		},
		"settled: nothing": {
			[]alter{specTLS(v1.TLSRequired), secured("only", true, all...)}, ": ",
		},
		"without spec.tls, the nodes switch back before a Pod is replaced": {
			[]alter{secured("both", true, all...)}, "startSwitch: " + annotate("", "012345"),
		},
		"even if the certificate is not valid": {
			[]alter{secured("both", true, all...), invalidCertificate}, "startSwitch: " + annotate("", "012345"),
		},
		"not if a node does not allow CONFIG: it would be the only one that uses TLS": {
			[]alter{secured("both", true, all...), tlsIs(func(s *redisnode.TLSState) { s.Known = false }, 4)}, "startSwitch: ",
		},
		"then the Pods are replaced": {
			[]alter{secured("", false, all...)}, "rollPods: evict Pod demo-3",
		},
		"nodes among which one has no certificate do not wait": {
			[]alter{secured("both", true, 0, 1, 2, 3, 4), silenced(time.Minute, 5)}, "completeSwitch: " + annotate("", "01234"),
		},
		"while they leave TLS, no Pod is replaced": {
			[]alter{specTLS(modeLeaving), secured("both", true, all...)}, "startSwitch: " + annotate("", "012345"),
		},
		"a switch to TLS that the spec no longer wants is taken back at once": {
			[]alter{specTLS(modeLeaving), secured("both", true, all...), secured("both", false, 2), silenced(time.Minute, 4)},
			"completeSwitch: " + annotate("", "012345"),
		},
		"also once the spec has no trace of it": {
			[]alter{secured("both", true, all...), noFailoverFor(time.Minute, 1), silenced(time.Minute, 4)},
			"completeSwitch: " + annotate("", "012345"),
		},
		"a certificate that was not there yet is not loaded again at once": {
			[]alter{
				specTLS(v1.TLSPreferred), secured("both", true, all...), tlsIs(func(s *redisnode.TLSState) { s.Certificate = "old" }, 1, 4),
				func(o *observed) { o.members[1].loadedFor = time.Second },
			},
			": load certificate of demo-4",
		},
		"a renewed certificate is loaded, and nothing else happens": {
			[]alter{specTLS(v1.TLSPreferred), secured("both", true, all...), tlsIs(func(s *redisnode.TLSState) { s.Certificate = "old" }, 1, 4)},
			": load certificate of demo-1, load certificate of demo-4",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, got := decideTLS(t, test.alters...)
			if start, more := strings.CutSuffix(test.want, " …"); !strings.HasPrefix(got, start) || (!more && got != start) {
				t.Errorf("got %q, want %q; step %q", got, test.want, p.step)
			}
		})
	}
}

// A new Pod starts with the transport of the others.
func TestTheTransportOfANewPod(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	for sentence, test := range map[string]struct {
		alters []alter
		want   string
	}{
		"without TLS":                       {nil, ""},
		"the first one":                     {[]alter{specTLS(v1.TLSRequired), noPod(all...)}, "only"},
		"among Pods without a certificate":  {[]alter{specTLS(v1.TLSRequired)}, ""},
		"among Pods that have not switched": {[]alter{specTLS(v1.TLSRequired), secured("", false, 0, 1, 2, 3, 4), noPod(5)}, ""},
		"among Pods that have switched":     {[]alter{specTLS(v1.TLSPreferred), secured("both", true, 0, 1, 2, 3, 4), noPod(5)}, "both"},
		"while the port is about to close":  {[]alter{specTLS(v1.TLSRequired), secured("both", true, 0, 1, 2, 3, 4), noPod(5)}, "both"},
		"while the annotations are written": {
			[]alter{specTLS(v1.TLSRequired), secured("both", true, 0, 1, 2), secured("only", true, 3, 4), noPod(5)}, "only",
		},
		"without a certificate, after all":   {[]alter{secured("both", true, 0, 1, 2, 3, 4), noPod(5)}, ""},
		"with one Pod without a certificate": {[]alter{specTLS(v1.TLSPreferred), secured("", false, 0, 1, 2, 3), noPod(5)}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := with(six(), test.alters...)
			if got := o.newPod(o.members[5]).Annotations[AnnotationTLS]; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestParseCertificate(t *testing.T) {
	ca := newAuthority(t)
	rdc := &v1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "tls", Namespace: "default"}}
	without := func(key string) map[string][]byte {
		data := ca.issue(t)
		delete(data, key)
		return data
	}
	replaced := func(key string, text []byte) map[string][]byte {
		data := ca.issue(t)
		data[key] = text
		return data
	}
	usages := func(all ...x509.ExtKeyUsage) map[string][]byte {
		return ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = all })
	}
	for sentence, test := range map[string]struct {
		data map[string][]byte
		want string // in the problem; "" for none
	}{
		"a certificate of cert-manager": {ca.issue(t), ""},
		"one without usages is for all": {usages(), ""},
		"a wildcard and the name": {ca.issue(t, func(c *x509.Certificate) {
			c.DNSNames = []string{"*.tls.default.svc", "tls.default.svc"}
		}), ""},
		"no certificate":                  {without("tls.crt"), "it has no tls.crt"},
		"no key":                          {without("tls.key"), "it has no tls.key"},
		"no CA, as of a public issuer":    {without("ca.crt"), "it has no ca.crt"},
		"the key of another one":          {replaced("tls.key", ca.issue(t)["tls.key"]), "are no pair"},
		"no PEM":                          {replaced("ca.crt", []byte("x")), "ca.crt has no certificate"},
		"another CA":                      {replaced("ca.crt", newAuthority(t).issue(t)["ca.crt"]), "not signed by a CA of ca.crt"},
		"a certificate for servers alone": {usages(x509.ExtKeyUsageServerAuth), "client auth"},
		"a certificate for clients alone": {usages(x509.ExtKeyUsageClientAuth), "server auth"},
		"a wildcard, which does not have a name": {
			ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"*.tls.default.svc"} }), "DNS name tls.default.svc",
		},
		"one that has expired": {ca.issue(t, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
		}), "expired at"},
	} {
		t.Run(sentence, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "redis-tls"}, Data: test.data}
			got := CheckCertificate(&v1.RedisCluster{ObjectMeta: rdc.ObjectMeta, Spec: v1.RedisClusterSpec{TLS: &v1.TLS{}}}, secret, time.Now())
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			c := parseCertificate(rdc, secret, time.Now())
			if strings.Contains(c.authorities, "PRIVATE") || (test.want == "" && (c.fingerprint == "" || c.notAfter.IsZero())) {
				t.Errorf("got %+v", c)
			}
		})
	}
	mixed := append(append([]byte{}, ca.issue(t)["tls.key"]...), ca.issue(t)["ca.crt"]...)
	if got := certificatesOf(mixed); strings.Contains(got, "PRIVATE") || !strings.Contains(got, "CERTIFICATE") {
		t.Errorf("the CAs are %q", got)
	}
}

func TestTLSProblemsAndStatus(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5}
	reasonOf := func(alters ...alter) string {
		if all := memberProblems(with(six(), alters...)); len(all) > 0 {
			return all[0].Reason
		}
		return ""
	}
	settled := []alter{specTLS(v1.TLSRequired), secured("only", true, all...)}
	for sentence, test := range map[string]struct {
		alter alter
		want  string
	}{
		"none":                  {func(*observed) {}, ""},
		"an invalid Secret":     {invalidCertificate, reasonCertificate},
		"an unknown CA":         {func(o *observed) { o.members[2].view, o.members[2].untrusted = nil, true }, reasonCertificate},
		"a certificate is new":  {func(o *observed) { o.members[2].staleFor = notLoadedTooLong }, ""},
		"it is not loaded long": {func(o *observed) { o.members[2].staleFor = notLoadedTooLong + 1 }, reasonCertificateNotLoaded},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := reasonOf(append(settled, test.alter)...); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := tlsStatus(with(six())); got != nil {
		t.Errorf("without TLS, status.tls is %+v", got)
	}
	got := tlsStatus(with(six(), settled...))
	if got == nil || got.Clients != v1.ProtocolTLS || got.Nodes != v1.ProtocolTLS || got.Fingerprint != "new" ||
		!got.NotAfter.Time.Equal(seenAt.Add(time.Hour)) {
		t.Errorf("status.tls is %+v", got)
	}
	last := func(o *observed) { o.rdc.Status.TLS = &v1.TLSStatus{Nodes: v1.ProtocolPlain, Fingerprint: "last"} }
	other := tlsIs(func(s *redisnode.TLSState) { s.Certificate, s.Cluster, s.Plain = "old", false, true }, 4)
	got = tlsStatus(with(six(), append(settled, last, other)...))
	if got.Clients != v1.ProtocolBoth || got.Nodes != v1.ProtocolPlain || got.Fingerprint != "last" {
		t.Errorf("while a node differs, status.tls is %+v", got)
	}
	before := func(o *observed) { o.rdc.Status.TLS = &v1.TLSStatus{Clients: v1.ProtocolBoth, Nodes: v1.ProtocolPlain} }
	for sentence, unknown := range map[string]alter{
		"does not answer":      silenced(time.Minute, 4),
		"does not know CONFIG": tlsIs(func(s *redisnode.TLSState) { *s = redisnode.TLSState{Certificate: "new"} }, 4),
	} {
		if got := tlsStatus(with(six(), append(settled, before, unknown)...)); got.Clients != v1.ProtocolBoth || got.Nodes != v1.ProtocolPlain {
			t.Errorf("while a node %s, which may not have switched, status.tls is %+v", sentence, got)
		}
		after := func(o *observed) { o.rdc.Status.TLS = &v1.TLSStatus{Clients: v1.ProtocolTLS, Nodes: v1.ProtocolTLS} }
		if got := tlsStatus(with(six(), append(settled, after, unknown)...)); got.Clients != v1.ProtocolTLS || got.Nodes != v1.ProtocolTLS {
			t.Errorf("while a node %s, which has switched, status.tls is %+v", sentence, got)
		}
	}
	got = tlsStatus(with(six(), append(settled, last, silenced(time.Minute, all...))...))
	if got.Fingerprint != "last" || got.Nodes != v1.ProtocolPlain {
		t.Errorf("while no node answers, status.tls is %+v", got)
	}
}
