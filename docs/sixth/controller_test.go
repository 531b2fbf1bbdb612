// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/pipeline"
)

var (
	t0  = time.Unix(1641736200, 0)
	key = cache.NewObjectName("shop", "web")
)

const (
	created = "create web-address"
	got     = "get web-address"
	applied = "apply web-address"
	deleted = "delete web-address"
)

// web returns a Service that requests its address.
func web(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "web-1", Labels: map[string]string{LabelAddress: "true"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func unlabelled(s *corev1.Service) { s.Labels = nil }

func paused(s *corev1.Service) { s.Annotations = map[string]string{glassback.AnnotationPaused: "true"} }

func terminating(s *corev1.Service) {
	s.DeletionTimestamp, s.Finalizers = ptr.To(metav1.Now()), []string{"example.com/held"}
}

func at(port int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Port = port }
}

// theirs returns a ConfigMap of another owner.
func theirs(controller ...metav1.OwnerReference) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web-address", Namespace: "shop", OwnerReferences: controller},
		Data:       map[string]string{"HOST": "theirs"},
	}
	return c
}

func data(key, value string) func(*corev1.ConfigMap) {
	return func(c *corev1.ConfigMap) { c.Data[key] = value }
}

// operator is one process, with informers of package pipeline.
type operator struct {
	*Controller
	server    *server
	factories []kubeinformers.SharedInformerFactory
	stores    map[string]cache.Store // by resource
	events    *record.FakeRecorder
}

// config returns the Config of an operator that ends with ctx.
func (o *operator) config(ctx context.Context, s *server, clock clock.WithTicker) Config {
	client := s.client(ctx)
	informer := func(resource string, example fakeapi.Object, match func(fakeapi.Object) bool) kubeinformers.SharedInformerFactory {
		made := pipeline.New(pipeline.Config{
			Resource: resource, Object: example, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			ListerWatcher: fakeapi.Source{Server: s.Server, Example: example, Match: match},
		})
		factory := kubeinformers.NewSharedInformerFactory(client, 0)
		factory.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return made })
		o.factories, o.stores[resource] = append(o.factories, factory), made.GetStore()
		return factory
	}
	services := informer("services", &corev1.Service{}, nil)
	configMaps := informer("configmaps", &corev1.ConfigMap{}, func(c fakeapi.Object) bool { return c.GetLabels()[LabelService] != "" })
	return Config{
		Kube: client, Services: services.Core().V1().Services(), ConfigMaps: configMaps.Core().V1().ConfigMaps(),
		Recorder: o.events, Clock: clock,
	}
}

func newOperator(s *server) *operator {
	return &operator{server: s, stores: map[string]cache.Store{}, events: record.NewFakeRecorder(100)}
}

// connect returns an operator that does not run: a test fills its caches, and calls Sync.
func (s *server) connect(t *testing.T, clock clock.WithTicker) *operator {
	o := newOperator(s)
	o.Controller = newController(o.config(t.Context(), s, clock))
	o.catchUp()
	return o
}

// catchUp brings the caches up to date, as the informers do.
func (o *operator) catchUp() {
	o.server.Cache("services", o.stores["services"], nil)
	o.server.Cache("configmaps", o.stores["configmaps"], fakeapi.Labelled(LabelService))
}

// sync runs Sync once, and returns the requests that it made and the events that it sent.
func (o *operator) sync() (requests, events []string, after time.Duration, err error) {
	after, err = o.Sync(klog.NewContext(context.Background(), klog.Logger{}), key)
	for len(o.events.Events) > 0 {
		events = append(events, <-o.events.Events)
	}
	return o.server.asked(), events, after, err
}

// settle syncs until nothing is written.
func (o *operator) settle(t *testing.T) {
	t.Helper()
	for range 5 {
		o.catchUp()
		if requests, _, _, err := o.sync(); err != nil {
			t.Fatal(err)
		} else if len(requests) == 0 {
			return
		}
	}
	t.Fatal("it did not settle")
}

func TestSync(t *testing.T) {
	const takenMessage = "ConfigMap web-address exists already and has no controller: rename or delete one of the two"
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "web-address", errors.New("exceeded quota"))
	home := map[string]string{"HOST": "web.shop.svc", "PORT": "80"}
	other := func(key, value string) map[string]string {
		data := maps.Clone(home)
		data[key] = value
		return data
	}
	serve := func(change ...func(*corev1.Service)) func(*server) {
		return func(s *server) { s.serve("web", web(change...)) }
	}
	for sentence, test := range map[string]struct {
		fresh   bool            // whether no sync ran before; otherwise the Service is settled
		service *corev1.Service // web() if nil
		given   []func(*server) // changes before the sync
		want    []string        // requests
		events  []string
		after   time.Duration
		err     string
		left    map[string]string // in the ConfigMap; nil for none
	}{
		"a Service that requests it gets a ConfigMap": {fresh: true, want: []string{created}, left: home},
		"settled: no request at all":                  {left: home},
		"another port": {given: []func(*server){serve(at(81))}, want: []string{applied},
			left: other("PORT", "81")},
		"a change of another client is reverted": {given: []func(*server){alter(data("HOST", "evil"))}, want: []string{applied}, left: home},
		"a ConfigMap that another client deleted is created again": {
			given: []func(*server){func(s *server) { s.drop("web-address") }}, want: []string{created}, left: home,
		},
		"a ConfigMap without its label gets it back": {
			given: []func(*server){alter(func(c *corev1.ConfigMap) { c.Labels = nil })}, want: []string{created, got, applied}, left: home,
		},
		"a Service that no longer requests it: the ConfigMap is deleted": {given: []func(*server){serve(unlabelled)}, want: []string{deleted}},
		"... but not a ConfigMap of another owner with the same name": {
			given: []func(*server){func(s *server) { s.drop("web-address"); s.Put(theirs()) }, serve(unlabelled)},
			left:  map[string]string{"HOST": "theirs"},
		},
		"another owner's: reported, left alone, and checked again in half a minute": {
			fresh: true, given: []func(*server){func(s *server) { s.Put(theirs()) }}, want: []string{created, got},
			events: []string{"Warning Conflict " + takenMessage}, after: child.Recheck, left: map[string]string{"HOST": "theirs"},
		},
		"a ConfigMap of an earlier Service of that name: the controller waits for its deletion": {
			fresh: true, given: []func(*server){func(s *server) {
				s.Put(theirs(metav1.OwnerReference{Kind: "Service", Name: "web", UID: "web-0", Controller: ptr.To(true)}))
			}},
			want: []string{created, got}, after: child.Recheck, left: map[string]string{"HOST": "theirs"},
			events: []string{
				"Warning Conflict ConfigMap web-address belongs to the Service web that was deleted before, and has not been garbage-collected yet",
			},
		},
		"forbidden: an error, and an event": {
			fresh: true, given: []func(*server){answer(forbidden)}, want: []string{created}, after: child.Recheck,
			err:    `create ConfigMap web-address: configmaps "web-address" is forbidden: exceeded quota`,
			events: []string{"Warning ConfigMapNotApplied "},
		},
		"a paused Service is left alone":                {fresh: true, service: web(paused)},
		"a Service that is being deleted is left alone": {fresh: true, service: web(terminating)},
		"a deleted Service: no request, because garbage collection deletes the ConfigMap": {
			given: []func(*server){func(s *server) { s.serve("web", nil) }}, left: home,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newServer()
			if test.service == nil {
				test.service = web()
			}
			s.serve("web", test.service)
			o := s.connect(t, clocktesting.NewFakeClock(t0))
			if !test.fresh {
				o.settle(t)
			}
			for _, change := range test.given {
				change(s)
			}
			o.catchUp()
			requests, events, after, err := o.sync()
			if !slices.Equal(requests, test.want) || after != test.after {
				t.Errorf("requests %q and after %s, want %q and after %s", requests, after, test.want, test.after)
			}
			if !slices.EqualFunc(events, test.events, strings.HasPrefix) {
				t.Errorf("events %q, want %q", events, test.events)
			}
			if (err == nil && test.err != "") || (err != nil && err.Error() != test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if left := s.data("web-address"); !maps.Equal(left, test.left) {
				t.Errorf("the ConfigMap has %v, want %v", left, test.left)
			}
		})
	}
}

func alter(with func(*corev1.ConfigMap)) func(*server) {
	return func(s *server) { s.alter("web-address", with) }
}

func answer(err error) func(*server) {
	return func(s *server) { s.Before = onWrites(func(fakeapi.Request) error { return err }) }
}

func TestAddress(t *testing.T) {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number}
	}
	for sentence, test := range map[string]struct {
		ports []corev1.ServicePort
		want  map[string]string
	}{
		"one port": {[]corev1.ServicePort{port("", 80)}, map[string]string{"PORT": "80"}},
		"ports with names": {
			[]corev1.ServicePort{port("http", 80), port("http-admin", 8081)}, map[string]string{"PORT_HTTP": "80", "PORT_HTTP_ADMIN": "8081"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			test.want["HOST"] = "web.shop.svc"
			service := web(func(s *corev1.Service) { s.Spec.Ports = test.ports })
			if got := configMap(service).Data; !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAStaleCacheDeletesNothingOfOthers(t *testing.T) {
	s := newServer()
	s.serve("web", web())
	o := s.connect(t, clocktesting.NewFakeClock(t0))
	o.settle(t)
	s.serve("web", web(unlabelled))
	o.catchUp() // From now on the cache is stale: another client replaces the ConfigMap.
	s.drop("web-address")
	s.Put(theirs())
	if requests, _, _, err := o.sync(); !apierrors.IsConflict(err) || !slices.Equal(requests, []string{deleted}) {
		t.Errorf("requests %q, error %v, want a delete that meets a conflict", requests, err)
	}
	if s.data("web-address")["HOST"] != "theirs" {
		t.Error("another owner's ConfigMap is gone")
	}
}

// quiet is an informer that delivers no notification, and lets a test call its handler.
type quiet struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (q *quiet) GetStore() cache.Store { return cache.NewStore(cache.MetaNamespaceKeyFunc) }

func (q *quiet) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	q.handler = handler
	return nil, nil
}

func TestWhatPutsAKeyIntoTheQueue(t *testing.T) {
	child := theirs(metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "web-1", Controller: ptr.To(true)})
	for sentence, test := range map[string]struct {
		happens func(services, configMaps cache.ResourceEventHandler)
		want    int
	}{
		"a Service that requests it":    {func(s, _ cache.ResourceEventHandler) { s.OnAdd(web(), false) }, 1},
		"a Service that does not: none": {func(s, _ cache.ResourceEventHandler) { s.OnAdd(web(unlabelled), false) }, 0},
		"a Service that no longer requests it": {func(s, _ cache.ResourceEventHandler) {
			now := web(unlabelled)
			now.ResourceVersion = "2"
			s.OnUpdate(web(), now)
		}, 1},
		"its ConfigMap": {func(_, c cache.ResourceEventHandler) { c.OnAdd(child, false) }, 1},
		"its ConfigMap whose deletion was missed": {func(_, c cache.ResourceEventHandler) {
			c.OnDelete(cache.DeletedFinalStateUnknown{Key: "shop/web-address", Obj: child})
		}, 1},
		"another owner's ConfigMap: none": {func(_, c cache.ResourceEventHandler) { c.OnAdd(theirs(), false) }, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := loop.New(loop.Config{Name: Name})
				services, configMaps := &quiet{}, &quiet{}
				if err := errors.Join(l.Watch(services, kind.Kind, requested),
					l.Watch(configMaps, "ConfigMap", loop.ControllerOf(kind.Group, kind.Kind))); err != nil {
					t.Fatal(err)
				}
				go l.Run(t.Context(), t.Context(), 0) // Handlers add keys, and no worker takes them.
				synctest.Wait()
				test.happens(services.handler, configMaps.handler)
				if l.Queue.Len() != test.want {
					t.Fatalf("%d keys wait, want %d", l.Queue.Len(), test.want)
				}
				if test.want > 0 {
					if got, _ := l.Queue.Get(); got != key {
						t.Errorf("%s waits, want %s", got, key)
					}
				}
			})
		})
	}
}

// server is a fake API server with Services and ConfigMaps in one namespace.
type server struct{ *fakeapi.Server }

func newServer() *server { return &server{fakeapi.New()} }

func named(name string) cache.ObjectName { return cache.NewObjectName(key.Namespace, name) }

// client returns the clientset of an operator that dies with ctx: the server gets no request after that.
func (s *server) client(ctx context.Context) *fake.Clientset {
	client := s.Kube()
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return ctx.Err() != nil, nil, ctx.Err() })
	return client
}

// serve stores a Service as another client does; nil deletes it.
func (s *server) serve(name string, service *corev1.Service) {
	live := fakeapi.Get[*corev1.Service](s.Server, named(name))
	switch {
	case service == nil:
		s.Remove("services", named(name))
	case live == nil:
		s.Put(service)
	default:
		fakeapi.Edit(s.Server, named(name), "user", func(changed *corev1.Service) {
			*changed = *service.DeepCopy()
			changed.Generation = live.Generation
		})
	}
}

// alter changes a ConfigMap as another client does.
func (s *server) alter(name string, with func(*corev1.ConfigMap)) {
	fakeapi.Edit(s.Server, named(name), "other-client", with)
}

// drop deletes a ConfigMap.
func (s *server) drop(name string) { s.Remove("configmaps", named(name)) }

// collect deletes the ConfigMaps of Services that are gone, as the garbage collector does.
func (s *server) collect() { s.CollectGarbage() }

// onWrites returns a function for Before or After that calls answer for writes alone.
func onWrites(answer func(fakeapi.Request) error) func(fakeapi.Request) error {
	return func(r fakeapi.Request) error {
		if r.Writes() {
			return answer(r)
		}
		return nil
	}
}

// asked returns the requests since the last call, without those of informers.
func (s *server) asked() []string {
	var asked []string
	for _, r := range s.Requests() {
		if r.Verb != "list" {
			asked = append(asked, r.Action()+" "+r.Name)
		}
	}
	s.Forget()
	return asked
}

// data returns the data of a ConfigMap; nil if there is none.
func (s *server) data(name string) map[string]string {
	if configMap := fakeapi.Get[*corev1.ConfigMap](s.Server, named(name)); configMap != nil {
		return configMap.Data
	}
	return nil
}

// story holds the changes of a Service and its ConfigMap, in their order, and the data that the ConfigMap must hold
// afterwards; nil if it must not exist.
var story = []struct {
	event  string
	happen func(*server)
	want   map[string]string
}{
	{"a Service is created", func(s *server) { s.serve("web", web()) }, onPort("80")},
	{"its port changes", func(s *server) { s.serve("web", web(at(81))) }, onPort("81")},
	{"another client edits the ConfigMap", alter(data("HOST", "evil")), onPort("81")},
	{"another client deletes the ConfigMap", func(s *server) { s.drop("web-address") }, onPort("81")},
	{"another client removes its label", alter(func(c *corev1.ConfigMap) { c.Labels = nil }), onPort("81")},
	{"the Service no longer requests it", func(s *server) { s.serve("web", web(unlabelled)) }, nil},
	{"it requests it again", func(s *server) { s.serve("web", web()) }, onPort("80")},
	{"the Service is deleted", func(s *server) { s.serve("web", nil); s.collect() }, nil},
}

// onPort returns the data of the ConfigMap for a Service web with this port.
func onPort(port string) map[string]string {
	return map[string]string{"HOST": "web.shop.svc", "PORT": port}
}

// TestItConvergesWhereverItCrashes plays the story to operators that run in full. In each run, the operator crashes at one
// write: the first, the second, and so on, until the story has no more writes. It crashes right before the write, or right
// after it, without an answer. The next operator knows only what the server stores.
func TestItConvergesWhereverItCrashes(t *testing.T) {
	for sentence, landed := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(sentence, func(t *testing.T) {
			for n := 1; ; n++ {
				crashed := false
				synctest.Test(t, func(t *testing.T) { crashed = play(t, n, landed) })
				if !crashed {
					if n < len(story) {
						t.Errorf("there were only %d writes", n-1)
					}
					return
				}
			}
		})
	}
}

// play plays the story, with a crash at the nth write. It returns false if the story has fewer writes.
func play(t *testing.T, n int, landed bool) (crashed bool) {
	s := newServer()
	var running *process
	writes := 0
	crash := onWrites(func(fakeapi.Request) error {
		writes++
		if writes != n {
			return nil
		}
		crashed = true
		running.kill()
		return errors.New("the operator crashed")
	})
	if landed {
		s.After = crash
	} else {
		s.Before = crash
	}
	running = start(t, s)
	for _, step := range story {
		step.happen(s)
		time.Sleep(time.Minute)
		if running.ctx.Err() != nil {
			running.ended.Wait()
			running = start(t, s)
			time.Sleep(time.Minute)
		}
		// An operator with a stale cache may have created a ConfigMap for a deleted Service.
		s.collect()
		time.Sleep(time.Minute)
		if got := s.data("web-address"); !maps.Equal(got, step.want) {
			t.Errorf("crash at write %d: %s: the ConfigMap has %v, want %v", n, step.event, got, step.want)
		}
		s.asked()
		time.Sleep(time.Hour)
		if requests := s.asked(); len(requests) > 0 {
			t.Errorf("crash at write %d: %s: requests %q in the hour after", n, step.event, requests)
		}
		if t.Failed() {
			break // The next step depends on this one.
		}
	}
	running.kill()
	running.ended.Wait()
	return crashed
}

// process is one run of the operator.
type process struct {
	ctx   context.Context
	kill  context.CancelFunc
	ended sync.WaitGroup
}

func start(t *testing.T, s *server) *process {
	t.Helper()
	p := &process{}
	p.ctx, p.kill = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	o := newOperator(s)
	var err error
	if o.Controller, err = New(o.config(p.ctx, s, clock.RealClock{})); err != nil {
		t.Fatal(err)
	}
	for _, factory := range o.factories {
		factory.StartWithContext(p.ctx)
		factory.WaitForCacheSyncWithContext(p.ctx)
	}
	p.ended.Go(func() {
		o.Run(p.ctx, p.ctx, 2)
		for _, factory := range o.factories {
			factory.Shutdown()
		}
	})
	return p
}
