// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Access is how clients reach the nodes, beside the Service without an IP.
type Access struct {
	// service is a Service with an IP of its own for clients inside of the cluster, with the name
	// "<name>-clients". It has the Pods that are ready. Default: no such Service.
	// +optional
	Service *ClientService `json:"service,omitempty"`

	// external makes the nodes reachable for clients outside of the cluster network. Default: they are
	// reachable at the IPs of their Pods alone.
	// +optional
	External *ExternalAccess `json:"external,omitempty"`
}

// ClientService is the Service for clients inside of the cluster.
type ClientService struct {
	// annotations are those of the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ExternalAccess is one Service for each Pod, and the address of that Service as the address that the node tells to clients and to the
// other nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.hosts) || size(self.hosts) == 0 || self.type == 'NodePort'",fieldPath=".hosts",message="can only be set with the type NodePort: a load balancer has an IP of its own"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerSourceRanges) || size(self.loadBalancerSourceRanges) == 0 || self.type == 'LoadBalancer'",fieldPath=".loadBalancerSourceRanges",message="can only be set with the type LoadBalancer"
type ExternalAccess struct {
	// type is the type of the Services: NodePort or LoadBalancer. A load balancer must have an IP.
	// +required
	Type ExternalType `json:"type"`

	// hosts are the IPs at which clients reach the machines. The Pods must reach them too. Default for a
	// machine: its own IP. Only for NodePort.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	Hosts []Host `json:"hosts,omitempty"`

	// loadBalancerSourceRanges are the networks from which the load balancers admit connections, if the
	// cloud supports it: those of clients, and those from which the Pods and the operator arrive there.
	// Default: all. Only for LoadBalancer.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="must be a network, like \"192.0.2.0/24\""
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`

	// annotations are those of the Services, such as those that a cloud reads for a load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Host is the IP at which clients reach a machine.
type Host struct {
	// name is the name of the Node object of the machine.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// ip is the IP.
	// +required
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be the IP of a machine, like \"192.0.2.7\""
	IP string `json:"ip"`
}

// ExternalType is the type of the Services for clients outside of the cluster.
//
// +kubebuilder:validation:Enum=NodePort;LoadBalancer
type ExternalType string

// The types of Services for clients outside of the cluster.
const (
	ExternalNodePort     ExternalType = "NodePort"
	ExternalLoadBalancer ExternalType = "LoadBalancer"
)

const (
	// maxHosts is the maximum number of machines in hosts.
	maxHosts = 500
	// maxSourceRanges is the maximum number of networks in loadBalancerSourceRanges.
	maxSourceRanges = 100
)

// External returns spec.access.external, or nil.
func (s *RedisClusterSpec) External() *ExternalAccess {
	if s.Access == nil {
		return nil
	}
	return s.Access.External
}

func (s *RedisClusterSpec) validateAccess(path *field.Path) field.ErrorList {
	if s.Access == nil {
		return nil
	}
	var errs field.ErrorList
	if service := s.Access.Service; service != nil && len(service.Annotations) > maxMetadata {
		errs = append(errs, field.TooMany(path.Child("service", "annotations"), len(service.Annotations), maxMetadata))
	}
	external := s.Access.External
	if external == nil {
		return errs
	}
	path = path.Child("external")
	if types := []ExternalType{ExternalLoadBalancer, ExternalNodePort}; !slices.Contains(types, external.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), external.Type, types))
	}
	if len(external.Annotations) > maxMetadata {
		errs = append(errs, field.TooMany(path.Child("annotations"), len(external.Annotations), maxMetadata))
	}
	hosts := path.Child("hosts")
	switch {
	case len(external.Hosts) > maxHosts:
		errs = append(errs, field.TooMany(hosts, len(external.Hosts), maxHosts))
	case len(external.Hosts) > 0 && external.Type != ExternalNodePort:
		errs = append(errs, field.Forbidden(hosts, "can only be set with the type NodePort: a load balancer has an IP of its own"))
	}
	for i, host := range external.Hosts {
		if slices.ContainsFunc(external.Hosts[:i], func(h Host) bool { return h.Name == host.Name }) {
			errs = append(errs, field.Duplicate(hosts.Index(i), host.Name))
		}
		if len(host.Name) > validation.DNS1123SubdomainMaxLength {
			errs = append(errs, field.TooLong(hosts.Index(i).Child("name"), host.Name, validation.DNS1123SubdomainMaxLength))
		}
		if ip, err := netip.ParseAddr(host.IP); err != nil || ip.Zone() != "" || ip.Is4In6() {
			errs = append(errs, field.Invalid(hosts.Index(i).Child("ip"), host.IP, `must be the IP of a machine, like "192.0.2.7"`))
		}
	}
	return append(errs, external.validateSourceRanges(path.Child("loadBalancerSourceRanges"))...)
}

func (e *ExternalAccess) validateSourceRanges(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ranges := e.LoadBalancerSourceRanges
	switch {
	case len(ranges) > maxSourceRanges:
		return field.ErrorList{field.TooMany(path, len(ranges), maxSourceRanges)}
	case len(ranges) > 0 && e.Type != ExternalLoadBalancer:
		errs = append(errs, field.Forbidden(path, "can only be set with the type LoadBalancer"))
	}
	for i, text := range ranges {
		if slices.Contains(ranges[:i], text) {
			errs = append(errs, field.Duplicate(path.Index(i), text))
		}
		if network, err := netip.ParsePrefix(text); err != nil || network.Addr().Is4In6() {
			errs = append(errs, field.Invalid(path.Index(i), text, `must be a network, like "192.0.2.0/24"`))
		}
	}
	return errs
}

// IPOf returns the IP at which clients reach a machine; "" if hosts does not have the machine.
func (e *ExternalAccess) IPOf(machine string) string {
	for _, host := range e.Hosts {
		if host.Name == machine {
			return host.IP
		}
	}
	return ""
}
