// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/kinds"
)

// list returns the objects of all kinds in a namespace, or in all namespaces, in the order of the table. A kind whose
// CustomResourceDefinition does not exist has no objects.
func list(ctx context.Context, client versioned.Interface, namespace string) ([]Object, error) {
	objects := []Object{}
	for d := range kinds.Custom() {
		found, err := d.Custom.List(ctx, client, namespace)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = meta.EachListItem(found, func(o runtime.Object) error {
				objects = append(objects, objectOf(d.Kind, d.Custom.Short, o.(descriptor.Object)))
				return nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("list objects of the kind %s: %w", d.Kind, err)
		}
	}
	slices.SortFunc(objects, compare)
	return objects, nil
}
