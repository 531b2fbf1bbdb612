// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/applyconfigurations"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
)

// greeted returns a fixture with a child that has a: 1.
func greeted() *fixture {
	f := newFixture()
	apply(f.server, greeting("a", "1"))
	f.shown.CatchUp()
	return f
}

// next changes the child. Its managedFields are as the function leaves them.
func next(s *server, change func(*corev1.ConfigMap)) { fakeapi.Edit(s, childKey, "", change) }

// recreate deletes the child, and creates it with the same content and another UID.
func recreate(s *server, uid types.UID) {
	again := object(s).DeepCopy()
	again.UID = uid
	s.Put(again)
}

// restore replaces the server by one whose child has another value, but the same UID and resourceVersion.
func restore(f *fixture) {
	was := object(f.server)
	f.server = fakeapi.New()
	apply(f.server, greeting("a", "theirs"))
	if now := object(f.server); now.UID != was.UID || now.ResourceVersion != was.ResourceVersion {
		panic("the restored child has another UID or resourceVersion")
	}
	f.shown = f.server.Cache("configmaps", f.cache, fakeapi.WithOwnFields)
}

// shown is a change that the cache shows.
func shown(change func(*server)) func(*fixture) {
	return func(f *fixture) {
		change(f.server)
		f.shown.CatchUp()
	}
}

// unnoticed is a change that the cache shows, and the managedFields do not.
func unnoticed(change func(*corev1.ConfigMap)) func(*fixture) {
	return shown(func(s *server) { next(s, change) })
}

func TestWhatMakesAChildDiffer(t *testing.T) {
	entry := func(c *corev1.ConfigMap) *metav1.ManagedFieldsEntry {
		for i := range c.ManagedFields {
			if e := &c.ManagedFields[i]; e.Manager == glassback.Name && e.Operation == metav1.ManagedFieldsOperationApply {
				return e
			}
		}
		return nil
	}
	for sentence, test := range map[string]struct {
		change  func(*fixture) // after the first comparison
		desired *configuration
		verb    Verb
	}{
		"nothing changed: nothing to change":                                    {change: func(*fixture) {}},
		"the cache holds the same version in another object: nothing to change": {change: func(f *fixture) { f.shown.CatchUp() }},
		"a new version with the same content: nothing to change": {
			change: unnoticed(func(c *corev1.ConfigMap) { c.Generation++ }),
		},
		"another client adds a field: nothing to change": {
			change: shown(edited(func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })),
		},
		"another client changes a field: repaired": {
			change: shown(edited(func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" })), verb: Update,
		},
		"another value with the same managedFields, as within one second: repaired": {
			change: unnoticed(func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" }), verb: Update,
		},
		"another value with the same resourceVersion, as after a restored backup: repaired": {change: restore, verb: Update},
		"the same values without the operator's entry: applied": {
			change: unnoticed(func(c *corev1.ConfigMap) { c.ManagedFields = nil }), verb: Update,
		},
		"the same values, and the entry names fewer fields: applied": {
			change: unnoticed(func(c *corev1.ConfigMap) { entry(c).FieldsV1 = metav1.NewFieldsV1(`{"f:data":{"f:b":{}}}`) }),
			verb:   Update,
		},
		"the same values, and the entry becomes unreadable: applied": {change: shown(garble), verb: Update},
		"another value is desired: applied": {
			change: func(*fixture) {}, desired: greeting("a", "2"), verb: Update,
		},
		"the child was deleted and created again with the same content: nothing to change": {
			change: shown(func(s *server) { recreate(s, "another") }),
		},
		"the cache is stale: its content decides": {change: func(f *fixture) {
			edit(f.server, func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" })
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := greeted()
			if verb, _, _ := f.reconcile(t, false, copied(greeting("a", "1"))); verb != Nothing {
				t.Fatalf("at first %q, want nothing to change", verb)
			}
			test.change(f)
			if test.desired == nil {
				test.desired = copied(greeting("a", "1"))
			}
			extractions := 0
			f.extract = func(object *corev1.ConfigMap, manager string) (*configuration, error) {
				extractions++
				return corev1ac.ExtractConfigMap(object, manager)
			}
			change := f.Reconcile(f.owner, name, f.Observe(f.owner, name), false, test.desired)
			if change.Verb != test.verb || extractions > 0 {
				t.Errorf("%q after %d extractions, want %q", change.Verb, extractions, test.verb)
			}
			if change.Verb == Nothing || change.Verb == Create {
				return
			}
			// The memory still holds for the desired state that it was made for.
			f.shown.CatchUp()
			fresh := newFixture()
			fresh.cache = f.cache
			want := fresh.Reconcile(f.owner, name, fresh.Observe(f.owner, name), false, copied(greeting("a", "1"))).Verb
			if got := f.Reconcile(f.owner, name, f.Observe(f.owner, name), false, copied(greeting("a", "1"))).Verb; got != want {
				t.Errorf("back to the first desired state: %q, want %q as without memory", got, want)
			}
		})
	}
}

func TestAdmissionMakesAChildDiffer(t *testing.T) {
	set := func(key, value string) func(was, now fakeapi.Object) {
		return func(_, now fakeapi.Object) { now.(*corev1.ConfigMap).Data[key] = value }
	}
	for sentence, test := range map[string]struct {
		admit   func(was, now fakeapi.Object) // of the write
		change  func(*fixture)                // after the write
		desired *configuration
		verb    Verb
	}{
		"as applied: nothing to change":                  {},
		"a default was added: nothing to change":         {admit: set("default", "1")},
		"an admission webhook changed a value: repaired": {admit: set("a", "theirs"), verb: Update},
		"an admission webhook removed a value: repaired": {
			admit: func(_, now fakeapi.Object) { delete(now.(*corev1.ConfigMap).Data, "a") },
			verb:  Update,
		},
		"an admission webhook put an element before ours: nothing to change": {
			admit: func(_, now fakeapi.Object) {
				now.SetOwnerReferences(append([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}},
					now.GetOwnerReferences()...))
			},
		},
		"an admission webhook changed an element of ours: repaired": {
			admit: func(_, now fakeapi.Object) { now.GetOwnerReferences()[0].BlockOwnerDeletion = nil }, verb: Update,
		},
		"an admission webhook removed the operator's entry: applied": {
			admit: func(_, now fakeapi.Object) { now.SetManagedFields(nil) }, verb: Update,
		},
		"another client changed a value since: repaired": {
			change: func(f *fixture) { edit(f.server, func(c *corev1.ConfigMap) { c.Data["a"] = "theirs" }) },
			verb:   Update,
		},
		"another value is desired: applied": {desired: greeting("a", "2"), verb: Update},
	} {
		for how, data := range map[string][]string{"created": nil, "updated": {"a", "0"}} {
			t.Run(how+", "+sentence, func(t *testing.T) {
				f := greeted()
				remove(f.server)
				if data != nil {
					apply(f.server, greeting(data...))
				}
				f.shown.CatchUp()
				f.server.Admit = test.admit
				if _, out, err := f.reconcile(t, false, copied(greeting("a", "1"))); err != nil || !out.Wrote {
					t.Fatalf("outcome %+v, error %v; want a write", out, err)
				}
				f.server.Admit = nil
				if test.change != nil {
					test.change(f)
				}
				f.shown.CatchUp()
				if test.desired == nil {
					test.desired = greeting("a", "1")
				}
				change := f.Reconcile(f.owner, name, f.Observe(f.owner, name), false, copied(test.desired))
				if change.Verb != test.verb {
					t.Errorf("%q, want %q", change.Verb, test.verb)
				}
			})
		}
	}
}

// TestSameFields has the kinds of fields that an apply can own. That of an atomic type is one value: the operator owns all of it.
func TestSameFields(t *testing.T) {
	for sentence, test := range map[string]struct {
		fields, a, b string
		want         bool
	}{
		"the same value":              {`{"f:x":{}}`, `{"x":1}`, `{"x":1,"y":2}`, true},
		"another value":               {`{"f:x":{}}`, `{"x":1}`, `{"x":2}`, false},
		"an atomic list of structs":   {`{"f:rules":{}}`, `{"rules":[{"a":[{"b":1}]}]}`, `{"rules":[{"a":[{"b":1}]}]}`, true},
		"a default in an atomic list": {`{"f:rules":{}}`, `{"rules":[{"host":"a"}]}`, `{"rules":[{"host":"a","http":{}}]}`, false},
		"an empty atomic map":         {`{"f:x":{}}`, `{"x":{}}`, `{}`, false},
		"an element, found by its keys": {
			`{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}}}`,
			`{"ports":[{"port":80,"protocol":"TCP","name":"http"}]}`,
			`{"ports":[{"port":81,"protocol":"TCP","name":"http"},{"port":80,"protocol":"TCP","name":"http","nodePort":1}]}`, true,
		},
		"two elements with the same keys":  {`{"f:x":{"v:1":{}}}`, `{"x":[1]}`, `{"x":[1,1]}`, false},
		"two elements in another order":    {`{"f:x":{"v:1":{},"v:2":{}}}`, `{"x":[1,2]}`, `{"x":[2,1]}`, false},
		"theirs between two of ours":       {`{"f:x":{"v:1":{},"v:2":{}}}`, `{"x":[1,2]}`, `{"x":[1,3,2]}`, true},
		"a struct that was applied empty":  {`{"f:x":{}}`, `{"x":{"y":1}}`, `{"x":{"y":1}}`, false},
		"a field that is not owned yet":    {`{"f:x":{}}`, `{"x":1,"y":2}`, `{"x":1,"y":2}`, false},
		"an element that is not owned yet": {`{"f:x":{"v:1":{}}}`, `{"x":[1,2]}`, `{"x":[1,2]}`, false},
		"an empty text":                    {`{"f:x":{}}`, `{"x":""}`, `{}`, true},
		"a number is not empty":            {`{"f:x":{}}`, `{"x":0}`, `{}`, false},
		"a text that is gone":              {`{"f:x":{}}`, `{"x":"a"}`, `{}`, false},
		"an empty text, now another":       {`{"f:x":{}}`, `{"x":""}`, `{"x":"a"}`, false},
		"an empty text, not owned":         {`{}`, `{"x":""}`, `{}`, false},
		"a field that is not desired":      {`{"f:x":{},"f:y":{}}`, `{"x":1}`, `{"x":1,"y":2}`, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			var fields fieldpath.Set
			a, err1 := value.FromJSON([]byte(test.a))
			b, err2 := value.FromJSON([]byte(test.b))
			must.Succeed(t, errors.Join(fields.FromJSON(strings.NewReader(test.fields)), err1, err2))
			if got := sameFields(&fields, fieldpath.NewSet(), a, b); got != test.want {
				t.Errorf("sameFields returns %t, want %t", got, test.want)
			}
		})
	}
}

// TestAtomicFields: the schema of our children has no other maps and structs that are atomic, but for items of lists.
func TestAtomicFields(t *testing.T) {
	found := sets.New[string]()
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	for kind, group := range map[string]string{
		"Deployment": "apps/v1", "Service": "v1", "Ingress": "networking.k8s.io/v1", "NetworkPolicy": "networking.k8s.io/v1",
		"HorizontalPodAutoscaler": "autoscaling/v2", "PodDisruptionBudget": "policy/v1", "ConfigMap": "v1",
	} {
		object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(group, kind))
		must.Succeed(t, err)
		object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(group, kind))
		typed, err := converter.ObjectToTyped(object)
		must.Succeed(t, err)
		var walk func(name string, ref smdschema.TypeRef, depth int)
		walk = func(name string, ref smdschema.TypeRef, depth int) {
			atom, _ := typed.Schema().Resolve(ref)
			switch {
			case depth == 0: // A schema may contain itself.
			case atom.Map != nil && atom.Map.ElementRelationship == smdschema.Atomic:
				found.Insert(name)
			case atom.Map != nil:
				for _, field := range atom.Map.Fields {
					walk(field.Name, field.Type, depth-1)
				}
			case atom.List != nil && atom.List.ElementRelationship != smdschema.Atomic:
				walk("", atom.List.ElementType, depth-1)
			}
		}
		walk("", typed.TypeRef(), 20)
	}
	found.Delete("")
	if missing, more := found.Difference(atomicFields), atomicFields.Difference(found); len(missing)+len(more) > 0 {
		t.Errorf("atomicFields lacks %q, and has %q too much", sets.List(missing), sets.List(more))
	}
}

// TestAnAtomicValueIsComparedAsAWhole has an admission webhook add a key to the selector of a Service.
func TestAnAtomicValueIsComparedAsAWhole(t *testing.T) {
	f := newFixture()
	services := cache.NewStore(cache.MetaNamespaceKeyFunc)
	kind := New(f.owners, "Service", "services", services, f.server.Kube().CoreV1().Services, corev1ac.ExtractService)
	shown := f.server.Cache("services", services, fakeapi.WithOwnFields)
	reconcile := func() Change {
		service := corev1ac.Service(name, owner.Namespace).WithOwnerReferences(Reference(owner, greeter)).WithSpec(
			corev1ac.ServiceSpec().WithSelector(map[string]string{"a": "1"}).WithPorts(corev1ac.ServicePort().WithPort(80).WithProtocol("TCP")))
		return kind.Reconcile(owner, name, kind.Observe(owner, name), false, service)
	}
	f.server.Admit = func(_, now fakeapi.Object) { now.(*corev1.Service).Spec.Selector["theirs"] = "1" }
	if _, err := reconcile().Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	shown.CatchUp()
	if verb := reconcile().Verb; verb != Update {
		t.Errorf("the verb is %q, want %q: the Service selects no Pod", verb, Update)
	}
}

// TestIsExactlyIsAsAnExtraction compares the two after each of many random steps.
func TestIsExactlyIsAsAnExtraction(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s := newFixture().server
	exact := 0
	for n := range 5000 {
		value := func() string { return strconv.Itoa(random.IntN(2)) }
		some := func() *configuration {
			c := greeting("a", value())
			if value() == "0" {
				c.WithData(map[string]string{"b": value()})
			}
			if value() == "0" {
				c.WithLabels(map[string]string{"ours": value()})
			}
			return c
		}
		switch step := random.IntN(6); {
		case object(s) == nil || step == 0:
			apply(s, some())
		case step == 1:
			edit(s, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": value(), "theirs": value()} })
		case step == 2:
			edit(s, func(c *corev1.ConfigMap) { delete(c.Data, "b") })
		case step == 3:
			next(s, func(c *corev1.ConfigMap) {
				c.OwnerReferences = append(c.OwnerReferences[:0], metav1.OwnerReference{UID: types.UID(value())})
			})
		case step == 4:
			next(s, func(c *corev1.ConfigMap) {
				theirs := func(r metav1.OwnerReference) bool { return r.UID == "theirs" }
				c.OwnerReferences = slices.Insert(slices.DeleteFunc(c.OwnerReferences, theirs), 0, metav1.OwnerReference{UID: "theirs"})
			})
		case step == 5:
			remove(s)
			continue
		}
		desired := some()
		owned, err := corev1ac.ExtractConfigMap(object(s), glassback.Name)
		want := err == nil && equality.Semantic.DeepEqual(owned, desired)
		if got := isExactly(object(s), desired); got != want {
			t.Fatalf("step %d: isExactly returns %t for %+v, want %t as the extraction says", n, got, object(s), want)
		} else if got {
			exact++
		}
	}
	if exact < 100 {
		t.Errorf("the child was as desired %d times, want at least 100", exact)
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
		case object(s) == nil || step == 0:
			apply(s, greeting("a", value()))
		case step == 1:
			edit(s, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": value()} })
		case step == 2:
			edit(s, func(c *corev1.ConfigMap) { c.Labels = map[string]string{"of": owner.Name, "theirs": value()} })
		case step == 3:
			next(s, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": value()} })
		case step == 4:
			recreate(s, types.UID("uid-"+value()))
		case step == 5 && value() == "0":
			remove(s)
		}
		if random.IntN(4) > 0 {
			f.shown.CatchUp()
		}
		desired := greeting("a", value())
		fresh := newFixture()
		fresh.cache = f.cache
		want := fresh.Reconcile(owner, name, fresh.Observe(owner, name), false, copied(desired))
		got := f.Reconcile(owner, name, f.Observe(owner, name), false, copied(desired))
		if got.Verb != want.Verb {
			t.Fatalf("step %d: %q with memory, %q without", n, got.Verb, want.Verb)
		}
		if random.IntN(2) == 0 {
			f.clock.SetTime(f.clock.Now().Add(time.Hour)) // No repair has to wait.
			f.server.Admit = nil
			if admitted := value(); random.IntN(4) == 0 {
				f.server.Admit = func(_, now fakeapi.Object) { now.(*corev1.ConfigMap).Data["a"] = admitted }
			}
			_, _ = got.Do(t.Context()) // A conflict is as good as a write.
			f.server.Admit = nil
		}
		if got.Verb == Nothing {
			settled++
		}
	}
	if settled < 500 {
		t.Errorf("the child was as desired %d times, want at least 500", settled)
	}
}

// TestAnUnchangedChildIsNotComparedAgain changes the object in the cache, which is never done elsewhere.
func TestAnUnchangedChildIsNotComparedAgain(t *testing.T) {
	f := greeted()
	for range 2 {
		if verb, _, err := f.reconcile(t, false, copied(greeting("a", "1"))); verb != Nothing || err != nil {
			t.Fatalf("%q, error %v; want nothing to change, without a comparison", verb, err)
		}
		f.Observe(f.owner, name).Object.Data["a"] = "another"
	}
}

// TestTheSameInAnotherFormIsAppliedOnce: the desired fields have another checksum, and an apply of them changes nothing.
func TestTheSameInAnotherFormIsAppliedOnce(t *testing.T) {
	f := greeted()
	f.checks.remember(f.Observe(f.owner, name).Object, checksum{1})
	for _, want := range []Verb{Update, Nothing, Nothing} {
		if verb, out, err := f.reconcile(t, false, copied(greeting("a", "1"))); verb != want || out.Wrote || err != nil {
			t.Errorf("%q, outcome %+v, error %v; want %q, and no write", verb, out, err, want)
		}
	}
}

// TestChecksAreForgotten: the check of an object goes with the object, and checks keep neither a Kind nor its cache in memory.
func TestChecksAreForgotten(t *testing.T) {
	f := greeted()
	checks, server := f.checks, weak.Make(f.server)
	remembered := func() (n int) {
		checks.desired.Range(func(any, any) bool { n++; return true })
		return n
	}
	await := func(what string, done func() bool) {
		for deadline := time.Now().Add(time.Minute); !done(); runtime.GC() {
			if time.Now().After(deadline) {
				t.Fatalf("%s, and %d checks", what, remembered())
			}
		}
	}
	for range 10 { // ten versions
		if verb, _, err := f.reconcile(t, false, copied(greeting("a", "1"))); verb != Nothing || err != nil || remembered() == 0 {
			t.Fatalf("%q, %d checks, error %v; want nothing to change, and a check", verb, remembered(), err)
		}
		next(f.server, func(c *corev1.ConfigMap) { c.Generation++ })
		f.shown.CatchUp()
	}
	await("the former versions stay in memory", func() bool { return remembered() == 0 })
	if verb, _, err := f.reconcile(t, false, copied(greeting("a", "1"))); verb != Nothing || err != nil || remembered() == 0 {
		t.Fatalf("%q, %d checks, error %v; want nothing to change, and a check", verb, remembered(), err)
	}
	await("the Kind stays in memory", func() bool { return server.Value() == nil })
}

// TestChecksInParallel finds data races: workers compare and write children, versions come and go, and the garbage collector runs.
func TestChecksInParallel(t *testing.T) {
	f := greeted()
	var workers sync.WaitGroup
	for n := range 4 {
		workers.Go(func() {
			of := f.owner.DeepCopy()
			of.Name = strings.Repeat("x", n+1)
			for range 50 {
				_, _ = f.Reconcile(of, name, f.Observe(of, name), false, greeting("a", strconv.Itoa(n))).Do(t.Context())
				f.owners.Forget(cache.MetaObjectToName(of))
			}
		})
	}
	workers.Go(func() {
		for range 20 {
			f.shown.CatchUp()
			runtime.GC()
		}
	})
	workers.Wait()
}

// TestIsExactlyOfDeployments takes random steps with lists whose order counts, and with structs that may be empty. If isExactly returns
// true, the extraction must return the configuration, and an apply must change nothing.
func TestIsExactlyOfDeployments(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	s := fakeapi.New()
	client := s.Kube().AppsV1().Deployments(owner.Namespace)
	exact := 0
	for n := range 4000 {
		some := func() *appsv1ac.DeploymentApplyConfiguration {
			container := corev1ac.Container().WithName("app").WithImage("app:" + strconv.Itoa(random.IntN(2)))
			for _, i := range random.Perm(3)[:1+random.IntN(3)] {
				container.WithEnv(corev1ac.EnvVar().WithName("V" + strconv.Itoa(i)).WithValue("1"))
			}
			switch random.IntN(3) {
			case 0:
				container.WithResources(corev1ac.ResourceRequirements())
			case 1:
				container.WithResources(corev1ac.ResourceRequirements().WithLimits(corev1.ResourceList{"cpu": apiresource.MustParse("1")}))
			}
			labels := map[string]string{"a": "1"}
			return appsv1ac.Deployment(name, owner.Namespace).WithOwnerReferences(Reference(owner, greeter)).WithSpec(appsv1ac.DeploymentSpec().
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
				WithSpec(corev1ac.PodSpec().WithContainers(container))))
		}
		theirs := func(change func(*corev1.Container)) {
			fakeapi.Edit(s, childKey, "other-client", func(d *appsv1.Deployment) { change(&d.Spec.Template.Spec.Containers[0]) })
		}
		switch step := random.IntN(4); {
		case n == 0 || step == 0:
			if _, err := client.Apply(t.Context(), some(), applyOptions); err != nil {
				t.Fatal(err)
			}
		case step == 1:
			theirs(func(c *corev1.Container) { c.Resources.Limits = corev1.ResourceList{"cpu": apiresource.MustParse("1")} })
		case step == 2:
			theirs(func(c *corev1.Container) { c.Resources = corev1.ResourceRequirements{} })
		default:
			theirs(func(c *corev1.Container) {
				random.Shuffle(len(c.Env), func(i, j int) { c.Env[i], c.Env[j] = c.Env[j], c.Env[i] })
			})
		}
		desired, object := some(), fakeapi.Get[*appsv1.Deployment](s, childKey)
		if !isExactly(object, desired) {
			continue
		}
		exact++
		if owned, err := appsv1ac.ExtractDeployment(object, glassback.Name); err != nil || !equality.Semantic.DeepEqual(owned, desired) {
			t.Fatalf("step %d: isExactly returns true, and the extraction differs (error %v): %+v", n, err, object.Spec.Template.Spec)
		}
		applied, err := client.Apply(t.Context(), desired, applyOptions)
		if err != nil || applied.ResourceVersion != object.ResourceVersion {
			t.Fatalf("step %d: isExactly returns true, and an apply changes the object (error %v): %+v", n, err, object.Spec.Template.Spec)
		}
	}
	if exact < 20 {
		t.Errorf("the Deployment was as desired %d times, want at least 20", exact)
	}
}
