// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

// The functions below decide which directives of spec.config are set while a node runs, and which of them need a new Pod.
//
//	redis.conf of the Pod ──┐
//	spec.config ────────────┼─▶ wanted ──▶ differs from what the node says ──▶ CONFIG SET
//	annotation of the Pod ──┘                                                      │ refused, also with the present value
//	                                                                               ▼
//	                                                                     fixed: the Pod is replaced
//
// A Pod keeps the revision and the redis.conf that it was created with. So a container that restarts has the old values until
// the operator sets them again. A new Pod has the new values in its redis.conf.

// AnnotationDirectives on a Pod lists the directives that the operator sets in its node, as JSON. Each has its former value, to
// which it returns when spec.config no longer has the directive. The value is null if the operator does not know that the former
// value was the default. The operator writes the annotation before it sets a directive for the first time.
const AnnotationDirectives = v1.GroupName + "/directives"

// directiveRules are what nodes have answered about directives since the operator started.
type directiveRules struct {
	// fixed are the directives that only a new Pod can change, by image and name. For example, a node refuses to set them even to
	// the present value.
	fixed map[[2]string]bool
	// refused are values that a node refused, by image, name and value. Either its image was not the one in the spec, or the
	// directive is for hostnames.
	refused map[[3]string]bool
	// written is the form in which a node writes a value that was set, by name and value.
	written map[[2]string]string
	// rejections are the values of the spec that Redis rejected, by name.
	rejections map[string]rejection
}

// rejection is a value of a directive that Redis rejected. The nodes keep the value that they have.
type rejection struct {
	value  v1.ConfigValue // of the spec
	kept   *string        // the value that the nodes keep; nil if Redis does not know the directive
	image  string         // of the node that rejected it
	pod    string
	reason string
}

// anyDirective stands for all directives, if a node has no command CONFIG.
const anyDirective = "*"

func (r *directiveRules) isFixed(m *member, name string) bool {
	return r.fixed[[2]string{m.image(), name}] || r.fixed[[2]string{m.image(), anyDirective}]
}

func (r *directiveRules) isWritten(name, value, as string) bool {
	if redisnode.SameValue(value, as) {
		return true
	}
	written, ok := r.written[[2]string{name, value}]
	return ok && written == as
}

// clone returns a copy that does not change when r does.
func (r *directiveRules) clone() directiveRules {
	return directiveRules{maps.Clone(r.fixed), maps.Clone(r.refused), maps.Clone(r.written), maps.Clone(r.rejections)}
}

// withoutRejected returns the RedisCluster with the values that the nodes keep, in place of the values that Redis rejected. So the
// operator replaces no Pod for a rejected value, and a new Pod can start. It forgets a rejection once the spec has another value.
func (r *directiveRules) withoutRejected(rdc *v1.RedisCluster) *v1.RedisCluster {
	maps.DeleteFunc(r.rejections, func(name string, rejected rejection) bool {
		value, ok := rdc.Spec.Config[name]
		return !ok || value != rejected.value
	})
	if len(r.rejections) == 0 {
		return rdc
	}
	accepted := rdc.DeepCopy()
	for name, rejected := range r.rejections {
		if delete(accepted.Spec.Config, name); rejected.kept != nil {
			accepted.Spec.Config[name] = v1.ConfigValue(redisnode.Quoted(*rejected.kept))
		}
	}
	return accepted
}

// image returns the image of the container redis; "" without a Pod.
func (m *member) image() string {
	if m.Pod == nil {
		return ""
	}
	for i := range m.Pod.Spec.Containers {
		if c := &m.Pod.Spec.Containers[i]; c.Name == manifest.ContainerName {
			return c.Image
		}
	}
	return ""
}

// setDirectivesOf returns the directives in a Pod's AnnotationDirectives.
func setDirectivesOf(pod *corev1.Pod) map[string]*string {
	var set map[string]*string
	if err := json.Unmarshal([]byte(pod.Annotations[AnnotationDirectives]), &set); err != nil {
		return nil // Another client has changed it: only the operator should write it.
	}
	return set
}

// withDirectives returns the directives of the AnnotationDirectives, with the named ones added. The present value is not recorded
// as the default if redis.conf has the directive, or if another client has already set the wanted value.
func (m *member) withDirectives(names []string) map[string]*string {
	set := map[string]*string{}
	maps.Copy(set, m.set)
	for _, name := range names {
		if _, recorded := set[name]; recorded {
			continue
		}
		present, known := m.directives[name]
		_, started := m.config[name]
		standard, ofHostnames := hostnameDefaults[name]
		switch {
		case known && !started && !redisnode.SameValue(present, m.wanted[name]):
			set[name] = &present
		case ofHostnames: // The node started with it.
			set[name] = &standard
		default:
			set[name] = nil
		}
	}
	return set
}

// directivesText returns the text of an AnnotationDirectives.
func directivesText(set map[string]*string) string {
	text, _ := json.Marshal(set) // Marshal cannot fail: the map has only strings.
	return string(text)
}

// markOutdated sets for each member whether its Pod has another revision than the spec (differs), and has to be replaced
// (outdated). It also sets which directives the node should have (wanted), and which of these are to be set (pending).
func (o *observed) markOutdated() {
	current := manifest.Revision(o.Object)
	for _, m := range o.Members {
		m.Differs, m.Outdated, m.config, m.wanted, m.Pending = false, false, nil, nil, nil
		if m.Pod == nil {
			continue
		}
		m.set = setDirectivesOf(m.Pod)
		if was := m.Pod.Annotations[manifest.AnnotationRevision]; was != current {
			m.config = o.configs[was]
			m.Differs, m.Outdated = true, m.config == nil || !isRevision(o.Object, m.config, was)
		} else if m.config = o.Object.Spec.Config; m.config == nil {
			m.config = map[string]v1.ConfigValue{}
		}
		if m.config != nil {
			m.wanted = wantedDirectives(o.Object, m)
			m.Outdated = m.Outdated || o.hasFixedDirectives(m)
		}
		o.markHostnames(m)
		m.Pending = o.pendingDirectives(m)
	}
}

// isRevision returns whether the RedisCluster would have the revision was with another config. Then only the config differs. An
// empty value may have been written in several ways.
func isRevision(rdc *v1.RedisCluster, config map[string]v1.ConfigValue, was string) bool {
	other := *rdc
	other.Spec.Config = config
	if manifest.Revision(&other) == was {
		return true
	}
	other.Spec.Config = maps.Clone(config)
	for name, value := range config {
		if value == `""` {
			other.Spec.Config[name] = ""
		}
	}
	return manifest.Revision(&other) == was
}

// wantedDirectives returns the values that the node of a Pod should have and that its redis.conf does not give it.
func wantedDirectives(rdc *v1.RedisCluster, m *member) map[string]string {
	wanted := map[string]string{}
	for name, value := range rdc.Spec.Config {
		if _, set := m.set[name]; set || !m.startedWith(name, value) {
			wanted[name] = redisnode.Value(string(value))
		}
	}
	for name, before := range m.set {
		_, inSpec := rdc.Spec.Config[name]
		if _, started := m.config[name]; !inSpec && !started && before != nil {
			wanted[name] = *before
		}
	}
	if name := rdc.Spec.HostnameOf(m.Name); name != "" {
		wanted[directiveHostname], wanted[directiveEndpoints] = name, endpointHostname
	}
	return wanted
}

// startedWith returns whether the redis.conf of the Pod has this value.
func (m *member) startedWith(name string, value v1.ConfigValue) bool {
	at, ok := m.config[name]
	return ok && redisnode.Value(string(at)) == redisnode.Value(string(value))
}

// hasFixedDirectives returns whether only a new Pod can have the directives of the spec. For example, spec.config no longer has a
// directive: its default is unknown, unless the operator recorded it in AnnotationDirectives.
func (o *observed) hasFixedDirectives(m *member) bool {
	for name := range m.config {
		if _, ok := o.Object.Spec.Config[name]; !ok {
			return true
		}
	}
	for name, before := range m.set {
		if _, ofHostnames := hostnameDefaults[name]; ofHostnames {
			continue // No Pod is replaced for them: see hostnameProblem.
		}
		if _, ok := o.Object.Spec.Config[name]; !ok && (before == nil || o.rules.isFixed(m, name)) {
			return true
		}
	}
	for name, value := range o.Object.Spec.Config {
		if !m.startedWith(name, value) && o.rules.isFixed(m, name) {
			return true
		}
	}
	return false
}

// pendingDirectives returns the directives to set in the node of a member, sorted. It omits a directive that the node does not
// know if the Pod started with the directive, or if the spec has another image.
func (o *observed) pendingDirectives(m *member) []string {
	if !m.answers() || m.directives == nil {
		return nil
	}
	var pending []string
	for _, name := range slices.Sorted(maps.Keys(m.wanted)) {
		value, image := m.wanted[name], m.image()
		present, known := m.directives[name]
		_, recorded := m.set[name]
		switch {
		case o.rules.isFixed(m, name), o.rules.refused[[3]string{image, name, value}]:
		case !known && (m.startedWith(name, o.Object.Spec.Config[name]) || image != o.Object.Spec.Image):
		case recorded && o.rules.isWritten(name, value, present):
		default:
			pending = append(pending, name)
		}
	}
	return pending
}

// directiveCommands returns the commands that set directives in running nodes. They wait for no policy, since a new value may
// repair a failing cluster. Only those for hostnames may be postponed.
func directiveCommands(o *observed) []command {
	var commands []command
	for _, m := range o.Members {
		names := slices.DeleteFunc(slices.Clone(m.Pending), func(name string) bool { return o.postpones(m, name) })
		if len(names) > 0 {
			commands = append(commands, command{verb: setDirectives, on: m, names: names})
		}
	}
	return commands
}

// settingStep returns the step of commands that set directives or users.
func settingStep(what string, commands []command) string {
	names := map[string]bool{}
	for _, c := range commands {
		for _, name := range c.names {
			names[name] = true
		}
	}
	return fmt.Sprintf("Setting %s in %d nodes: %s", what, len(commands), strings.Join(slices.Sorted(maps.Keys(names)), ", "))
}

// rejectionProblems returns a problem for each value that Redis rejected. The messages omit the values: some may be secret.
func rejectionProblems(o *observed) []problem {
	var all []problem
	for _, name := range slices.Sorted(maps.Keys(o.rules.rejections)) {
		r := o.rules.rejections[name]
		stays := "the nodes keep the value that they have"
		if r.kept == nil {
			stays = "the nodes do not have it"
		}
		all = append(all, problem{reasonDirective, fmt.Sprintf("Redis in %s rejected the directive %s: %s. No Pod is replaced, and %s. "+
			"Correct spec.config", r.pod, name, r.reason, stays)})
	}
	return all
}
