// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// watchedLock returns a Lease to the elector as free if the watch has shown no renewal for the Lease's duration. Without watchedLock, the
// elector would count that duration from its own first request.
type watchedLock struct {
	resourcelock.Interface
	leadership *leadership
}

func (p watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := p.leadership.patience(ctx)
	defer cancel()
	record, raw, err := p.Interface.Get(ctx)
	if err == nil && p.leadership.expired(record) {
		record.HolderIdentity = ""
	}
	return record, raw, err
}

func (p watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return p.write(ctx, record, p.Interface.Create)
}

func (p watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return p.write(ctx, record, p.Interface.Update)
}

// write sends request, which creates or updates the Lease, and records the renewal.
func (p watchedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
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

// expired reports whether record is another operator's, and the watch has shown it unchanged for longer than its duration.
func (l *leadership) expired(record *resourcelock.LeaderElectionRecord) bool {
	free, _, _ := l.free()
	l.mu.Lock()
	defer l.mu.Unlock()
	return free && record.HolderIdentity != l.lock.Identity() &&
		record.HolderIdentity == l.last.holder && record.RenewTime.Time.Equal(l.last.renewed)
}
