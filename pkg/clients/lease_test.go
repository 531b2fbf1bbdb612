// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func TestReadLease(t *testing.T) {
	now := time.Date(2026, 11, 26, 14, 0, 0, 0, time.UTC)
	lease := func(holder string, ago time.Duration) []runtime.Object {
		return []runtime.Object{&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "glassback"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago))),
			},
		}}
	}
	for name, test := range map[string]struct {
		objects       []runtime.Object
		held, expired bool
		want          string
	}{
		"none":                  {nil, false, false, "there is no Lease"},
		"held":                  {lease("a", 2*time.Second), true, false, "a, which has renewed it 2s ago"},
		"by a clock ahead":      {lease("a", -time.Minute), true, false, "a, which has renewed it 0s ago"},
		"until the last second": {lease("a", 15*time.Second), true, false, "a, which has renewed it 15s ago"},
		"expired":               {lease("a", 16*time.Second), false, true, "the last leader, a, has not renewed it for 16s"},
		"released":              {lease("", time.Minute), false, false, "the last leader has released it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadLease(t.Context(), fake.NewClientset(test.objects...), "system", "glassback", now)
			if err != nil || got.Held() != test.held || got.Expired() != test.expired || got.String() != test.want {
				t.Errorf("%q, held %t, expired %t, error %v", got, got.Held(), got.Expired(), err)
			}
		})
	}
}

func TestReadReturnsTheErrorOfTheServer(t *testing.T) {
	client, refused := fake.NewClientset(), errors.New("no")
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
	if got, err := ReadLease(t.Context(), client, "system", "glassback", time.Time{}); !errors.Is(err, refused) {
		t.Errorf("%q, error %v", got, err)
	}
}
