// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"net/netip"
	"slices"
	"strings"

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
// +kubebuilder:validation:XValidation:rule="!has(self.hostname) || size(self.hostname) == 0 || self.type == 'LoadBalancer'",fieldPath=".hostname",message="can only be set with the type LoadBalancer"
type ExternalAccess struct {
	// type is the type of the Services: NodePort or LoadBalancer. A load balancer must have an IP, unless
	// hostname is set.
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

	// hostname is the DNS name of each load balancer, with {pod} for the name of its Pod, like
	// "{pod}.redis.example.com". The nodes tell it to clients, and use the IPs of Pods among themselves. Needs
	// Redis 7.0. Default: the nodes tell clients the IPs of the load balancers. Only for LoadBalancer.
	// +optional
	// +kubebuilder:validation:MaxLength=190
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.split('{pod}').size() == 2 && self.replace('{pod}', 'a-0').matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name with one {pod}, like \"{pod}.redis.example.com\": lower case letters, digits, \"-\" and \".\""
	Hostname string `json:"hostname,omitempty"`

	// annotations are those of the Services, such as those that a cloud reads for a load balancer. With
	// hostname, {pod} in a value is the name of the Pod.
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

// DirectiveEndpoints is the directive that makes nodes tell clients hostnames.
const DirectiveEndpoints = "cluster-preferred-endpoint-type"

const (
	// maxHosts is the maximum number of machines in hosts.
	maxHosts = 500
	// maxSourceRanges is the maximum number of networks in loadBalancerSourceRanges.
	maxSourceRanges = 100
	// maxHostname is the maximum length of hostname. With the name of a Pod instead of {pod}, it is no longer than a DNS name may be.
	maxHostname = 190
	// podInText stands for the name of a Pod in hostname and in annotations.
	podInText = "{pod}"
)

// External returns spec.access.external, or nil.
func (s *RedisClusterSpec) External() *ExternalAccess {
	if s.Access == nil {
		return nil
	}
	return s.Access.External
}

func (s *RedisClusterSpec) validateAccess(spec *field.Path) field.ErrorList {
	if s.Access == nil {
		return nil
	}
	path, errs := spec.Child("access"), field.ErrorList(nil)
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
	errs = append(errs, external.validateHosts(path.Child("hosts"))...)
	errs = append(errs, external.validateHostname(path.Child("hostname"))...)
	if _, set := s.Config[DirectiveEndpoints]; set && external.Hostname != "" {
		errs = append(errs, field.Forbidden(spec.Child("config").Key(DirectiveEndpoints), "cannot be set together with access.external.hostname"))
	}
	return append(errs, external.validateSourceRanges(path.Child("loadBalancerSourceRanges"))...)
}

func (e *ExternalAccess) validateHosts(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case len(e.Hosts) > maxHosts:
		return field.ErrorList{field.TooMany(path, len(e.Hosts), maxHosts)}
	case len(e.Hosts) > 0 && e.Type != ExternalNodePort:
		errs = append(errs, field.Forbidden(path, "can only be set with the type NodePort: a load balancer has an IP of its own"))
	}
	seen := map[string]bool{}
	for i, host := range e.Hosts {
		if seen[host.Name] {
			errs = append(errs, field.Duplicate(path.Index(i), host.Name))
		}
		seen[host.Name] = true
		if len(host.Name) > validation.DNS1123SubdomainMaxLength {
			errs = append(errs, field.TooLong(path.Index(i).Child("name"), host.Name, validation.DNS1123SubdomainMaxLength))
		}
		if ip, err := netip.ParseAddr(host.IP); err != nil || ip.Zone() != "" || ip.Is4In6() {
			errs = append(errs, field.Invalid(path.Index(i).Child("ip"), host.IP, `must be the IP of a machine, like "192.0.2.7"`))
		}
	}
	return errs
}

func (e *ExternalAccess) validateHostname(path *field.Path) field.ErrorList {
	name := strings.ReplaceAll(e.Hostname, podInText, "a-0")
	switch {
	case e.Hostname == "":
	case e.Type != ExternalLoadBalancer:
		return field.ErrorList{field.Forbidden(path, "can only be set with the type LoadBalancer")}
	case len(e.Hostname) > maxHostname:
		return field.ErrorList{field.TooLong(path, e.Hostname, maxHostname)}
	case strings.Count(e.Hostname, podInText) != 1 || len(validation.IsDNS1123Subdomain(name)) > 0:
		return field.ErrorList{field.Invalid(path, e.Hostname, `must be a DNS name with one {pod}, like "{pod}.redis.example.com": `+
			`lower case letters, digits, "-" and "."`)}
	}
	return nil
}

// HostnameOf returns the DNS name that the node of a Pod tells to clients; "" if it tells them an IP.
func (s *RedisClusterSpec) HostnameOf(pod string) string {
	if s.External() == nil {
		return ""
	}
	return strings.ReplaceAll(s.Access.External.Hostname, podInText, pod)
}

// AnnotationsOf returns the annotations of the Service for the node of a Pod.
func (e *ExternalAccess) AnnotationsOf(pod string) map[string]string {
	if e.Hostname == "" {
		return e.Annotations
	}
	all := map[string]string{}
	for key, value := range e.Annotations {
		all[key] = strings.ReplaceAll(value, podInText, pod)
	}
	return all
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
	seen := map[string]bool{}
	for i, cidr := range ranges {
		if seen[cidr] {
			errs = append(errs, field.Duplicate(path.Index(i), cidr))
		}
		seen[cidr] = true
		if prefix, err := netip.ParsePrefix(cidr); err != nil || prefix.Addr().Is4In6() {
			errs = append(errs, field.Invalid(path.Index(i), cidr, `must be a network, like "192.0.2.0/24"`))
		}
	}
	return errs
}

// IPOf returns the IP of hosts at which clients reach the machine of a Node. It returns "" if hosts does not name the Node.
func (e *ExternalAccess) IPOf(node string) string {
	for _, host := range e.Hosts {
		if host.Name == node {
			return host.IP
		}
	}
	return ""
}
