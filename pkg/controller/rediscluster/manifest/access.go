// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
)

// LabelExternal has the ordinal of a node. It is on the Service for clients outside of the cluster network, and on the Pod of the node:
// the Service selects the Pod by it. The operator labels a Pod only right before its node announces the address of the Service. With a
// label from the start, the other nodes could reach a new node at the address of a node that is gone.
const LabelExternal = v1.GroupName + "/external"

// AnnotationUnreachable on a Pod has an address at which the other nodes did not reach its node. The node does not announce it, until a
// user deletes the annotation, or the address changes.
const AnnotationUnreachable = v1.GroupName + "/unreachable-address"

// ClientService returns the Service with an IP for clients inside of the cluster; nil without one. Its endpoints are the ready Pods.
func ClientService(rdc *v1.RedisCluster, closed bool) *corev1ac.ServiceApplyConfiguration {
	if rdc.Spec.Access == nil || rdc.Spec.Access.Service == nil {
		return nil
	}
	port, _ := Ports(rdc)
	servicePorts := []*corev1ac.ServicePortApplyConfiguration{servicePort(PortRedis, port)}
	if tls := rdc.Spec.TLS; tls != nil {
		servicePorts = append(servicePorts, servicePort(PortTLS, int(tls.Port)))
	}
	return corev1ac.Service(ClientServiceName(rdc), rdc.Namespace).
		WithLabels(labels(rdc)).WithAnnotations(rdc.Spec.Access.Service.Annotations).WithOwnerReferences(child.Reference(rdc, Kind)).
		WithSpec(corev1ac.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithSelector(SelectorForClients(rdc, closed)).
			WithPorts(servicePorts...))
}

// ClientServiceName returns the name of the Service of ClientService.
func ClientServiceName(rdc *v1.RedisCluster) string { return rdc.Name + "-clients" }

// ExternalService returns the Service of one node for clients outside of the cluster network, with these ports. The other nodes use the
// Service, too: it has the port of the bus, and serves the Pod even while it is not ready. It leaves out a port for TLS or for the bus
// with the number 0.
func ExternalService(rdc *v1.RedisCluster, ordinal int, at Address) *corev1ac.ServiceApplyConfiguration {
	external, name := rdc.Spec.External(), PodName(rdc, ordinal)
	servicePorts := []*corev1ac.ServicePortApplyConfiguration{servicePort(PortRedis, at.Port)}
	if at.Bus > 0 {
		servicePorts = append(servicePorts, servicePort(PortBus, at.Bus))
	}
	if at.TLS > 0 {
		servicePorts = append(servicePorts, servicePort(PortTLS, at.TLS))
	}
	selected, ofService := Selector(rdc), labels(rdc)
	for _, m := range []map[string]string{selected, ofService} {
		m[LabelExternal] = strconv.Itoa(ordinal)
	}
	return corev1ac.Service(name, rdc.Namespace).
		WithLabels(ofService).WithAnnotations(external.AnnotationsOf(name)).WithOwnerReferences(child.Reference(rdc, Kind)).
		WithSpec(corev1ac.ServiceSpec().WithType(corev1.ServiceType(external.Type)).WithSelector(selected).
			WithPublishNotReadyAddresses(true).
			WithLoadBalancerSourceRanges(external.LoadBalancerSourceRanges...).
			WithPorts(servicePorts...))
}

// KeptPorts returns the ports of a Service that the other nodes use, too. An existing Service keeps the numbers of its ports: otherwise
// Kubernetes would choose other node ports. If another port has the number for TLS, TLS gets the next free number.
func KeptPorts(rdc *v1.RedisCluster, tls int, existing *corev1.Service) Address {
	port, bus := Ports(rdc)
	if existing != nil {
		numbers := map[string]int{}
		for _, p := range existing.Spec.Ports {
			numbers[p.Name] = int(p.Port)
		}
		if numbers[PortRedis] > 0 && numbers[PortBus] > 0 {
			port, bus = numbers[PortRedis], numbers[PortBus]
		}
		if tls > 0 {
			tls = cmp.Or(numbers[PortTLS], tls)
		}
		for tls == port || tls == bus { // The existing Service uses this number for another port.
			tls++
		}
	}
	return Address{Port: port, TLS: tls, Bus: bus}
}

// servicePort returns a port of a Service that targets the port with the same name in its Pods.
func servicePort(name string, number int) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithProtocol(corev1.ProtocolTCP).
		WithPort(int32(number)).WithTargetPort(intstr.FromString(name))
}

// withAddress returns stop.sh for a node that may announce another address than the IP of its Pod. Its replicas then ask for data at that
// address, so stop.sh recognizes them by the ID of the replication history. If the nodes use TLS among themselves, stop.sh does, too:
// otherwise it would send the password in plain text outside of the Pod network. Without spec.access.external, stop.sh stays unchanged:
// the node hands over only while it announces the IP of its Pod.
func withAddress(rdc *v1.RedisCluster, script string) string {
	if rdc.Spec.External() == nil {
		return script
	}
	const afterID, follows = `[ -n "$me" ] || exit 0` + "\n", `*"master_host:$POD_IP"[!0-9a-f.:]*master_link_status:up*`
	const history = `history=$(ask -h "$POD_IP" -p "$PORT" INFO replication | grep ^master_replid:)` + "\n" +
		`[ -n "$history" ] || exit 0` + "\n"
	if rdc.Spec.TLS != nil {
		const beforeID = "\nme="
		overTLS := `case $(ask -h "$POD_IP" -p "$PORT" CONFIG GET tls-cluster) in *yes*) PORT=$GLASSBACK_TLS_PORT tls='` + stopWithTLS +
			"' ;; esac"
		script = strings.Replace(script, beforeID, "\n"+overTLS+beforeID, 1)
	}
	return strings.NewReplacer(afterID, afterID+history, follows, `*master_link_status:up*"$history"*`).Replace(script)
}

// EnvHostname has the hostname with which a node starts, for start.sh.
const EnvHostname = "GLASSBACK_HOSTNAME"

// Address is where clients reach a node, without TLS and with it. The other nodes also use the port of the bus.
type Address struct {
	IP   string // or a hostname: see IsName
	Port int
	TLS  int // 0 if there is none
	Bus  int
}

// IsName returns whether the address is a hostname: it is for clients alone.
func (a Address) IsName() bool { return a.IP != "" && a.Bus == 0 }

// String returns the address as CLUSTER NODES has it. A hostname has no port of the bus.
func (a Address) String() string {
	text := a.IP + ":" + strconv.Itoa(a.Port)
	if !a.IsName() {
		text += "@" + strconv.Itoa(a.Bus)
	}
	if a.TLS != 0 {
		text += tlsPortField + strconv.Itoa(a.TLS)
	}
	return text
}

// tlsPortField is the field with the port for TLS, after an empty host name, as Redis 7.2 has it.
const tlsPortField = ",,tls-port="

// ClientPort returns the port for clients with TLS, or without it.
func (a Address) ClientPort(overTLS bool) int {
	if overTLS {
		return a.TLS
	}
	return a.Port
}

// HasPort returns whether the port of an entry is one of the address. Redis 7.2 shows 0 for a port that a node does not have.
func (a Address) HasPort(port int) bool { return port == a.Port || port == a.TLS || port == 0 }

// AddressIn parses the text that String returns.
func AddressIn(text string) Address {
	text, tls, _ := strings.Cut(text, tlsPortField)
	client, bus, _ := strings.Cut(text, "@")
	colon := strings.LastIndexByte(client, ':')
	a := Address{IP: client[:max(colon, 0)]}
	a.Port, _ = strconv.Atoi(client[colon+1:])
	a.Bus, _ = strconv.Atoi(bus)
	a.TLS, _ = strconv.Atoi(tls)
	return a
}

// MarshalJSON returns the text of the address.
func (a Address) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Address) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	*a = AddressIn(text)
	return err
}

// IsExternal returns whether the Pod has the label by which its Service selects it.
func IsExternal(pod *corev1.Pod) bool { return pod != nil && pod.Labels[LabelExternal] != "" }

// ExternalPorts returns the ports of a Service for clients outside of the cluster network; 0 while they are not allocated.
func ExternalPorts(s *corev1.Service) (a Address) {
	for _, p := range s.Spec.Ports {
		number := p.Port
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			number = p.NodePort
		}
		switch p.Name {
		case PortRedis:
			a.Port = int(number)
		case PortTLS:
			a.TLS = int(number)
		case PortBus:
			a.Bus = int(number)
		}
	}
	return a
}

// Serves returns whether a Service makes its node reachable at an address.
func Serves(s *corev1.Service, a Address) bool {
	if s == nil {
		return false
	}
	of := ExternalPorts(s)
	ports := of.Port > 0 && of.Bus > 0 && of.HasPort(a.Port) && (a.TLS == 0 || a.TLS == of.TLS) && a.Bus == of.Bus
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return ports
	}
	return ports && a.IP != "" && a.IP == IPOfBalancer(s)
}

// IPOfBalancer returns the IP of a load balancer; "" if it has none.
func IPOfBalancer(s *corev1.Service) string {
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if ingress.IP != "" {
			return ingress.IP
		}
	}
	return ""
}

// ExternalAddress returns the address that a Service gives to the node in a Pod; the zero address if the Service differs from the spec, or
// has no address yet. With a hostname, it is the address that the node tells to clients.
func ExternalAddress(rdc *v1.RedisCluster, s *corev1.Service, pod *corev1.Pod) Address {
	external := rdc.Spec.External()
	if external == nil || s == nil || pod == nil || s.DeletionTimestamp != nil || s.Spec.Type != corev1.ServiceType(external.Type) {
		return Address{}
	}
	if name := rdc.Spec.HostnameOf(pod.Name); name != "" {
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return Address{}
		}
		return Address{IP: name, Port: PortFor(pod, false), TLS: PortFor(pod, true)}
	}
	a := ExternalPorts(s)
	a.IP = IPOfBalancer(s)
	if external.Type == v1.ExternalNodePort {
		a.IP = cmp.Or(external.IPOf(pod.Spec.NodeName), pod.Status.HostIP)
	}
	if a.IP == "" || a.Port == 0 || a.Bus == 0 || (HasTLS(pod) && a.TLS == 0) {
		return Address{}
	}
	if !HasTLS(pod) {
		a.TLS = 0
	}
	return a
}
