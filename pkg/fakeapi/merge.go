// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"encoding/json"
	"reflect"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayconfigurations "sigs.k8s.io/gateway-api/applyconfiguration"
)

// converter knows the schemas of the kinds of Kubernetes, and gatewayConverter those of the Gateway API.
var (
	converter        = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(Scheme) })
	gatewayConverter = sync.OnceValue(func() managedfields.TypeConverter { return gatewayconfigurations.NewTypeConverter(Scheme) })
)

// undefaulted sets no defaults.
type undefaulted struct{}

func (undefaulted) Default(runtime.Object) {}

// Prepare reads the schemas, which takes a while. Tests in a bubble of testing/synctest call it before.
func Prepare() { converter(); gatewayConverter() }

// managerOf returns the code that merges applied objects of a kind. The caller holds mu.
func (s *Server) managerOf(kind schema.GroupVersionKind) *managedfields.FieldManager {
	if known := s.managers[kind]; known != nil {
		return known
	}
	types := converter
	if kind.Group == gatewayv1.GroupName {
		types = gatewayConverter
	}
	made, err := managedfields.NewDefaultFieldManager(types(), Scheme, undefaulted{}, Scheme, kind, kind.GroupVersion(), "", nil)
	if err != nil {
		panic(err)
	}
	s.managers[kind] = made
	return made
}

// apply returns the result of a server-side apply. live is nil if the object does not exist. The caller holds mu.
func (s *Server) apply(live Object, patch *unstructured.Unstructured, manager string, force bool) (Object, error) {
	kind := patch.GroupVersionKind()
	base, err := Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if live != nil {
		base = clone(live)
	}
	base.GetObjectKind().SetGroupVersionKind(kind)
	applied, err := s.managerOf(kind).Apply(base, patch, manager, force)
	if err != nil {
		return nil, err
	}
	return applied.(Object), nil
}

// track returns now with managedFields: manager owns the fields that differ from was. The caller holds mu.
func (s *Server) track(was, now Object, manager string) Object {
	kind := kindOf(was)
	was = clone(was)
	was.GetObjectKind().SetGroupVersionKind(kind)
	now.GetObjectKind().SetGroupVersionKind(kind)
	tracked, err := s.managerOf(kind).Update(was, now, manager)
	if err != nil {
		panic(err)
	}
	return tracked.(Object)
}

// merged returns the result of a JSON merge patch (RFC 7396). It does not change the live object.
func merged(live Object, patch map[string]any) (Object, error) {
	before, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	changes, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	changed, err := jsonpatch.MergePatch(before, changes)
	if err != nil {
		return nil, err
	}
	now := reflect.New(reflect.TypeOf(live).Elem()).Interface().(Object)
	return now, json.Unmarshal(changed, now)
}
