// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
)

const ownIdentity, otherIdentity = "own", "other"

// stored is a lock whose record is in memory.
type stored struct {
	resourcelock.LeaseLock

	record resourcelock.LeaderElectionRecord
}

func (s *stored) Identity() string { return ownIdentity }

func (s *stored) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := s.record
	return &record, nil, nil
}

func leaseOf(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: renewed},
	}}
}

func TestALeaseIsTakenOver(t *testing.T) {
	for sentence, test := range map[string]struct {
		seen   *coordinationv1.Lease // nil: none
		later  time.Duration
		isFree bool
	}{
		"if there is none":                           {isFree: true},
		"if it was released":                         {seen: leaseOf("", time.Now()), isFree: true},
		"if it is this operator's":                   {seen: leaseOf(ownIdentity, time.Now()), isFree: true},
		"but not while it is renewed":                {seen: leaseOf(otherIdentity, time.Now()), later: 15*time.Second - 1},
		"once it was not renewed for long":           {seen: leaseOf(otherIdentity, time.Now()), later: 15 * time.Second, isFree: true},
		"but not because the leader's clock is slow": {seen: leaseOf(otherIdentity, time.Unix(0, 0)), later: 14 * time.Second},
		"but not because it says no duration": {
			seen: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(otherIdentity)}}, later: 14 * time.Second,
		},
		"even if the leader's clock is fast": {seen: leaseOf(otherIdentity, time.Now().AddDate(1, 0, 0)), later: 16 * time.Second, isFree: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leadership{Lease: options.Lease{Duration: 15 * time.Second}, lock: &stored{}, changed: make(chan struct{})}
				if test.seen != nil {
					l.record(test.seen)
				}
				time.Sleep(test.later)
				free, wait, _ := l.free()
				if free != test.isFree {
					t.Errorf("free: %t", free)
				}
				if !free && wait != 15*time.Second-test.later {
					t.Errorf("it waits for %s", wait)
				}
			})
		})
	}
}

func TestALeaseThatIsLabelledIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leadership{lock: &stored{}, changed: make(chan struct{})}
		lease := leaseOf(otherIdentity, time.Now())
		for range 3 {
			l.record(lease)
			time.Sleep(5 * time.Second)
			lease = lease.DeepCopy()
			lease.ResourceVersion += "1"
		}
		if free, wait, _ := l.free(); !free {
			t.Errorf("it waits for another %s", wait)
		}
	})
}

func TestTheElectorSeesALeaseAsTheWatchHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renewed := time.Now()
		lock := &stored{record: resourcelock.LeaderElectionRecord{HolderIdentity: otherIdentity, RenewTime: metav1.NewTime(renewed)}}
		l := &leadership{Lease: options.Lease{Deadline: 10 * time.Second}, lock: lock, changed: make(chan struct{})}
		holder := func() string {
			record, _, err := watchedLock{lock, l}.Get(t.Context())
			must.Succeed(t, err)
			return record.HolderIdentity
		}
		l.record(leaseOf(otherIdentity, renewed))
		if holder() != otherIdentity {
			t.Error("it is free at once")
		}
		time.Sleep(15 * time.Second)
		if holder() != "" {
			t.Error("it is not free when it has run out")
		}
		lock.record.RenewTime = metav1.NewTime(renewed.Add(14 * time.Second))
		if holder() != otherIdentity {
			t.Error("it is free although it has been renewed, which the watch has not shown yet")
		}
		l.record(leaseOf(ownIdentity, renewed))
		lock.record = resourcelock.LeaderElectionRecord{HolderIdentity: ownIdentity, RenewTime: metav1.NewTime(renewed)}
		if holder() != ownIdentity {
			t.Error("a leader is told that it does not lead")
		}
	})
}

func TestStandingByEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leadership{Lease: options.Lease{Duration: 15 * time.Second}, lock: &stored{}, changed: make(chan struct{})}
		l.record(leaseOf(otherIdentity, time.Now()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var renewing sync.WaitGroup
		renewing.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(2 * time.Second)
				l.record(leaseOf(otherIdentity, time.Now()))
			}
		})
		if l.awaitFree(ctx, testLogger(t)) {
			t.Error("it has taken over a Lease that is renewed")
		}
		renewing.Wait()
		l.record(leaseOf("", time.Now()))
		if !l.awaitFree(t.Context(), testLogger(t)) {
			t.Error("it has not taken over a Lease that was released")
		}
	})
}

func TestIdentity(t *testing.T) {
	t.Setenv("POD_NAME", "")
	a, err1 := identity()
	b, err2 := identity()
	if err1 != nil || err2 != nil || a == b {
		t.Errorf("two processes are called %q and %q: %v, %v", a, b, err1, err2)
	}
	t.Setenv("POD_NAME", "glassback-manager-x")
	t.Setenv("POD_UID", "u")
	if a, _ := identity(); a != "glassback-manager-x_u" {
		t.Errorf("a Pod is called %q", a)
	}
}
