// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// object is the interface of the types of pkg/apis: T is the struct, and its pointer has the methods.
type object[T any] interface {
	*T
	metav1.Object
	DeepCopy() *T
	Default()
	Validate(old *T) field.ErrorList
	Warnings() []string
}

// reviewer answers the requests about one kind. Its errors are answers to the user.
type reviewer interface {
	// shape returns the shape of the objects that the other two methods decode.
	shape() *shape
	mutate(context.Context, *admissionv1.AdmissionRequest) ([]operation, error)
	validate(*admissionv1.AdmissionRequest) (warnings []string, err error)
}

// typed is the reviewer of the kind whose type is T.
type typed[T any, P object[T]] struct {
	gvk schema.GroupVersionKind
	// get returns the object that a scale subresource belongs to. It is nil for kinds whose scale is stored unchanged.
	get func(ctx context.Context, namespace, name string) (P, error)
	// replicas returns the field of the object that its scale subresource sets.
	replicas func(P) **int32
}

func (typed[T, P]) shape() *shape { return shapeOf(reflect.TypeFor[T]()) }

// mutate returns the changes of Default.
func (t typed[T, P]) mutate(ctx context.Context, request *admissionv1.AdmissionRequest) ([]operation, error) {
	if request.SubResource == "scale" {
		return t.mutateScale(ctx, request)
	}
	obj, err := t.read(request.Object)
	if err != nil {
		return nil, nil //nolint:nilerr // The schema rejects it too, with a more exact error.
	}
	operations, err := difference(request.Object.Raw, obj, obj.Default)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("compare the %s with its defaults: %w", t.gvk.Kind, err))
	}
	if len(operations) > maxOperations {
		return nil, nil // The schema rejects it too.
	}
	return operations, nil
}

// mutateScale returns the changes of Default for the object with the number of replicas in the Scale.
func (t typed[T, P]) mutateScale(ctx context.Context, request *admissionv1.AdmissionRequest) ([]operation, error) {
	scale := &autoscalingv1.Scale{}
	if t.get == nil || json.Unmarshal(request.Object.Raw, scale) != nil {
		return nil, nil //nolint:nilerr // The API server rejects an invalid Scale.
	}
	parent, err := t.get(ctx, request.Namespace, request.Name)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil // The API server reports NotFound. Forbidden means that the operator does not work in this namespace.
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("get %s %s: %w", t.gvk.Kind, request.Name, err))
	}
	parent = parent.DeepCopy()
	asked := scale.Spec.Replicas
	*t.replicas(parent) = &asked
	parent.Default()
	if stored := **t.replicas(parent); stored != scale.Spec.Replicas {
		// Not replace: a Scale to 0 does not have the field.
		return []operation{{Op: add, Path: "/spec/replicas", Value: stored, was: int64(scale.Spec.Replicas)}}, nil
	}
	return nil, nil
}

// validate returns an API error if the request is invalid, and otherwise the warnings.
func (t typed[T, P]) validate(request *admissionv1.AdmissionRequest) ([]string, error) {
	switch {
	case request.SubResource != "":
		return nil, nil
	case request.Operation == admissionv1.Delete:
		return nil, t.validateDelete(request)
	}
	now, err := t.defaulted(request.Object)
	if errors.Is(err, errNumber) && request.Operation == admissionv1.Update {
		if _, was := t.defaulted(request.OldObject); errors.Is(was, errNumber) {
			return []string{err.Error()}, nil // The update does not add this error.
		}
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the %s cannot be read: %v", t.gvk.Kind, err))
	}
	var old P
	if request.Operation == admissionv1.Update {
		if old, err = t.defaulted(request.OldObject); err != nil {
			old = nil // The stored object cannot be decoded: the update replaces it.
		}
	}
	if errs := newErrors(now, old); len(errs) > 0 {
		return nil, apierrors.NewInvalid(t.gvk.GroupKind(), request.Name, firstOf(errs))
	}
	warnings := now.Warnings()
	if old != nil && len(warnings) > 0 {
		was := old.Warnings()
		warnings = slices.DeleteFunc(warnings, func(warning string) bool { return slices.Contains(was, warning) })
	}
	return warnings, nil
}

// read returns an object without managedFields, which are not reviewed and may be most of the object.
func (t typed[T, P]) read(raw runtime.RawExtension) (P, error) {
	obj := P(new(T))
	if err := decode(raw.Raw, obj); err != nil {
		return nil, err
	}
	obj.SetManagedFields(nil)
	return obj, nil
}

// defaulted returns an object with its defaults.
func (t typed[T, P]) defaulted(raw runtime.RawExtension) (P, error) {
	obj, err := t.read(raw)
	if err != nil {
		return nil, err
	}
	obj.Default()
	return obj, nil
}

// newErrors returns the errors that an update adds. Errors from before the update are allowed,
// so that users can remove a finalizer, or correct one field after the other. The API server
// applies the same rule to schemas (KEP-4008), and the controller reports the remaining errors.
func newErrors[T any, P object[T]](now, old P) field.ErrorList {
	errs := short(now.Validate(old))
	if old == nil || len(errs) == 0 {
		return errs
	}
	known := map[field.Error][]any{} // the values that the errors before the update quote
	for _, was := range short(old.Validate(nil)) {
		rest := withoutValue(was)
		known[rest] = append(known[rest], was.BadValue)
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(known[withoutValue(err)], func(was any) bool { return reflect.DeepEqual(err.BadValue, was) })
	})
}

// withoutValue returns an error without the value that it quotes, as a key of a map. The value may be a list, which cannot be a key.
func withoutValue(err *field.Error) field.Error {
	key := *err
	key.BadValue = nil
	return key
}

// short shortens the values that errors quote: kubectl prints them, and an answer contains them several times.
func short(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		err.Field = cut(err.Field)
		if value := reflect.ValueOf(err.BadValue); value.Kind() == reflect.String && value.Len() > maxText {
			err.BadValue = cut(value.String())
		}
	}
	return errs
}

// cut shortens a text that an error quotes.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + "…"
}

// maxErrors bounds the text of all errors of an object together, in bytes. An answer contains the text twice, and memory has more copies
// while the answer is written.
const maxErrors = 8 << 10

// firstOf returns the first errors that fit into an answer: at least one. After the user has
// corrected these, the next answer has the others.
func firstOf(errs field.ErrorList) field.ErrorList {
	length := 0
	for i, err := range errs {
		if length += len(err.Error()); length > maxErrors {
			return errs[:max(i, 1)]
		}
	}
	return errs
}

// validateDelete refuses the deletion of a protected object.
func (t typed[T, P]) validateDelete(request *admissionv1.AdmissionRequest) error {
	old := &metav1.PartialObjectMetadata{}
	if err := decode(request.OldObject.Raw, old); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the %s cannot be read: %v", t.gvk.Kind, err))
	}
	if old.Annotations[glassback.AnnotationDeletionProtection] != "true" {
		return nil
	}
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}
	// Not the name of the request: it is empty in a deletion of a collection.
	return apierrors.NewForbidden(resource, cut(old.Name), fmt.Errorf(
		"it is protected: remove the annotation %s first", glassback.AnnotationDeletionProtection))
}

// Path returns the path of the requests to default (verb "mutate") or to validate (verb "validate") a kind:
// /mutate-<group>-<version>-<kind>, with "-" for every dot of the group, as in kubebuilder.
func Path(verb string, gvk schema.GroupVersionKind) string {
	return "/" + strings.ToLower(verb+"-"+strings.ReplaceAll(gvk.Group, ".", "-")+"-"+gvk.Version+"-"+gvk.Kind)
}
