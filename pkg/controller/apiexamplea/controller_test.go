// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/report"
)

const (
	createRequest = "create configmaps sample-greeting"
	getRequest    = "get configmaps sample-greeting"
	applyRequest  = "apply configmaps sample-greeting"
	statusRequest = "update apiexampleas/status sample"
	toSee         = 5 * time.Second // how long a write is waited for at most
	goingMessage  = "ConfigMap sample-greeting is being deleted; the operator creates it again when it is gone"
	takenMessage  = "ConfigMap sample-greeting exists already and has no controller: rename or delete one of the two"
)

// taken puts a ConfigMap of another owner where the greeting is to be. With the label, the cache shows it.
func taken(labelled bool, controller *metav1.OwnerReference) func(*server) {
	return func(s *server) {
		theirs := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "sample-greeting", Namespace: "default", UID: "foreign"},
			Data:       map[string]string{"greeting": "theirs"},
		}
		if labelled {
			theirs.Labels = map[string]string{v1.LabelApiExampleA: "sample"}
		}
		if controller != nil {
			theirs.OwnerReferences = []metav1.OwnerReference{*controller}
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

// garbled makes what the operator owns of the ConfigMap unreadable.
func garbled(s *server) {
	fakeapi.Edit(s.Server, configMapKey, "", func(c *corev1.ConfigMap) {
		c.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"x:a":{}}`)
	})
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
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "sample-greeting", errors.New("exceeded quota"))
	conflict := apierrors.NewConflict(corev1.Resource("configmaps"), "sample-greeting", errors.New("the object has another version"))
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
	failed := func(reason string, w want) want {
		w.ready, w.degraded, w.state = reason, reason, v1.StateFailed
		return w
	}
	earlier := &metav1.OwnerReference{Kind: "ApiExampleA", Name: "sample", UID: "before", Controller: ptr.To(true)}
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
			want: func() want {
				w := settled(statusRequest)
				w.events = []string{"Normal Greeted ConfigMap sample-greeting holds the greeting"}
				return w
			}(),
		},
		"settled: no request at all": {want: settled()},
		"others' keys and labels are left": {
			given: []func(*server){data("theirs", "1"), func(s *server) { s.alter(func(c *corev1.ConfigMap) { c.Labels["theirs"] = "1" }) }},
			want:  settled(),
		},
		"a greeting that another client changed is put back": {given: []func(*server){data("greeting", "evil")}, want: wrote(applyRequest)},
		"a greeting that another client removed is put back": {
			given: []func(*server){func(s *server) { s.alter(func(c *corev1.ConfigMap) { c.Data = nil }) }},
			want:  wrote(applyRequest),
		},
		"a ConfigMap that another client deleted is made again": {given: []func(*server){gone}, want: wrote(createRequest)},
		"another name: the ConfigMap first, and the status when it is seen": {
			given: []func(*server){edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" })},
			want: func() want {
				w := wrote(applyRequest)
				w.left = "Greetings to Ada Zhuang"
				return w
			}(),
		},
		"another generation and the same greeting: the status alone": {
			given: []func(*server){edit(func(*v1.ApiExampleA) {})}, want: settled(statusRequest),
		},
		"another owner's in the cache: reported, and checked again in half a minute": {
			fresh: true, given: []func(*server){taken(true, nil)},
			want: failed(child.ReasonConflict, want{
				requests: []string{statusRequest}, after: child.Recheck, events: []string{"Warning Conflict " + takenMessage}, left: "theirs",
			}),
		},
		"another owner's that the cache does not show: the same": {
			fresh: true, given: []func(*server){taken(false, nil)},
			want: failed(child.ReasonConflict, want{
				requests: []string{createRequest, getRequest, statusRequest}, after: child.Recheck,
				events: []string{"Warning Conflict " + takenMessage}, left: "theirs",
			}),
		},
		"another owner's, reported already: no write, and checked again in half a minute": {
			fresh: true, given: []func(*server){taken(true, nil), func(s *server) {
				s.catchUp()
				if _, _, err := s.sync(t); err != nil {
					t.Error(err)
				}
				s.forget()
			}},
			want: failed(child.ReasonConflict, want{after: child.Recheck, left: "theirs"}),
		},
		"one of the object that had the name before: it is waited for": {
			fresh: true, given: []func(*server){taken(true, earlier)},
			want: failed(child.ReasonConflict, want{
				requests: []string{statusRequest}, after: child.Recheck, left: "theirs",
				events: []string{"Warning Conflict ConfigMap sample-greeting belongs to the ApiExampleA sample that was deleted before, " +
					"and has not been garbage-collected yet"},
			}),
		},
		"exists already, is ours and not in the cache: applied to": {
			given: []func(*server){func(s *server) { s.alter(func(c *corev1.ConfigMap) { delete(c.Labels, v1.LabelApiExampleA) }) }},
			want:  wrote(createRequest, getRequest, applyRequest),
		},
		"exists already, is as it should be, and no cache shows it yet: tried again without a word": {
			fresh: true, given: []func(*server){func(s *server) {
				if _, _, err := s.sync(t); err != nil {
					t.Error(err)
				}
				s.Forget()
				s.connect()
				s.configMaps.See(0)
				s.configMaps = s.Cache("configmaps", cache.NewStore(cache.MetaNamespaceKeyFunc), nil) // So that the operator's stays empty.
			}},
			want: want{
				requests: []string{createRequest, getRequest, applyRequest}, left: jimmy,
				err: `Operation cannot be fulfilled on configmaps "sample-greeting": the object has another version`,
			},
		},
		"no answer: tried again without a word": {
			given: []func(*server){gone, answer(errors.New("connection refused"))},
			want: func() want {
				w := settled(createRequest)
				w.err, w.left = "create ConfigMap sample-greeting: connection refused", ""
				return w
			}(),
		},
		"invalid: told of, and tried again in half a minute": {
			given: []func(*server){gone, answer(invalid)},
			want: failed("ConfigMapRejected", want{
				requests: []string{createRequest, statusRequest}, after: child.Recheck,
				events: []string{`Warning ConfigMapRejected create ConfigMap sample-greeting: ConfigMap "sample-greeting" is invalid`},
			}),
		},
		"forbidden: told of, and tried again": {
			given: []func(*server){gone, answer(forbidden)},
			want: failed("ConfigMapNotApplied", want{
				requests: []string{createRequest, statusRequest}, after: child.Recheck,
				err: `create ConfigMap sample-greeting: configmaps "sample-greeting" is forbidden: exceeded quota`,
				events: []string{"Warning ConfigMapNotApplied The API server does not accept the ConfigMap at present, and the operator retries: " +
					`create ConfigMap sample-greeting: configmaps "sample-greeting" is forbidden: exceeded quota`},
			}),
		},
		"another client wrote in between: a quiet retry, without a status": {
			given: []func(*server){edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" }), answer(conflict)},
			want: func() want {
				w := settled(applyRequest)
				w.err = `apply ConfigMap sample-greeting: Operation cannot be fulfilled on configmaps "sample-greeting": the object has another version`
				return w
			}(),
		},
		"another client wrote the object in between: a quiet retry": {
			given: []func(*server){edit(func(*v1.ApiExampleA) {}), func(s *server) {
				s.Before = func(fakeapi.Request) error {
					return apierrors.NewConflict(v1.Resource("apiexampleas"), "sample", errors.New("the object has another version"))
				}
			}},
			want: func() want {
				w := settled(statusRequest)
				w.err = "update status of ApiExampleA sample: Operation cannot be fulfilled on apiexampleas.groupa.k8s.zhuang.com " +
					`"sample": the object has another version`
				return w
			}(),
		},
		"the object was deleted in between: nothing to report on": {
			given: []func(*server){edit(func(*v1.ApiExampleA) {}), func(s *server) {
				s.Before = func(fakeapi.Request) error { return apierrors.NewNotFound(v1.Resource("apiexampleas"), "sample") }
			}},
			want: settled(statusRequest),
		},
		"an invalid spec that got past admission: told of, and the ConfigMap is left as it is": {
			given: []func(*server){edit(twoLines)},
			want: failed(reasonInvalidSpec, want{
				requests: []string{statusRequest}, left: jimmy, greeting: jimmy,
				events: []string{"Warning InvalidSpec " + example(twoLines).Validate(nil).ToAggregate().Error()},
			}),
		},
		"an invalid spec from the start: told of, and no ConfigMap is made": {
			fresh: true, app: []func(*v1.ApiExampleA){twoLines},
			want: failed(reasonInvalidSpec, want{
				requests: []string{statusRequest},
				events:   []string{"Warning InvalidSpec " + example(twoLines).Validate(nil).ToAggregate().Error()},
			}),
		},
		"a ConfigMap that is being deleted is left alone until it is gone": {
			given: []func(*server){terminate, edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" })},
			want: failed("ConfigMapTerminating", want{
				requests: []string{statusRequest}, after: child.Recheck,
				events: []string{"Warning ConfigMapTerminating " + goingMessage}, left: jimmy, greeting: jimmy,
			}),
		},
		"a ConfigMap that is being deleted, as it should be: the same": {
			given: []func(*server){terminate},
			want: failed("ConfigMapTerminating", want{
				requests: []string{statusRequest}, after: child.Recheck,
				events: []string{"Warning ConfigMapTerminating " + goingMessage}, left: jimmy, greeting: jimmy,
			}),
		},
		"a ConfigMap whose fields cannot be told is left alone": {
			given: []func(*server){garbled, edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" })},
			want: failed("ConfigMapUnreadable", want{
				requests: []string{statusRequest}, after: child.Recheck,
				events: []string{"Warning ConfigMapUnreadable "}, left: jimmy, greeting: jimmy,
			}),
		},
		"an object that is being deleted is left alone": {
			fresh: true, app: []func(*v1.ApiExampleA){func(e *v1.ApiExampleA) { e.DeletionTimestamp = ptr.To(metav1.NewTime(t0)) }},
		},
		"a paused object is left alone": {fresh: true, app: []func(*v1.ApiExampleA){paused}},
		"an object that is paused later is left alone": {given: []func(*server){edit(paused), data("greeting", "edited")}, want: func() want {
			w := settled()
			w.left = "edited"
			return w
		}()},
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

func TestSyncDoesNotActOnACacheOlderThanItsWrites(t *testing.T) {
	s := newServer(example())
	for _, want := range []string{createRequest, statusRequest} {
		if requests, _, err := s.sync(t); err != nil || !slices.Equal(requests, []string{want}) {
			t.Fatalf("requests %q, error %v; want %q", requests, err, want)
		}
		if requests, after, _ := s.sync(t); len(requests) != 0 || after != 5*time.Second {
			t.Errorf("requests %q and after %s before the cache shows it, want none and 5s", requests, after)
		}
		s.catchUp()
	}
	if requests, after, err := s.sync(t); len(requests) != 0 || after != 0 || err != nil {
		t.Errorf("requests %q, after %s, error %v once the caches show all; want nothing", requests, after, err)
	}
}

// TestTheStatusComesWithoutAnEvent is about a write whose event came before it was
// noted, or never: the time that a sync asks for leads to the next one.
func TestTheStatusComesWithoutAnEvent(t *testing.T) {
	for sentence, given := range map[string]func(*server){
		"after a create":  func(*server) {},
		"after an update": func(s *server) { s.settle(t); edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" })(s) },
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(example())
			given(s)
			s.catchUp()
			for calls := 1; ; calls++ {
				requests, after, err := s.sync(t)
				if err != nil || calls > 5 {
					t.Fatalf("requests %q, error %v in the sync no. %d", requests, err, calls)
				}
				if slices.Equal(requests, []string{statusRequest}) {
					break
				}
				if after <= 0 {
					t.Fatalf("requests %q, and no time to sync again: the status is never written", requests)
				}
				s.clock.SetTime(s.clock.Now().Add(after))
				s.catchUp()
			}
			if e := s.example(); e.Status.ObservedGeneration != e.Generation || e.Status.Greeting != e.Greeting() {
				t.Errorf("status %+v, want that it greets", e.Status)
			}
		})
	}
}

// TestAFight is against a client that undoes every write at once.
func TestAFight(t *testing.T) {
	for sentence, undo := range map[string]func(*server){
		"who changes the greeting":    data("greeting", "theirs"),
		"who deletes the ConfigMap":   gone,
		"who takes the label away":    func(s *server) { s.alter(func(c *corev1.ConfigMap) { c.Labels = nil }) },
		"who takes the greeting away": func(s *server) { s.alter(func(c *corev1.ConfigMap) { c.Data = nil }) },
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

func TestWhatIsGoneIsForgotten(t *testing.T) {
	s := newServer(example()).settle(t)
	for range 10 {
		data("greeting", "theirs")(s)
		s.catchUp()
		if _, _, err := s.sync(t); err != nil {
			t.Fatal(err)
		}
	}
	if got := reasonOf(s.example(), glassback.ConditionReady); got != "ConfigMapContested" {
		t.Fatalf("Ready has reason %s, want ConfigMapContested", got)
	}
	again := s.example().DeepCopy()
	goneExample(s)
	s.catchUp()
	if _, _, err := s.sync(t); err != nil {
		t.Fatal(err)
	}
	again.Status = v1.ApiExampleAStatus{}
	s.Put(again)
	s.catchUp()
	if requests, _, err := s.sync(t); err != nil || !slices.Equal(requests, []string{applyRequest}) {
		t.Errorf("requests %q, error %v of one that has the name anew; want the repair at once", requests, err)
	}
}

func TestAStaleCacheChangesNothingOfOthers(t *testing.T) {
	s := newServer(example()).settle(t)
	before := s.configMaps.At()
	taken(true, nil)(s)
	theirs := s.configMap()
	edit(func(e *v1.ApiExampleA) { e.Spec.FirstName = "Ada" })(s)
	s.catchUp()
	s.configMaps.See(before)
	if requests, _, err := s.sync(t); !apierrors.IsConflict(err) || s.configMap() != theirs {
		t.Errorf("requests %q, error %v, want a conflict and another owner's ConfigMap as it was", requests, err)
	}
}

func TestAFreedNameIsTaken(t *testing.T) {
	s := newServer(example())
	taken(false, nil)(s)
	if _, _, err := s.sync(t); err != nil {
		t.Fatal(err)
	}
	s.catchUp()
	gone(s)
	s.forget()
	var all []string
	for range 3 {
		requests, _, err := s.sync(t)
		must.Succeed(t, err)
		all = append(all, requests...)
		s.catchUp()
	}
	if want := []string{createRequest, statusRequest}; !slices.Equal(all, want) {
		t.Errorf("requests %q, want %q", all, want)
	}
	want := []string{"Normal Greeted ConfigMap sample-greeting holds the greeting", "Normal AsExpected Nothing is wrong"}
	if events := s.sent(); !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}

// deaf is an informer without a watch: only a test calls its handlers.
type deaf struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (d *deaf) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	d.handlers = append(d.handlers, handler)
	return nil, nil
}

// TestTombstones is about deletions that the watch has missed.
func TestTombstones(t *testing.T) {
	for sentence, test := range map[string]struct {
		gone     func(*server)
		requests []string
	}{
		"of the ConfigMap: it is made again": {gone, []string{createRequest}},
		"of the object: nothing":             {goneExample, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(example()).settle(t)
				examples := &deaf{SharedIndexInformer: cache.NewSharedIndexInformer(nil, &v1.ApiExampleA{}, 0,
					cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
				configMaps := &deaf{SharedIndexInformer: cache.NewSharedIndexInformer(nil, &corev1.ConfigMap{}, 0, cache.Indexers{})}
				c, err := New(s.config(func(kube kubeinformers.SharedInformerFactory, own externalversions.SharedInformerFactory) {
					own.InformerFor(&v1.ApiExampleA{}, func(versioned.Interface, time.Duration) cache.SharedIndexInformer { return examples })
					kube.InformerFor(&corev1.ConfigMap{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return configMaps })
				}))
				must.Succeed(t, err)
				go c.Run(t.Context(), t.Context(), 0) // Handlers add keys, and no worker takes them.
				synctest.Wait()
				tombstones := map[*deaf]any{examples: s.example(), configMaps: s.configMap()}
				test.gone(s)
				if s.example() != nil {
					delete(tombstones, examples)
				} else {
					delete(tombstones, configMaps)
				}
				s.fill(examples, configMaps)
				for informer, obj := range tombstones {
					informer.handlers[0].OnDelete(cache.DeletedFinalStateUnknown{Key: "default/sample", Obj: obj})
				}
				if n := c.loop.Queue.Len(); n != 1 {
					t.Fatalf("%d keys wait, want that of %s", n, key)
				}
				queued, _ := c.loop.Queue.Get()
				c.loop.Queue.Done(queued)
				if queued != key {
					t.Errorf("%s waits, want %s", queued, key)
				}
				if _, err := c.Sync(quiet(t), queued); err != nil {
					t.Fatal(err)
				}
				if requests := fakeapi.Strings(s.Requests()); !slices.Equal(requests, test.requests) {
					t.Errorf("requests %q, want %q", requests, test.requests)
				}
			})
		})
	}
}

func TestGreeting(t *testing.T) {
	for sentence, test := range map[string]struct {
		spec v1.ApiExampleASpec
		want string
	}{
		"both names":                {v1.ApiExampleASpec{Foo: "you", FirstName: "Jimmy", LastName: "Zhuang"}, "Greetings to Jimmy Zhuang"},
		"a first name":              {v1.ApiExampleASpec{Foo: "you", FirstName: "Jimmy"}, "Greetings to Jimmy"},
		"a last name":               {v1.ApiExampleASpec{Foo: "you", LastName: "Zhuang"}, "Greetings to Zhuang"},
		"no name":                   {v1.ApiExampleASpec{Foo: "you"}, "Greetings to you"},
		"nothing: the object's own": {v1.ApiExampleASpec{}, "Greetings to sample"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer(example(func(e *v1.ApiExampleA) { e.Spec = test.spec })).settle(t)
			if want := map[string]string{"greeting": test.want}; !maps.Equal(s.configMap().Data, want) || s.example().Status.Greeting != test.want {
				t.Errorf("data %v and status %q, want %q", s.configMap().Data, s.example().Status.Greeting, test.want)
			}
		})
	}
}
