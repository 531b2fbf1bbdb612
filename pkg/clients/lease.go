// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Lease is the state of the Lease by which operators elect a leader, at one moment. It says whether an operator process holds it. The zero
// Lease means that it does not exist.
type Lease struct {
	exists   bool
	holder   string
	ago      time.Duration // since the holder renewed it
	duration time.Duration
}

// ReadLease reads a Lease at the time now.
func ReadLease(ctx context.Context, kube kubernetes.Interface, namespace, name string, now time.Time) (Lease, error) {
	lease, err := kube.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Lease{}, nil
	}
	if err != nil {
		return Lease{}, err
	}
	return LeaseOf(lease, now), nil
}

// LeaseOf returns the state of a Lease at the time now.
func LeaseOf(lease *coordinationv1.Lease, now time.Time) Lease {
	s := Lease{
		exists: true, holder: ptr.Deref(lease.Spec.HolderIdentity, ""),
		duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
	}
	if lease.Spec.RenewTime != nil {
		s.ago = max(now.Sub(lease.Spec.RenewTime.Time), 0)
	}
	return s
}

// Held reports whether a process holds the Lease, and has renewed it in time.
func (s Lease) Held() bool { return s.holder != "" && s.ago <= s.duration }

// Expired reports whether the last holder has neither renewed nor released the Lease.
func (s Lease) Expired() bool { return s.holder != "" && !s.Held() }

// String returns the holder and the last renewal, or why no process holds the Lease.
func (s Lease) String() string {
	switch {
	case !s.exists:
		return "there is no Lease"
	case s.holder == "":
		return "the last leader has released it"
	case s.Expired():
		return fmt.Sprintf("the last leader, %s, has not renewed it for %s", s.holder, s.ago.Round(time.Second))
	}
	return fmt.Sprintf("%s, which has renewed it %s ago", s.holder, s.ago.Round(time.Second))
}
