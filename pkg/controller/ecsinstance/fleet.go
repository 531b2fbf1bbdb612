// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/trace"
)

// ECS does not notify of changes, so a fleet polls it, for aliyun.MaxIDs instances at a time.
const (
	pollEvery = time.Minute      // while nothing is expected to change
	pollGap   = time.Second      // between two calls, unless a full batch is due
	pollRetry = 15 * time.Second // after a call that failed
)

// snapshot is the result of the polls of an instance.
type snapshot struct {
	// at is the time of the last successful request, and answered that of its answer. instance shows all changes before at.
	at, answered time.Time
	instance     *aliyun.Instance // nil for no instance; it is shared, so nothing may change it
	// err says why the last poll failed; the fields above are then from an earlier poll. failing is the time since when polls fail. lasting
	// reports that polls have failed for unreachableAfter.
	err     error
	failing time.Time
	lasting bool
}

// fleetKey holds the credentials and the region of a fleet. The zero AccessKey stands for the operator's own credentials.
type fleetKey struct {
	key    aliyun.AccessKey
	region string
}

// Format prints the region only: the access key is secret.
func (k fleetKey) Format(s fmt.State, _ rune) { fmt.Fprint(s, k.region) }

// fleets polls the instances of all ECSInstances, and enqueues those whose instance changed.
type fleets struct {
	open  OpenFunc
	clock clock.WithTicker
	add   func(cache.ObjectName, trace.Cause)

	mu    sync.Mutex
	ctx   context.Context // of begin; nil before it: then only pollNow polls
	byKey map[fleetKey]*fleet
}

// fleet has the instances of one account in one region. It does for ECS what a Reflector does for the API server.
//
// Each instance has a due time. When the first instance is due, a call polls it together with those that are due next. From then on, they
// are due together. So n instances that do not change cost n/100 calls every pollEvery, and no sync.
type fleet struct {
	*fleets

	cloud   Cloud
	targets map[string]*target // by instance ID; guarded by mu, as their fields are
	wake    chan struct{}      // has a buffer of one

	stop  context.CancelFunc // nil if it does not run
	ended chan struct{}
}

// target is an instance that a fleet polls.
type target struct {
	users   map[cache.ObjectName]bool // the ECSInstances that name it; usually one
	due     time.Time
	awaited bool // a sync waits for the next poll, whatever it returns
	seen    *snapshot
}

// begin sets the context of the fleets, which poll until end.
func (f *fleets) begin(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ctx = context.WithoutCancel(ctx)
}

// cloud returns the Cloud for the credentials and the region of a fleet.
func (f *fleets) cloud(key fleetKey) Cloud {
	if key.key == (aliyun.AccessKey{}) {
		return f.open(nil, key.region)
	}
	return f.open(&key.key, key.region)
}

// subscribe returns the last snapshot of an instance, nil for none yet, and polls the instance for user from now on. It starts a fleet when
// the first instance needs it.
func (f *fleets) subscribe(key fleetKey, id string, user cache.ObjectName) *snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	if fl == nil {
		fl = &fleet{fleets: f, cloud: f.cloud(key), targets: map[string]*target{}, wake: make(chan struct{}, 1), ended: make(chan struct{})}
		f.byKey[key] = fl
		if f.ctx != nil {
			var ctx context.Context
			ctx, fl.stop = context.WithCancel(f.ctx)
			go fl.run(ctx)
		}
	}
	t := fl.targets[id]
	if t == nil {
		t = &target{users: map[cache.ObjectName]bool{}, due: f.clock.Now(), awaited: true}
		fl.targets[id] = t
		fl.wakeUp()
	}
	t.users[user] = true
	return t.seen
}

// target returns an instance that the fleet of key polls, and the fleet; nil if it does not. It must be called with the lock held.
func (f *fleets) target(key fleetKey, id string) (*target, *fleet) {
	if fl := f.byKey[key]; fl != nil {
		return fl.targets[id], fl
	}
	return nil, nil
}

// soon schedules the next poll of an instance within some time. A sync follows that poll, whatever the poll returns.
func (f *fleets) soon(key fleetKey, id string, within time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, fl := f.target(key, id)
	if t == nil {
		return
	}
	t.awaited = true
	if t.seen != nil && t.seen.err != nil {
		return // The error decides when the next poll makes sense.
	}
	now := f.clock.Now()
	if due := now.Add(jittered(within, id, now)); due.Before(t.due) {
		t.due = due
		fl.wakeUp()
	}
}

// pollNow polls an instance to which an ECSInstance is subscribed, and returns the error of the poll.
func (f *fleets) pollNow(ctx context.Context, key fleetKey, id string) error {
	f.mu.Lock()
	t, fl := f.target(key, id)
	f.mu.Unlock()
	if fl.poll(ctx, []string{id}); ctx.Err() != nil {
		return ctx.Err()
	}
	return t.seen.err
}

// leave stops polling an instance for user. It ends a fleet that has no instance left.
func (f *fleets) leave(key fleetKey, id string, user cache.ObjectName) {
	f.mu.Lock()
	t, fl := f.target(key, id)
	if t != nil {
		if delete(t.users, user); len(t.users) == 0 {
			delete(fl.targets, id)
		}
	}
	last := fl != nil && len(fl.targets) == 0
	if last {
		delete(f.byKey, key)
	}
	f.mu.Unlock()
	if last {
		fl.end()
	}
}

// end stops all fleets, and returns when they have stopped.
func (f *fleets) end() {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.byKey))
	clear(f.byKey)
	f.mu.Unlock()
	for _, fl := range all {
		fl.end()
	}
}

// end stops the polling, and returns when it has stopped.
func (f *fleet) end() {
	if f.stop != nil {
		f.stop()
		<-f.ended
	}
}

// wakeUp makes run check again which instances are due.
func (f *fleet) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run polls until ctx ends.
func (f *fleet) run(ctx context.Context) {
	defer close(f.ended)
	var last time.Time
	for {
		ids, wait := f.next(last)
		if wait == 0 {
			last = f.clock.Now()
			f.poll(ctx, ids)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer := f.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case <-f.wake:
			timer.Stop()
		}
	}
}

// next returns the instances to poll now, or else how long to wait. last is the time of the last poll.
func (f *fleet) next(last time.Time) ([]string, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	first := now.Add(pollEvery)
	ids := make([]string, 0, len(f.targets))
	for id, t := range f.targets {
		if t.due.Before(first) {
			first = t.due
		}
		if t.seen == nil || aliyun.ClassOf(t.seen.err) != aliyun.Rejected || !t.due.After(now) {
			ids = append(ids, id) // ECS rejects every call with the ID of the others.
		}
	}
	if wait := first.Sub(now); wait > 0 {
		return nil, wait
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(f.targets[a].due.Compare(f.targets[b].due), cmp.Compare(a, b))
	})
	full := len(ids) >= aliyun.MaxIDs && !f.targets[ids[aliyun.MaxIDs-1]].due.After(now)
	if wait := last.Add(pollGap).Sub(now); wait > 0 && !full {
		return nil, wait
	}
	return ids[:min(len(ids), aliyun.MaxIDs)], 0
}

// poll gets instances from ECS, and enqueues the objects whose instance changed.
func (f *fleet) poll(ctx context.Context, ids []string) {
	asked := f.clock.Now()
	instances, err := f.describe(ctx, ids)
	if ctx.Err() != nil {
		return
	}
	if len(ids) > 1 && aliyun.ClassOf(err) == aliyun.Rejected { // Perhaps one of them is not an ID.
		f.poll(ctx, ids[:len(ids)/2])
		f.poll(ctx, ids[len(ids)/2:])
		return
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Could not describe instances", "instances", len(ids), "err", err)
	}
	byID := make(map[string]*aliyun.Instance, len(instances))
	for i := range instances {
		byID[instances[i].ID] = &instances[i]
	}
	f.update(ids, byID, err, asked)
}

// describe calls Describe, and returns a panic as an error: it would end the process.
func (f *fleet) describe(ctx context.Context, ids []string) (instances []aliyun.Instance, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			klog.FromContext(ctx).Error(err, "Recovered from a panic", "instances", ids, "stack", string(debug.Stack()))
		}
	}()
	return f.cloud.Describe(ctx, ids)
}

// update stores the result of a poll, and enqueues the objects whose instance changed.
func (f *fleet) update(ids []string, byID map[string]*aliyun.Instance, err error, asked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	due := now.Add(jittered(untilNextPoll(err), ids[0], now))
	for _, id := range ids {
		t := f.targets[id]
		if t == nil {
			continue // Its last user left meanwhile.
		}
		next := &snapshot{at: asked, answered: now, instance: byID[id]}
		if err != nil {
			next = t.seen.failed(err, asked)
		}
		cause := trace.Cause{Object: trace.Object{Kind: "Instance", Name: id}, Urgent: t.seen != nil}
		cause.Verb, cause.Fields = t.seen.differs(next)
		if cause.Verb == "" && t.awaited {
			cause.Verb = string(cache.Sync)
		}
		if cause.Verb != "" {
			for user := range t.users {
				f.add(user, cause)
			}
		}
		t.seen, t.due, t.awaited = next, due, false
	}
}

// failed returns the snapshot after a failed poll. It keeps the instance of s, the previous snapshot.
func (s *snapshot) failed(err error, now time.Time) *snapshot {
	next := snapshot{failing: now}
	if s != nil {
		next = *s
	}
	if next.err == nil {
		next.failing = now
	}
	next.err, next.lasting = err, now.Sub(next.failing) >= unreachableAfter
	return &next
}

// trouble returns the class of the error to report, "" for none. A passing error is reported only when it lasts.
func (s *snapshot) trouble() aliyun.Class {
	if s.err == nil || (problemOf(s.err, "").Passing && !s.lasting) {
		return ""
	}
	return aliyun.ClassOf(s.err)
}

// differs compares next with s, the snapshot before. It returns the verb of a cause, "" for no difference, and the names of the fields that
// differ.
func (s *snapshot) differs(next *snapshot) (verb string, fields []string) {
	switch {
	case s == nil:
		return string(cache.Added), nil
	case s.trouble() != next.trouble():
		return string(cache.Updated), []string{"error"}
	case s.instance == next.instance: // Neither snapshot has the instance, or the poll failed.
		return "", nil
	case s.instance == nil:
		return string(cache.Added), nil
	case next.instance == nil:
		return string(cache.Deleted), nil
	}
	a, b := reflect.ValueOf(*s.instance), reflect.ValueOf(*next.instance)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			fields = append(fields, a.Type().Field(i).Name)
		}
	}
	if len(fields) == 0 {
		return "", nil
	}
	return string(cache.Updated), fields
}
