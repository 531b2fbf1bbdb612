// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// specTLS sets spec.tls, with a valid certificate.
func specTLS(mode v1.TLSMode) alter {
	return func(o *observed) {
		withTLSMode(mode)(o.Object)
		o.Certificate = &certificate{Fingerprint: "new", NotAfter: seenAt.Add(time.Hour)}
	}
}

// secured gives Pods a certificate, a transport by their annotation, and what their nodes do: the bus with TLS or not.
func secured(annotation string, bus bool, ordinals ...int) alter {
	return func(o *observed) {
		rdc := o.Object.DeepCopy()
		if rdc.Spec.TLS == nil {
			withTLSMode(v1.TLSPreferred)(rdc)
		}
		for _, i := range ordinals {
			again := manifest.Pod(rdc, i)
			m := o.Members[i]
			m.Pod.Spec, m.Pod.Annotations = again.Spec, again.Annotations
			m.Pod.Spec.NodeName = "machine"
			if annotation != "" {
				m.Pod.Annotations[manifest.AnnotationTLS] = annotation
			}
			if m.View != nil {
				plain := annotation != manifest.TransportOnly
				m.View.TLS = &redisnode.TLSState{Certificate: "new", Known: true, Cluster: bus, Replication: bus, Plain: plain}
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
		o.NoFailoverFor = duration(d)
	}
}

// asking has replicas ask their masters for data at a port.
func asking(port int, ordinals ...int) alter {
	return changed(func(m *member) { m.View.MasterIP, m.View.MasterPort = ipOf(m.Ordinal-3), port }, ordinals...)
}

// seesPort has nodes see all others at a port.
func seesPort(port int, ordinals ...int) alter {
	return viewed(func(v *redisnode.View) {
		for i := range v.Table {
			v.Table[i].Port = port
		}
	}, ordinals...)
}

// replicates makes a member the replica of another one.
func replicates(ordinal, master int) alter {
	return viewed(func(v *redisnode.View) {
		for i := range v.Table {
			if v.Table[i].ID == idOf(ordinal) {
				v.Table[i].MasterID = idOf(master)
			}
		}
	}, all...)
}

func invalidCertificate(o *observed) {
	o.Certificate = &certificate{Problem: &problem{reasonCertificate, "Secret redis-tls: it has expired"}}
}

// decideTLS decides, and returns the plan, and its policy and commands as text.
func decideTLS(t *testing.T, alters ...alter) (plan, string) {
	t.Helper()
	o := with(six(), alters...)
	o.markCertificates()
	p := decide(o)
	recordtest.Check(t, Decisions, o, p)
	return p, p.Policy + ": " + strings.Join(inWords(append(p.Upkeep, p.Commands...)), ", ")
}

func TestDecideTLS(t *testing.T) {
	preferred, required, leaving := specTLS(v1.TLSPreferred), specTLS(v1.TLSRequired), specTLS(modeLeaving)
	unused, used, alone := secured("", false, all...), secured("both", true, all...), secured("only", true, all...)
	records := func(transport string, ordinals ...int) string {
		return strings.Join(every("record TLS of demo-%d "+transport, ordinals...), ", ")
	}
	serves := func(certificate string, ordinals ...int) alter {
		return tlsIs(func(s *redisnode.TLSState) { s.Certificate = certificate }, ordinals...)
	}
	noConfig := tlsIs(func(s *redisnode.TLSState) { s.Known = false }, 4)
	late, allowed := noFailoverFor(defaultNodeTimeout+1, 1, 5), "allowFailover: allow failover of demo-1 demo-5"
	lost := func(o *observed) { noFailoverFor(time.Hour, 0, 1, 3, 4, 5)(o); silenced(minPatience, 2)(o) }
	for _, test := range []struct {
		sentence string
		want     string // the policy and the commands; with … at the end, their beginning
		alters   []alter
	}{
		{"without TLS, nothing is switched", ": ", nil},
		{"Pods are replaced for a certificate", "rollPods: evict Pod demo-3", []alter{required}},
		{"no Pod is replaced for a certificate that is not valid", "rollPods: ", []alter{preferred, invalidCertificate}},
		{"no Pod is created for a certificate that is not valid", "forgetNodes: forget demo-0 id-4 …",
			[]alter{preferred, unused, invalidCertificate, noPod(4)}},
		{"while one Pod has no certificate, the nodes use no TLS", "rollPods: evict Pod demo-5",
			[]alter{preferred, secured("", false, 0, 1, 2, 3, 4)}},
		{"once all have a certificate, all are prepared", "startSwitch: " + records("both", all...), []alter{preferred, unused}},
		{"with Required, they are prepared for that", "startSwitch: " + records("only", all...), []alter{required, unused}},
		{"a switch does not begin while a node does not answer", "waitForReplicas: ", []alter{preferred, unused, silenced(time.Minute, 4)}},
		{"nor while a replica is behind", "waitForReplicas: ", []alter{preferred, unused, linkDown(4)}},
		{"nor while a node serves another certificate, which it loads", "startSwitch: load certificate of demo-4",
			[]alter{preferred, unused, serves("old", 4)}},
		{"nor with a certificate that is not valid", ": ", []alter{preferred, unused, invalidCertificate}},
		{"nor if a node does not allow CONFIG", "startSwitch: ", []alter{preferred, unused, noConfig}},
		{"a switch that has begun goes on, whatever the nodes say, and no node switches yet", "completeSwitch: " + records("both", 2, 3, 4, 5),
			[]alter{preferred, unused, secured("both", false, 0, 1), silenced(time.Minute, 4)}},
		{"when all are prepared, all switch at once, before anything else", "completeSwitch: switch TLS of demo-0 demo-1 demo-2 demo-3 demo-4",
			[]alter{preferred, secured("both", false, all...), silenced(time.Hour, 5)}},
		{"those that have not switched follow, though the others have lost them", "completeSwitch: switch TLS of demo-2 demo-5",
			[]alter{preferred, used, secured("both", false, 2, 5), func(o *observed) { failedByAll(o, idOf(2)) }}},
		{"a node whose replication alone has switched follows", "completeSwitch: switch TLS of demo-5",
			[]alter{preferred, used, tlsIs(func(s *redisnode.TLSState) { s.Cluster = false }, 5)}},
		{"replicas can be elected once all nodes agree", allowed, []alter{preferred, used, late}},
		{"not while a node does not say whether it has switched", "allowFailover: ",
			[]alter{preferred, used, late, tlsIs(func(s *redisnode.TLSState) { *s = redisnode.TLSState{Certificate: "new"} }, 4)}},
		{"and not before", "waitForAgreement: ", []alter{preferred, used, late, missed(2, 0)}},
		{"nor while links of before may look alive", "allowFailover: ", []alter{preferred, used, noFailoverFor(defaultNodeTimeout, 1, 5)}},
		{"nor while a master may still take writes", "waitForAgreement: ",
			[]alter{preferred, used, noFailoverFor(time.Hour, 1, 5), silenced(minPatience-1, 2)}},
		{"a master that is lost during the switch is replaced", allowed,
			[]alter{preferred, used, noFailoverFor(time.Hour, 1, 5), silenced(minPatience, 2)}},
		{"replicas connect to the new port of their masters", "reconnectReplicas: replicate demo-3 demo-0, replicate demo-5 demo-2",
			[]alter{preferred, used, asking(6379, 3, 5), asking(6380, 4), seesPort(6380, all...)}},
		{"one replica of a master at a time, which may copy all data", "reconnectReplicas: replicate demo-3 demo-0",
			[]alter{preferred, used, asking(6379, 3, 4), seesPort(6380, all...), replicates(4, 0)}},
		{"and the next one when that has its link", "waitForReplicas: ",
			[]alter{preferred, used, asking(6379, 4), asking(6380, 3), linkDown(3), seesPort(6380, all...), replicates(4, 0)}},
		{"if they know it", ": ", []alter{preferred, used, asking(6379, 3, 4, 5)}},
		{"and to the old one after a switch back, if the link is down", "reconnectReplicas: replicate demo-4 demo-1",
			[]alter{required, unused, asking(6380, 3, 4), seesPort(6380, all...), linkDown(4)}},
		{"but not of a master that is silent: its replica can be elected", "allowFailover: allow failover of demo-0 demo-1 demo-3 demo-4 demo-5",
			[]alter{unused, lost, asking(6380, 5), linkDown(5)}},
		{"a master that cannot start is replaced by its replica, and its Pod is not",
			"allowFailover: allow failover of demo-0 demo-1 demo-3 demo-4 demo-5", []alter{unused, lost, podIs(both(old, crashing), 2)}},
		{"clients lose the port without TLS", "startSwitch: " + records("only", all...), []alter{required, used}},
		{"and get it back", "startSwitch: " + records("both", all...), []alter{preferred, alone}},
		{"a container that started with the old transport follows", "completeSwitch: switch TLS of demo-3",
			[]alter{required, alone, tlsIs(func(s *redisnode.TLSState) { s.Plain = true }, 3)}},
		{"settled: nothing", ": ", []alter{required, alone}},
		{"without spec.tls, the nodes switch back before a Pod is replaced", "startSwitch: " + records("", all...), []alter{used}},
		{"even if the certificate is not valid", "startSwitch: " + records("", all...), []alter{used, invalidCertificate}},
		{"not if a node does not allow CONFIG: it would be the only one that uses TLS", "startSwitch: ", []alter{used, noConfig}},
		{"then the Pods are replaced", "rollPods: evict Pod demo-3", []alter{unused}},
		{"nodes among which one has no certificate do not wait", "completeSwitch: " + records("", 0, 1, 2, 3, 4),
			[]alter{secured("both", true, 0, 1, 2, 3, 4), silenced(time.Minute, 5)}},
		{"while they leave TLS, no Pod is replaced", "startSwitch: " + records("", all...), []alter{leaving, used}},
		{"a switch to TLS that the spec no longer wants is taken back at once", "completeSwitch: " + records("", all...),
			[]alter{leaving, used, secured("both", false, 2), silenced(time.Minute, 4)}},
		{"also once the spec has no trace of it", "completeSwitch: " + records("", all...),
			[]alter{used, noFailoverFor(time.Minute, 1), silenced(time.Minute, 4)}},
		{"a certificate that was not there yet is not loaded again at once", ": load certificate of demo-4",
			[]alter{preferred, used, serves("old", 1, 4), func(o *observed) { o.Members[1].LoadedFor = duration(time.Second) }}},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			p, got := decideTLS(t, test.alters...)
			if start, more := strings.CutSuffix(test.want, " …"); !strings.HasPrefix(got, start) || (!more && got != start) {
				t.Errorf("got %q, want %q; step %q", got, test.want, p.Step)
			}
		})
	}
}

// A new Pod starts with the transport of the others.
func TestTheTransportOfANewPod(t *testing.T) {
	preferred, required, used := specTLS(v1.TLSPreferred), specTLS(v1.TLSRequired), secured("both", true, 0, 1, 2, 3, 4)
	for sentence, test := range map[string]struct {
		alters []alter
		want   string
	}{
		"without TLS":                        {nil, ""},
		"the first one":                      {[]alter{required, noPod(all...)}, "only"},
		"among Pods without a certificate":   {[]alter{required}, ""},
		"among Pods that have not switched":  {[]alter{required, secured("", false, 0, 1, 2, 3, 4), noPod(5)}, ""},
		"while the port is about to close":   {[]alter{required, used, noPod(5)}, "both"},
		"while the annotations are written":  {[]alter{required, secured("both", true, 0, 1, 2), secured("only", true, 3, 4), noPod(5)}, "only"},
		"with one Pod without a certificate": {[]alter{preferred, secured("", false, 0, 1, 2, 3), noPod(5)}, ""},
		"without a certificate, after all":   {[]alter{used, noPod(5)}, ""},
	} {
		o := with(six(), test.alters...)
		if got := o.newPod(o.Members[5]).Annotations[manifest.AnnotationTLS]; got != test.want {
			t.Errorf("%s: got %q, want %q", sentence, got, test.want)
		}
	}
}

func TestParseCertificate(t *testing.T) {
	ca, without := redistest.NewAuthority(t), []byte(nil)
	other := redistest.NewAuthority(t).Issue(t)
	rdc := &v1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "tls", Namespace: "default"}, Spec: v1.RedisClusterSpec{TLS: &v1.TLS{}}}
	replaced := func(key string, text []byte) map[string][]byte {
		data := ca.Issue(t)
		if data[key] = text; text == nil {
			delete(data, key)
		}
		return data
	}
	issued := func(usages []x509.ExtKeyUsage, names ...string) map[string][]byte {
		return ca.Issue(t, func(c *x509.Certificate) {
			if c.ExtKeyUsage = usages; names != nil {
				c.DNSNames = names
			}
		})
	}
	for sentence, test := range map[string]struct {
		data map[string][]byte
		want string // in the problem; "" for none
	}{
		"a certificate of cert-manager":          {ca.Issue(t), ""},
		"one without usages is for all":          {issued(nil), ""},
		"a wildcard and the name":                {issued(nil, "*.tls.default.svc", "tls.default.svc"), ""},
		"no certificate":                         {replaced("tls.crt", without), "it has no tls.crt"},
		"no CA, as of a public issuer":           {replaced("ca.crt", without), "it has no ca.crt"},
		"the key of another one":                 {replaced("tls.key", ca.Issue(t)["tls.key"]), "are no pair"},
		"no PEM":                                 {replaced("ca.crt", []byte("x")), "ca.crt has no certificate"},
		"another CA":                             {replaced("ca.crt", other["ca.crt"]), "not signed by a CA of ca.crt"},
		"a certificate for servers alone":        {issued([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}), "client auth"},
		"a certificate for clients alone":        {issued([]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}), "server auth"},
		"a wildcard, which does not have a name": {issued(nil, "*.tls.default.svc"), "DNS name tls.default.svc"},
		"one that has expired": {ca.Issue(t, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
		}), "expired at"},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "redis-tls"}, Data: test.data}
		if got := CheckCertificate(rdc, secret, time.Now()); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", sentence, got, test.want)
		}
		c := parseCertificate(rdc, secret, time.Now())
		if strings.Contains(c.authorities, "PRIVATE") || (test.want == "" && (c.Fingerprint == "" || c.NotAfter.IsZero())) {
			t.Errorf("%s: got %+v", sentence, c)
		}
	}
	mixed := slices.Concat(ca.Issue(t)["tls.key"], ca.Issue(t)["ca.crt"])
	if got := certificatesOf(mixed); strings.Contains(got, "PRIVATE") || !strings.Contains(got, "CERTIFICATE") {
		t.Errorf("the CAs are %q", got)
	}
}

func TestTLSProblemsAndStatus(t *testing.T) {
	settled := func(alters ...alter) *observed {
		return with(six(), append([]alter{specTLS(v1.TLSRequired), secured("only", true, all...)}, alters...)...)
	}
	for sentence, test := range map[string]struct {
		alter alter
		want  string
	}{
		"none":                  {func(*observed) {}, ""},
		"an invalid Secret":     {invalidCertificate, reasonCertificate},
		"an unknown CA":         {func(o *observed) { o.Members[2].View, o.Members[2].Untrusted = nil, true }, reasonCertificate},
		"a certificate is new":  {func(o *observed) { o.Members[2].StaleFor = duration(notLoadedTooLong) }, ""},
		"it is not loaded long": {func(o *observed) { o.Members[2].StaleFor = duration(notLoadedTooLong + 1) }, reasonCertificateNotLoaded},
	} {
		reason := ""
		if problems := memberProblems(settled(test.alter)); len(problems) > 0 {
			reason = problems[0].Reason
		}
		if reason != test.want {
			t.Errorf("%s: got %q, want %q", sentence, reason, test.want)
		}
	}

	was := func(clients, nodes v1.Protocol) alter {
		return func(o *observed) {
			o.Object.Status.TLS = &v1.TLSStatus{Clients: clients, Nodes: nodes, Fingerprint: "last"}
		}
	}
	before, after := was(v1.ProtocolBoth, v1.ProtocolPlain), was(v1.ProtocolTLS, v1.ProtocolTLS)
	silent, noConfig := silenced(time.Minute, 4), tlsIs(func(s *redisnode.TLSState) { *s = redisnode.TLSState{Certificate: "new"} }, 4)
	differs := tlsIs(func(s *redisnode.TLSState) { s.Certificate, s.Cluster, s.Plain = "old", false, true }, 4)
	for sentence, test := range map[string]struct {
		seen *observed
		want string
	}{
		"settled":                                     {settled(), "TLS TLS new"},
		"a node differs":                              {settled(before, differs), "PlainAndTLS Plain last"},
		"a silent node may not have switched":         {settled(before, silent), "PlainAndTLS Plain last"},
		"a silent node has switched":                  {settled(after, silent), "TLS TLS last"},
		"a node without CONFIG may not have switched": {settled(before, noConfig), "PlainAndTLS Plain new"},
		"a node without CONFIG has switched":          {settled(after, noConfig), "TLS TLS new"},
	} {
		got := tlsStatus(test.seen)
		if text := fmt.Sprintf("%s %s %s", got.Clients, got.Nodes, got.Fingerprint); text != test.want {
			t.Errorf("%s: status.tls is %s, want %s", sentence, text, test.want)
		}
	}
	if got := tlsStatus(settled()); !got.NotAfter.Time.Equal(seenAt.Add(time.Hour)) {
		t.Errorf("the certificate is valid until %s", got.NotAfter)
	}
	if got := tlsStatus(with(six())); got != nil {
		t.Errorf("without TLS, status.tls is %+v", got)
	}
}
