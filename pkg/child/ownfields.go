// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// OwnFields returns the entries of managedFields that say what this operator has applied. The caches need no others.
func OwnFields(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	// A new list: deleting in place would keep the others in memory.
	var own []metav1.ManagedFieldsEntry
	for _, entry := range all {
		if entry.Manager == glassback.Name && entry.Operation == metav1.ManagedFieldsOperationApply {
			// The decoder allocates these values for each object. Share equal values.
			entry.Manager, entry.Operation = glassback.Name, metav1.ManagedFieldsOperationApply
			if entry.FieldsV1 != nil {
				entry.FieldsV1 = share(entry.FieldsV1).fields
			}
			own = append(own, entry)
		}
	}
	return own
}

// Owns reports whether this operator owns a field of object, such as spec, replicas. It is true for managedFields that cannot be read.
func Owns(object metav1.Object, path ...any) bool {
	return slices.ContainsFunc(OwnFields(object.GetManagedFields()), func(entry metav1.ManagedFieldsEntry) bool {
		if entry.FieldsV1 == nil {
			return false
		}
		set, err := share(entry.FieldsV1).set()
		return err != nil || set.Has(fieldpath.MakePathOrDie(path...))
	})
}

// sharedFields are the fields of an entry of managedFields, as the API server sent them and as a set. Nothing changes them.
type sharedFields struct {
	fields *metav1.FieldsV1
	set    func() (*fieldpath.Set, error)
}

// recent caches fields by their hash. Most children of a kind have the same owned fields, which are kept and parsed once.
var (
	recent [256]atomic.Pointer[sharedFields]
	seed   = maphash.MakeSeed()
)

// share returns the cached equal of fields. If there is none, it caches fields in place of the previous fields in the slot.
func share(fields *metav1.FieldsV1) *sharedFields {
	slot := &recent[maphash.Bytes(seed, fields.GetRawBytes())%uint64(len(recent))]
	if last := slot.Load(); last != nil && last.fields.Equal(*fields) {
		return last
	}
	next := &sharedFields{fields: fields, set: sync.OnceValues(func() (*fieldpath.Set, error) {
		set := &fieldpath.Set{}
		return set, set.FromJSON(bytes.NewReader(fields.GetRawBytes()))
	})}
	slot.Store(next)
	return next
}
