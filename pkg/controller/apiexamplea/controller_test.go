// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/report"
)

const (
	createRequest = "create configmaps sample-greeting"
	applyRequest  = "apply configmaps sample-greeting"
	statusRequest = "update apiexampleas/status sample"
	toSee         = 5 * time.Second // how long a write is waited for at most
	goingMessage  = "ConfigMap sample-greeting is being deleted; the operator creates it again when it is gone"
	takenMessage  = "ConfigMap sample-greeting exists already and has no controller: rename or delete one of the two"
)

// taken puts a ConfigMap of another owner where the greeting is to be. With the label, the cache shows it.
func taken(labelled bool) func(*server) {
	return func(s *server) {
		theirs := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "sample-greeting", Namespace: "default", UID: "foreign"},
			Data:       map[string]string{"greeting": "theirs"},
		}
		if labelled {
			theirs.Labels = map[string]string{v1.LabelApiExampleA: "sample"}
		}
		s.Put(theirs)
	}
}

func gone(s *server) { s.Remove("configmaps", configMapKey) }

func goneExample(s *server) { s.Remove("apiexampleas", key) }

// terminate is what a delete does to a ConfigMap that has a finalizer.
func terminate(s *server) {
	s.alter(func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/held"} })
	s.Delete("configmaps", configMapKey)
}

func data(key, value string) func(*server) {
	return func(s *server) { s.alter(func(c *corev1.ConfigMap) { c.Data[key] = value }) }
}

func edit(change func(*v1.ApiExampleA)) func(*server) {
	return func(s *server) {
		fakeapi.Edit(s.Server, key, "user", func(e *v1.ApiExampleA) {
			e.Generation++
			change(e)
		})
	}
}

func twoLines(e *v1.ApiExampleA) { e.Spec.FirstName = "a\nb" }

func paused(e *v1.ApiExampleA) { e.Annotations = map[string]string{glassback.AnnotationPaused: "true"} }

func answer(err error) func(*server) {
	return func(s *server) {
		s.Before = func(r fakeapi.Request) error {
			if r.Verb == "apply" {
				return err
			}
			return nil
		}
	}
}

func TestSync(t *testing.T) {
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "sample-greeting", nil)
	type want struct {
		requests []string
		after    time.Duration
		err      string
		events   []string
		ready    string // reason of the condition Ready
		degraded string // reason of the condition Degraded
		state    v1.State
		greeting string // in the status
		left     string // the greeting in the ConfigMap
	}
	const jimmy = "Greetings to Jimmy Zhuang"
	settled := func(requests ...string) want {
		return want{
			requests: requests, ready: reasonGreeted, degraded: report.ReasonAsExpected, state: v1.StateRunning,
			greeting: jimmy, left: jimmy,
		}
	}
	// wrote is settled, once the cache shows the ConfigMap.
	wrote := func(requests ...string) want {
		w := settled(requests...)
		w.after = toSee
		return w
	}
	but := func(w want, change func(*want)) want {
		change(&w)
		return w
	}
	failed := func(reason string, w want) want {
		w.ready, w.degraded, w.state = reason, reason, v1.StateFailed
		return w
	}
	for name, test := range map[string]struct {
		fresh bool                    // whether nothing was done yet; else all was
		app   []func(*v1.ApiExampleA) // the object
		given []func(*server)         // what happened then
		want  want
	}{
		"a new object gets its ConfigMap, and no status yet": {
			fresh: true, want: want{requests: []string{createRequest}, after: toSee, left: jimmy},
		},
		"once the ConfigMap is there, the status says so": {
			fresh: true, given: []func(*server){func(s *server) {
				if _, _, err := s.sync(t); err != nil {
					t.Error(err)
				}
				s.Forget()
			}},
			want: but(settled(statusRequest), func(w *want) { w.events = []string{"Normal Greeted ConfigMap sample-greeting holds the greeting"} }),
		},
		"settled: no request at all": {want: settled()},
		"others' keys and labels are left": {
			given: []func(*server){data("theirs", "1"), func(s *server) { s.alter(func(c *corev1.ConfigMap) { c.Labels["theirs"] = "1" }) }},
			want:  settled(),
		},
		"a greeting that another client changed is put back":    {given: []func(*server){data("greeting", "evil")}, want: wrote(applyRequest)},
		"a ConfigMap that another client deleted is made again": {given: []func(*server){gone}, want: wrote(createRequest)},
		"another name: the ConfigMap first, and the status when it is seen": {
			given: []func(*server){edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" })},
			want:  but(wrote(applyRequest), func(w *want) { w.left = "Greetings to Ada Zhuang" }),
		},
		"another generation and the same greeting: the status alone": {
			given: []func(*server){edit(func(*v1.ApiExampleA) {})}, want: settled(statusRequest),
		},
		"another owner's in the cache: reported, and checked again in half a minute": {
			fresh: true, given: []func(*server){taken(true)},
			want: failed(child.ReasonConflict, want{
				requests: []string{statusRequest}, after: child.Recheck, events: []string{"Warning Conflict " + takenMessage}, left: "theirs",
			}),
		},
		"no answer: tried again without a word": {
			given: []func(*server){gone, answer(errors.New("connection refused"))},
			want:  but(settled(createRequest), func(w *want) { w.err, w.left = "create ConfigMap sample-greeting: connection refused", "" }),
		},
		"invalid: told of, and tried again in half a minute": {
			given: []func(*server){gone, answer(invalid)},
			want: failed("ConfigMapRejected", want{
				requests: []string{createRequest, statusRequest}, after: child.Recheck,
				events: []string{`Warning ConfigMapRejected create ConfigMap sample-greeting: ConfigMap "sample-greeting" is invalid`},
			}),
		},
		"an invalid spec that got past admission: told of, and the ConfigMap is left as it is": {
			given: []func(*server){edit(twoLines)},
			want: failed(reasonInvalidSpec, want{
				requests: []string{statusRequest}, left: jimmy, greeting: jimmy,
				events: []string{"Warning InvalidSpec " + example(twoLines).Validate(nil).ToAggregate().Error()},
			}),
		},
		"a ConfigMap that is being deleted is left alone until it is gone": {
			given: []func(*server){terminate, edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" })},
			want: failed("ConfigMapTerminating", want{
				requests: []string{statusRequest}, after: child.Recheck,
				events: []string{"Warning ConfigMapTerminating " + goingMessage}, left: jimmy, greeting: jimmy,
			}),
		},
		"an object that is being deleted is left alone": {
			fresh: true, app: []func(*v1.ApiExampleA){func(e *v1.ApiExampleA) { e.DeletionTimestamp = ptr.To(metav1.NewTime(t0)) }},
		},
		"a paused object is left alone": {fresh: true, app: []func(*v1.ApiExampleA){paused}},
		"an object that is paused later is left alone": {
			given: []func(*server){edit(paused), data("greeting", "edited")}, want: but(settled(), func(w *want) { w.left = "edited" }),
		},
		"an object that is gone is nothing to do": {given: []func(*server){goneExample}, want: want{left: jimmy}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(example(test.app...))
			if !test.fresh {
				s.settle(t)
			}
			for _, change := range test.given {
				change(s)
			}
			s.catchUp()
			requests, after, err := s.sync(t)
			if !slices.Equal(requests, test.want.requests) {
				t.Errorf("requests %q, want %q", requests, test.want.requests)
			}
			if after != test.want.after {
				t.Errorf("after %s, want %s", after, test.want.after)
			}
			if text := errorText(err); text != test.want.err {
				t.Errorf("error %q, want %q", text, test.want.err)
			}
			if events := s.sent(); !slices.EqualFunc(events, test.want.events, strings.HasPrefix) {
				t.Errorf("events %q, want %q", events, test.want.events)
			}
			left := ""
			if c := s.configMap(); c != nil {
				left = c.Data["greeting"]
			}
			if left != test.want.left {
				t.Errorf("the ConfigMap says %q, want %q", left, test.want.left)
			}
			if s.example() == nil {
				return
			}
			for kind, reason := range map[string]string{glassback.ConditionReady: test.want.ready, glassback.ConditionDegraded: test.want.degraded} {
				if got := reasonOf(s.example(), kind); got != reason {
					t.Errorf("%s has reason %q, want %q", kind, got, reason)
				}
			}
			if got := s.example().Status; got.Status != test.want.state || got.Greeting != test.want.greeting {
				t.Errorf("status %s with %q, want %s with %q", got.Status, got.Greeting, test.want.state, test.want.greeting)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func reasonOf(e *v1.ApiExampleA, kind string) string {
	if condition := meta.FindStatusCondition(e.Status.Conditions, kind); condition != nil {
		return condition.Reason
	}
	return ""
}

// TestAFight is against a client that undoes every write at once.
func TestAFight(t *testing.T) {
	for sentence, undo := range map[string]func(*server){
		"who deletes the ConfigMap": gone,
		"who takes the label away":  func(s *server) { s.alter(func(c *corev1.ConfigMap) { c.Labels = nil }) },
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(example()).settle(t)
			undo(s)
			writes, statuses := 0, 0
			for s.clock.Since(t0) < time.Hour {
				s.catchUp()
				requests, after, err := s.sync(t)
				must.Succeed(t, err)
				switch wrote := slices.ContainsFunc(requests, func(r string) bool { return r == createRequest || r == applyRequest }); {
				case wrote:
					writes++
					undo(s)
				case len(requests) > 0:
					statuses++
				case after <= 0:
					t.Fatal("it is given up")
				default:
					s.clock.SetTime(s.clock.Now().Add(after))
				}
				if first := s.clock.Since(t0) == 0 && statuses == 0; first && writes > 4 {
					t.Fatalf("%d writes at once, and no word of it", writes)
				}
			}
			if writes < 15 || writes > 25 || statuses != 1 {
				t.Errorf("%d writes and %d statuses in an hour, want 4 at once, then ever fewer, and one status", writes, statuses)
			}
			if got := reasonOf(s.example(), glassback.ConditionReady); got != "ConfigMapContested" {
				t.Errorf("Ready has reason %s, want ConfigMapContested", got)
			}
			// They stop.
			for range 10 {
				s.catchUp()
				_, after, err := s.sync(t)
				must.Succeed(t, err)
				s.clock.SetTime(s.clock.Now().Add(after))
			}
			got, data := reasonOf(s.example(), glassback.ConditionReady), s.configMap().Data
			if got != reasonGreeted || data["greeting"] != s.example().Greeting() {
				t.Errorf("Ready has reason %s and the data is %v, want that it greets", got, data)
			}
		})
	}
}

func TestAFreedNameIsTaken(t *testing.T) {
	s := newServer(example())
	taken(false)(s)
	var all []string
	for n := range 4 {
		if n == 1 {
			gone(s)
			s.forget()
			all = nil
		}
		requests, _, err := s.sync(t)
		must.Succeed(t, err)
		all = append(all, requests...)
		s.catchUp()
	}
	if want := []string{createRequest, statusRequest}; !slices.Equal(all, want) {
		t.Errorf("requests %q once the name is free, want %q", all, want)
	}
	want := []string{"Normal Greeted ConfigMap sample-greeting holds the greeting", "Normal AsExpected Nothing is wrong"}
	if events := s.sent(); !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}

// TestStatus is the table of what a sync may have found. Conditions are written as "True Reason: message".
func TestStatus(t *testing.T) {
	rejected := func(message string) outcome {
		return outcome{Problem: &child.Problem{Reason: "ConfigMapRejected", Message: message}}
	}
	for sentence, test := range map[string]struct {
		before, now outcome
		plan        plan
		greeting    string // in the ConfigMap; "" for none
		problem     string // reason and message; "" for none
	}{
		"nothing is wrong": {greeting: "Greetings to Jimmy Zhuang"},
		"there is the same problem, in other words: they stay": {
			before: rejected("because"), now: rejected("because of request 2"), problem: "ConfigMapRejected: because",
		},
		"what was written is altered": {
			greeting: "Boo",
			problem:  "ConfigMapAltered: Something, such as a webhook, changes what the operator writes into ConfigMap sample-greeting",
		},
		"the spec is invalid": {
			greeting: "Greetings to Ada", plan: plan{invalid: &child.Problem{Reason: reasonInvalidSpec, Message: "spec.foo: Required value: no"}},
			problem: "InvalidSpec: spec.foo: Required value: no",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := &observed{example: example(func(e *v1.ApiExampleA) { e.Generation = 4 }), now: t0}
			if test.greeting != "" {
				o.configMap.Object = &corev1.ConfigMap{Data: map[string]string{greetingKey: test.greeting}}
			}
			o.example.Status = statusOf(o, test.plan, test.before)
			was := o.example.DeepCopy()
			o.now = t0.Add(time.Hour)
			got := statusOf(o, test.plan, test.now)
			if !equality.Semantic.DeepEqual(o.example, was) || !equality.Semantic.DeepEqual(got, was.Status) {
				t.Errorf("the same state gives another status later: %+v, before %+v", got, was.Status)
			}
			want, state := map[string]string{
				glassback.ConditionReady:       "True Greeted: ConfigMap sample-greeting holds the greeting",
				glassback.ConditionDegraded:    "False AsExpected: Nothing is wrong",
				glassback.ConditionProgressing: "False Settled: All is done",
			}, v1.StateRunning
			if reason, _, bad := strings.Cut(test.problem, ": "); bad {
				want, state = map[string]string{
					glassback.ConditionReady: "False " + test.problem, glassback.ConditionDegraded: "True " + test.problem,
					glassback.ConditionProgressing: "False " + reason + ": Waiting for the problem to be corrected",
				}, v1.StateFailed
			}
			conditions := map[string]string{}
			for _, c := range got.Conditions {
				conditions[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
			if !maps.Equal(conditions, want) {
				t.Errorf("conditions %q, want %q", conditions, want)
			}
			if got.Status != state || got.Greeting != test.greeting || got.ObservedGeneration != 4 {
				t.Errorf("status %+v, want %q, %q and generation 4", got, state, test.greeting)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	const hidden = "    data.greeting: changed, values not shown"
	for sentence, test := range map[string]struct {
		change func(*server)
		want   []string // the first lines of the plan; nil for no plan
	}{
		"settled: nothing to do":        {func(*server) {}, []string{"nothing to do"}},
		"an edited greeting: one write": {data(greetingKey, "theirs"), []string{"update ConfigMap sample-greeting", hidden}},
		"no ConfigMap: it is created":   {gone, []string{"create ConfigMap sample-greeting", "    apiVersion: none → v1", hidden}},
		"an invalid spec: the status":   {edit(twoLines), []string{"update ApiExampleA sample"}},
		"paused: no plan":               {edit(paused), nil},
		"no object: no plan":            {goneExample, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(example()).settle(t)
			test.change(s)
			s.connect() // The program has no memory of earlier syncs.
			s.Forget()
			plan, err := s.Plan(quiet(t), key, false)
			if err != nil || (plan == nil) != (test.want == nil) {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			if requests := s.Requests(); len(requests) > 0 {
				t.Errorf("it made the requests %v", requests)
			}
			if plan == nil {
				return
			}
			lines := plan.Lines(100)
			if len(lines) < len(test.want) || !slices.Equal(lines[:len(test.want)], test.want) || len(plan.Writes) > 1 ||
				plan.Settled() != (test.want[0] == "nothing to do") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestRecord(t *testing.T) {
	recordtest.Covers(t, observed{}, recordedObserved{}, "example")
	recordtest.Covers(t, plan{}, recordedPlan{})
	recordtest.Plain(t, nil, observed{})
}
