// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/glassback/glassback/hack/ecssim"
	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/trace"
)

// countSyncs returns how many syncs there were.
func (w *world) countSyncs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.syncs
}

// TestManyInstances: while nothing changes, each hundred of them cost one call a minute, and nothing else.
func TestManyInstances(t *testing.T) {
	t.Parallel()
	const many, perMinuteWant = 2 * maxBatch, 2.0
	inWorld(t, func(w *world) {
		for n := range many {
			w.apply(fmt.Sprintf("vm-%d", n))
		}
		w.within(time.Hour, "all to be Ready", func() bool {
			return !slices.ContainsFunc(w.all(), func(e *v1alpha1.ECSInstance) bool { return !w.isReady(e.Name) })
		})
		if made := len(w.cloud.Instances()); made != many || w.cloud.Count("StartInstance") != many {
			t.Errorf("%d were made, and started %d times", made, w.cloud.Count("StartInstance"))
		}
		// One lookup before each create, and the polls, which many share.
		if n := w.cloud.Count("DescribeInstances"); n > 2*many {
			t.Errorf("it took %d describes to make them", n)
		}
		time.Sleep(10 * time.Minute)
		syncs := w.countSyncs()
		calls, writes := w.measureHour()
		syncs = w.countSyncs() - syncs
		if perMinute := float64(calls) / 60; perMinute > 1.05*perMinuteWant || perMinute < 0.9*perMinuteWant || writes > 0 || syncs > 0 {
			t.Errorf("settled, they took %.2f calls a minute, %d writes and %d syncs in an hour", perMinute, writes, syncs)
		}
		w.noChanges()
		for _, c := range w.cloud.Calls() {
			if ids := strings.Count(c.Params.Get("InstanceIds"), `"i-`); ids != maxBatch {
				t.Errorf("a call was about %d instances", ids)
				break
			}
		}
	})
}

// TestReadyOutlivesAShortSilence: an ECS that does not answer is notified of only after some time.
func TestReadyOutlivesAShortSilence(t *testing.T) {
	inWorld(t, func(w *world) {
		w.apply("vm")
		w.ready("vm")
		time.Sleep(3 * time.Minute)
		writes := w.writes()
		w.refuse(ecssim.Throttled400())
		w.within(2*time.Minute, "a poll that fails", func() bool {
			calls := w.cloud.Calls()
			return calls[len(calls)-1].Status != 200
		})
		for failed := time.Now(); time.Since(failed) < unreachableAfter-time.Minute; time.Sleep(time.Second) {
			if !w.isReady("vm") {
				t.Fatalf("after %s, it is not Ready any more", time.Since(failed))
			}
		}
		w.cloud.SetFault(nil)
		time.Sleep(5 * time.Minute)
		if w.readySoon("vm"); w.writes() != writes {
			t.Errorf("it took %d writes", w.writes()-writes)
		}
		w.refuse(ecssim.Throttled400())
		w.within(6*time.Minute, "it to be notified of", func() bool { return !w.isReady("vm") })
		w.limitHour(4*67, 2)
		w.cloud.SetFault(nil)
		w.within(3*time.Minute, "it to be Ready again", func() bool { return w.isReady("vm") })
	})
}

// fakeCloud is a Cloud with Describe alone.
type fakeCloud struct {
	Cloud
	mu        sync.Mutex
	instances map[string]aliyun.Instance
	err       error
	malformed string // an ID that is refused
	asked     [][]string
	at        []time.Time
}

func (l *fakeCloud) Describe(_ context.Context, ids []string) ([]aliyun.Instance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.at = append(l.asked, slices.Clone(ids)), append(l.at, time.Now())
	if l.err != nil {
		return nil, l.err
	}
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

// change changes what ECS answers from now on.
func (l *fakeCloud) change(change func(*fakeCloud)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (l *fakeCloud) set(id string, state aliyun.State) {
	l.change(func(l *fakeCloud) { l.instances[id] = aliyun.Instance{ID: id, State: state} })
}

func (l *fakeCloud) fail(err error) { l.change(func(l *fakeCloud) { l.err = err }) }

// forget returns the requests since its last call.
func (l *fakeCloud) forget() (asked [][]string, at []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, at = l.asked, l.at
	l.asked, l.at = nil, nil
	return asked, at
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

func TestFleetTellsOfWhatHasChanged(t *testing.T) {
	const id = "i-0000"
	for sentence, test := range map[string]struct {
		change func(*fleetsFixture)
		want   []string
	}{
		"nothing":       {change: func(*fleetsFixture) {}},
		"another state": {func(o *fleetsFixture) { o.cloud.set(id, aliyun.StateStopped) }, []string{"vm-i-0000 Updated[State]"}},
		"it is gone": {
			func(o *fleetsFixture) { o.cloud.change(func(l *fakeCloud) { delete(l.instances, id) }) }, []string{"vm-i-0000 Deleted[]"},
		},
		"no answer, which lasts": {
			func(o *fleetsFixture) { o.cloud.fail(errors.New("lost")) },
			[]string{"vm-i-0000 Updated[error]", "vm-i-0001 Updated[error]"},
		},
		"a sync waits for it": {func(o *fleetsFixture) { o.soon(beijing, id, pollSoon) }, []string{"vm-i-0000 Sync[]"}},
		"of one that no object refers to": {func(o *fleetsFixture) {
			o.leave(beijing, "i-0001", key("vm-i-0001"))
			o.cloud.set("i-0001", aliyun.StateStopped)
		}, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			inObservatory(t, 2, func(t *testing.T, o *fleetsFixture) {
				o.settles()
				if notified := o.takeNotified(); !slices.Equal(notified, []string{"vm-i-0000 Added[], not urgent", "vm-i-0001 Added[], not urgent"}) {
					t.Errorf("at first it tells %q", notified)
				}
				test.change(o)
				time.Sleep(5 * time.Minute)
				notified := o.takeNotified()
				if !slices.Equal(notified, test.want) {
					t.Errorf("it tells %q, want %q", notified, test.want)
				}
			})
		})
	}
}

// TestFleetEndsWithItsLastInstance: it polls nothing, and leaves no goroutine.
func TestFleetEndsWithItsLastInstance(t *testing.T) {
	inObservatory(t, 2, func(t *testing.T, o *fleetsFixture) {
		o.settles()
		o.leave(beijing, "i-0000", key("vm-i-0000"))
		if len(o.byKey) != 1 {
			t.Error("the fleet has ended before its time")
		}
		o.leave(beijing, "i-0001", key("vm-i-0001"))
		o.leave(beijing, "i-0001", key("vm-i-0001"))
		if len(o.byKey) != 0 {
			t.Error("the fleet has not ended")
		}
		o.cloud.forget()
		time.Sleep(time.Hour)
		if asked, _ := o.cloud.forget(); len(asked) > 0 {
			t.Errorf("no object refers to it, and it was asked for %q", asked)
		}
		o.subscribe(beijing, "i-0000", key("again"))
		o.settles()
		if s := o.subscribe(beijing, "i-0000", key("again")); s == nil || s.instance == nil {
			t.Errorf("one that begins again has seen %+v", s)
		}
	})
}

// TestThrottledDescribesPause: the fleet leaves ECS alone for as long as it is notified to.
func TestThrottledDescribesPause(t *testing.T) {
	inObservatory(t, 250, func(t *testing.T, o *fleetsFixture) {
		time.Sleep(10 * time.Second)
		o.cloud.forget()
		o.cloud.fail(&aliyun.Error{Action: "DescribeInstances", Class: aliyun.Throttled, Code: "Throttling", RetryAfter: 10 * time.Minute})
		time.Sleep(2 * time.Minute)
		if asked, _ := o.cloud.forget(); len(asked) < 3 || len(asked) > 5 {
			t.Errorf("at first, it was asked %d times for 250", len(asked))
		}
		time.Sleep(6 * time.Minute)
		if asked, _ := o.cloud.forget(); len(asked) > 0 {
			t.Errorf("while it pauses, it was asked %d times", len(asked))
		}
		o.cloud.fail(nil)
		time.Sleep(5 * time.Minute)
		if s := o.subscribe(beijing, "i-0000", key("vm-i-0000")); s.err != nil {
			t.Errorf("after the pause it still says %v", s.err)
		}
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
			f := &fleet{targets: test.targets, clock: fixed(now)}
			ids, wait := f.next(now.Add(-test.last))
			if len(ids) != test.ids || wait != test.wait || (len(ids) > 0 && ids[0] != test.first) {
				t.Errorf("%d, the first %q, or in %s", len(ids), slices.Concat(ids, []string{""})[0], wait)
			}
		})
	}
}

// fixed is a clock that stands.
func fixed(now time.Time) clock.WithTicker { return standing{clock.RealClock{}, now} }

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
		"nothing again":     {&snapshot{}, snapshot{}, "", nil},
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
		"a poll that succeeds after one failed": {&snapshot{instance: running, err: lost}, snapshot{instance: running}, "", nil},
		"a poll that fails for a reason to fix": {
			&snapshot{instance: running}, snapshot{instance: running, err: refused}, "Updated", []string{"error"},
		},
		"one that shows more after one that lost": {
			&snapshot{instance: running, err: lost}, snapshot{instance: stopped}, "Updated", []string{"Name", "State"},
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
	running := &aliyun.Instance{State: aliyun.StateRunning}
	var none *snapshot
	first := none.failed(lost, now)
	if want := (snapshot{err: lost, failing: now}); *first != want {
		t.Errorf("it is %+v, want %+v", *first, want)
	}
	seen := snapshot{at: now, instance: running}
	once := seen.failed(lost, now.Add(time.Minute))
	if want := (snapshot{at: now, instance: running, err: lost, failing: now.Add(time.Minute)}); *once != want {
		t.Errorf("it is %+v, want %+v", *once, want)
	}
	twice := once.failed(lost, now.Add(2*time.Minute))
	if *twice != *once {
		t.Errorf("after another one it is %+v, want %+v", *twice, *once)
	}
	lasting := twice.failed(lost, now.Add(time.Minute+unreachableAfter))
	if want := (snapshot{at: now, instance: running, err: lost, failing: now.Add(time.Minute), lasting: true}); *lasting != want {
		t.Errorf("after some time it is %+v, want %+v", *lasting, want)
	}
	if seen.err != nil {
		t.Error("what was seen before has changed")
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
		asked, _ := o.cloud.forget()
		if len(asked) > 4+2*7 {
			t.Errorf("it took %d calls", len(asked))
		}
		time.Sleep(30 * time.Minute)
		if asked, _ := o.cloud.forget(); len(asked) > 2*34+15*4 {
			t.Errorf("it took %d calls in half an hour", len(asked))
		}
	})
}

// TestTwoThatNameTheSameInstance: both are notified, and it is looked at until both have left.
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
	})
}

// TestFleetsAreOfOneAccountInOneRegion: they share no calls with others.
func TestFleetsAreOfOneAccountInOneRegion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.secret("other", otherID, otherSecret)
		w.apply("a")
		w.apply("b", func(e *v1alpha1.ECSInstance) { e.Spec.RegionID = "cn-hangzhou" })
		w.apply("c", func(e *v1alpha1.ECSInstance) { e.Spec.CredentialsSecretRef.Name = "other" })
		for _, name := range []string{"a", "b", "c"} {
			w.ready(name)
		}
		w.cloud.Forget()
		time.Sleep(10 * time.Minute)
		seen := map[string]int{}
		for _, c := range w.cloud.Calls() {
			seen[c.AccountID+" "+c.RegionID+" "+c.InstanceID]++
		}
		if len(seen) != 3 || len(w.cloud.Calls()) > 40 {
			t.Errorf("it was asked for %v", seen)
		}
	})
}
