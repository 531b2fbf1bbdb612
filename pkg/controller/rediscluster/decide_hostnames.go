// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The functions below decide when nodes tell clients hostnames instead of IPs: see spec.access.external.hostname. Two directives of Redis
// control this. The operator sets them in the same way as those of spec.config, and AnnotationDirectives records their former values.
//
//   - directiveHostname is the hostname of a node. The node tells it to the other nodes over the cluster bus, and not to clients.
//   - directiveEndpoints makes a node tell clients the hostnames of all nodes. For a node without a hostname, clients would get "?".
//
// The order matters. First, all nodes get hostnames: a new node at its start, or before CLUSTER MEET. Only then does any node tell
// hostnames to clients. When the spec no longer has hostnames, all nodes first tell IPs again, and then lose their hostnames. Among
// themselves, the nodes always use the IPs of their Pods.

const (
	directiveHostname  = "cluster-announce-hostname"
	directiveEndpoints = v1.DirectiveEndpoints
	// endpointHostname is the value of directiveEndpoints for hostnames.
	endpointHostname = "hostname"
)

// hostnameDefaults are the values of the two directives if nothing has set them.
var hostnameDefaults = map[string]string{directiveHostname: "", directiveEndpoints: "ip"}

// offers returns whether the node tells clients this address of its Service.
func (m *member) offers(a manifest.Address) bool {
	if a.IsName() {
		return m.self().Hostname == a.IP && m.TellsHostnames
	}
	return m.isAnnouncing(a)
}

// anyTellsHostnames returns whether any node that answers tells clients hostnames because of spec.access.
func (o *observed) anyTellsHostnames() bool {
	return slices.ContainsFunc(o.answering(), func(m *member) bool { return m.TellsHostnames })
}

// anyMayTellHostnames returns whether any node tells clients hostnames, or may do so. A silent node may, if the operator has set the
// directive and its container may run.
func (o *observed) anyMayTellHostnames() bool {
	return slices.ContainsFunc(o.Members, func(m *member) bool { return m.TellsHostnames })
}

// markHostnames sets whether a node tells hostnames. A silent node may, if the operator has set the directive and its container may run.
// markHostnames takes the hostname of a node from its view, which is newer than the answer to CONFIG GET.
func (o *observed) markHostnames(m *member) {
	if !m.answers() {
		_, told := m.set[directiveEndpoints]
		m.TellsHostnames = told && mayRun(m.Pod)
		return
	}
	m.TellsHostnames = m.directives[directiveEndpoints] == endpointHostname &&
		(o.Object.Spec.HostnameOf(m.Name) != "" || m.wanted[directiveEndpoints] != endpointHostname)
	if _, asked := m.directives[directiveHostname]; asked {
		m.directives = maps.Clone(m.directives)
		for _, e := range m.View.Table {
			if e.Myself {
				m.directives[directiveHostname] = e.Hostname
			}
		}
	}
}

// mayRun returns false if there is no Pod, or if its status says that the container redis does not run.
func mayRun(pod *corev1.Pod) bool {
	return pod != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == manifest.ContainerName && s.State.Running == nil
	})
}

// postpones returns whether a directive of a node must not be set yet.
func (o *observed) postpones(m *member, directive string) bool {
	name := o.Object.Spec.HostnameOf(m.Name)
	switch {
	case directive == directiveHostname && name == "":
		return o.anyMayTellHostnames()
	case directive == directiveHostname: // Clients use the previous hostname, unless the container has restarted since.
		return m.self().Hostname != "" && m.TellsHostnames && m.ReachedAt != o.externalOf(m)
	case directive == directiveEndpoints && name != "":
		return !o.isReadyToTellHostnames(m)
	}
	return false
}

// isReadyToTellHostnames returns whether a node knows the hostnames of all nodes, and the operator has reached each node by its hostname.
// Once any node tells clients hostnames, the second condition no longer applies. A failed node without slots needs no hostname: Redis does
// not list it for clients.
func (o *observed) isReadyToTellHostnames(m *member) bool {
	for _, e := range m.View.Table {
		if failed := e.Failed && e.Slots.Len() == 0; o.byID[e.ID] != nil && !failed && e.Hostname == "" {
			return false
		}
	}
	return o.anyTellsHostnames() || !slices.ContainsFunc(o.answering(), func(m *member) bool {
		return !o.leaving(m) && (m.ReachedAt == manifest.Address{} || m.ReachedAt != o.externalOf(m))
	})
}

// clientsMayGetHostname returns whether clients may still get the hostname of the node of this Pod. Without a hostname in the spec,
// clients may still get one while any node may tell hostnames.
func (o *observed) clientsMayGetHostname(pod string) bool {
	name := o.Object.Spec.HostnameOf(pod)
	return o.anyMayTellHostnames() && (name == "" || slices.ContainsFunc(o.answering(), func(m *member) bool {
		return slices.ContainsFunc(m.View.Table, func(e redisnode.Entry) bool { return e.Hostname == name })
	}))
}

// hostnameProblem returns a problem if a node cannot tell hostnames; nil if all can.
func (o *observed) hostnameProblem() *problem {
	for _, m := range o.answering() {
		name := o.Object.Spec.HostnameOf(m.Name)
		switch {
		case name == "":
		case o.rules.refused[[3]string{m.image(), directiveHostname, name}]:
			return &problem{reasonDirective,
				fmt.Sprintf("Redis in %s rejected the hostname %s: change spec.access.external.hostname", m.Name, name)}
		case o.rules.isFixed(m, directiveHostname), o.rules.isFixed(m, directiveEndpoints):
			return &problem{reasonDirective, fmt.Sprintf("Redis in %s cannot set %s and %s while it runs: use an image with Redis 7.0 or later "+
				"that allows the command CONFIG, or remove spec.access.external.hostname", m.Name, directiveHostname, directiveEndpoints)}
		}
	}
	return nil
}
