// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/report"
)

// Object is one object with its plan.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Settled says whether the operator has nothing to do. If Incomplete is set, there may be more to do.
	Settled bool `json:"settled"`

	report.Plan

	// Error says why the object has no plan.
	Error string `json:"error,omitempty"`

	short string // the short name of the resource
}

// maxParallel is how many objects are planned in parallel.
const maxParallel = 16

// planAll fills the caches, and returns all objects with their plans, in the order of compare.
func planAll(ctx context.Context, kinds []kind, offline bool) ([]Object, error) {
	objects := []Object{}
	for _, k := range kinds {
		if err := k.fill(ctx); err != nil {
			return nil, err
		}
		cached := k.own.store.List()
		found := make([]Object, len(cached))
		workqueue.ParallelizeUntil(ctx, maxParallel, len(cached), func(i int) {
			found[i] = k.plan(ctx, cached[i].(metav1.Object), offline)
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		objects = append(objects, found...)
	}
	slices.SortFunc(objects, compare)
	return objects, nil
}

// plan returns the object with its plan. It reports a panic as an error of the object: a panic would end the process with the code 2, which
// means somethingToDo.
func (k *kind) plan(ctx context.Context, o metav1.Object, offline bool) (result Object) {
	defer func() {
		if r := recover(); r != nil {
			result.Error = fmt.Sprintf("panic: %v", r)
		}
	}()
	result = Object{Kind: k.name, Namespace: o.GetNamespace(), Name: o.GetName(), short: k.short}
	plan, err := k.controller.Plan(ctx, cache.MetaObjectToName(o), offline)
	switch {
	case err != nil:
		result.Error = err.Error()
		return result
	case plan != nil:
		result.Plan = *plan
	case o.GetAnnotations()[glassback.AnnotationPaused] == "true":
		result.Note = "paused"
	case o.GetDeletionTimestamp() != nil:
		result.Note = "being deleted"
	}
	result.Settled = result.Plan.Settled()
	return result
}

// compare orders objects by group, namespace, kind and name. The groups are: with an error, not settled, with an incomplete plan, others.
func compare(a, b Object) int {
	group := func(o Object) int {
		switch {
		case o.Error != "":
			return 0
		case !o.Settled:
			return 1
		case o.Incomplete != "":
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(group(a), group(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name))
}
