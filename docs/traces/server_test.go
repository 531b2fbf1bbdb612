/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package traces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
)

const (
	examples   = "apiexampleas"
	configMaps = "configmaps"
)

// How long things take on this network. What one goroutine causes another one to do through
// the API server is so never at the same instant.
const (
	roundTrip = 2 * time.Millisecond // of a write, until it is stored, and answered
	delivery  = time.Millisecond     // from there to whoever watches
)

// connecting is how long it takes to open a WATCH. It differs, so that no two informers
// read their first objects at the same instant.
var connecting = map[string]time.Duration{examples: time.Millisecond, configMaps: 2 * time.Millisecond}

// object is an ApiExampleA or a ConfigMap.
type object interface {
	metav1.Object
	runtime.Object
}

// server is an API server for ApiExampleAs and their ConfigMaps, as far as an operator can
// tell: resourceVersions, preconditions, server-side apply, WATCH that begins with all objects
// or goes on from a resourceVersion, and a history that can be compacted.
type server struct {
	mu        sync.Mutex
	version   int
	compacted int // events up to this version are forgotten
	stored    map[string]map[string]object
	history   []change
	streams   []*stream

	lost   map[string]bool // resources of which no WATCH can be opened
	slow   time.Duration   // how much longer than roundTrip an answer to a write takes
	refuse bool            // writes
}

// change is one event of the history.
type change struct {
	version  int
	resource string
	kind     watch.EventType
	object   object
}

func newServer() *server {
	return &server{version: 100, stored: map[string]map[string]object{examples: {}, configMaps: {}}, lost: map[string]bool{}}
}

// manager merges what is applied, as an API server does.
var manager = sync.OnceValue(func() *managedfields.FieldManager {
	m, err := managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme,
		undefaulted{}, scheme.Scheme, corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion, "", nil)
	if err != nil {
		panic(err)
	}
	return m
})

// undefaulted is what a ConfigMap needs of defaults.
type undefaulted struct{}

func (undefaulted) Default(runtime.Object) {}

// greet creates the ApiExampleA of that name, or changes who is greeted, as kubectl does.
func (s *server) greet(name, whom string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	example := &v1.ApiExampleA{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if was := s.stored[examples][name]; was != nil {
		example = was.(*v1.ApiExampleA).DeepCopy()
	}
	example.Spec.FirstName = whom
	example.Generation++
	s.store(examples, example)
}

// remove deletes an object, if there is one, as kubectl does.
func (s *server) remove(resource, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.stored[resource][name]
	if was == nil {
		return
	}
	last := was.DeepCopyObject().(object)
	delete(s.stored[resource], name)
	s.version++
	last.SetResourceVersion(strconv.Itoa(s.version))
	s.tell(change{s.version, resource, watch.Deleted, last})
}

// with changes how the server behaves.
func (s *server) with(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// lose breaks the WATCHes of a resource. None can be opened until find.
func (s *server) lose(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[resource] = true
	for _, w := range slices.Clone(s.streams) {
		if w.resource == resource {
			w.end()
		}
	}
}

func (s *server) find(resource string) { s.with(func() { s.lost[resource] = false }) }

// compact forgets the history: to watch from before now is 410 Gone.
func (s *server) compact() { s.with(func() { s.compacted, s.history = s.version, nil }) }

// store stores an object, and tells whoever watches. The caller holds s.mu.
func (s *server) store(resource string, o object) {
	s.version++
	kind := watch.Added
	if was := s.stored[resource][o.GetName()]; was != nil {
		kind = watch.Modified
		o.SetUID(was.GetUID())
	} else {
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version)))
	}
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.stored[resource][o.GetName()] = o
	s.tell(change{s.version, resource, kind, o})
}

func (s *server) tell(c change) {
	s.history = append(s.history, c)
	for _, w := range s.streams {
		if w.resource == c.resource {
			w.send(c.kind, c.object, delivery)
		}
	}
}

// handle answers the requests of a controller.
func (s *server) handle(action clienttesting.Action) (bool, runtime.Object, error) {
	time.Sleep(roundTrip)
	obj, slow, err := s.answer(action)
	time.Sleep(slow)
	return true, obj, err
}

func (s *server) answer(action clienttesting.Action) (runtime.Object, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse {
		return nil, 0, fmt.Errorf("dial tcp 10.96.0.1:443: %w", syscall.ECONNREFUSED)
	}
	var obj runtime.Object
	var err error
	switch a := action.(type) {
	case clienttesting.PatchActionImpl:
		obj, err = s.apply(a)
	case clienttesting.UpdateActionImpl:
		obj, err = s.updateStatus(a)
	default:
		panic(fmt.Sprintf("the controller made a request that the test does not know: %v", action))
	}
	return obj, s.slow, err
}

func (s *server) apply(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	patch, live := &unstructured.Unstructured{}, &corev1.ConfigMap{}
	if err := json.Unmarshal(action.Patch, &patch.Object); err != nil {
		return nil, err
	}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	was := s.stored[configMaps][action.Name]
	if was != nil {
		live = was.(*corev1.ConfigMap).DeepCopy()
	}
	if patch.GetUID() != "" && patch.GetUID() != live.UID || was != nil && patch.GetResourceVersion() != live.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource(configMaps), action.Name, errors.New("it is another one"))
	}
	merged, err := manager().Apply(live.DeepCopy(), patch, glassback.Name, true)
	if err != nil {
		return nil, err
	}
	object := merged.(*corev1.ConfigMap).DeepCopy()
	for i := range object.ManagedFields {
		object.ManagedFields[i].Time = nil
	}
	if !equality.Semantic.DeepEqual(object, live) {
		s.store(configMaps, object)
	}
	return s.stored[configMaps][action.Name].DeepCopyObject(), nil
}

func (s *server) updateStatus(action clienttesting.UpdateActionImpl) (runtime.Object, error) {
	updated := action.Object.(*v1.ApiExampleA)
	was := s.stored[examples][updated.Name].(*v1.ApiExampleA)
	if updated.ResourceVersion != was.ResourceVersion {
		return nil, apierrors.NewConflict(v1.Resource(examples), updated.Name, errors.New("the version is another"))
	}
	example := was.DeepCopy()
	example.Status = *updated.Status.DeepCopy()
	s.store(examples, example)
	return example.DeepCopy(), nil
}

// source is what an informer reads a resource from.
type source struct {
	*server

	resource string
}

var _ cache.ListerWatcherWithContext = source{}

func (s source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

func (s source) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.New("unexpected LIST: a WATCH can begin with all objects")
}

func (s source) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	time.Sleep(connecting[s.resource])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost[s.resource] {
		return nil, fmt.Errorf("dial tcp 10.96.0.1:443: %w", syscall.ECONNREFUSED)
	}
	from, _ := strconv.Atoi(options.ResourceVersion)
	if options.SendInitialEvents == nil && from < s.compacted {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, s.compacted))
	}
	w := newStream(s.server, s.resource)
	if options.SendInitialEvents == nil {
		for _, c := range s.history {
			if c.resource == s.resource && c.version > from {
				w.send(c.kind, c.object, 0)
			}
		}
		return w, nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.stored[s.resource])) {
		w.send(watch.Added, s.stored[s.resource][name], 0)
	}
	mark := object(&corev1.ConfigMap{})
	if s.resource == examples {
		mark = &v1.ApiExampleA{}
	}
	mark.SetResourceVersion(strconv.Itoa(s.version))
	mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	w.send(watch.Bookmark, mark, 0)
	return w, nil
}

// stream is a WATCH that is open. server.mu guards it.
type stream struct {
	server   *server
	resource string
	sent     chan dated // wide enough for a test
	arrived  chan watch.Event
	stopped  chan struct{}
}

// dated is an event that arrives at this time.
type dated struct {
	watch.Event

	at time.Time
}

func newStream(s *server, resource string) *stream {
	w := &stream{server: s, resource: resource, sent: make(chan dated, 1000), arrived: make(chan watch.Event), stopped: make(chan struct{})}
	s.streams = append(s.streams, w)
	go w.carry()
	return w
}

func (w *stream) send(kind watch.EventType, o object, delay time.Duration) {
	w.sent <- dated{watch.Event{Type: kind, Object: o.DeepCopyObject()}, time.Now().Add(delay)}
}

// carry is the network.
func (w *stream) carry() {
	defer close(w.arrived)
	for event := range w.sent {
		time.Sleep(time.Until(event.at))
		select {
		case w.arrived <- event.Event:
		case <-w.stopped:
			return
		}
	}
}

// end is called with server.mu held.
func (w *stream) end() {
	if at := slices.Index(w.server.streams, w); at >= 0 {
		w.server.streams = slices.Delete(w.server.streams, at, at+1)
		close(w.stopped)
		close(w.sent)
	}
}

func (w *stream) ResultChan() <-chan watch.Event { return w.arrived }

func (w *stream) Stop() { w.server.with(w.end) }
