// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// Fetch returns a copy of the object with a name, with its defaults. It returns nil if the controller leaves the object alone: the object
// is gone or paused, or it is being deleted without the controller's finalizer. gone says which: what is remembered of the object may be
// dropped. finalizer is "" if the controller has none. lister is that of the namespace.
func Fetch[T interface {
	metav1.Object
	DeepCopy() T
}](lister interface{ Get(name string) (T, error) }, name, finalizer string) (object T, gone bool, err error) {
	var none T
	cached, err := lister.Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return none, true, nil
	case err != nil:
		return none, false, fmt.Errorf("read the cache: %w", err)
	case cached.GetAnnotations()[glassback.AnnotationPaused] == "true":
		return none, false, nil
	case cached.GetDeletionTimestamp() != nil && !slices.Contains(cached.GetFinalizers(), finalizer):
		return none, false, nil
	}
	object = cached.DeepCopy() // All readers of the cache share the cached object.
	if custom, ok := any(object).(interface{ Default() }); ok {
		custom.Default()
	}
	return object, false, nil
}
