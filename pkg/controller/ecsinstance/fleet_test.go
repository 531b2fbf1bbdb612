// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/trace"
)

// fakeCloud is a Cloud with Describe alone.
type fakeCloud struct {
	Cloud
	mu        sync.Mutex
	instances map[string]aliyun.Instance
	malformed string // an ID that is refused
	asked     [][]string
}

func (l *fakeCloud) Describe(_ context.Context, ids []string) ([]aliyun.Instance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, slices.Clone(ids))
	if slices.Contains(ids, l.malformed) {
		return nil, &aliyun.Error{Action: "DescribeInstances", Class: aliyun.Rejected, Code: "InvalidParameter"}
	}
	var found []aliyun.Instance
	for _, id := range ids {
		if i, ok := l.instances[id]; ok {
			i.Tags = maps.Clone(i.Tags)
			found = append(found, i)
		}
	}
	return found, nil
}

// set changes what ECS answers from now on.
func (l *fakeCloud) set(id string, state aliyun.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instances[id] = aliyun.Instance{ID: id, State: state}
}

// forget returns the requests since its last call.
func (l *fakeCloud) forget() [][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = nil
	return asked
}

// fleetsFixture is fleets with one fakeCloud, and their notifications.
type fleetsFixture struct {
	*fleets
	cloud    *fakeCloud
	mu       sync.Mutex
	notified []string
}

func newFleetsFixture(t *testing.T) *fleetsFixture {
	o := &fleetsFixture{cloud: &fakeCloud{instances: map[string]aliyun.Instance{}}}
	o.fleets = &fleets{
		open: func(*aliyun.AccessKey, string) Cloud { return o.cloud }, clock: clock.RealClock{}, byKey: map[fleetKey]*fleet{},
		add: func(user cache.ObjectName, cause trace.Cause) {
			o.mu.Lock()
			defer o.mu.Unlock()
			notified := fmt.Sprint(user.Name, " ", cause.Verb, cause.Fields)
			if !cause.Urgent {
				notified += ", not urgent"
			}
			o.notified = append(o.notified, notified)
		},
	}
	o.begin(t.Context())
	return o
}

// takeNotified returns the notifications since its last call, sorted.
func (o *fleetsFixture) takeNotified() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	notified := o.notified
	o.notified = nil
	slices.Sort(notified)
	return notified
}

// settles waits until all have been looked at: the first call may go out before all are there, and the second does pollGap later.
func (o *fleetsFixture) settles() { time.Sleep(2 * pollGap) }

var beijing = fleetKey{region: "cn-beijing"}

// inObservatory runs a test with a fleet of some instances that are Running.
func inObservatory(t *testing.T, n int, test func(*testing.T, *fleetsFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newFleetsFixture(t)
		defer o.end()
		for i := range n {
			id := fmt.Sprintf("i-%04d", i)
			o.cloud.set(id, aliyun.StateRunning)
			if s := o.subscribe(beijing, id, key("vm-"+id)); s != nil {
				t.Errorf("something was seen before anybody looked: %+v", s)
			}
		}
		test(t, o)
	})
}

func TestFleetNext(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	is := func(in ...time.Duration) map[string]*target {
		targets := map[string]*target{}
		for n, d := range in {
			targets[fmt.Sprintf("i-%03d", n)] = &target{due: now.Add(d)}
		}
		return targets
	}
	many := func(n int, d time.Duration) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }
	for sentence, test := range map[string]struct {
		targets map[string]*target
		last    time.Duration // how long ago
		ids     int
		first   string
		wait    time.Duration
	}{
		"nothing is due":                        {targets: is(time.Second, time.Minute), last: time.Hour, wait: time.Second},
		"one is due, and the other comes along": {targets: is(time.Minute, 0), last: time.Hour, ids: 2, first: "i-001"},
		"one is due, and 99 of the others come along": {
			targets: is(append(many(150, time.Minute), 0)...), last: time.Hour, ids: 100, first: "i-150",
		},
		"one is due just after a call":                  {targets: is(0), last: pollGap / 4, wait: pollGap * 3 / 4},
		"a hundred are due just after a call":           {targets: is(many(100, 0)...), last: pollGap / 4, ids: 100, first: "i-000"},
		"a hundred are, and one comes soon, just after": {targets: is(append(many(99, 0), time.Millisecond)...), last: 0, wait: pollGap},
		"more than a hundred are due, the longest due first": {
			targets: is(append(many(120, -time.Second), many(3, -time.Minute)...)...), ids: 100, first: "i-120",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := &fleet{targets: test.targets, fleets: &fleets{clock: standing{clock.RealClock{}, now}}}
			ids, wait := f.next(now.Add(-test.last))
			if len(ids) != test.ids || wait != test.wait || (len(ids) > 0 && ids[0] != test.first) {
				t.Errorf("%d, the first %q, or in %s", len(ids), slices.Concat(ids, []string{""})[0], wait)
			}
		})
	}
}

// standing is a clock that stands.
type standing struct {
	clock.RealClock
	now time.Time
}

func (s standing) Now() time.Time { return s.now }

func TestSnapshotDiffers(t *testing.T) {
	lost := errors.New("lost")
	throttled, refused := &aliyun.Error{Class: aliyun.Throttled}, &aliyun.Error{Class: aliyun.BadCredentials}
	running, stopped := &aliyun.Instance{State: aliyun.StateRunning}, &aliyun.Instance{State: aliyun.StateStopped, Name: "a"}
	for sentence, test := range map[string]struct {
		was    *snapshot
		is     snapshot
		verb   string
		fields []string
	}{
		"the first poll": {nil, snapshot{}, "Added", nil},
		"the same again": {
			&snapshot{instance: running}, snapshot{instance: &aliyun.Instance{State: aliyun.StateRunning}, at: time.Now()}, "", nil,
		},
		"it shows":          {&snapshot{}, snapshot{instance: running}, "Added", nil},
		"it is gone":        {&snapshot{instance: running}, snapshot{}, "Deleted", nil},
		"two fields":        {&snapshot{instance: running}, snapshot{instance: stopped}, "Updated", []string{"Name", "State"}},
		"a poll that fails": {&snapshot{instance: running}, snapshot{instance: running, err: lost}, "", nil},
		"polls that have failed for some time": {
			&snapshot{instance: running, err: lost}, snapshot{instance: running, err: lost, lasting: true},
			"Updated", []string{"error"},
		},
		"and go on like that":     {&snapshot{err: lost, lasting: true}, snapshot{err: errors.New("lost again"), lasting: true}, "", nil},
		"and fail in another way": {&snapshot{err: lost, lasting: true}, snapshot{err: throttled, lasting: true}, "Updated", []string{"error"}},
		"a poll that succeeds after those": {
			&snapshot{instance: running, err: lost, lasting: true}, snapshot{instance: running}, "Updated", []string{"error"},
		},
		"a poll that fails for a reason to fix": {
			&snapshot{instance: running}, snapshot{instance: running, err: refused}, "Updated", []string{"error"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if verb, fields := test.was.differs(&test.is); verb != test.verb || !slices.Equal(fields, test.fields) {
				t.Errorf("it is %q %q, want %q %q", verb, fields, test.verb, test.fields)
			}
		})
	}
}

// TestSnapshotAfterAFailedLook: the previous snapshot stays, with its time.
func TestSnapshotAfterAFailedLook(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lost := errors.New("lost")
	if first := (*snapshot)(nil).failed(lost, now); *first != (snapshot{err: lost, failing: now}) {
		t.Errorf("without a previous one it is %+v", first)
	}
	seen := snapshot{at: now, instance: &aliyun.Instance{State: aliyun.StateRunning}}
	last := &seen
	for _, after := range []time.Duration{time.Minute, 2 * time.Minute, time.Minute + unreachableAfter} {
		last = last.failed(lost, now.Add(after))
		want := snapshot{at: now, instance: seen.instance, err: lost, failing: now.Add(time.Minute), lasting: after > unreachableAfter}
		if *last != want || seen.err != nil {
			t.Errorf("after %s it is %+v, want %+v, and the first is %+v", after, *last, want, seen)
		}
	}
}

// TestOneThatECSRejectsAmongMany: the others are seen all the same.
func TestOneThatECSRejectsAmongMany(t *testing.T) {
	inObservatory(t, 0, func(t *testing.T, o *fleetsFixture) {
		o.cloud.malformed = "i-0042"
		for n := range 150 {
			id := fmt.Sprintf("i-%04d", n)
			o.cloud.set(id, aliyun.StateRunning)
			o.subscribe(beijing, id, key("vm-"+id))
		}
		time.Sleep(10 * time.Second)
		for n := range 150 {
			id := fmt.Sprintf("i-%04d", n)
			s := o.subscribe(beijing, id, key("vm-"+id))
			if s == nil || (s.err != nil) != (n == 42) || (s.instance == nil) != (n == 42) {
				t.Errorf("of %s is seen %+v", id, s)
			}
		}
		asked := o.cloud.forget()
		if len(asked) > 4+2*7 {
			t.Errorf("it took %d calls", len(asked))
		}
		time.Sleep(30 * time.Minute)
		if asked := o.cloud.forget(); len(asked) > 2*34+15*4 {
			t.Errorf("it took %d calls in half an hour", len(asked))
		}
	})
}

// TestTwoThatNameTheSameInstance: both are notified, and it is looked at until both have left. A fleet can begin again.
func TestTwoThatNameTheSameInstance(t *testing.T) {
	inObservatory(t, 1, func(t *testing.T, o *fleetsFixture) {
		o.subscribe(beijing, "i-0000", key("other"))
		o.settles()
		o.takeNotified()
		for _, want := range [][]string{{"other Updated[State]", "vm-i-0000 Updated[State]"}, {"vm-i-0000 Updated[State]"}, nil} {
			o.cloud.set("i-0000", map[int]aliyun.State{2: aliyun.StateStopped, 1: aliyun.StateRunning}[len(want)])
			time.Sleep(2 * time.Minute)
			notified := o.takeNotified()
			if !slices.Equal(notified, want) {
				t.Errorf("it tells %q, want %q", notified, want)
			}
			o.leave(beijing, "i-0000", key([]string{"vm-i-0000", "vm-i-0000", "other"}[len(want)]))
		}
		if len(o.byKey) != 0 {
			t.Error("the fleet has not ended")
		}
		o.cloud.forget()
		time.Sleep(time.Hour)
		if asked := o.cloud.forget(); len(asked) > 0 {
			t.Errorf("no object refers to it, and it was asked for %q", asked)
		}
		o.subscribe(beijing, "i-0000", key("again"))
		o.settles()
		if s := o.subscribe(beijing, "i-0000", key("again")); s == nil || s.instance == nil {
			t.Errorf("one that begins again has seen %+v", s)
		}
	})
}
