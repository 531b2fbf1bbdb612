// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// TestOwnFieldsShareMemory reads more different fields than recent can keep, each twice.
func TestOwnFieldsShareMemory(t *testing.T) {
	for n := range 10 * len(recent) {
		read := func() *metav1.FieldsV1 {
			own := OwnFields([]metav1.ManagedFieldsEntry{
				{Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
				{Manager: glassback.Name, Operation: metav1.ManagedFieldsOperationApply,
					FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:key-%d":{}}}`, n))},
			})
			if len(own) != 1 {
				t.Fatalf("%d entries, want 1", len(own))
			}
			return own[0].FieldsV1
		}
		first, second := read(), read()
		if first != second {
			t.Fatalf("%s is twice in memory", first.GetRawString())
		}
		want := fieldpath.NewSet(fieldpath.MakePathOrDie("data", fmt.Sprintf("key-%d", n)))
		if set, err := share(first).set(); err != nil || !set.Equals(want) {
			t.Fatalf("%s is %v, %v, want %v", first.GetRawString(), set, err, want)
		}
	}
}
