// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

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

// podInText stands for the name of a Pod in hostname and in annotations.
const podInText = "{pod}"

// External returns spec.access.external, or nil.
func (s *RedisClusterSpec) External() *ExternalAccess {
	if s.Access == nil {
		return nil
	}
	return s.Access.External
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

// IPOf returns the IP of hosts at which clients reach the machine of a Node. It returns "" if hosts does not name the Node.
func (e *ExternalAccess) IPOf(node string) string {
	for _, host := range e.Hosts {
		if host.Name == node {
			return host.IP
		}
	}
	return ""
}
