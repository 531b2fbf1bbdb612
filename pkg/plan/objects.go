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
	"github.com/glassback/glassback/pkg/preview"
)

// Object is one object with its plan.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Settled says that there is nothing to do, as far as the plan is complete.
	Settled bool `json:"settled"`

	preview.Plan

	// Error says why there is no plan.
	Error string `json:"error,omitempty"`

	short string // the short name of the resource
}

// maxAtOnce is how many objects are planned at once.
const maxAtOnce = 16

// planAll fills the caches, and returns all objects with their plans, in the order of the table.
func planAll(ctx context.Context, kinds []kind, offline bool) ([]Object, error) {
	objects := []Object{}
	for _, k := range kinds {
		if err := k.fill(ctx); err != nil {
			return nil, err
		}
		cached := k.store.List()
		found := make([]Object, len(cached))
		workqueue.ParallelizeUntil(ctx, maxAtOnce, len(cached), func(i int) {
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

// plan returns the object with its plan. A panic is an error of the object: the exit code of a process that panics is somethingToDo.
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

// compare orders objects with errors first, then those that are not settled, and then by namespace, kind and name.
func compare(a, b Object) int {
	rank := func(o Object) int {
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
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name))
}
