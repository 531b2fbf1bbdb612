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

// Cache is the store of an informer that does not run: the test decides which state of the server it shows.
type Cache struct {
	server   *Server
	resource string
	store    cache.Store
	show     func(Object) Object
	at       int64
}

// Cache returns a cache, which shows the current state. The function returns an object as the informer stores it, or nil if the
// informer does not read it; without a function the cache shows all objects.
func (s *Server) Cache(resource string, store cache.Store, show func(Object) Object) *Cache {
	c := &Cache{server: s, resource: resource, store: store, show: show}
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
		if c.show != nil {
			obj = c.show(obj)
		}
		if obj != nil {
			objects = append(objects, obj)
		}
	}
	if err := c.store.Replace(objects, strconv.FormatInt(version, 10)); err != nil {
		panic(err)
	}
}

// state returns the objects of a resource as of a version, in any order.
func (s *Server) state(resource string, version int64) map[cache.ObjectName]Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version >= s.version {
		return maps.Clone(s.objects[resource])
	}
	then := map[cache.ObjectName]Object{}
	for _, event := range s.events {
		switch {
		case event.Version > version:
			return then
		case event.Resource != resource:
		case event.Now == nil:
			delete(then, event.key())
		default:
			then[event.key()] = event.Now
		}
	}
	return then
}

// Labelled returns a function for Cache. It shows objects as the operator's informers for children store them: those with the label,
// and WithOwnFields.
func Labelled(label string) func(Object) Object {
	return func(obj Object) Object {
		if obj.GetLabels()[label] == "" {
			return nil
		}
		return WithOwnFields(obj)
	}
}

// WithOwnFields returns a copy of an object without the managedFields of other clients.
func WithOwnFields(obj Object) Object {
	obj = clone(obj)
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager != glassback.Name || entry.Operation != metav1.ManagedFieldsOperationApply
	}))
	return obj
}
