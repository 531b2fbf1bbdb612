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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
)

// kind is a custom resource. Its methods answer the requests about its objects; their errors are answers to the user. The operator serves
// all paths for all kinds. It registers only those that descriptor.Webhook asks for.
type kind struct{ *descriptor.Descriptor }

// mutate returns the changes of Default.
func (k kind) mutate(r *request) ([]operation, error) {
	obj, tree, err := k.read(r.Object)
	if err != nil {
		return nil, nil //nolint:nilerr // The schema rejects it too, with a more exact error.
	}
	before, err1 := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	obj.Default()
	after, err2 := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err := errors.Join(err1, err2); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("compare the %s with its defaults: %w", k.Kind, err))
	}
	operations := appendDifference(nil, "", tree, before, after)
	if len(operations) > maxOperations {
		return nil, nil // The schema rejects it too.
	}
	return operations, nil
}

// scale returns the changes of Default for the object with the number of replicas in the Scale.
func (k kind) scale(ctx context.Context, client versioned.Interface, r *request) ([]operation, error) {
	scale, webhook := &autoscalingv1.Scale{}, &k.Custom.Webhook
	if webhook.Get == nil || r.Object == nil || json.Unmarshal(r.Object.json(), scale) != nil {
		return nil, nil //nolint:nilerr // The API server rejects an invalid Scale.
	}
	parent, err := webhook.Get(ctx, client, r.Namespace, r.Name)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil // The API server reports NotFound. Forbidden means that the operator does not work in this namespace.
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("get %s %s: %w", k.Kind, r.Name, err))
	}
	parent = parent.DeepCopyObject().(descriptor.Object)
	asked := scale.Spec.Replicas
	*webhook.Replicas(parent) = &asked
	parent.Default()
	if stored := **webhook.Replicas(parent); stored != scale.Spec.Replicas {
		// Not replace: a Scale to 0 does not have the field.
		return []operation{{Op: add, Path: "/spec/replicas", Value: stored, was: int64(scale.Spec.Replicas)}}, nil
	}
	return nil, nil
}

// validate returns an API error if the request is invalid, and otherwise the warnings.
func (k kind) validate(r *request) ([]string, error) {
	switch {
	case r.SubResource != "":
		return nil, nil
	case r.Operation == admissionv1.Delete:
		return nil, k.validateDelete(r)
	}
	now, err := k.defaulted(r.Object)
	if errors.Is(err, errNumber) && r.Operation == admissionv1.Update {
		if _, was := k.defaulted(r.OldObject); errors.Is(was, errNumber) {
			return []string{err.Error()}, nil // The update does not add this error.
		}
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the %s cannot be read: %v", k.Kind, err))
	}
	var old descriptor.Object
	if r.Operation == admissionv1.Update {
		if old, err = k.defaulted(r.OldObject); err != nil {
			old = nil // The stored object cannot be decoded: the update replaces it.
		}
	}
	if errs := newErrors(k.Custom.Validate, now, old); len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.GroupVersionKind.GroupKind(), r.Name, errs)
	}
	warnings := now.Warnings()
	if old != nil && len(warnings) > 0 {
		was := old.Warnings()
		warnings = slices.DeleteFunc(warnings, func(warning string) bool { return slices.Contains(was, warning) })
	}
	return warnings, nil
}

// read returns the spec of an object, and the status of an old one, decoded and as a tree.
func (k kind) read(o *content) (descriptor.Object, map[string]any, error) {
	if o == nil {
		return nil, nil, errors.New("it is null")
	}
	obj := k.Custom.New()
	tree, err := decode(o.json(), obj)
	return obj, tree, err
}

// defaulted returns an object with its defaults.
func (k kind) defaulted(o *content) (descriptor.Object, error) {
	obj, _, err := k.read(o)
	if err != nil {
		return nil, err
	}
	obj.Default()
	return obj, nil
}

// newErrors returns the errors that an update adds. Errors from before the update are allowed,
// so that users can remove a finalizer, or correct one field after the other. The API server
// applies the same rule to schemas (KEP-4008), and the controller reports the remaining errors.
func newErrors(validate func(now, old descriptor.Object) field.ErrorList, now, old descriptor.Object) field.ErrorList {
	errs := short(validate(now, old))
	if old == nil || len(errs) == 0 {
		return errs
	}
	known := map[field.Error][]any{} // the values that the errors before the update quote
	for _, was := range short(validate(old, nil)) {
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

// short shortens the texts of errors: kubectl prints them, and an answer contains them twice.
func short(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		err.Detail = cut(err.Detail) // That of a schedule quotes it.
		if value := reflect.ValueOf(err.BadValue); value.Kind() == reflect.String {
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

// validateDelete refuses the deletion of a protected object.
func (k kind) validateDelete(r *request) error {
	if r.OldObject == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the %s cannot be read: it is null", k.Kind))
	}
	old := &r.OldObject.Metadata
	if old.Annotations.DeletionProtection != "true" {
		return nil
	}
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	// Not the name of the request: it is empty in a deletion of a collection.
	return apierrors.NewForbidden(resource, cut(old.Name), fmt.Errorf(
		"it is protected: remove the annotation %s first", glassback.AnnotationDeletionProtection))
}

// Path returns the path of the requests to default (verb "mutate") or to validate (verb "validate") a kind:
// /mutate-<group>-<version>-<kind>, with "-" for every dot of the group, as in kubebuilder.
func Path(verb string, gvk schema.GroupVersionKind) string {
	return "/" + strings.ToLower(verb+"-"+strings.ReplaceAll(gvk.Group, ".", "-")+"-"+gvk.Version+"-"+gvk.Kind)
}
