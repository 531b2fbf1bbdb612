/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

const (
	createRequest = "apply sample-greeting version 1 as glassback, force true"
	updateRequest = "apply sample-greeting version 101 as glassback, force true"
	deleteRequest = "delete sample-greeting uid uid-1, Background"
	getRequest    = "get sample-greeting"
)

func TestBring(t *testing.T) {
	other := &metav1.OwnerReference{Kind: "Greeter", Name: "other", UID: "other", Controller: ptr.To(true)}
	// ours is a server that has what was wanted before.
	ours := func(s *server) {
		if _, err := s.Apply(t.Context(), greeting("a", "1"), applyOptions); err != nil {
			t.Fatal(err)
		}
	}
	type data = map[string]string
	for sentence, test := range map[string]struct {
		given  []func(*server)                       // what the cache shows too
		since  []func(*server)                       // what it does not show
		wanted *corev1ac.ConfigMapApplyConfiguration // nil: none
		verb   Verb
		// requests are what Do makes, out and err what it returns.
		requests []string
		out      Outcome
		err      string
		left     data // nil: no object
	}{
		"not wanted and not there: nothing": {},
		"not wanted any more: deleted, by its UID": {
			given: []func(*server){ours}, verb: Delete, requests: []string{deleteRequest}, out: Outcome{Wrote: true},
		},
		"wanted and not there: created, if there is none of that name": {
			wanted: greeting("a", "1"), verb: Create, requests: []string{createRequest}, out: Outcome{Wrote: true}, left: data{"a": "1"},
		},
		"as wanted: nothing": {
			given: []func(*server){ours}, wanted: greeting("a", "1"), left: data{"a": "1"},
		},
		"another value is wanted: applied to the version that the cache shows": {
			given: []func(*server){ours}, wanted: greeting("a", "2"),
			verb: Update, requests: []string{updateRequest}, out: Outcome{Wrote: true}, left: data{"a": "2"},
		},
		"one more field is wanted: applied": {
			given: []func(*server){ours}, wanted: greeting("a", "1", "b", "1"),
			verb: Update, requests: []string{updateRequest}, out: Outcome{Wrote: true}, left: data{"a": "1", "b": "1"},
		},
		"a field is not wanted any more: applied, and it is gone": {
			given: []func(*server){ours}, wanted: greeting(),
			verb: Update, requests: []string{updateRequest}, out: Outcome{Wrote: true}, left: data{},
		},
		"somebody changed a field: it is taken back": {
			given: []func(*server){ours, func(s *server) {
				s.edit("somebody", func(c *corev1.ConfigMap) { c.Data["a"] = "changed" })
			}},
			wanted: greeting("a", "1"), verb: Update,
			requests: []string{"apply sample-greeting version 102 as glassback, force true"}, out: Outcome{Wrote: true}, left: data{"a": "1"},
		},
		"somebody removed a field: it is put back": {
			given: []func(*server){ours, func(s *server) {
				s.edit("somebody", func(c *corev1.ConfigMap) { c.Data = nil })
			}},
			wanted: greeting("a", "1"), verb: Update,
			requests: []string{"apply sample-greeting version 102 as glassback, force true"}, out: Outcome{Wrote: true}, left: data{"a": "1"},
		},
		"somebody set a field of their own: nothing": {
			given: []func(*server){ours, func(s *server) {
				s.edit("somebody", func(c *corev1.ConfigMap) { c.Data["theirs"], c.Labels["theirs"] = "1", "1" })
			}},
			wanted: greeting("a", "1"), left: data{"a": "1", "theirs": "1"},
		},
		"an update leaves what others have set": {
			given: []func(*server){ours, func(s *server) {
				s.edit("somebody", func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })
			}},
			wanted: greeting("a", "2"), verb: Update,
			requests: []string{"apply sample-greeting version 102 as glassback, force true"}, out: Outcome{Wrote: true}, left: data{"a": "2", "theirs": "1"},
		},
		"wanted, and on its way out: nothing until it is gone": {
			given: []func(*server){ours, dying}, wanted: greeting("a", "2"), left: data{"a": "1"},
		},
		"not wanted, and on its way out: nothing": {
			given: []func(*server){ours, dying}, left: data{"a": "1"},
		},
		"the cache shows somebody else's: a Problem, and no request": {
			given: []func(*server){put(foreign(other))}, wanted: greeting("a", "1"), verb: Create,
			out: Outcome{Problem: &Problem{ReasonConflict,
				"ConfigMap sample-greeting exists already and is controlled by Greeter other: rename or delete one of the two"}},
			left: data{"a": "theirs"},
		},
		"the cache shows somebody else's where nothing is wanted: nothing": {
			given: []func(*server){put(foreign(other))}, left: data{"a": "theirs"},
		},
		"somebody else's that the cache does not show: a Problem": {
			since: []func(*server){put(foreign(other))}, wanted: greeting("a", "1"), verb: Create, requests: []string{createRequest, getRequest},
			out: Outcome{Problem: &Problem{ReasonConflict,
				"ConfigMap sample-greeting exists already and is controlled by Greeter other: rename or delete one of the two"}},
			left: data{"a": "theirs"},
		},
		"one that nobody controls: a Problem": {
			since: []func(*server){put(foreign(nil))}, wanted: greeting("a", "1"), verb: Create, requests: []string{createRequest, getRequest},
			out: Outcome{Problem: &Problem{ReasonConflict,
				"ConfigMap sample-greeting exists already and has no controller: rename or delete one of the two"}},
			left: data{"a": "theirs"},
		},
		"one that the owner has, but does not control: a Problem": {
			since:  []func(*server){put(foreign(&metav1.OwnerReference{Kind: "Greeter", Name: "sample", UID: owner.UID}))},
			wanted: greeting("a", "1"), verb: Create, requests: []string{createRequest, getRequest},
			out: Outcome{Problem: &Problem{ReasonConflict,
				"ConfigMap sample-greeting exists already and has no controller: rename or delete one of the two"}},
			left: data{"a": "theirs"},
		},
		"one of an owner of the same name that was deleted: a Problem until it is collected": {
			given:  []func(*server){put(foreign(&metav1.OwnerReference{Kind: "Greeter", Name: "sample", UID: "before", Controller: ptr.To(true)}))},
			wanted: greeting("a", "1"), verb: Create,
			out: Outcome{Problem: &Problem{ReasonConflict,
				"ConfigMap sample-greeting belongs to the Greeter sample that was deleted before, and has not been garbage-collected yet"}},
			left: data{"a": "theirs"},
		},
		"ours that the cache does not show: applied to": {
			since: []func(*server){ours}, wanted: greeting("a", "2"),
			verb: Create, requests: []string{createRequest, getRequest, updateRequest}, out: Outcome{Wrote: true}, left: data{"a": "2"},
		},
		"ours that the cache does not show, as wanted: nothing is written": {
			since: []func(*server){ours}, wanted: greeting("a", "1"),
			verb: Create, requests: []string{createRequest, getRequest, updateRequest}, left: data{"a": "1"},
		},
		"somebody wrote in between: a conflict, which is nothing to tell of": {
			given: []func(*server){ours},
			since: []func(*server){func(s *server) {
				s.edit("somebody", func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })
			}},
			wanted: greeting("a", "2"), verb: Update, requests: []string{updateRequest},
			err:  `apply ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the version is another`,
			left: data{"a": "1", "theirs": "1"},
		},
		"somebody else's took the name of ours in between: it is not applied to": {
			given: []func(*server){ours}, since: []func(*server){put(foreign(nil))},
			wanted: greeting("a", "2"), verb: Update, requests: []string{updateRequest},
			err:  `apply ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the version is another`,
			left: data{"a": "theirs"},
		},
		"somebody else's took the name of ours in between: it is not deleted": {
			given: []func(*server){ours}, since: []func(*server){put(foreign(nil))},
			verb: Delete, requests: []string{deleteRequest}, left: data{"a": "theirs"},
			err: `delete ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the UID is another`,
		},
		"what is to be deleted is gone already: as good": {
			given: []func(*server){ours}, since: []func(*server){func(s *server) { s.object = nil }},
			verb: Delete, requests: []string{deleteRequest}, out: Outcome{Wrote: true},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			for _, change := range test.given {
				change(f.server)
			}
			f.catchUp()
			for _, change := range test.since {
				change(f.server)
			}
			verb, out, err := f.bring(t, test.wanted)
			if verb != test.verb {
				t.Errorf("verb %q, want %q", verb, test.verb)
			}
			if !slices.Equal(f.server.requests, test.requests) {
				t.Errorf("requests %q, want %q", f.server.requests, test.requests)
			}
			expect(t, out, err, test.out, test.err)
			if (f.server.object == nil) != (test.left == nil) {
				t.Fatalf("object %v, want %v", f.server.object, test.left)
			}
			if test.left != nil && !maps.Equal(f.server.object.Data, test.left) {
				t.Errorf("data %v, want %v", f.server.object.Data, test.left)
			}
			if test.err != "" || out.Problem != nil {
				return
			}
			f.catchUp()
			if verb, _, _ := f.bring(t, test.wanted); verb != Nothing && test.left["a"] != "theirs" {
				t.Errorf("there is still something to %s once it is done", verb)
			}
		})
	}
}

// dying is what a delete does to an object that has a finalizer.
func dying(s *server) {
	s.edit("somebody", func(c *corev1.ConfigMap) { c.DeletionTimestamp = ptr.To(metav1.Unix(1641736200, 0)) })
}

func put(object *corev1.ConfigMap) func(*server) {
	return func(s *server) { s.put(object.DeepCopy()) }
}

func expect(t *testing.T, out Outcome, err error, wantOut Outcome, wantErr string) {
	t.Helper()
	if out.Wrote != wantOut.Wrote {
		t.Errorf("wrote %t, want %t", out.Wrote, wantOut.Wrote)
	}
	if got, want := ptr.Deref(out.Problem, Problem{}), ptr.Deref(wantOut.Problem, Problem{}); got != want {
		t.Errorf("problem %q, want %q", got, want)
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
	long := strings.Repeat("ß", maxMessage)
	for sentence, test := range map[string]struct {
		err   error
		want  *Problem
		again bool // whether the error is returned too
	}{
		"invalid: rejected for good": {
			err:  apierrors.NewInvalid(gvk.GroupKind(), name, nil),
			want: &Problem{"ConfigMapRejected", `create ConfigMap sample-greeting: ConfigMap "sample-greeting" is invalid`},
		},
		"a bad request: rejected for good": {
			err:  apierrors.NewBadRequest("not a ConfigMap"),
			want: &Problem{"ConfigMapRejected", "create ConfigMap sample-greeting: not a ConfigMap"},
		},
		"forbidden: tried again, and told of in full": {
			err: apierrors.NewForbidden(resource, name, errors.New("exceeded quota")),
			want: &Problem{"ConfigMapNotApplied", "The API server does not take the ConfigMap now, which is tried again: " +
				`create ConfigMap sample-greeting: configmaps "sample-greeting" is forbidden: exceeded quota`},
			again: true,
		},
		"any other answer: tried again, and told of by a reason that stays the same": {
			err:   apierrors.NewServiceUnavailable("try 1 at 13:50:01"),
			want:  &Problem{"ConfigMapNotApplied", "The API server does not take the ConfigMap now, which is tried again: ServiceUnavailable"},
			again: true,
		},
		"too many requests: the same": {
			err:   apierrors.NewTooManyRequests("slow down", 1),
			want:  &Problem{"ConfigMapNotApplied", "The API server does not take the ConfigMap now, which is tried again: TooManyRequests"},
			again: true,
		},
		"no answer: tried again, and nothing to tell of": {
			err: errors.New("connection refused"), again: true,
		},
		"a long text is cut, between two characters": {
			err: apierrors.NewBadRequest(long),
			want: &Problem{"ConfigMapRejected",
				"create ConfigMap sample-greeting: " + long[:2*((maxMessage-len("create ConfigMap sample-greeting: "))/2)] + "…"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			f.server.before = func(string) error { return test.err }
			_, out, err := f.bring(t, greeting("a", "1"))
			if out.Wrote {
				t.Error("it counts as written")
			}
			if got, want := ptr.Deref(out.Problem, Problem{}), ptr.Deref(test.want, Problem{}); got != want {
				t.Errorf("problem %q, want %q", got, want)
			}
			if out.Problem != nil && !utf8.ValidString(out.Problem.Message) {
				t.Error("the message is not UTF-8")
			}
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
		wanted *corev1ac.ConfigMapApplyConfiguration
		err    string
	}{
		"a create": {
			fails: "apply", wanted: greeting("a", "1"), given: func(*server) {}, err: "create ConfigMap sample-greeting: refused",
		},
		"a look at what is in the way": {
			fails: "get", wanted: greeting("a", "1"), given: put(foreign(nil)), hidden: true, err: "get ConfigMap sample-greeting, which exists: refused",
		},
		"an update": {
			fails: "apply", wanted: greeting("a", "2"), given: func(s *server) {
				if _, err := s.Apply(t.Context(), greeting("a", "1"), applyOptions); err != nil {
					t.Fatal(err)
				}
			}, err: "apply ConfigMap sample-greeting: refused",
		},
		"a delete": {
			fails: "delete", given: func(s *server) {
				if _, err := s.Apply(t.Context(), greeting("a", "1"), applyOptions); err != nil {
					t.Fatal(err)
				}
			}, err: "delete ConfigMap sample-greeting: refused",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFixture()
			test.given(f.server)
			if !test.hidden {
				f.catchUp()
			}
			f.server.before = func(request string) error {
				if strings.HasPrefix(request, test.fails) {
					return refused
				}
				return nil
			}
			_, out, err := f.bring(t, test.wanted)
			expect(t, out, err, Outcome{}, test.err)
			if wait := f.written.Wait(cache.MetaObjectToName(owner)); wait != 0 {
				t.Errorf("what failed is waited for, %s", wait)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	f := newFixture()
	for sentence, cached := range map[string]any{
		"an empty cache":                 nil,
		"something of a kind of its own": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.Namespace}},
	} {
		var objects []any
		if cached != nil {
			objects = append(objects, cached)
		}
		if err := f.Cache.Replace(objects, ""); err != nil {
			t.Fatal(err)
		}
		if seen, err := f.Observe(owner, name); err != nil || seen.Object != nil || seen.Owned != nil || seen.other != nil {
			t.Errorf("%s shows %+v, error %v; want nothing", sentence, seen, err)
		}
	}

	if err := f.Cache.Replace([]any{foreign(nil)}, ""); err != nil {
		t.Fatal(err)
	}
	if seen, err := f.Observe(owner, name); err != nil || seen.Object != nil || seen.Owned != nil {
		t.Errorf("somebody else's is shown as %+v, error %v; want no object and no fields", seen, err)
	}

	broken := foreign(&metav1.OwnerReference{Kind: "Greeter", Name: "sample", UID: owner.UID, Controller: ptr.To(true)})
	broken.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: applyOptions.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"x:a":{}}`),
	}}
	if err := f.Cache.Replace([]any{broken}, ""); err != nil {
		t.Fatal(err)
	}
	const want = "extract the fields of ConfigMap sample-greeting that glassback owns: "
	if _, err := f.Observe(owner, name); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v for managedFields that name no fields, want %q", err, want)
	}
}

func TestWritesAreWaitedFor(t *testing.T) {
	f, key := newFixture(), cache.MetaObjectToName(owner)
	for _, step := range []struct {
		wanted *corev1ac.ConfigMapApplyConfiguration
		trace  string
	}{
		{greeting("a", "1"), "create configmaps"},
		{greeting("a", "2"), "apply configmaps"},
		{nil, "delete configmaps"},
	} {
		if _, out, err := f.bring(t, step.wanted); err != nil || !out.Wrote {
			t.Fatalf("%s: wrote %t, error %v", step.trace, out.Wrote, err)
		}
		events := f.trace.Events()
		if last := events[len(events)-1]; last.Verb != step.trace || last.Name != name || last.Namespace != owner.Namespace {
			t.Errorf("traced %s of %s/%s, want %s of the child", last.Verb, last.Namespace, last.Name, step.trace)
		}
		if wait := f.written.Wait(key); wait <= 0 {
			t.Errorf("%s: no wait for the cache", step.trace)
		}
		f.catchUp()
		if wait := f.written.Wait(key); wait != 0 {
			t.Errorf("%s: still %s to wait for a cache that shows it", step.trace, wait)
		}
		f.clock.SetTime(f.clock.Now().Add(time.Second))
	}
}

func TestNothingIsDone(t *testing.T) {
	if out, err := (Change{}).Do(context.Background()); out != (Outcome{}) || err != nil {
		t.Errorf("nothing to do gives %+v, error %v", out, err)
	}
}

func TestControllerReference(t *testing.T) {
	reference := ControllerReference(owner, "test/v1", "Greeter")
	if *reference.APIVersion != "test/v1" || *reference.Kind != "Greeter" || *reference.Name != owner.Name || *reference.UID != owner.UID ||
		!*reference.Controller || !*reference.BlockOwnerDeletion {
		t.Errorf("reference %+v, want one to the owner, as controller, that blocks its deletion", reference)
	}
}
