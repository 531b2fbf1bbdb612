// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	_ "embed" // The script.
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// AnnotationTLS on a Pod says where its node uses TLS: see the transports. tls.sh reads it at each start of the container. The operator
// writes it to all Pods before it switches the first node.
const AnnotationTLS = v1.GroupName + "/tls"

// The transports, as AnnotationTLS has them. A Pod without certificates has none.
const (
	TransportPlain = ""     // TLS for clients alone: the nodes use none among themselves
	TransportBoth  = "both" // TLS among the nodes; clients can use it
	TransportOnly  = "only" // TLS among the nodes; clients must use it
)

const (
	// PortTLS is the name of the port of Pods and Services for clients with TLS.
	PortTLS = "tls"
	// VolumeTLS is the volume with the certificate of a Pod. Renewed certificates arrive there.
	VolumeTLS = "glassback-tls"
	// DirTLS is where VolumeTLS is mounted.
	DirTLS = "/etc/glassback-tls"
	// FileTLS is written by tls.sh, and included by redis.conf.
	FileTLS = "/tmp/tls.conf"
)

// TLSScript is tls.sh.
//
//go:embed scripts/tls.sh
var TLSScript string

// HasTLS returns whether the node of a Pod has a certificate.
func HasTLS(pod *corev1.Pod) bool { return SecretOfTLS(pod) != "" }

// SecretOfTLS returns the name of the Secret with the certificate of a Pod; "" if the Pod has none.
func SecretOfTLS(pod *corev1.Pod) string {
	if pod == nil || PortFor(pod, true) == 0 { // A volume of a podTemplate may have the name, too.
		return ""
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == VolumeTLS && volume.Secret != nil {
			return volume.Secret.SecretName
		}
	}
	return ""
}

// ServerName is the DNS name that the certificate of a RedisCluster must have: that of its Service. The IPs of Pods change.
func ServerName(rdc *v1.RedisCluster) string { return rdc.Name + "." + rdc.Namespace + ".svc" }

// tlsDirectives are the lines of redis.conf for TLS. cluster-port is set, since Redis would otherwise derive it from tls-port. Clients
// need no certificate; nodes verify each other's certificates.
func tlsDirectives(rdc *v1.RedisCluster) []string {
	_, bus := Ports(rdc)
	return []string{
		"tls-port " + strconv.Itoa(int(rdc.Spec.TLS.Port)),
		"tls-cert-file " + DirTLS + "/" + corev1.TLSCertKey,
		"tls-key-file " + DirTLS + "/" + corev1.TLSPrivateKeyKey,
		"tls-ca-cert-file " + DirTLS + "/" + v1.CertificateAuthorityKey,
		"tls-auth-clients no",
		"cluster-port " + strconv.Itoa(bus),
		"include " + FileTLS,
	}
}

// AddTLS adds the certificate, the port and the scripts of TLS to a Pod.
func AddTLS(p *corev1.Pod, rdc *v1.RedisCluster) {
	if rdc.Spec.TLS == nil {
		return
	}
	port, c := rdc.Spec.TLS.Port, &p.Spec.Containers[0]
	mountSecret(&p.Spec, VolumeTLS, DirTLS, rdc.Spec.TLS.SecretRef.Name,
		corev1.TLSCertKey, corev1.TLSPrivateKeyKey, v1.CertificateAuthorityKey)
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: PortTLS, ContainerPort: port, Protocol: corev1.ProtocolTCP})
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "GLASSBACK_TLS", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.annotations['" + AnnotationTLS + "']",
		}}},
		corev1.EnvVar{Name: "GLASSBACK_TLS_PORT", Value: strconv.Itoa(int(port))})
	last := len(c.Command) - 1
	c.Command = []string{"sh", dirConfig + "/tls.sh", strings.TrimPrefix(c.Command[last], dirConfig+"/")}
	stop := &c.Lifecycle.PreStop.Exec.Command[2]
	*stop = withTLS(rdc, *stop, stopWithTLS)
}

// stopWithTLS are the parameters of redis-cli in stop.sh.
const stopWithTLS = "--tls --cacert " + DirTLS + "/" + v1.CertificateAuthorityKey

// probeWithTLS are the parameters of redis-cli in probes. They accept any certificate: a probe asks the node in its own container, and no
// container should be restarted because a certificate has expired.
const probeWithTLS = "--tls --insecure"

// timeoutIsDefined matches the line of a script that defines timeout.
var timeoutIsDefined = regexp.MustCompile(`(?m)^(command -v timeout|\. .*/timeout\.sh).*\n`)

// withTLS returns a script that uses the port with TLS if the port without TLS is closed. A timeout means that the port is open and the
// node is busy.
func withTLS(rdc *v1.RedisCluster, script, parameters string) string {
	if rdc.Spec.TLS == nil {
		return script
	}
	i := timeoutIsDefined.FindStringIndex(script)[1]
	choose := "tls=\n" + `timeout 1 redis-cli -h "$POD_IP" -p "$PORT" PING >/dev/null` + "\n" +
		"case $? in 0 | 124 | 143) ;; *) PORT=$GLASSBACK_TLS_PORT tls='" + parameters + "' ;; esac\n"
	return script[:i] + choose + callOfCLI.ReplaceAllString(script[i:], `$0 $$tls`)
}

// PortFor returns the port for clients of the node in a Pod: with TLS or without.
func PortFor(pod *corev1.Pod, overTLS bool) int {
	name := PortRedis
	if overTLS {
		name = PortTLS
	}
	return PortNamed(pod, name)
}

// PortNamed returns a port of the container redis; 0 if there is none of that name.
func PortNamed(pod *corev1.Pod, name string) int {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if c.Name == ContainerName && p.Name == name {
				return int(p.ContainerPort)
			}
		}
	}
	return 0
}

// WithTLSSpec returns a copy of the RedisCluster with another spec.tls.
func WithTLSSpec(rdc *v1.RedisCluster, spec *v1.TLS) *v1.RedisCluster {
	other := rdc.DeepCopy()
	other.Spec.TLS = spec
	return other
}
