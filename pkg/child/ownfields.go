// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"slices"

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
			own = append(own, entry)
		}
	}
	return own
}

// Owns reports whether this operator owns a field of object, such as spec, replicas. It is true for managedFields that cannot be read.
func Owns(object metav1.Object, path ...any) bool {
	return slices.ContainsFunc(OwnFields(object.GetManagedFields()), func(entry metav1.ManagedFieldsEntry) bool {
		fields, err := setOf(entry)
		return err != nil || fields.Has(fieldpath.MakePathOrDie(path...))
	})
}

// setOf returns the fields of an entry.
func setOf(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := &fieldpath.Set{}
	if entry.FieldsV1 == nil {
		return fields, nil
	}
	return fields, fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes()))
}
