/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/trace"
)

// Nobody tells of what happens to an instance, so ECS is asked, for a hundred instances at
// a time.
const (
	maxBatch  = 100              // of DescribeInstances
	pollEvery = time.Minute      // while nothing is expected to change
	pollGap   = time.Second      // between two calls, unless the second is full
	pollRetry = 15 * time.Second // after a call that failed
	// jitter is by how much pollEvery and the like vary, either way: many that begin
	// together do not go on together.
	jitter = 0.1
)

// sight is what one look at an instance has shown.
type sight struct {
	// at is when ECS was asked: what happened before that shows.
	at       time.Time
	instance *aliyun.Instance // nil: it is not there. Shared: nobody may change it
	// err is why the last look has shown nothing, since failing. The rest is older. lasting
	// is whether that has been so for some time.
	err     error
	failing time.Time
	lasting bool
}

// fleetKey is whose fleet it is: the zero AccessKey is that of the operator itself.
type fleetKey struct {
	key    aliyun.AccessKey
	region string
}

// Format shows no access key, however it is printed.
func (k fleetKey) Format(s fmt.State, _ rune) { fmt.Fprint(s, k.region) }

// fleet looks at the instances of one account in one region, again and again, and has a sync
// run for whoever's instance has changed. To ECS it is what a Reflector is to the API
// server, but that it has to ask.
//
// All instances are due at some time. A call goes out when the first one is, and is filled
// up with those that are due next; all of them are due together then, and stay together. So
// n instances that do not change cost n/100 calls every pollEvery, and no sync.
type fleet struct {
	cloud Cloud
	clock clock.WithTicker
	add   func(cache.ObjectName, trace.Cause)

	mu      sync.Mutex
	members map[string]*member // by instance ID
	wake    chan struct{}      // has room for one

	stop  context.CancelFunc
	ended chan struct{}
}

// member is an instance that is looked at.
type member struct {
	users   map[cache.ObjectName]bool // ECSInstances: two can name the same
	due     time.Time
	awaited bool // a sync waits for the next look, whatever it shows
	seen    *sight
}

// look returns what was last seen of an instance, nil if nothing was yet, and looks at it from
// now on for user.
func (f *fleet) look(id string, user cache.ObjectName) *sight {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[id]
	if m == nil {
		m = &member{users: map[cache.ObjectName]bool{}, due: f.clock.Now(), awaited: true}
		f.members[id] = m
		f.rouse()
	}
	m.users[user] = true
	return m.seen
}

// soon has the next look at an instance take place within some time, and lead to a sync.
func (f *fleet) soon(id string, within time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[id]
	if m == nil {
		return
	}
	m.awaited = true
	if m.seen != nil && m.seen.err != nil {
		return // It is looked again when that makes sense.
	}
	now := f.clock.Now()
	if due := now.Add(jittered(within, id, now)); due.Before(m.due) {
		m.due = due
		f.rouse()
	}
}

// leave ends looking at an instance for user, and returns whether there is anything left to
// look at.
func (f *fleet) leave(id string, user cache.ObjectName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[id]; m != nil {
		if delete(m.users, user); len(m.users) == 0 {
			delete(f.members, id)
		}
	}
	return len(f.members) > 0
}

// end stops looking, and returns when that has ended.
func (f *fleet) end() {
	f.stop()
	<-f.ended
}

// rouse has run see that something is due sooner.
func (f *fleet) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run looks until ctx ends.
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

// next returns which instances to look at now, or else how long to wait. The last look was at
// last.
func (f *fleet) next(last time.Time) ([]string, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) == 0 {
		return nil, pollEvery
	}
	now := f.clock.Now()
	ids := make([]string, 0, len(f.members))
	rejected := now.Add(pollEvery)
	for id, m := range f.members {
		if m.seen != nil && aliyun.ClassOf(m.seen.err) == aliyun.Rejected && m.due.After(now) {
			// It would have every call rejected that it is in.
			if m.due.Before(rejected) {
				rejected = m.due
			}
			continue
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, rejected.Sub(now)
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := f.members[a].due.Compare(f.members[b].due); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	if wait := min(f.members[ids[0]].due.Sub(now), rejected.Sub(now)); wait > 0 {
		return nil, wait
	}
	full := len(ids) >= maxBatch && !f.members[ids[maxBatch-1]].due.After(now)
	if wait := last.Add(pollGap).Sub(now); wait > 0 && !full {
		return nil, wait
	}
	return ids[:min(len(ids), maxBatch)], 0
}

// poll looks at instances, and tells of what has changed.
func (f *fleet) poll(ctx context.Context, ids []string) {
	asked := f.clock.Now()
	instances, err := f.cloud.Describe(ctx, ids)
	if ctx.Err() != nil {
		return
	}
	if len(ids) > 1 && aliyun.ClassOf(err) == aliyun.Rejected { // One of them is no ID, perhaps.
		f.poll(ctx, ids[:len(ids)/2])
		f.poll(ctx, ids[len(ids)/2:])
		return
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Could not look at instances", "instances", len(ids), "err", err)
	}
	byID := make(map[string]*aliyun.Instance, len(instances))
	for i := range instances {
		byID[instances[i].ID] = &instances[i]
	}
	for _, t := range f.learn(ids, byID, err, asked) {
		f.add(t.user, t.cause)
	}
}

// told is a sync that is to run, and why.
type told struct {
	user  cache.ObjectName
	cause trace.Cause
}

// learn puts down what a look has shown, and returns whom to tell.
func (f *fleet) learn(ids []string, byID map[string]*aliyun.Instance, err error, asked time.Time) []told {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	due := now.Add(jittered(untilNextLook(err), ids[0], now))
	var tell []told
	for _, id := range ids {
		m := f.members[id]
		if m == nil {
			continue // It has left meanwhile.
		}
		is := &sight{at: asked, instance: byID[id]}
		if err != nil {
			is = m.seen.failed(err, asked)
		}
		verb, fields := m.seen.differs(is)
		if verb == "" && m.awaited {
			verb = string(cache.Sync)
		}
		if verb != "" {
			for user := range m.users {
				tell = append(tell, told{user, trace.Cause{Object: trace.Object{Kind: "Instance", Name: id}, Verb: verb, Fields: fields}})
			}
		}
		m.seen, m.due, m.awaited = is, due, false
	}
	return tell
}

// untilNextLook is how long after a look that came to err the next one takes place.
func untilNextLook(err error) time.Duration {
	switch aliyun.ClassOf(err) {
	case "":
		return pollEvery
	case aliyun.Transient:
		return pollRetry
	}
	return problemOf(err, "").wait
}

// failed is what is known after a look that failed: what was seen before.
func (s *sight) failed(err error, now time.Time) *sight {
	is := sight{failing: now}
	if s != nil {
		is = *s
	}
	if is.err == nil {
		is.failing = now
	}
	is.err, is.lasting = err, now.Sub(is.failing) >= unreachableAfter
	return &is
}

// trouble is the class of the error that is to be told of, "" for none: what passes is not,
// before it has lasted.
func (s *sight) trouble() aliyun.Class {
	if s.err == nil || (passing(s.err) && !s.lasting) {
		return ""
	}
	return aliyun.ClassOf(s.err)
}

// differs returns how is differs from what was seen before, as the verb of a cause, and in
// which fields; "" if it does not.
func (s *sight) differs(is *sight) (verb string, fields []string) {
	switch {
	case s == nil:
		return string(cache.Added), nil
	case s.trouble() != is.trouble():
		return string(cache.Updated), []string{"error"}
	case s.instance == nil && is.instance == nil:
		return "", nil
	case s.instance == nil:
		return string(cache.Added), nil
	case is.instance == nil:
		return string(cache.Deleted), nil
	}
	a, b := reflect.ValueOf(*s.instance), reflect.ValueOf(*is.instance)
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

// later returns d, or a little more: see jittered.
func later(d time.Duration, whose string, now time.Time) time.Duration {
	return time.Duration(float64(d) * (1 + jitter*share(whose, now)))
}

// jittered returns about d. How much it differs follows from whose wait it is and from when it
// begins, and from nothing else: so a policy stays a pure function, and tests can repeat a run.
func jittered(d time.Duration, whose string, now time.Time) time.Duration {
	return time.Duration(float64(d) * (1 + jitter*(2*share(whose, now)-1)))
}

// share returns a number from 0 to 1.
func share(whose string, now time.Time) float64 {
	sum := fnv.New64a()
	sum.Write([]byte(whose))                                                    // It never fails.
	return rand.New(rand.NewPCG(sum.Sum64(), uint64(now.UnixNano()))).Float64() //nolint:gosec // It is no secret, and a time has no sign here.
}

// fleets are all of them.
type fleets struct {
	open  OpenFunc
	clock clock.WithTicker
	add   func(cache.ObjectName, trace.Cause)

	mu    sync.Mutex
	ctx   context.Context // of begin
	byKey map[fleetKey]*fleet
}

// begin says what the fleets look with, until end.
func (f *fleets) begin(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ctx = context.WithoutCancel(ctx)
}

// cloud returns what a fleet looks with, for what else there is to do.
func (f *fleets) cloud(key fleetKey) Cloud {
	if key.key == (aliyun.AccessKey{}) {
		return f.open(nil, key.region)
	}
	return f.open(&key.key, key.region)
}

// look is fleet.look. It starts a fleet with its first instance.
func (f *fleets) look(key fleetKey, id string, user cache.ObjectName) *sight {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	if fl == nil {
		fl = &fleet{
			cloud: f.cloud(key), clock: f.clock, add: f.add,
			members: map[string]*member{}, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		}
		var ctx context.Context
		ctx, fl.stop = context.WithCancel(f.ctx)
		f.byKey[key] = fl
		go fl.run(ctx)
	}
	return fl.look(id, user)
}

// soon is fleet.soon.
func (f *fleets) soon(key fleetKey, id string, within time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.byKey[key]; fl != nil {
		fl.soon(id, within)
	}
}

// leave ends looking at an instance for user, and ends its fleet if it was the last.
func (f *fleets) leave(key fleetKey, id string, user cache.ObjectName) {
	f.mu.Lock()
	fl := f.byKey[key]
	if fl == nil || fl.leave(id, user) {
		f.mu.Unlock()
		return
	}
	delete(f.byKey, key)
	f.mu.Unlock()
	fl.end()
}

// end stops all fleets, and returns when they have.
func (f *fleets) end() {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.byKey))
	clear(f.byKey)
	f.mu.Unlock()
	for _, fl := range all {
		fl.end()
	}
}
