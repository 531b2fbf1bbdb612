// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fakeapi

import (
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// Cache fills the store of an informer that does not run. The test decides which state of the server the store has.
type Cache struct {
	server    *Server
	resource  string
	store     cache.Store
	transform func(Object) Object
	at        int64 // the resourceVersion of the state
}

// Cache returns a Cache that shows the current state. transform returns an object as the informer stores it, or nil if the informer does
// not select it. If transform is nil, the Cache shows all objects unchanged.
func (s *Server) Cache(resource string, store cache.Store, transform func(Object) Object) *Cache {
	c := &Cache{server: s, resource: resource, store: store, transform: transform}
	c.CatchUp()
	return c
}

// At returns the resourceVersion that the cache shows.
func (c *Cache) At() int64 { return c.at }

// CatchUp makes the cache show the current state.
func (c *Cache) CatchUp() { c.See(c.server.Version()) }

// See makes the cache show the state of a resourceVersion.
func (c *Cache) See(version int64) {
	c.at = version
	var objects []any
	for _, obj := range c.server.state(c.resource, version) {
		if c.transform != nil {
			obj = c.transform(obj)
		}
		if obj != nil {
			objects = append(objects, obj)
		}
	}
	if err := c.store.Replace(objects, strconv.FormatInt(version, 10)); err != nil {
		panic(err)
	}
}

// state returns the objects of a resource as they were at a resourceVersion.
func (s *Server) state(resource string, version int64) map[cache.ObjectName]Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version >= s.version {
		return maps.Clone(s.objects[resource])
	}
	objects := map[cache.ObjectName]Object{}
	for _, event := range s.events {
		switch {
		case event.Version > version:
			return objects
		case event.Resource != resource:
		case event.Now == nil:
			delete(objects, event.key())
		default:
			objects[event.key()] = event.Now
		}
	}
	return objects
}

// Labelled returns a transform for Server.Cache. It selects the objects that have the label, and returns them as WithOwnFields does. The
// operator's informers for children store the same.
func Labelled(label string) func(Object) Object {
	return func(obj Object) Object {
		if obj.GetLabels()[label] == "" {
			return nil
		}
		return WithOwnFields(obj)
	}
}

// WithOwnFields returns a copy of an object. Its managedFields have only the entries of the operator's applies.
func WithOwnFields(obj Object) Object {
	obj = clone(obj)
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager != glassback.Name || entry.Operation != metav1.ManagedFieldsOperationApply
	}))
	return obj
}
