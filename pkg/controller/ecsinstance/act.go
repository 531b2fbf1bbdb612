// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// outcome holds the results of act.
type outcome struct {
	// o is what was observed, with the object as act last wrote it, and with the memory for the next sync.
	o *Observed

	// finalizersChanged reports that the finalizer was added or removed.
	finalizersChanged bool
	// typeRefused reports that ECS refused the type of the spec.
	typeRefused bool
	// problem says why the step failed, nil if it did not. wait is the time until the next step, 0 for none.
	problem *problem
	wait    time.Duration
}

// newOutcome returns the outcome of a plan before act did anything. After a fresh poll, the trial of a change that p does not want is
// forgotten.
func newOutcome(o *Observed, p Plan) outcome {
	after := *o
	if o.fresh() {
		after.Memory.keepTrial(p.Wants)
	}
	return outcome{o: &after}
}

// nextStep is the wait until the step that follows an outcome. The next sync decides on it.
const nextStep = time.Millisecond

// action is one run of act.
type action struct {
	*Controller
	outcome

	p       Plan
	session *session
}

// act takes the step of a plan. A rejection by ECS is no error: the outcome has a backoff.
func (c *Controller) act(ctx context.Context, o *Observed, p Plan) (outcome, error) {
	s := c.sessionOf(o.Object)
	a := &action{Controller: c, outcome: newOutcome(o, p), p: p, session: s}
	var err error
	poll := p.Poll.Duration
	switch {
	case p.changesInstance():
		err, poll = a.change(ctx), pollSoon.Duration
	case p.acts():
		err = p.Step.do(a, ctx)
	}
	if a.o.Memory.Backoff != o.Memory.Backoff {
		s.backoffAccess = s.access
	}
	s.memory = a.o.Memory // Also after an error: ECS may have received the call.
	if poll > 0 {
		c.fleets.soon(s.access, o.ID, poll)
	}
	return a.outcome, err
}

// cloud returns the calls for the credentials and the region that this sync observed.
func (a *action) cloud() Cloud { return a.fleets.cloud(a.session.access) }

// change requests one change of the instance. From then on, earlier polls of the instance are stale.
func (a *action) change(ctx context.Context) error {
	err := a.p.Step.do(a, ctx)
	m := &a.o.Memory
	m.ChangedAt = a.clock.Now()
	if err != nil {
		return a.failed(ctx, err)
	}
	m.addTrial(a.p.Step.name, m.ChangedAt)
	if a.p.Step.accepted != nil {
		a.p.Step.accepted(m)
	}
	klog.FromContext(ctx).Info("Changed instance", "step", a.p.Step.String(), "instance", a.o.ID, "reason", a.p.Message)
	a.recorder.Event(a.o.Object, corev1.EventTypeNormal, a.p.Step.event, a.p.Message)
	return nil
}

// failed records that ECS failed or rejected the step. It returns an error only if ctx ended.
func (a *action) failed(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	klog.FromContext(ctx).Info("Call to ECS failed", "step", a.p.Step.String(), "err", err)
	problem := problemOf(err, a.o.credentialsFrom())
	if a.p.Step.rejected == nil || !a.p.Step.rejected(a, problem, err) {
		a.backOff(problem)
	}
	return nil
}

// warn sends an event about the instance and an error of ECS.
func (a *action) warn(reason, format string, err error) {
	a.recorder.Eventf(a.o.Object, corev1.EventTypeWarning, reason, format, a.o.ID, err)
}

// backOff delays the retry of the step by the wait of its problem.
func (a *action) backOff(p *problem) {
	now := a.clock.Now()
	a.problem, a.wait = p, later(p.Wait.Duration, string(a.o.Object.UID), now)
	a.o.Memory.Backoff = backoff{Problem: p, Step: a.p.Step.name, Until: now.Add(a.wait), Generation: a.o.Object.Generation}
}

// findTagged returns the instances with the tag of the object.
func (a *action) findTagged(ctx context.Context) ([]aliyun.Instance, error) {
	return a.cloud().Find(ctx, map[string]string{v1alpha1.TagUID: string(a.o.Object.UID)})
}

// write writes the status of the object.
func (a *action) write(ctx context.Context, status v1alpha1.ECSInstanceStatus) (err error) {
	a.o.Object, err = a.status.Write(ctx, a.o.Object, status)
	return err
}

// setFinalizer adds or removes the finalizer. It fails if the object changed since it was read.
func (a *action) setFinalizer(ctx context.Context, wanted bool) error {
	ecs := a.o.Object
	finalizers := slices.DeleteFunc(slices.Clone(ecs.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
	if wanted {
		finalizers = append(finalizers, v1alpha1.Finalizer)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": ecs.ResourceVersion, "uid": ecs.UID,
	}})
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	updated, err := a.client.AlibabacloudV1alpha1().ECSInstances(ecs.Namespace).Patch(ctx, ecs.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: glassback.Name})
	if err != nil {
		return fmt.Errorf("patch finalizers of ECSInstance %s: %w", ecs.Name, err)
	}
	a.finalizersChanged = true
	key := cache.MetaObjectToName(ecs)
	if len(updated.Finalizers) > 0 || updated.DeletionTimestamp == nil {
		a.written.Record(ctx, key, "patch ecsinstances", a.cache, updated)
	} else {
		a.written.RecordDelete(ctx, key, "patch ecsinstances", a.cache, updated)
	}
	return nil
}
