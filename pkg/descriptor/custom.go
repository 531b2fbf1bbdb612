// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

// Object is the interface of the objects of pkg/apis.
type Object interface {
	runtime.Object
	metav1.Object
	Default()
	Warnings() []string
	Conditions() []metav1.Condition
}

// object is the interface of a pointer to the struct T of pkg/apis.
type object[T any] interface {
	*T
	Object
	Validate(old *T) field.ErrorList
}

// Client is a generated client of one resource. L is the type of lists.
type Client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Custom describes a custom resource, without its Go type: see Resource.
type Custom struct {
	Plural, Short string
	Webhook       Webhook

	// New returns an empty object.
	New func() Object
	// Validate returns the errors of an object, and of an update if old is not nil.
	Validate func(now, old Object) field.ErrorList
	// List returns the objects in a namespace, or in all.
	List func(ctx context.Context, client versioned.Interface, namespace string) (runtime.Object, error)
}

// Webhook says about which requests the API server asks the webhooks: only about those whose answers can differ from the schema.
type Webhook struct {
	Defaults  bool // Default changes objects in a way that the schema cannot, and that is stored
	Validates bool // Validate or Warnings report more than the schema
	// FailurePolicy is what the API server does if no webhook answers: Ignore if the controller reports the same problem a moment later.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// Get returns an object whose scale subresource changes, and Replicas the field that it sets. Both are nil if Default does not change
	// the number of replicas.
	Get      func(ctx context.Context, client versioned.Interface, namespace, name string) (Object, error)
	Replicas func(Object) **int32
}

// Resource returns the Custom of the type T, with the client for a namespace.
func Resource[T any, L runtime.Object, P object[T]](
	custom Custom, client func(c versioned.Interface, namespace string) Client[L],
) *Custom {
	custom.New = func() Object { return P(new(T)) }
	custom.Validate = func(now, old Object) field.ErrorList {
		if old == nil {
			return now.(P).Validate(nil)
		}
		return now.(P).Validate(old.(P))
	}
	custom.List = func(ctx context.Context, c versioned.Interface, namespace string) (runtime.Object, error) {
		return client(c, namespace).List(ctx, metav1.ListOptions{})
	}
	return &custom
}
