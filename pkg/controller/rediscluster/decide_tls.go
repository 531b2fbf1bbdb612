// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The functions below decide where the nodes use TLS. A node can serve clients with TLS and without at once. But the cluster bus has one
// protocol, and so has replication: a node with another protocol cannot reach the others. So all nodes switch at once, while they run.
//
//	          Pods                 AnnotationTLS   bus, replication   clients        next step
//	 no TLS   no certificate       -               plain              plain          spec.tls is set: rollPods replaces the Pods
//	   │▲     some have one        none            plain              plain, or both rollPods, until all have one
//	   ▼│     all have one         none            plain              plain and TLS  startSwitch, while the cluster is healthy
//	   ││     all have one         some of them    plain              plain and TLS  completeSwitch: the rest, in any case
//	   ││     all have one         all             some of them       plain and TLS  completeSwitch: CONFIG SET in all other nodes
//	   ▼│     all have one         all "both"      TLS                plain and TLS  mode Required: startSwitch, as above
//	  TLS     all have one         all "only"      TLS                TLS            -
//
// The way back has the same steps in reverse: the annotations are removed, the nodes switch, and then rollPods replaces the Pods. Nodes
// with "only" that announce addresses of Services first open the port without TLS. They use this port among themselves only after the
// operator has reached it at each of these addresses.
//
//   - The annotations record a switch. All are written before the first node switches. So a restarted operator finds the same goal: either
//     not all Pods have the annotation, or not all nodes follow it. A container that restarts follows the annotation of its Pod.
//   - While some nodes have switched and others have not, the masters of one side do not reach those of the other. So before the first
//     node switches, all get cluster-replica-no-failover: a replica that is elected meanwhile would lose writes to its master.
//     allowFailover resets the directive once all nodes reach each other.
//   - While spec.tls is gone and Pods still have the annotation, new Pods get the certificate, too: without it, they could not reach the
//     others.
//   - MIGRATE uses the same protocol as the bus. No slot moves during a switch: startSwitch comes after finishMoves, and completeSwitch
//     before all policies that move slots.

// certificate is the certificate in the Secret of spec.tls, without the private key.
type certificate struct {
	Fingerprint string    `json:"fingerprint,omitempty"`
	authorities string    // as PEM
	NotAfter    time.Time `json:"notAfter,omitzero"`
	Problem     *problem  `json:"problem,omitempty"` // why the nodes cannot use it; nil if they can
}

// notLoadedTooLong is how long nodes may serve another certificate than that of the Secret: a kubelet takes up to two minutes to write
// a changed Secret into its Pods.
const notLoadedTooLong = 5 * time.Minute

// loadEvery is how often the operator makes a node load its files until it serves the certificate of the Secret: only the node can see its
// files.
const loadEvery = 10 * time.Second

// parseCertificate returns the certificate in a Secret. The messages of its problems name keys of the Secret.
func parseCertificate(rdc *v1.RedisCluster, secret *corev1.Secret, now time.Time) *certificate {
	invalid := func(format string, args ...any) *certificate {
		return &certificate{Problem: &problem{reasonCertificate, fmt.Sprintf("Secret %s: ", secret.Name) + fmt.Sprintf(format, args...)}}
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, v1.CertificateAuthorityKey} {
		if len(secret.Data[key]) == 0 {
			return invalid("it has no %s", key)
		}
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil { // The message leaves out the error, which may quote the key.
		return invalid("%s and %s are no pair of a certificate and its key, as PEM", corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[v1.CertificateAuthorityKey]) {
		return invalid("%s has no certificate, as PEM", v1.CertificateAuthorityKey)
	}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(c)
		}
	}
	leaf := pair.Leaf
	c := &certificate{
		Fingerprint: redisnode.Fingerprint(leaf.Raw), NotAfter: leaf.NotAfter,
		authorities: certificatesOf(secret.Data[v1.CertificateAuthorityKey]),
	}
	verify := func(usage x509.ExtKeyUsage) error {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	switch {
	case now.After(leaf.NotAfter):
		c.Problem = invalid("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339)).Problem
	case verify(x509.ExtKeyUsageAny) != nil:
		c.Problem = invalid("%s is not signed by a CA of %s: %v", corev1.TLSCertKey, v1.CertificateAuthorityKey,
			verify(x509.ExtKeyUsageAny)).Problem
	case leaf.VerifyHostname(manifest.ServerName(rdc)) != nil:
		c.Problem = invalid("the certificate does not have the DNS name %s", manifest.ServerName(rdc)).Problem
	case verify(x509.ExtKeyUsageServerAuth) != nil || verify(x509.ExtKeyUsageClientAuth) != nil:
		c.Problem = invalid("the usages of the certificate must have server auth and client auth: nodes connect to each other").Problem
	}
	return c
}

// certificatesOf returns the certificates in a PEM text, without its other blocks.
func certificatesOf(text []byte) string {
	var all []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
	return string(all)
}

// badCertificate returns why the nodes cannot use the certificate of the spec; nil if they can.
func (o *observed) badCertificate() *problem {
	if o.Certificate == nil {
		return nil
	}
	return o.Certificate.Problem
}

// withPods returns the members that have a Pod.
func (o *observed) withPods() []*member {
	return o.membersWhere(func(m *member) bool { return m.Pod != nil })
}

func (o *observed) existingPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, m := range o.withPods() {
		pods = append(pods, m.Pod)
	}
	return pods
}

// transport returns the transport of the Pods, and whether it is the same for all. A Pod without a certificate has manifest.TransportPlain.
func (o *observed) transport() (string, bool) {
	pods := o.withPods()
	if len(pods) == 0 {
		return "", false
	}
	first := pods[0].Pod.Annotations[manifest.AnnotationTLS]
	return first, !slices.ContainsFunc(pods, func(m *member) bool { return m.Pod.Annotations[manifest.AnnotationTLS] != first })
}

// wantedTransport returns the transport that all nodes should have next.
func (o *observed) wantedTransport() string {
	closed := func(m *member) bool { return m.Pod.Annotations[manifest.AnnotationTLS] == manifest.TransportOnly }
	switch spec := o.Object.Spec.TLS; {
	case slices.ContainsFunc(o.withPods(), func(m *member) bool { return !manifest.HasTLS(m.Pod) }):
		return manifest.TransportPlain
	case o.leavesTLS() && slices.ContainsFunc(o.withPods(), closed) && slices.ContainsFunc(o.Members, hasExternalPod):
		return manifest.TransportBoth // The port without TLS must first open: see startSwitch.
	case o.leavesTLS():
		return manifest.TransportPlain
	case spec.Mode == v1.TLSRequired:
		return manifest.TransportOnly
	}
	return manifest.TransportBoth
}

// leavesTLS returns whether the spec no longer wants TLS among the nodes: see withCertificate.
func (o *observed) leavesTLS() bool {
	return o.Object.Spec.TLS == nil || o.Object.Spec.TLS.Mode == modeLeaving
}

func hasExternalPod(m *member) bool { return manifest.IsExternal(m.Pod) }

// annotateTransport writes the transport to all Pods that do not have it.
func (o *observed) annotateTransport(transport string) *plan {
	var commands []command
	for _, m := range o.withPods() {
		if m.Pod.Annotations[manifest.AnnotationTLS] != transport {
			commands = append(commands, command{verb: recordTLS, on: m, names: []string{transport}})
		}
	}
	return do(commands, "Preparing to switch the nodes to %s", transportText(transport))
}

func transportText(transport string) string {
	return map[string]string{
		manifest.TransportPlain: "no TLS among themselves", manifest.TransportBoth: "TLS among themselves",
		manifest.TransportOnly: "TLS among themselves and for all clients",
	}[transport]
}

// completeSwitch completes a switch that has begun. It waits for nothing: until the switch is complete, nodes may not reach each other. If
// the nodes switch to TLS while the spec no longer wants it, they switch back at once: the certificate may be why they do not reach each
// other.
func completeSwitch(o *observed) *plan {
	transport, same := o.transport()
	tls := o.membersWhere(func(m *member) bool { return manifest.HasTLS(m.Pod) })
	switch {
	case len(tls) == 0:
		return nil
	case !same, transport != manifest.TransportPlain && o.leavesTLS() && slices.ContainsFunc(tls, unfinished(transport)):
		return o.annotateTransport(o.wantedTransport())
	}
	var names []string
	for _, m := range tls {
		if m.answers() && !m.hasTransport(transport) {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	p := do([]command{{verb: switchTLS, names: names}}, "Switching %d nodes to %s", len(names), transportText(transport))
	p.Wait = duration(soon)
	return p
}

// unfinished returns a function that reports whether a node that answers has not completed its switch to a transport. With a Service, a
// node of which only the port without TLS differs counts as complete: the others reach it, and the way back opens this port first.
func unfinished(transport string) func(*member) bool {
	return func(m *member) bool {
		differs := m.answers() && !m.hasTransport(transport) && (!manifest.IsExternal(m.Pod) || m.changesBus())
		return differs || m.preventsFailover()
	}
}

// knowsTransport returns whether a node answers and says where it uses TLS. Without the command CONFIG, it does not say that.
func (m *member) knowsTransport() bool { return m.answers() && m.View.TLS != nil && m.View.TLS.Known }

// hasTransport returns whether a node uses a transport. It returns true for a node that does not report its transport: the operator cannot
// switch such a node.
func (m *member) hasTransport(transport string) bool {
	if !m.knowsTransport() {
		return true
	}
	state, among := m.View.TLS, transport != manifest.TransportPlain
	return state.Cluster == among && state.Replication == among && state.Plain == (transport != manifest.TransportOnly)
}

// startSwitch begins to switch all nodes, if they have and serve a valid certificate. The policies before it ensure that all answer and
// agree, that no slot moves, and that all replicas are up to date.
func startSwitch(o *observed) *plan {
	wanted := o.wantedTransport()
	if transport, same := o.transport(); same && transport == wanted || !slices.ContainsFunc(o.withPods(), func(m *member) bool {
		return manifest.HasTLS(m.Pod)
	}) {
		return nil
	}
	secures := wanted != manifest.TransportPlain && !o.leavesTLS()
	if secures && o.badCertificate() != nil {
		return nil // The status has the problem.
	}
	for _, m := range o.withPods() {
		if secures && m.StaleCertificate {
			return wait(check, "Waiting for %s to load its certificate", m.Name)
		}
		if m.answers() && manifest.HasTLS(m.Pod) && !m.knowsTransport() {
			return stuck(reasonCertificateNotLoaded, "%s does not allow the command CONFIG: its node cannot switch to TLS, or back", m.Name)
		}
		if wanted == manifest.TransportPlain && manifest.IsExternal(m.Pod) && m.isElsewhere() && m.ReachedAt != m.announced() {
			return wait(check, "Waiting to reach %s at %s also without TLS, before the nodes use that port: %s",
				m.Name, m.announced(), m.WhyUnreached)
		}
	}
	return o.annotateTransport(wanted)
}

// allowFailover lets replicas be elected again after a switch, once all nodes reach each other. Links from before the switch may look
// alive for a cluster-node-timeout. A master that is silent for longer than patience no longer accepts writes: one of its replicas may
// then take over.
func allowFailover(o *observed) *plan {
	var names []string
	for _, m := range o.answering() {
		if m.preventsFailover() {
			names = append(names, m.Name)
		}
	}
	silent := func(m *member) bool { return !m.answers() && m.SilentFor.Duration < o.patience() }
	if len(names) == 0 || slices.ContainsFunc(o.slotOwners(), silent) || o.disagreement() != "" {
		return nil // See waitForAgreement.
	}
	for _, m := range o.answering() {
		if manifest.HasTLS(m.Pod) && !m.knowsTransport() {
			return wait(check, "Waiting for %s to say whether it has switched: it does not allow the command CONFIG", m.Name)
		}
	}
	if o.NoFailoverFor.Duration <= o.nodeTimeout() {
		return wait(check, "Waiting for the nodes to connect again, after the switch of %d nodes", len(names))
	}
	return do([]command{{verb: endSwitch, names: names}}, "Allowing failovers again, after the switch of %d nodes", len(names))
}

// preventsFailover returns whether a node that answers was told that replicas must not be elected.
func (m *member) preventsFailover() bool {
	return m.answers() && m.View.TLS != nil && m.View.TLS.NoFailover
}

// markCertificates sets which nodes serve another certificate than the Secret of their Pods has.
func (o *observed) markCertificates() {
	for _, m := range o.Members {
		m.StaleCertificate = m.answers() && m.View.TLS != nil && o.Object.Spec.TLS != nil && o.badCertificate() == nil && o.Certificate != nil &&
			manifest.SecretOfTLS(m.Pod) == o.Object.Spec.TLS.SecretRef.Name && m.View.TLS.Certificate != o.Certificate.Fingerprint
	}
}

// certificateCommands returns the commands by which nodes load a renewed certificate. They are repeated until the kubelet has written
// it into the Pod. They are no step of an operation: clients notice nothing.
func certificateCommands(o *observed) []command {
	var commands []command
	for _, m := range o.Members {
		if m.StaleCertificate && m.LoadedFor.Duration == 0 {
			commands = append(commands, command{verb: loadCertificate, on: m})
		}
	}
	return commands
}

// tlsProblem returns the problem that a member has with its certificate, or nil.
func (o *observed) tlsProblem(m *member) *problem {
	switch {
	case m.Untrusted:
		return &problem{reasonCertificate, fmt.Sprintf("%s: %s. The operator does not connect to it. If the Secret of spec.tls is valid, "+
			"restart the container: kubectl exec %s -c %s -- sh -c 'kill 1'", m.Name, m.WhySilent, m.Name, manifest.ContainerName)}
	case m.LoadRefusal != "":
		return &problem{reasonCertificateNotLoaded, fmt.Sprintf("%s does not load the certificate of the Secret: %s. Its log says why",
			m.Name, m.LoadRefusal)}
	case m.StaleFor.Duration > notLoadedTooLong:
		return &problem{reasonCertificateNotLoaded, fmt.Sprintf("%s has not loaded the certificate of the Secret for more than %s: "+
			"see the events of the Pod and the log of its node", m.Name, notLoadedTooLong)}
	}
	return nil
}

// tlsStatus returns the state of TLS for the status; nil if no node has a certificate.
func tlsStatus(o *observed) *v1.TLSStatus {
	tls := o.membersWhere(func(m *member) bool { return manifest.HasTLS(m.Pod) })
	if len(tls) == 0 {
		return nil
	}
	last := cmp.Or(o.Object.Status.TLS, &v1.TLSStatus{})
	if len(o.answering()) == 0 && last.Nodes != "" { // Nothing newer is known.
		return last
	}
	status := &v1.TLSStatus{Clients: v1.ProtocolBoth, Nodes: v1.ProtocolTLS, Fingerprint: last.Fingerprint, NotAfter: last.NotAfter}
	if o.Certificate != nil && !o.Certificate.NotAfter.IsZero() {
		status.NotAfter = &metav1.Time{Time: o.Certificate.NotAfter}
	}
	if transport, same := o.transport(); same && transport == manifest.TransportOnly {
		status.Clients = v1.ProtocolTLS
	}
	served := map[string]bool{}
	for _, m := range o.withPods() {
		state := &redisnode.TLSState{}
		if m.answers() && m.View.TLS != nil {
			state = m.View.TLS
		}
		served[state.Certificate] = true
		plain, clients := !(state.Cluster && state.Replication), state.Plain
		if manifest.HasTLS(m.Pod) && !m.knowsTransport() { // Its transport is unknown: the last status counts.
			plain, clients = last.Nodes == v1.ProtocolPlain, last.Clients == v1.ProtocolBoth
		}
		if plain {
			status.Nodes = v1.ProtocolPlain
		}
		if clients {
			status.Clients = v1.ProtocolBoth
		}
	}
	if len(served) == 1 && !served[""] {
		for only := range served {
			status.Fingerprint = only
		}
	}
	return status
}

// switches returns whether a plan has a command of a TLS switch.
func (p plan) switches() bool {
	return slices.ContainsFunc(p.Commands, func(c command) bool {
		return slices.Contains([]*verb{recordTLS, switchTLS, endSwitch}, c.verb)
	})
}

// tlsPort returns the port on which nodes serve TLS, or will; 0 if there is none.
func (o *observed) tlsPort() int {
	if o.Object.Spec.TLS != nil {
		return int(o.Object.Spec.TLS.Port)
	}
	for _, m := range o.withPods() {
		if manifest.HasTLS(m.Pod) {
			return manifest.PortFor(m.Pod, true)
		}
	}
	return 0
}

// newPod returns the Pod that is created for a member. If there are other Pods, its node starts with their transport.
func (o *observed) newPod(m *member) *corev1.Pod {
	p := manifest.Pod(o.Object, m.Ordinal)
	transport, same := o.transport()
	if !same {
		transport = o.wantedTransport()
	}
	if manifest.HasTLS(p) && transport != manifest.TransportPlain {
		p.Annotations[manifest.AnnotationTLS] = transport
	}
	return p
}
