// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DefaultTLSPort is the default of spec.tls.port.
const DefaultTLSPort = 6380

// CertificateAuthorityKey is the key of the CA in the Secret of spec.tls. cert-manager writes it.
const CertificateAuthorityKey = "ca.crt"

// TLS is the certificate of the nodes, and which clients they serve with it.
type TLS struct {
	// secretRef is the Secret with tls.crt, tls.key and ca.crt, as cert-manager writes it. The
	// certificate must have the DNS name "<name>.<namespace>.svc", and be valid for servers and for
	// clients: a node is a client of the others. If the Secret changes, the nodes load it without a
	// restart.
	// +required
	SecretRef SecretReference `json:"secretRef"`

	// mode is which clients the nodes serve: Preferred serves clients with TLS and without, Required
	// only those with TLS. The nodes use TLS among themselves in both.
	// +optional
	// +kubebuilder:default=Preferred
	Mode TLSMode `json:"mode,omitempty"`

	// port is the port for clients with TLS.
	// +optional
	// +kubebuilder:default=6380
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// SecretReference is a Secret of the same namespace.
type SecretReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret, like \"redis-tls\": lower case letters, digits, \"-\" and \".\""
	Name string `json:"name"`
}

// TLSMode is which clients the nodes serve.
//
// +kubebuilder:validation:Enum=Preferred;Required
type TLSMode string

// The modes of TLS.
const (
	TLSPreferred TLSMode = "Preferred"
	TLSRequired  TLSMode = "Required"
)

// Protocol is what the nodes speak.
type Protocol string

// The protocols.
const (
	ProtocolPlain Protocol = "Plain"
	ProtocolBoth  Protocol = "PlainAndTLS"
	ProtocolTLS   Protocol = "TLS"
)

// TLSStatus is the state of TLS.
type TLSStatus struct {
	// clients is what the nodes serve to clients: PlainAndTLS or TLS.
	// +optional
	Clients Protocol `json:"clients,omitempty"`
	// nodes is what the nodes use among themselves, for replication and for the cluster bus: Plain or
	// TLS.
	// +optional
	Nodes Protocol `json:"nodes,omitempty"`
	// fingerprint is the SHA-256 of the certificate that all nodes served last. The operator trusts it
	// until they serve the next one.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// notAfter is when the certificate in the Secret expires.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}
