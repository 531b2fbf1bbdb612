/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// counted returns a fixture with a child that has a: 1, and a pointer to the number of extractions.
func counted(t *testing.T) (*fixture, *int) {
	t.Helper()
	f, count := newFixture(), 0
	f.extract = func(object *corev1.ConfigMap, manager string) (*configuration, error) {
		count++
		return corev1ac.ExtractConfigMap(object, manager)
	}
	if _, err := f.server.Apply(t.Context(), greeting("a", "1"), applyOptions); err != nil {
		t.Fatal(err)
	}
	f.catchUp()
	return f, &count
}

// next stores an object as a new version, without what a field manager does to the managedFields.
func (s *server) next(change func(*corev1.ConfigMap)) {
	changed := s.object.DeepCopy()
	change(changed)
	s.version++
	changed.ResourceVersion = strconv.Itoa(100 + s.version)
	s.object = changed
}

func TestAChildIsExtractedAgainOnlyIfItsContentChanges(t *testing.T) {
	entry := func(c *corev1.ConfigMap) *metav1.ManagedFieldsEntry {
		for i := range c.ManagedFields {
			if e := &c.ManagedFields[i]; e.Manager == glassback.Name && e.Operation == metav1.ManagedFieldsOperationApply {
				return e
			}
		}
		return nil
	}
	for sentence, test := range map[string]struct {
		change      func(*fixture) // after the first comparison
		desired     Desired[*configuration]
		extractions int
		verb        Verb
	}{
		"nothing changed: no extraction": {change: func(*fixture) {}},
		"the cache holds the same version in another object: no extraction": {
			change: func(f *fixture) { f.catchUp() },
		},
		"a new version with the same content: no extraction": {change: func(f *fixture) {
			f.server.next(func(c *corev1.ConfigMap) { c.Generation++ })
			f.catchUp()
		}},
		"another client adds a field: one extraction, and nothing to change": {extractions: 1, change: func(f *fixture) {
			f.server.edit("other-client", func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })
			f.catchUp()
		}},
		"another client changes a field: repaired": {extractions: 1, verb: Update, change: func(f *fixture) {
			f.server.edit("other-client", func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" })
			f.catchUp()
		}},
		"another client removes a field: repaired": {extractions: 1, verb: Update, change: func(f *fixture) {
			f.server.edit("other-client", func(c *corev1.ConfigMap) { delete(c.Data, "a") })
			f.catchUp()
		}},
		"another value with the same managedFields, as within one second: repaired": {extractions: 1, verb: Update, change: func(f *fixture) {
			f.server.next(func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" })
			f.catchUp()
		}},
		"another value with the same resourceVersion, as after a restored backup: repaired": {extractions: 1, verb: Update,
			change: func(f *fixture) {
				f.server.object.Data["a"] = "theirs"
				f.catchUp()
			}},
		"the same values without the operator's entry: applied": {extractions: 1, verb: Update, change: func(f *fixture) {
			f.server.next(func(c *corev1.ConfigMap) { c.ManagedFields = nil })
			f.catchUp()
		}},
		"the same values, and the entry names fewer fields: applied": {extractions: 1, verb: Update, change: func(f *fixture) {
			f.server.next(func(c *corev1.ConfigMap) { entry(c).FieldsV1 = metav1.NewFieldsV1(`{"f:data":{"f:b":{}}}`) })
			f.catchUp()
		}},
		"the same values, and the entry becomes unreadable: nothing": {extractions: 1, change: func(f *fixture) {
			garble(f.server)
			f.catchUp()
		}},
		"another value is desired: applied": {extractions: 1, verb: Update, change: func(*fixture) {}, desired: Exactly(greeting("a", "2"))},
		"one more field is desired: applied": {
			extractions: 1, verb: Update, change: func(*fixture) {}, desired: Exactly(greeting("a", "1", "b", "1")),
		},
		"the child was deleted: created": {verb: Create, change: func(f *fixture) {
			f.server.object = nil
			f.catchUp()
		}},
		"the child was deleted and created again with the same content: one extraction": {extractions: 1, change: func(f *fixture) {
			f.server.next(func(c *corev1.ConfigMap) { c.UID = "another" })
			f.catchUp()
		}},
		"the cache is stale: its content decides": {change: func(f *fixture) {
			f.server.edit("other-client", func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" })
		}},
		"a Desired that reads the fields: extracted for it":      {extractions: 1, change: func(*fixture) {}, desired: keeping},
		"a Desired that fails: an Update that returns the error": {extractions: 1, verb: Update, change: func(*fixture) {}, desired: lost},
	} {
		t.Run(sentence, func(t *testing.T) {
			f, count := counted(t)
			if verb, _, _ := f.reconcile(t, false, exactly(greeting("a", "1"))); verb != Nothing || *count != 1 {
				t.Fatalf("at first %q and %d extractions, want nothing to change and 1 extraction", verb, *count)
			}
			test.change(f)
			*count = 0
			if test.desired == nil {
				test.desired = exactly(greeting("a", "1"))
			}
			change := f.Reconcile(f.owner, name, f.Observe(f.owner, name), false, test.desired)
			if change.Verb != test.verb || *count != test.extractions {
				t.Errorf("%q and %d extractions, want %q and %d", change.Verb, *count, test.verb, test.extractions)
			}
			if change.Verb == Nothing || change.Verb == Create {
				return
			}
			// The memory still holds for the desired state that it was made for.
			*count = 0
			f.catchUp()
			fresh := newFixture()
			fresh.server = f.server
			fresh.catchUp()
			want := fresh.Reconcile(f.owner, name, fresh.Observe(f.owner, name), false, exactly(greeting("a", "1"))).Verb
			if got := f.Reconcile(f.owner, name, f.Observe(f.owner, name), false, exactly(greeting("a", "1"))).Verb; got != want {
				t.Errorf("back to the first desired state: %q, want %q as without memory", got, want)
			}
		})
	}
}

func TestADesiredThatReadsTheFieldsGetsThemFromMemory(t *testing.T) {
	f, count := counted(t)
	kept(f.server)
	f.catchUp()
	for range 3 {
		if verb, _, _ := f.reconcile(t, false, keeping); verb != Nothing {
			t.Fatalf("the verb is %q, want nothing to change", verb)
		}
		f.server.next(func(*corev1.ConfigMap) {})
		f.catchUp()
	}
	if *count != 1 {
		t.Errorf("%d extractions, want 1", *count)
	}
}

// TestFieldsThatBecomeUnreadable is about an extraction that fails although it succeeded for the same content: the Desired
// would take missing fields for a child that does not exist.
func TestFieldsThatBecomeUnreadable(t *testing.T) {
	f, _ := counted(t)
	if verb, _, _ := f.reconcile(t, false, exactly(greeting("a", "1"))); verb != Nothing {
		t.Fatalf("the verb is %q, want nothing to change", verb)
	}
	f.extract = func(*corev1.ConfigMap, string) (*configuration, error) { return nil, errors.New("no fields") }
	verb, out, err := f.reconcile(t, false, keeping)
	if verb != Nothing || err != nil || ptr.Deref(out.Problem, Problem{}).Reason != "ConfigMapUnreadable" || len(f.server.requests) > 0 {
		t.Errorf("%q, outcome %+v, error %v, requests %q; want the Problem ConfigMapUnreadable and no request",
			verb, out, err, f.server.requests)
	}
}

// TestMemoryChangesNoDecision compares a Kind that remembers with one that does not, after each of many random steps.
func TestMemoryChangesNoDecision(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := newFixture()
	settled := 0
	for n := range 3000 {
		value := func() string { return strconv.Itoa(random.IntN(2)) }
		step := random.IntN(10)
		switch s := f.server; {
		case s.object == nil || step == 0:
			if _, err := s.Apply(t.Context(), greeting("a", value()), metav1.ApplyOptions{FieldManager: glassback.Name, Force: true}); err != nil {
				t.Fatal(err)
			}
		case step == 1:
			s.edit("other-client", func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": value()} })
		case step == 2:
			s.edit("other-client", func(c *corev1.ConfigMap) { c.Labels = map[string]string{"of": owner.Name, "theirs": value()} })
		case step == 3:
			s.next(func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": value()} })
		case step == 4:
			s.next(func(c *corev1.ConfigMap) { c.UID = types.UID("uid-" + value()) })
		case step == 5 && value() == "0":
			s.object = nil
		}
		if random.IntN(4) > 0 {
			f.catchUp()
		}
		desired := greeting("a", value())
		fresh := newFixture()
		fresh.cache = f.cache
		want := fresh.Reconcile(owner, name, fresh.Observe(owner, name), false, exactly(desired))
		got := f.Reconcile(owner, name, f.Observe(owner, name), false, exactly(desired))
		if got.Verb != want.Verb {
			t.Fatalf("step %d: %q with memory, %q without", n, got.Verb, want.Verb)
		}
		if got.Verb == Nothing {
			settled++
		}
	}
	if settled < 500 {
		t.Errorf("the child was as desired %d times, want at least 500", settled)
	}
}

func TestChecksAreForgotten(t *testing.T) {
	remembered := func(f *fixture) int {
		n := 0
		for _, list := range f.owners.checks.byOwner {
			n += len(list)
		}
		return n
	}
	for sentence, forget := range map[string]func(*testing.T, *fixture){
		"the owner is gone": func(_ *testing.T, f *fixture) { f.owners.Forget(cache.MetaObjectToName(f.owner)) },
		"the child is gone": func(_ *testing.T, f *fixture) {
			f.server.object = nil
			f.catchUp()
			f.Observe(f.owner, name)
		},
		"another owner has the child": func(_ *testing.T, f *fixture) {
			f.server.put(foreign(nil))
			f.catchUp()
			f.Observe(f.owner, name)
		},
		"the child is not desired": func(_ *testing.T, f *fixture) {
			f.Reconcile(f.owner, name, f.Observe(f.owner, name), false, nil)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f, _ := counted(t)
			if _, _, err := f.reconcile(t, false, exactly(greeting("a", "1"))); err != nil || remembered(f) != 1 {
				t.Fatalf("%d checks, error %v; want one check", remembered(f), err)
			}
			forget(t, f)
			if n := remembered(f); n != 0 || len(f.owners.checks.byOwner) != 0 {
				t.Errorf("%d checks of %d owners, want none", n, len(f.owners.checks.byOwner))
			}
		})
	}
	t.Run("the child gets other names", func(t *testing.T) {
		f, _ := counted(t)
		for n := range 10 {
			renamed := f.server.object.DeepCopy()
			renamed.Name = name + strconv.Itoa(n)
			if err := f.cache.Replace([]any{renamed}, ""); err != nil {
				t.Fatal(err)
			}
			change := f.Reconcile(f.owner, renamed.Name, f.Observe(f.owner, renamed.Name), false, Exactly(greeting("a", "1").WithName(renamed.Name)))
			if change.Verb != Nothing {
				t.Fatalf("the verb is %q, want nothing to change", change.Verb)
			}
		}
		if n := remembered(f); n != 1 {
			t.Errorf("%d checks, want one", n)
		}
	})
}

// TestOwnersShareTheMemory finds data races: the workers of a controller sync different owners at the same time.
func TestOwnersShareTheMemory(t *testing.T) {
	f, _ := counted(t)
	f.extract = corev1ac.ExtractConfigMap
	var workers sync.WaitGroup
	for n := range 4 {
		workers.Go(func() {
			of := f.owner.DeepCopy()
			of.Name = strings.Repeat("x", n+1)
			for range 50 {
				change := f.Reconcile(of, name, f.Observe(of, name), false, Exactly(greeting("a", "1")))
				if change.Verb != Nothing {
					t.Errorf("the verb is %q, want nothing to change", change.Verb)
				}
				if n == 0 {
					f.owners.Forget(cache.MetaObjectToName(of))
				}
			}
		})
	}
	workers.Wait()
}
