// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/redisnode"
)

// answer is what a node answered to CONFIG GET. It is valid until the server restarts, or the node should have other directives.
type answer struct {
	runID, names string
	values       map[string]string // nil if the node has no command CONFIG
}

// isValid returns whether the answer is about these directives of this run of the server.
func (a answer) isValid(m *member) bool {
	return a.runID == m.View.RunID && a.names == directiveNames(m.wanted)
}

func directiveNames(wanted map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(wanted)), " ")
}

// askDirectives sets the present values of the directives that the node of a member should have. It asks the node only if the
// last answer is no longer valid: a settled cluster needs no request.
func (m *member) askDirectives(ctx context.Context, node Node, last answer) {
	if len(m.wanted) == 0 || m.View == nil {
		return
	}
	if last.isValid(m) {
		m.directives = last.values
		return
	}
	values, err := node.Directives(ctx, slices.Sorted(maps.Keys(m.wanted)))
	switch {
	case errors.Is(err, redisnode.ErrNoConfig):
		m.noConfig = true
	case err != nil:
		m.fail(err)
	default:
		m.directives = values
	}
}

// recordDirectives remembers the last answer of each node, and forgets the answers of Pods that are gone. It also forgets the
// rejections by images that no Pod has any more, and copies the rules into o.
func (s *session) recordDirectives(o *observed) {
	now := map[types.UID]answer{}
	for _, m := range o.Members {
		if m.Pod == nil {
			continue
		}
		if m.noConfig {
			s.rules.fixed[[2]string{m.image(), anyDirective}] = true
		}
		switch last, ok := s.asked[m.Pod.UID]; {
		case m.answers() && (m.directives != nil || m.noConfig):
			now[m.Pod.UID] = answer{m.View.RunID, directiveNames(m.wanted), m.directives}
		case ok:
			now[m.Pod.UID] = last
		}
	}
	s.asked = now
	images := map[string]bool{}
	for _, m := range o.Members {
		images[m.image()] = true
	}
	maps.DeleteFunc(s.rules.rejections, func(_ string, r rejection) bool { return !images[r.image] }) // Another version may accept it.
	o.rules = s.rules.clone()
}

// setDirectives gives on the values of spec.config for the named directives.
var setDirectives = &verb{text: "set directives of", do: executor.setDirectives, writes: func(_ *observed, c command) write {
	set := c.on.withDirectives(c.names)
	if len(set) == len(c.on.set) {
		return write{}
	}
	return patched(c, func(pod *metav1.ObjectMeta) {
		metav1.SetMetaDataAnnotation(pod, AnnotationDirectives, directivesText(set))
	})
}}

// setDirectives sets directives in a running node. It first sets the present value. If the node refuses the present value, the
// directive cannot be set while the node runs, and the Pod has to be replaced. If the node refuses only the new value, the new
// value is invalid. If a directive has no present value, the node does not know the directive. It asks the node for the present values:
// since the last answer, a client may have set others, or this function may have failed half-way.
func (e executor) setDirectives(ctx context.Context, c command) error {
	m, names := c.on, c.names
	rules, node := &e.session.rules, e.node(m)
	values, err := node.Directives(ctx, names)
	if err != nil {
		return err
	}
	var settable []string
	for _, name := range names {
		if _, ok := rules.rejections[name]; ok || rules.isFixed(m, name) {
			continue // Another node has refused it a moment ago.
		}
		present, known := values[name]
		if !known {
			present = m.wanted[name]
		}
		err := node.SetDirective(ctx, name, present)
		switch refused := refusedDirective(err); {
		case refused != nil && known:
			rules.fixed[[2]string{m.image(), name}] = true
		case refused != nil:
			e.recordRefusal(m, name, refused.Reason, nil)
		case err != nil:
			return err
		default:
			settable = append(settable, name)
		}
	}
	if err := e.recordSetDirectives(ctx, m, settable); err != nil {
		return err
	}
	for _, name := range settable {
		err := node.SetDirective(ctx, name, m.wanted[name])
		if refused := refusedDirective(err); refused != nil {
			var kept *string
			if present, known := values[name]; known {
				kept = &present
			}
			e.recordRefusal(m, name, refused.Reason, kept)
		} else if err != nil {
			return err
		}
	}
	return e.readBack(ctx, m, settable)
}

// refusedDirective returns the error as a RefusedDirectiveError, or nil.
func refusedDirective(err error) *redisnode.RefusedDirectiveError {
	refused, _ := errors.AsType[*redisnode.RefusedDirectiveError](err)
	return refused
}

// recordRefusal remembers that a node refused the wanted value of a directive. The node keeps the present value, which is nil if the node
// does not know the directive.
func (e executor) recordRefusal(m *member, name, reason string, present *string) {
	rules, image := &e.session.rules, m.image()
	value, inSpec := e.o.Object.Spec.Config[name]
	_, started := m.config[name]
	_, ofHostnames := hostnameDefaults[name]
	switch {
	case image != e.o.Object.Spec.Image, ofHostnames && present != nil: // The next image may accept the value, or this one another hostname.
		rules.refused[[3]string{image, name, m.wanted[name]}] = true
	case !inSpec, present == nil && started: // A new Pod starts with the default, or with a directive that CONFIG GET does not show.
		rules.fixed[[2]string{image, name}] = true
	default:
		rules.rejections[name] = rejection{value: value, image: image, pod: m.Name, reason: reason, kept: present}
	}
}

// readBack asks a node for the directives again. For the directives in names, it remembers how the node writes the values that
// were set.
func (e executor) readBack(ctx context.Context, m *member, names []string) error {
	values, err := e.node(m).Directives(ctx, slices.Sorted(maps.Keys(m.wanted)))
	if err != nil {
		return err
	}
	s := e.session
	s.asked[m.Pod.UID] = answer{m.View.RunID, directiveNames(m.wanted), values}
	for _, name := range names {
		_, rejected := s.rules.rejections[name]
		if !rejected && !s.rules.isFixed(m, name) {
			s.rules.written[[2]string{name, m.wanted[name]}] = values[name]
		}
	}
	return nil
}

// recordSetDirectives writes AnnotationDirectives to the Pod, before directives are set for the first time: their names, and the
// values to which they return.
func (e executor) recordSetDirectives(ctx context.Context, m *member, names []string) error {
	set := m.withDirectives(names)
	if len(set) == len(m.set) {
		return nil
	}
	return e.patchPod(ctx, m, "annotations", map[string]string{AnnotationDirectives: directivesText(set)})
}
