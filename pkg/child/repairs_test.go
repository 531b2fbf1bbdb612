// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

var (
	contestedProblem = Problem{"ConfigMapContested",
		"Another client keeps changing the ConfigMap, and the operator repairs it at longer and longer intervals. " +
			"The managedFields name that client"}

	// undone are the ways to undo what was wanted.
	undone = map[string]func(*server){
		"a value is changed back":                                 edited(func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" }),
		"a field is taken away":                                   edited(func(c *corev1.ConfigMap) { c.Data = nil }),
		"the label is taken away, and the cache does not show it": unlabelled,
		"it is deleted":                                           remove,
	}
)

// catchUp makes the cache show the objects that have the label.
func (f *fixture) catchUp() {
	f.server.Cache("configmaps", f.cache, fakeapi.Labelled("of"))
}

// fight undoes all that is written at once, until so much time is over, and returns when it was written.
func (f *fixture) fight(t *testing.T, over time.Duration, undo func(*server)) []time.Duration {
	t.Helper()
	var wrote []time.Duration
	for start := f.clock.Now(); f.clock.Since(start) <= over; {
		f.catchUp()
		switch _, out, err := f.reconcile(t, false, copied(greeting("a", "1"))); {
		case err != nil:
			t.Fatal(err)
		case out.Wrote:
			if wrote = append(wrote, f.clock.Since(start)); len(wrote) > 100 {
				t.Fatalf("%d writes in %s", len(wrote), f.clock.Since(start))
			}
			undo(f.server)
		case out.Problem == nil || *out.Problem != contestedProblem || out.Wait <= 0:
			t.Fatalf("outcome %+v (%+v), want that it is contested, and when to try again", out, out.Problem)
		case len(f.requests()) > 0:
			t.Fatalf("requests %q while it waits", f.requests())
		default:
			f.clock.SetTime(f.clock.Now().Add(out.Wait))
		}
	}
	return wrote
}

// firstHour is when a child is written that is undone at once.
func firstHour() []time.Duration {
	all := make([]time.Duration, freeRepairs)
	at, hold := time.Duration(0), time.Second
	for at += hold; at <= time.Hour; at += hold {
		all = append(all, at)
		hold = min(2*hold, 5*time.Minute)
	}
	return all
}

func TestAFightGetsSlower(t *testing.T) {
	if want := firstHour(); len(want) > 25 || want[4] != 0 || want[5] != time.Second || want[7] != 7*time.Second {
		t.Fatalf("the test expects repairs at %v", want)
	}
	for sentence, undo := range undone {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			if got, want := f.fight(t, time.Hour, undo), firstHour(); !slices.Equal(got, want) {
				t.Errorf("written at %v, want %v", got, want)
			}
		})
	}
}

// TestAnOwnerThatWantsSomethingElseIsNoFight has the desired object change often, while the owner stays at one generation.
func TestAnOwnerThatWantsSomethingElseIsNoFight(t *testing.T) {
	f := newFixture()
	desire := func(n int) Outcome {
		f.catchUp()
		_, out, err := f.reconcile(t, false, copied(greeting("a", strconv.Itoa(n))))
		must.Succeed(t, err)
		return out
	}
	for n := range 20 * freeRepairs {
		if out := desire(n); !out.Wrote || out.Problem != nil {
			t.Fatalf("change %d: outcome %+v, want it written at once", n, out)
		}
		f.pass(time.Second)
	}
	// What is changed back counts from the first time on, also if something else is desired then.
	for sentence, undo := range undone {
		t.Run(sentence, func(t *testing.T) {
			f = newFixture()
			for n := range freeRepairs {
				if out := desire(n); !out.Wrote {
					t.Fatalf("write %d: outcome %+v, want it written at once", n, out)
				}
				undo(f.server)
			}
			if out := desire(freeRepairs); out.Wrote || out.Problem == nil || *out.Problem != contestedProblem {
				t.Errorf("outcome %+v, want that it is contested", out)
			}
		})
	}
}

func TestAFightIsForgiven(t *testing.T) {
	const hour = time.Hour
	undo := undone["a value is changed back"]
	for sentence, test := range map[string]struct {
		fight time.Duration
		then  func(*fixture)
		want  int
	}{
		"not at once: when the time comes, it is written once": {hour, func(*fixture) {}, 1},
		"not while it was calm for less than twice as long":    {hour, func(f *fixture) { f.repair(t); f.pass(9 * time.Minute) }, 1},
		"after ten minutes of calm": {
			hour, func(f *fixture) { f.repair(t); f.pass(10*time.Minute + time.Second) }, freeRepairs,
		},
		"not half a minute after a few":                          {0, func(f *fixture) { f.repair(t); f.pass(29 * time.Second) }, 1},
		"a little after half a minute, if there were only a few": {0, func(f *fixture) { f.repair(t); f.pass(31 * time.Second) }, freeRepairs},
		"at once, for another generation of the owner":           {hour, func(f *fixture) { f.owner.Generation++ }, freeRepairs},
		"at once, once the owner was gone": {
			hour, func(f *fixture) { f.owners.Forget(cache.MetaObjectToName(f.owner)) }, freeRepairs,
		},
		"not once another owner is gone": {
			hour, func(f *fixture) { f.owners.Forget(cache.NewObjectName("default", "other")) }, 1,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			f.fight(t, test.fight, undo)
			test.then(f)
			undo(f.server)
			if got := len(f.fight(t, 0, undo)); got != test.want {
				t.Errorf("written %d times at once, want %d", got, test.want)
			}
		})
	}
}

func (f *fixture) pass(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// repair waits until the child is written once more, and keeps it.
func (f *fixture) repair(t *testing.T) {
	t.Helper()
	for range 2 {
		f.catchUp()
		_, out, err := f.reconcile(t, false, copied(greeting("a", "1")))
		must.Succeed(t, err)
		if out.Wrote {
			return
		}
		f.pass(out.Wait)
	}
	t.Fatal("it is not written")
}

func TestAFightIsAboutOneChild(t *testing.T) {
	f := newFixture()
	f.fight(t, time.Minute, undone["it is deleted"])
	f.repair(t)
	other := f.owner.DeepCopy()
	other.Name = "other"
	if out := f.owners.contested(other, "ConfigMap", name); out != (Outcome{}) {
		t.Errorf("another owner's: %+v", out)
	}
	if out := f.owners.contested(f.owner, "Secret", name); out != (Outcome{}) {
		t.Errorf("another kind: %+v", out)
	}
	if out := f.owners.contested(f.owner, "ConfigMap", "other"); out != (Outcome{}) {
		t.Errorf("another one of the kind: %+v", out)
	}
	if out := f.owners.contested(f.owner, "ConfigMap", name); out.Wait == 0 {
		t.Error("the child itself is not contested")
	}
	f.owners.Forget(cache.MetaObjectToName(f.owner))
	if n := len(f.owners.repairs.byKey); n > 0 {
		t.Errorf("%d owners are remembered of which all are gone", n)
	}
}

func TestNothingIsCountedThatWroteNothing(t *testing.T) {
	f := newFixture()
	kept(f.server)
	for range 10 * freeRepairs { // The cache never shows it.
		if _, out, err := f.reconcile(t, false, greeting("a", "1", "n", "7")); !apierrors.IsConflict(err) || out != (Outcome{}) {
			t.Fatalf("outcome %+v, error %v; want a conflict, however often", out, err)
		}
	}
}
