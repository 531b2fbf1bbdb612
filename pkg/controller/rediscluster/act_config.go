// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/redisnode"
)

// answer is what a node said to CONFIG GET. It holds until the server starts again, or other directives matter.
type answer struct {
	runID, names string
	values       map[string]string // nil if the node has no command CONFIG
}

// knows returns whether the answer is about these directives of this run of the server.
func (a answer) knows(m *member) bool {
	return a.runID == m.view.RunID && a.names == directiveNames(m.wanted)
}

func directiveNames(wanted map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(wanted)), " ")
}

// askDirectives sets what the node of a member says about the directives that matter. It asks only if the last answer does not
// have that: a settled cluster has no request for it.
func (m *member) askDirectives(ctx context.Context, node Node, last answer) {
	if len(m.wanted) == 0 || m.view == nil {
		return
	}
	if last.knows(m) {
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

// recordDirectives remembers the answers of all nodes that were asked, and forgets those of others.
func (s *session) recordDirectives(o *observed) {
	now := map[types.UID]answer{}
	for _, m := range o.members {
		if m.pod == nil {
			continue
		}
		if m.noConfig {
			s.rules.fixed[[2]string{m.image(), anyDirective}] = true
		}
		switch last, ok := s.asked[m.pod.UID]; {
		case m.answers() && (m.directives != nil || m.noConfig):
			now[m.pod.UID] = answer{m.view.RunID, directiveNames(m.wanted), m.directives}
		case ok:
			now[m.pod.UID] = last
		}
	}
	s.asked = now
	images := map[string]bool{}
	for _, m := range o.members {
		images[m.image()] = true
	}
	maps.DeleteFunc(s.rules.rejections, func(_ string, r rejection) bool { return !images[r.image] }) // Another version may accept it.
	o.rules = s.rules.clone()
}

// setDirectives sets directives in a running node. It first tries the present value: if the node refuses that, the directive
// cannot be set while a node runs, and the Pod has to be replaced. If it refuses only the new value, that is wrong. A directive
// without a present value is one that the node does not know.
func (e executor) setDirectives(ctx context.Context, m *member, names []string) error {
	rules, node := &e.sessions.get(e.o.rdc).rules, e.node(m)
	var settable []string
	for _, name := range names {
		if _, ok := rules.rejections[name]; ok || rules.isFixed(m, name) {
			continue // Another node has said so a moment ago.
		}
		present, known := m.directives[name]
		if !known {
			present = m.wanted[name]
		}
		err := node.SetDirective(ctx, name, present)
		switch refused := refusedDirective(err); {
		case refused != nil && known:
			rules.fixed[[2]string{m.image(), name}] = true
		case refused != nil:
			e.recordRefusal(m, name, refused.Reason)
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
			e.recordRefusal(m, name, refused.Reason)
		} else if err != nil {
			return err
		}
	}
	return e.readBack(ctx, m)
}

// refusedDirective returns the error as a RefusedDirectiveError, or nil.
func refusedDirective(err error) *redisnode.RefusedDirectiveError {
	refused, _ := errors.AsType[*redisnode.RefusedDirectiveError](err)
	return refused
}

// recordRefusal remembers that a node does not take the wanted value of a directive.
func (e executor) recordRefusal(m *member, name, reason string) {
	rules, image := &e.sessions.get(e.o.rdc).rules, m.image()
	value, inSpec := e.o.rdc.Spec.Config[name]
	present, known := m.directives[name]
	_, started := m.config[name]
	switch {
	case image != e.o.rdc.Spec.Image: // The next image may take it.
		rules.refused[[3]string{image, name, m.wanted[name]}] = true
	case !inSpec, !known && started: // A new Pod has the default, or a directive of which only its redis.conf can tell.
		rules.fixed[[2]string{image, name}] = true
	default:
		r := rejection{value: value, image: image, pod: m.name, reason: reason}
		if known {
			r.kept = &present
		}
		rules.rejections[name] = r
	}
}

// readBack asks a node for the directives again, and remembers how it writes the values that it was given.
func (e executor) readBack(ctx context.Context, m *member) error {
	values, err := e.node(m).Directives(ctx, slices.Sorted(maps.Keys(m.wanted)))
	if err != nil {
		return err
	}
	s := e.sessions.get(e.o.rdc)
	s.asked[m.pod.UID] = answer{m.view.RunID, directiveNames(m.wanted), values}
	for name, value := range m.wanted {
		_, rejected := s.rules.rejections[name]
		if !rejected && !s.rules.isFixed(m, name) {
			s.rules.written[[2]string{name, value}] = values[name]
		}
	}
	return nil
}

// recordSetDirectives writes to the Pod which directives are about to be set, and the values to which they return.
func (e executor) recordSetDirectives(ctx context.Context, m *member, names []string) error {
	set := m.withDirectives(names)
	if len(set) == len(m.set) {
		return nil
	}
	patched, err := e.patchDirectives(ctx, m.pod, set)
	if err != nil {
		return fmt.Errorf("patch Pod %s: %w", m.name, err)
	}
	e.written.Record(e.key(), "patch pods", e.podCache, patched)
	return nil
}

// patchDirectives sets AnnotationDirectives of exactly the observed Pod.
func (e executor) patchDirectives(ctx context.Context, pod *corev1.Pod, set map[string]*string) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "annotations": map[string]string{AnnotationDirectives: directivesText(set)},
	}})
	if err != nil {
		return nil, err
	}
	return e.podClient().Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: glassback.Name})
}
