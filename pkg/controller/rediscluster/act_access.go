// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// The commands for addresses.
var (
	// The Pod of on gets LabelExternal.
	labelPod = &verb{text: "label", do: executor.labelPod, writes: func(_ *observed, c command) write {
		return patched(c, func(pod *metav1.ObjectMeta) {
			metav1.SetMetaDataLabel(pod, manifest.LabelExternal, strconv.Itoa(c.on.Ordinal))
		})
	}}
	// on announces the named address.
	announce = &verb{text: "announce address of", do: executor.announce}
	// The Pod of on gets AnnotationUnreachable with the named address.
	giveUpAddress = &verb{text: "give up address of", do: executor.giveUpAddress, writes: func(_ *observed, c command) write {
		return patched(c, func(pod *metav1.ObjectMeta) {
			metav1.SetMetaDataAnnotation(pod, manifest.AnnotationUnreachable, c.names[0])
		})
	}}
	// The named Service.
	deleteService = &verb{text: "delete Service", do: executor.deleteService, writes: func(_ *observed, c command) write {
		return write{verb: "delete", kind: "Service", name: c.names[0]}
	}}
)

// announce makes the node of a member announce an address. For the address of its Pod, the ports are reset to their defaults.
func (e executor) announce(ctx context.Context, c command) error {
	m, a := c.on, manifest.AddressIn(c.names[0])
	if a == m.own() {
		return e.node(m).Announce(ctx, a.IP, 0, 0, 0)
	}
	delete(e.session.unusedServices, m.Name)
	return e.node(m).Announce(ctx, a.IP, a.Port, a.TLS, a.Bus)
}

// labelPod writes LabelExternal to exactly the observed Pod.
func (e executor) labelPod(ctx context.Context, c command) error {
	return e.patchPod(ctx, c.on, "labels", map[string]string{manifest.LabelExternal: strconv.Itoa(c.on.Ordinal)})
}

// giveUpAddress writes AnnotationUnreachable to exactly the observed Pod.
func (e executor) giveUpAddress(ctx context.Context, c command) error {
	return e.patchPod(ctx, c.on, "annotations", map[string]string{manifest.AnnotationUnreachable: c.names[0]})
}

// patched returns a patch of the Pod of a command.
func patched(c command, change func(*metav1.ObjectMeta)) write {
	pod := c.on.Pod.DeepCopy()
	change(&pod.ObjectMeta)
	return write{"patch", "Pod", c.on.Name, c.on.Pod, pod}
}

// patchPod sets labels or annotations of exactly the observed Pod. A nil value removes a label or annotation.
func (e executor) patchPod(ctx context.Context, m *member, field string, values any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.Pod.UID, "resourceVersion": m.Pod.ResourceVersion, field: values,
	}})
	if err != nil {
		return err
	}
	patched, err := e.podClient().Patch(ctx, m.Pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: glassback.Name})
	if err != nil {
		return fmt.Errorf("patch Pod %s: %w", m.Name, err)
	}
	e.written.Record(ctx, e.key(), "patch pods", e.pods, patched)
	return nil
}

// deleteService deletes exactly the observed Service.
func (e executor) deleteService(ctx context.Context, c command) error {
	name := c.names[0]
	for _, s := range e.o.Services {
		if s.Name != name {
			continue
		}
		err := e.kube.CoreV1().Services(s.Namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		e.written.RecordDelete(ctx, e.key(), "delete services", e.serviceCache, s)
	}
	return nil
}
