// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// patientLock shows the elector a Lease as free that has not been renewed for its duration, as
// the watch has seen it. The elector itself would only begin to count when it first asks.
type patientLock struct {
	resourcelock.Interface
	leadership *leadership
}

func (p patientLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := p.leadership.patience(ctx)
	defer cancel()
	record, raw, err := p.Interface.Get(ctx)
	if err == nil && p.leadership.expired(record) {
		record.HolderIdentity = ""
	}
	return record, raw, err
}

func (p patientLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return p.write(ctx, record, p.Interface.Create)
}

func (p patientLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return p.write(ctx, record, p.Interface.Update)
}

// write creates or updates the Lease.
func (p patientLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	request func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	ctx, cancel := p.leadership.patience(ctx)
	defer cancel()
	err := request(ctx, record)
	if err == nil {
		p.leadership.renew(&record)
	}
	return err
}

// expired reports whether another operator has a Lease that the watch has shown for longer than it lasts.
func (l *leadership) expired(record *resourcelock.LeaderElectionRecord) bool {
	free, _, _ := l.free()
	l.mu.Lock()
	defer l.mu.Unlock()
	return free && record.HolderIdentity != l.lock.Identity() &&
		record.HolderIdentity == l.last.holder && record.RenewTime.Time.Equal(l.last.renewed)
}
