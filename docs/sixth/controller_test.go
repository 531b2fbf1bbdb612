// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
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
	informer := func(
		resource string, object runtime.Object, list cache.ListWithContextFunc, watch cache.WatchFuncWithContext,
	) kubeinformers.SharedInformerFactory {
		made := pipeline.New(pipeline.Config{
			Resource: resource, Object: object, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			ListerWatcher: cache.ToListWatcherWithWatchListSemantics(
				&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watch}, client),
		})
		factory := kubeinformers.NewSharedInformerFactory(client, 0)
		factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return made })
		o.factories, o.stores[resource] = append(o.factories, factory), made.GetStore()
		return factory
	}
	core := client.CoreV1()
	services := informer("services", &corev1.Service{},
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return core.Services("").List(ctx, options)
		},
		core.Services("").Watch)
	configMaps := informer("configmaps", &corev1.ConfigMap{},
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = LabelService
			return core.ConfigMaps("").List(ctx, options)
		},
		func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = LabelService
			return core.ConfigMaps("").Watch(ctx, options)
		})
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
		"a Service that requests it gets a ConfigMap":        {fresh: true, want: []string{created}, left: home},
		"settled: no request at all":                         {left: home},
		"a Service that requests nothing: no request at all": {service: web(unlabelled)},
		"another port":                           {given: []func(*server){serve(at(81))}, want: []string{applied}, left: other("PORT", "81")},
		"a change of another client is reverted": {given: []func(*server){alter(data("HOST", "evil"))}, want: []string{applied}, left: home},
		"a key of another client stays":          {given: []func(*server){alter(data("MINE", "stays"))}, left: other("MINE", "stays")},
		"a ConfigMap that another client deleted is created again": {
			given: []func(*server){func(s *server) { s.drop("web-address") }}, want: []string{created}, left: home,
		},
		"a ConfigMap without its label gets it back": {
			given: []func(*server){alter(func(c *corev1.ConfigMap) { c.Labels = nil })}, want: []string{created, got, applied}, left: home,
		},
		"a Service that no longer requests it: the ConfigMap is deleted": {given: []func(*server){serve(unlabelled)}, want: []string{deleted}},
		"... but not a ConfigMap of another owner with the same name": {
			given: []func(*server){func(s *server) { s.drop("web-address"); s.put(theirs()) }, serve(unlabelled)},
			left:  map[string]string{"HOST": "theirs"},
		},
		"another owner's: reported, left alone, and checked again in half a minute": {
			fresh: true, given: []func(*server){func(s *server) { s.put(theirs()) }}, want: []string{created, got},
			events: []string{"Warning Conflict " + takenMessage}, after: child.Recheck, left: map[string]string{"HOST": "theirs"},
		},
		"a ConfigMap of an earlier Service of that name: the controller waits for its deletion": {
			fresh: true, given: []func(*server){func(s *server) {
				s.put(theirs(metav1.OwnerReference{Kind: "Service", Name: "web", UID: "web-0", Controller: ptr.To(true)}))
			}},
			want: []string{created, got}, after: child.Recheck, left: map[string]string{"HOST": "theirs"},
			events: []string{
				"Warning Conflict ConfigMap web-address belongs to the Service web that was deleted before, and has not been garbage-collected yet",
			},
		},
		"no answer: an error, and no event": {
			fresh: true, given: []func(*server){answer(errors.New("connection refused"))}, want: []string{created},
			err: "create ConfigMap web-address: connection refused",
		},
		"forbidden: an error, and an event": {
			fresh: true, given: []func(*server){answer(forbidden)}, want: []string{created}, after: child.Recheck,
			err:    `create ConfigMap web-address: configmaps "web-address" is forbidden: exceeded quota`,
			events: []string{"Warning ConfigMapNotApplied "},
		},
		"a paused Service is left alone": {fresh: true, service: web(paused)},
		"a Service that is paused later is left alone": {
			given: []func(*server){serve(paused), alter(data("HOST", "edited"))}, left: other("HOST", "edited"),
		},
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
		"no port, as for an external name": {nil, map[string]string{}},
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

func TestSyncDoesNotActOnACacheOlderThanItsWrites(t *testing.T) {
	s, clock := newServer(), clocktesting.NewFakeClock(t0)
	s.serve("web", web())
	o := s.connect(t, clock)
	if requests, _, _, err := o.sync(); err != nil || !slices.Equal(requests, []string{created}) {
		t.Fatalf("requests %q, error %v", requests, err)
	}
	if requests, _, after, err := o.sync(); len(requests) > 0 || after != 5*time.Second || err != nil {
		t.Errorf("requests %q, after %s, error %v before the cache shows it, want none and 5s", requests, after, err)
	}
	o.catchUp()
	if requests, _, after, err := o.sync(); len(requests) > 0 || after != 0 || err != nil {
		t.Errorf("requests %q, after %s, error %v once it does, want nothing", requests, after, err)
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
	s.put(theirs())
	if requests, _, _, err := o.sync(); !apierrors.IsConflict(err) || !slices.Equal(requests, []string{deleted}) {
		t.Errorf("requests %q, error %v, want a delete that meets a conflict", requests, err)
	}
	if s.data("web-address")["HOST"] != "theirs" {
		t.Error("another owner's ConfigMap is gone")
	}
}

func TestAProblemIsReportedOnce(t *testing.T) {
	s := newServer()
	s.serve("web", web())
	s.put(theirs())
	o := s.connect(t, clocktesting.NewFakeClock(t0))
	var all []string
	for range 3 {
		_, events, _, err := o.sync()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, events...)
	}
	s.drop("web-address")
	for range 3 {
		o.catchUp()
		_, events, _, err := o.sync()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, events...)
	}
	if want := []string{"Warning Conflict ", "Normal Published "}; !slices.EqualFunc(all, want, strings.HasPrefix) {
		t.Errorf("events %q, want %q", all, want)
	}
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	s := newServer()
	s.serve("web", web())
	s.put(theirs())
	o := s.connect(t, clocktesting.NewFakeClock(t0))
	if _, events, _, err := o.sync(); err != nil || len(events) != 1 {
		t.Fatalf("events %q, error %v, want one event", events, err)
	}
	s.serve("web", nil)
	o.catchUp()
	if _, _, _, err := o.sync(); err != nil {
		t.Fatal(err)
	}
	s.serve("web", web(func(s *corev1.Service) { s.UID = "web-2" }))
	o.catchUp()
	if _, events, _, err := o.sync(); err != nil || len(events) != 1 {
		t.Errorf("events %q, error %v of another Service of that name, want one event", events, err)
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
		"a Service whose deletion was missed": {func(s, _ cache.ResourceEventHandler) {
			s.OnDelete(cache.DeletedFinalStateUnknown{Key: key.String(), Obj: web()})
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
