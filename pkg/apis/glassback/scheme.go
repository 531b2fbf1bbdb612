// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package glassback

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme returns the function that registers the types of a group and version with a scheme.
func AddToScheme(version schema.GroupVersion, types ...runtime.Object) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(version, types...)
		metav1.AddToGroupVersion(scheme, version)
		return nil
	}
}
