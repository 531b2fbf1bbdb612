// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

const (
	uid           = "uid-of-configmaps-sample-greeting-1"
	createRequest = "apply sample-greeting uid any version 1 as glassback, force true"
	updateRequest = "apply sample-greeting uid " + uid + " version 101 as glassback, force true"
	repairRequest = "apply sample-greeting uid " + uid + " version 102 as glassback, force true"
	deleteRequest = "delete sample-greeting uid " + uid + " version 101, Background"
	getRequest    = "get sample-greeting"
)

// inTheWay is what comes of an object that the owner does not control.
func inTheWay(message string) Outcome {
	return Outcome{Gone: true, Problem: &Problem{ReasonConflict, message}, Wait: Recheck}
}

// troubled is what comes of another problem.
func troubled(reason, message string) Outcome {
	return Outcome{Problem: &Problem{reason, message}, Wait: Recheck}
}

func TestReconcile(t *testing.T) {
	other := &metav1.OwnerReference{Kind: "Greeter", Name: "other", UID: "other", Controller: ptr.To(true)}
	// ours is a server that has what was wanted before.
	ours := func(s *server) { apply(s, greeting("a", "1")) }
	type data = map[string]string
	for sentence, test := range map[string]struct {
		given  []func(*server) // what the cache shows too
		since  []func(*server) // what it does not show
		listed bool            // whether there was one once
		wanted *configuration  // nil: none
		adapt  func(owner metav1.Object, desired *configuration, live *corev1.ConfigMap)
		verb   Verb
		// requests are what Do makes, out and err what it returns.
		requests []string
		out      Outcome
		err      string
		left     data // nil: no object
	}{
		"not wanted and not there: nothing": {},
		"not wanted any more: exactly what the cache shows is deleted": {
			given: []func(*server){ours}, verb: Delete, requests: []string{deleteRequest}, out: Outcome{Wrote: true},
		},
		"wanted and not there: created, if there is none of that name": {
			wanted: greeting("a", "1"), verb: Create, requests: []string{createRequest}, out: Outcome{Wrote: true}, left: data{"a": "1"},
		},
		"as wanted: nothing": {given: []func(*server){ours}, wanted: greeting("a", "1"), left: data{"a": "1"}},
		"another value is wanted: applied to the version that the cache shows": {
			given: []func(*server){ours}, wanted: greeting("a", "2"),
			verb: Update, requests: []string{updateRequest}, out: Outcome{Wrote: true}, left: data{"a": "2"},
		},
		"another client changed a field: it is taken back": {
			given:  []func(*server){ours, edited(func(c *corev1.ConfigMap) { c.Data["a"] = "changed" })},
			wanted: greeting("a", "1"), verb: Update,
			requests: []string{repairRequest}, out: Outcome{Wrote: true}, left: data{"a": "1"},
		},
		"another client set a field of its own: nothing": {
			given:  []func(*server){ours, edited(func(c *corev1.ConfigMap) { c.Data["theirs"], c.Labels["theirs"] = "1", "1" })},
			wanted: greeting("a", "1"), left: data{"a": "1", "theirs": "1"},
		},
		"an update leaves what others have set": {
			given:  []func(*server){ours, edited(func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })},
			wanted: greeting("a", "2"), verb: Update,
			requests: []string{repairRequest}, out: Outcome{Wrote: true}, left: data{"a": "2", "theirs": "1"},
		},
		"wanted, and on its way out: a Problem until it is gone": {
			given: []func(*server){ours, terminate}, wanted: greeting("a", "2"), left: data{"a": "1"},
			out: troubled("ConfigMapTerminating", "ConfigMap sample-greeting is being deleted; the operator creates it again when it is gone"),
		},
		"not wanted, and on its way out: nothing": {given: []func(*server){ours, terminate}, left: data{"a": "1"}},
		"not wanted, and its fields cannot be told: deleted all the same": {
			given: []func(*server){ours, garble}, verb: Delete,
			requests: []string{"delete sample-greeting uid " + uid + " version 102, Background"}, out: Outcome{Wrote: true},
		},
		"not wanted, there once, and not in the cache: looked for, and known to be gone": {
			listed: true, verb: Delete, requests: []string{getRequest}, out: Outcome{Gone: true},
		},
		"not wanted, there once, and hidden from the cache: deleted, as exactly as ever": {
			since: []func(*server){ours}, listed: true, verb: Delete, requests: []string{getRequest, deleteRequest}, out: Outcome{Gone: true},
		},
		"not wanted, there once, and another owner's by now: looked at, and left": {
			since: []func(*server){put(foreign(other))}, listed: true, verb: Delete, requests: []string{getRequest}, out: Outcome{Gone: true},
			left: data{"a": "theirs"},
		},
		"hidden from the cache, and what is wanted depends on it: adapted": {
			since: []func(*server){kept, unlabelled}, wanted: greeting("a", "1"), adapt: keepN,
			verb: Create, requests: []string{createRequest, getRequest, repairRequest}, out: Outcome{Wrote: true}, left: data{"a": "1", "n": "7"},
		},

		"the cache shows another owner's: a Problem, and no request": {
			given: []func(*server){put(foreign(other))}, wanted: greeting("a", "1"),
			out:  inTheWay("ConfigMap sample-greeting exists already and is controlled by Greeter other: rename or delete one of the two"),
			left: data{"a": "theirs"},
		},
		"another owner's that the cache does not show: a Problem": {
			since: []func(*server){put(foreign(other))}, wanted: greeting("a", "1"), verb: Create, requests: []string{createRequest, getRequest},
			out:  inTheWay("ConfigMap sample-greeting exists already and is controlled by Greeter other: rename or delete one of the two"),
			left: data{"a": "theirs"},
		},
		"one without a controller: a Problem": {
			since: []func(*server){put(foreign(nil))}, wanted: greeting("a", "1"), verb: Create, requests: []string{createRequest, getRequest},
			out:  inTheWay("ConfigMap sample-greeting exists already and has no controller: rename or delete one of the two"),
			left: data{"a": "theirs"},
		},
		"one of an owner of the same name that was deleted: a Problem until it is collected": {
			given:  []func(*server){put(foreign(&metav1.OwnerReference{Kind: "Greeter", Name: "sample", UID: "before", Controller: ptr.To(true)}))},
			wanted: greeting("a", "1"),
			out: inTheWay(
				"ConfigMap sample-greeting belongs to the Greeter sample that was deleted before, and has not been garbage-collected yet",
			),
			left: data{"a": "theirs"},
		},
		"ours that the cache does not show yet, as wanted: a conflict, which is not reported": {
			since: []func(*server){ours}, wanted: greeting("a", "1"),
			verb: Create, requests: []string{createRequest, getRequest, updateRequest}, left: data{"a": "1"},
			err: `Operation cannot be fulfilled on configmaps "sample-greeting": the object has another version`,
		},
		"ours that the cache shows is gone: it is not brought back": {
			given: []func(*server){ours}, since: []func(*server){remove},
			wanted: greeting("a", "2"), verb: Update, requests: []string{updateRequest},
			err: `apply ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the object has another UID`,
		},
		"ours was made anew meanwhile: it is not applied to": {
			given: []func(*server){ours}, since: []func(*server){remove, ours},
			wanted: greeting("a", "2"), verb: Update, requests: []string{updateRequest},
			err:  `apply ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the object has another UID`,
			left: data{"a": "1"},
		},
		"another client wrote in between: it is not deleted": {
			given: []func(*server){ours}, since: []func(*server){edited(func(c *corev1.ConfigMap) { c.OwnerReferences = nil })},
			verb: Delete, requests: []string{deleteRequest}, left: data{"a": "1"},
			err: `delete ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the object has another version`,
		},
		"another client wrote in between: a conflict, which is not reported": {
			given:  []func(*server){ours},
			since:  []func(*server){edited(func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })},
			wanted: greeting("a", "2"), verb: Update, requests: []string{updateRequest},
			err:  `apply ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the object has another version`,
			left: data{"a": "1", "theirs": "1"},
		},
		"another owner's took the name of ours in between: it is not deleted": {
			given: []func(*server){ours}, since: []func(*server){put(foreign(nil))},
			verb: Delete, requests: []string{deleteRequest}, left: data{"a": "theirs"},
			err: `delete ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the object has another UID`,
		},
		"what is to be deleted is gone already: as good": {
			given: []func(*server){ours}, since: []func(*server){remove},
			verb: Delete, requests: []string{deleteRequest}, out: Outcome{Wrote: true},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			f.Adapt = test.adapt
			for _, change := range test.given {
				change(f.server)
			}
			f.shown.CatchUp()
			for _, change := range test.since {
				change(f.server)
			}
			verb, out, err := f.reconcile(t, test.listed, copied(test.wanted))
			if verb != test.verb {
				t.Errorf("verb %q, want %q", verb, test.verb)
			}
			if !slices.Equal(f.requests(), test.requests) {
				t.Errorf("requests %q, want %q", f.requests(), test.requests)
			}
			expect(t, out, err, test.out, test.err)
			if (object(f.server) == nil) != (test.left == nil) {
				t.Fatalf("object %v, want %v", object(f.server), test.left)
			}
			if test.left != nil && !maps.Equal(object(f.server).Data, test.left) {
				t.Errorf("data %v, want %v", object(f.server).Data, test.left)
			}
			if test.err != "" || out.Problem != nil {
				return
			}
			f.shown.CatchUp()
			again := copied(test.wanted)
			if test.adapt != nil {
				test.adapt(nil, again, object(f.server))
			}
			if verb, _, _ := f.reconcile(t, false, again); verb != Nothing && test.left["a"] != "theirs" {
				t.Errorf("there is still something to %s once it is done", verb)
			}
		})
	}
}

// keepN is the Adapt of a Kind.
func keepN(_ metav1.Object, desired *configuration, live *corev1.ConfigMap) {
	desired.WithData(map[string]string{"n": live.Data["n"]})
}

// kept is ours, with the n that keepN keeps.
func kept(s *server) { apply(s, greeting("a", "1", "n", "7")) }

// unlabelled is what hides an object from the cache.
func unlabelled(s *server) { edit(s, func(c *corev1.ConfigMap) { c.Labels = nil }) }

// garble makes what this operator owns of the object unreadable.
func garble(s *server) {
	fakeapi.Edit(s, childKey, "", func(c *corev1.ConfigMap) {
		for i := range c.ManagedFields {
			c.ManagedFields[i].FieldsV1 = metav1.NewFieldsV1(`{"x:a":{}}`)
		}
	})
}

// terminate is what a delete does to an object that has a finalizer.
func terminate(s *server) {
	edit(s, func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/held"} })
	s.Delete("configmaps", childKey)
}

func put(object *corev1.ConfigMap) func(*server) {
	return func(s *server) { s.Put(object) }
}

func expect(t *testing.T, out Outcome, err error, wantOut Outcome, wantErr string) {
	t.Helper()
	if got, want := ptr.Deref(out.Problem, Problem{}), ptr.Deref(wantOut.Problem, Problem{}); got != want {
		t.Errorf("problem %q, want %q", got, want)
	}
	out.Problem, wantOut.Problem = nil, nil
	if out != wantOut {
		t.Errorf("outcome %+v, want %+v", out, wantOut)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != wantErr {
		t.Errorf("error %q, want %q", text, wantErr)
	}
}

func TestErrorsBecomeProblems(t *testing.T) {
	for sentence, test := range map[string]struct {
		err   error
		want  *Problem
		again bool // whether the error is returned too
	}{
		"invalid: rejected, and looked at again in case a policy has changed": {
			err:  apierrors.NewInvalid(gvk.GroupKind(), name, nil),
			want: &Problem{"ConfigMapRejected", `create ConfigMap sample-greeting: ConfigMap "sample-greeting" is invalid`},
		},
		"forbidden: tried again, and told of in full": {
			err: apierrors.NewForbidden(resource, name, errors.New("exceeded quota")),
			want: &Problem{"ConfigMapNotApplied", "The API server does not accept the ConfigMap at present, and the operator retries: " +
				`create ConfigMap sample-greeting: configmaps "sample-greeting" is forbidden: exceeded quota`},
			again: true,
		},
		"any other answer: tried again, and told of by a reason that stays the same": {
			err: apierrors.NewServiceUnavailable("try 1 at 13:50:01"),
			want: &Problem{
				"ConfigMapNotApplied", "The API server does not accept the ConfigMap at present, and the operator retries: ServiceUnavailable",
			},
			again: true,
		},
		"no answer: tried again, and nothing to tell of": {err: errors.New("connection refused"), again: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			f.server.Before = func(fakeapi.Request) error { return test.err }
			_, out, err := f.reconcile(t, false, copied(greeting("a", "1")))
			want := Outcome{Problem: test.want}
			if test.want != nil {
				want.Wait = Recheck
			}
			expect(t, out, nil, want, "")
			if (err != nil) != test.again || (test.again && !errors.Is(err, test.err)) {
				t.Errorf("error %v, want it returned: %t", err, test.again)
			}
		})
	}
}

func TestErrorsSayWhatFailed(t *testing.T) {
	refused := errors.New("refused")
	for sentence, test := range map[string]struct {
		fails  string // the request that does
		given  func(*server)
		hidden bool // from the cache
		listed bool // whether there was one once
		wanted *configuration
		err    string
	}{
		"a create": {fails: "apply", wanted: greeting("a", "1"), given: func(*server) {}, err: "create ConfigMap sample-greeting: refused"},
		"a look at what is in the way": {
			fails: "get", wanted: greeting("a", "1"), given: put(foreign(nil)),
			hidden: true, err: "get ConfigMap sample-greeting after a conflict with it: refused",
		},
		"a delete of what is hidden": {
			fails: "delete", given: kept, hidden: true, listed: true, err: "delete ConfigMap sample-greeting: refused",
		},
		"a look for what may be hidden": {
			fails: "get", given: kept, hidden: true, listed: true, err: "get ConfigMap sample-greeting, which may have lost its label: refused",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			test.given(f.server)
			if !test.hidden {
				f.shown.CatchUp()
			}
			f.server.Before = failing(test.fails, refused)
			_, out, err := f.reconcile(t, test.listed, copied(test.wanted))
			expect(t, out, err, Outcome{}, test.err)
			if wait := f.written.Wait(cache.MetaObjectToName(owner)); wait != 0 {
				t.Errorf("what failed is waited for, %s", wait)
			}
		})
	}
}

func TestWritesAreWaitedFor(t *testing.T) {
	f, key := newFixture(), cache.MetaObjectToName(owner)
	for _, step := range []struct {
		wanted *configuration
		trace  string
	}{
		{greeting("a", "1"), "create configmaps"},
		{greeting("a", "2"), "apply configmaps"},
		{nil, "delete configmaps"},
	} {
		if _, out, err := f.reconcile(t, false, copied(step.wanted)); err != nil || !out.Wrote {
			t.Fatalf("%s: wrote %t, error %v", step.trace, out.Wrote, err)
		}
		events := f.trace.Events()
		if last := events[len(events)-1]; last.Verb != step.trace || last.Name != name || last.Namespace != owner.Namespace {
			t.Errorf("traced %s of %s/%s, want %s of the child", last.Verb, last.Namespace, last.Name, step.trace)
		}
		if wait := f.written.Wait(key); wait <= 0 {
			t.Errorf("%s: no wait for the cache", step.trace)
		}
		f.shown.CatchUp()
		if wait := f.written.Wait(key); wait != 0 {
			t.Errorf("%s: still %s to wait for a cache that shows it", step.trace, wait)
		}
		f.clock.SetTime(f.clock.Now().Add(time.Second))
	}
}

const name = "sample-greeting"

var (
	t0       = time.Unix(1641736200, 0)
	owner    = &metav1.ObjectMeta{Name: "sample", Namespace: "default", UID: "owner", Generation: 3}
	greeter  = schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Greeter"}
	gvk      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	resource = corev1.Resource("configmaps")
	childKey = cache.NewObjectName(owner.Namespace, name)
)

type (
	server        = fakeapi.Server
	configuration = corev1ac.ConfigMapApplyConfiguration
)

// object returns the child, and nil if there is none.
func object(s *server) *corev1.ConfigMap { return fakeapi.Get[*corev1.ConfigMap](s, childKey) }

// edit changes the child as another client does.
func edit(s *server, change func(*corev1.ConfigMap)) {
	fakeapi.Edit(s, childKey, "other-client", change)
}

func edited(change func(*corev1.ConfigMap)) func(*server) {
	return func(s *server) { edit(s, change) }
}

func remove(s *server) { s.Remove("configmaps", childKey) }

// apply applies the child as the operator does.
func apply(s *server, configuration *configuration) {
	if _, err := s.Kube().CoreV1().ConfigMaps(owner.Namespace).Apply(context.Background(), configuration, applyOptions); err != nil {
		panic(err)
	}
}

// words returns a request with everything that Kind decides.
func words(r fakeapi.Request) string {
	text := r.Verb + " " + r.Name
	if r.Verb != "get" {
		text += fmt.Sprintf(" uid %s version %s", cmp.Or(r.UID, "any"), cmp.Or(r.Version, "any"))
	}
	switch r.Verb {
	case "apply":
		text += fmt.Sprintf(" as %s, force %t", r.Manager, r.Force)
	case "delete":
		text += fmt.Sprintf(", %s", r.Propagation)
	}
	return text
}

// failing returns an error for the requests that begin with a prefix.
func failing(prefix string, err error) func(fakeapi.Request) error {
	return func(r fakeapi.Request) error {
		if strings.HasPrefix(words(r), prefix) {
			return err
		}
		return nil
	}
}

// fixture is a Kind, the server that its client uses, and its cache.
type fixture struct {
	*Kind[*corev1.ConfigMap, *configuration]

	server  *server
	shown   *fakeapi.Cache
	owner   *metav1.ObjectMeta
	written *loop.Written
	clock   *clocktesting.FakePassiveClock
	trace   *trace.Recorder
}

func newFixture() *fixture {
	f := &fixture{
		server: fakeapi.New(), owner: owner.DeepCopy(), clock: clocktesting.NewFakePassiveClock(t0), trace: trace.NewRecorder(10),
	}
	f.written = loop.NewWritten("test", "Owner", f.clock, []loop.Observer{loop.Traced(f.trace)})
	f.Kind = New(NewOwners("Greeter", "of", f.written, f.clock), "ConfigMap", "configmaps", cache.NewStore(cache.MetaNamespaceKeyFunc),
		f.server.Kube().CoreV1().ConfigMaps, corev1ac.ExtractConfigMap)
	f.shown = f.server.Cache("configmaps", f.cache, fakeapi.WithOwnFields)
	return f
}

// requests returns the requests of the last reconcile.
func (f *fixture) requests() []string {
	var all []string
	for _, r := range f.server.Requests() {
		all = append(all, words(r))
	}
	return all
}

// copied returns a copy of what is wanted, which a Change may change.
func copied(wanted *configuration) *configuration {
	if wanted == nil {
		return nil
	}
	data, err := json.Marshal(wanted)
	if err != nil {
		panic(err)
	}
	same := &configuration{}
	if err := json.Unmarshal(data, same); err != nil {
		panic(err)
	}
	return same
}

// reconcile carries out the change that Reconcile returns.
func (f *fixture) reconcile(t *testing.T, listed bool, want *configuration) (Verb, Outcome, error) {
	t.Helper()
	change := f.Reconcile(f.owner, name, f.Observe(f.owner, name), listed, want)
	if change.Kind != "ConfigMap" || change.Name != name {
		t.Errorf("the change is about %s %s, want ConfigMap %s", change.Kind, change.Name, name)
	}
	f.server.Forget()
	out, err := change.Do(t.Context())
	return change.Verb, out, err
}

// greeting is what is wanted, with the data as keys and values in turn.
func greeting(data ...string) *configuration {
	values := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		values[data[i]] = data[i+1]
	}
	return corev1ac.ConfigMap(name, owner.Namespace).WithLabels(map[string]string{"of": owner.Name}).
		WithOwnerReferences(Reference(owner, greeter)).WithData(values)
}

// foreign is an object that the owner does not control, but perhaps another owner.
func foreign(controller *metav1.OwnerReference) *corev1.ConfigMap {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.Namespace, UID: "foreign", Labels: map[string]string{"of": owner.Name}},
		Data:       map[string]string{"a": "theirs"},
	}
	if controller != nil {
		object.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	return object
}
