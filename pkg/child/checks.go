// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// checks remembers which children were as desired, so that an unchanged child is not compared again. The comparison costs more than the
// rest of a sync.
//
// The comparison is a pure function of the desired configuration and the content: the object without its status, resourceVersion and
// generation. A field manager cannot own the last two, and an apply to the main resource cannot set the status. The content includes the
// UID and this operator's entry of the managedFields. If both arguments are unchanged, the result is unchanged. The checks trust no
// timestamp and no resourceVersion: after etcd is restored from a backup, the same resourceVersion may belong to other fields.
type checks struct {
	mu      sync.Mutex
	byOwner map[cache.ObjectName][]*check
}

// check says that a child with this content is as desired. It never changes.
type check struct {
	kind, name string
	object     any      // as the cache holds it; nothing changes it
	desired    checksum // of the desired configuration
}

// checksum identifies a configuration by its JSON. The zero checksum belongs to none.
type checksum [sha256.Size]byte

// checksumOf returns the checksum of a configuration. It returns the zero checksum if the configuration is nil or has no JSON.
func checksumOf[A comparable](configuration A) checksum {
	var none A
	if configuration == none {
		return checksum{}
	}
	data, err := json.Marshal(configuration)
	if err != nil {
		return checksum{}
	}
	return sha256.Sum256(data)
}

func (c *checks) get(owner cache.ObjectName, kind, name string) *check {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, last := range c.byOwner[owner] {
		if last.kind == kind && last.name == name {
			return last
		}
	}
	return nil
}

// replace drops the checks of owner for which drop returns true, and adds next, unless it is nil.
func (c *checks) replace(owner cache.ObjectName, drop func(*check) bool, next *check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.DeleteFunc(c.byOwner[owner], drop)
	switch {
	case next != nil:
		c.byOwner[owner] = append(list, next)
	case len(list) > 0:
		c.byOwner[owner] = list
	default:
		delete(c.byOwner, owner)
	}
}

func (c *checks) forget(owner cache.ObjectName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byOwner, owner)
}

// withoutStatus returns a copy of object that shares its fields, without the status, the resourceVersion and the generation.
func withoutStatus[T Object](object T) T {
	value := reflect.ValueOf(object).Elem()
	bare := reflect.New(value.Type())
	bare.Elem().Set(value)
	if status := bare.Elem().FieldByName("Status"); status.IsValid() {
		status.SetZero()
	}
	result := bare.Interface().(T)
	result.SetResourceVersion("")
	result.SetGeneration(0)
	return result
}

// extractOwned returns the fields of object that this operator owns. The result depends only on what lastCheck compares.
func (k *Kind[T, A]) extractOwned(object T) (A, error) {
	return k.extract(withoutStatus(object), glassback.Name)
}

// lastCheck returns the check of a child if its content is still that of object; otherwise nil.
func (k *Kind[T, A]) lastCheck(owner metav1.Object, object T) *check {
	key := cache.MetaObjectToName(owner)
	last := k.owners.checks.get(key, k.Name, object.GetName())
	if last == nil || last.object == any(object) {
		return last
	}
	if !reflect.DeepEqual(withoutStatus(last.object.(T)), withoutStatus(object)) {
		k.forget(owner, object.GetName())
		return nil
	}
	next := *last
	next.object = object // so that the checks keep no older version of the object in memory
	k.owners.checks.replace(key, func(c *check) bool { return c == last }, &next)
	return &next
}

// remember records that object is as desired. desired is the checksum of the desired configuration.
func (k *Kind[T, A]) remember(owner metav1.Object, object T, desired checksum) {
	next := check{kind: k.Name, name: object.GetName(), object: object, desired: desired}
	if next.desired == (checksum{}) {
		return
	}
	// Also drop the checks of children that are gone, since the names of children can change.
	k.owners.checks.replace(cache.MetaObjectToName(owner), func(c *check) bool {
		return c.kind == k.Name && (c.name == next.name || !k.cached(owner.GetNamespace(), c.name))
	}, &next)
}

// forget drops the check of one child.
func (k *Kind[T, A]) forget(owner metav1.Object, name string) {
	k.owners.checks.replace(cache.MetaObjectToName(owner), func(c *check) bool { return c.kind == k.Name && c.name == name }, nil)
}

func (k *Kind[T, A]) cached(namespace, name string) bool {
	_, exists, err := k.cache.GetByKey(cache.NewObjectName(namespace, name).String())
	return exists && err == nil
}
