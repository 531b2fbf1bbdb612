// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	// Errors are part of these tests. Also, client-go's error handler compares two clocks and sleeps. One of the clocks is outside of the
	// synctest bubble.
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(klog.Logger{})
	os.Exit(m.Run())
}

// fakeAPI is a fake API server for ConfigMaps, with all that a Reflector uses. It has resourceVersions, a history that can be compacted,
// LIST, WATCH from a resourceVersion, WATCH that begins with the present objects, bookmarks, and failures on demand. Any number of clients
// can connect. All of them get the same objects, but each has its own failures. The tests cannot use pkg/fakeapi: its watches send no
// errors, and no bookmarks after the first one.
type fakeAPI struct {
	mu        sync.Mutex
	version   int
	compacted int // the history has no events up to this version
	objects   map[string]*corev1.ConfigMap
	history   []watch.Event
	clients   []*fakeClient
	managed   []metav1.ManagedFieldsEntry // of the next objects that are put
}

// fakeClient is one client's ListerWatcher.
type fakeClient struct {
	api       *fakeAPI
	streaming bool // whether the server supports sendInitialEvents

	// What happens to the initial events of a WATCH.
	loses bool          // the bookmark that ends them is lost
	every time.Duration // how long each takes; 0 for none

	// Guarded by api.mu.
	watches   []*fakeWatch
	lists     int // number of answered LIST requests
	streams   int // number of answered WATCH requests with sendInitialEvents
	refuse    bool
	failLists []error // the next LIST requests fail with these
	failWatch []error
}

// fakeWatch is one open WATCH. Its channel has room for all events of a test.
type fakeWatch struct {
	client *fakeClient
	events chan watch.Event
	closed bool
}

// newFakeAPI returns a server with objects of these keys. Their resourceVersions are 2, 3 and so on.
func newFakeAPI(keys ...string) *fakeAPI {
	a := &fakeAPI{version: 1, objects: map[string]*corev1.ConfigMap{}}
	for _, key := range keys {
		a.put(key)
	}
	return a
}

func (a *fakeAPI) newClient(streaming bool) *fakeClient {
	c := &fakeClient{api: a, streaming: streaming}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clients = append(a.clients, c)
	return c
}

// put creates or updates the object with the key "namespace/name".
func (a *fakeAPI) put(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	namespace, name, _ := cache.SplitMetaNamespaceKey(key)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: strconv.Itoa(a.version)}}
	object.ManagedFields = a.managed
	object.Data = map[string]string{"color": []string{"red", "green", "blue"}[a.version%3]}
	kind := watch.Added
	if _, ok := a.objects[key]; ok {
		kind = watch.Modified
	}
	a.objects[key] = object
	a.send(kind, object)
}

// remove deletes the object with the key, if it exists.
func (a *fakeAPI) remove(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	object, ok := a.objects[key]
	if !ok {
		return
	}
	a.version++
	delete(a.objects, key)
	last := object.DeepCopy()
	last.ResourceVersion = strconv.Itoa(a.version)
	a.send(watch.Deleted, last)
}

func (a *fakeAPI) send(kind watch.EventType, object *corev1.ConfigMap) {
	a.history = append(a.history, watch.Event{Type: kind, Object: object})
	for _, w := range a.open() {
		w.send(kind, object)
	}
}

// open returns all open watches. The caller holds a.mu.
func (a *fakeAPI) open() (watches []*fakeWatch) {
	for _, c := range a.clients {
		watches = append(watches, c.watches...)
	}
	return watches
}

// bookmark sends a bookmark to all watches. It increases the version, as a write to an object of another kind does.
func (a *fakeAPI) bookmark() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	for _, w := range a.open() {
		w.bookmark(a.version, false)
	}
}

// closeWatches ends all watches, as a server does after some minutes.
func (a *fakeAPI) closeWatches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.open() {
		w.end()
	}
}

// expireWatches ends all watches with 410 Gone, within the stream.
func (a *fakeAPI) expireWatches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.open() {
		status := apierrors.NewResourceExpired("too old").Status()
		w.events <- watch.Event{Type: watch.Error, Object: &status}
		w.end()
	}
}

// compact removes the history: a WATCH from an earlier version gets 410 Gone.
func (a *fakeAPI) compact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.compacted = a.version
	a.history = nil
}

// offline ends all watches, and refuses all requests until online.
func (a *fakeAPI) offline(refuse bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.clients {
		c.refuse = refuse
	}
	if refuse {
		for _, w := range a.open() {
			w.end()
		}
	}
}

// fail makes the next requests of every client fail.
func (a *fakeAPI) fail(lists, watches []error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.clients {
		c.failLists = append(c.failLists, lists...)
		c.failWatch = append(c.failWatch, watches...)
	}
}

// contents returns the resourceVersions of all objects, by key.
func (a *fakeAPI) contents() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	versions := map[string]string{}
	for key, object := range a.objects {
		versions[key] = object.ResourceVersion
	}
	return versions
}

func (c *fakeClient) IsWatchListSemanticsUnSupported() bool { return false }

func (c *fakeClient) List(metav1.ListOptions) (runtime.Object, error) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	if err := c.failure(&c.failLists); err != nil {
		return nil, err
	}
	c.lists++
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(c.api.version)}}
	for _, key := range slices.Sorted(maps.Keys(c.api.objects)) {
		list.Items = append(list.Items, *c.api.objects[key].DeepCopy())
	}
	return list, nil
}

func (c *fakeClient) Watch(options metav1.ListOptions) (watch.Interface, error) {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	if initial && !c.streaming {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	}
	if err := c.failure(&c.failWatch); err != nil {
		return nil, err
	}
	from, _ := strconv.Atoi(options.ResourceVersion)
	if !initial && from < c.api.compacted {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, c.api.compacted))
	}
	w := &fakeWatch{client: c, events: make(chan watch.Event, 4096)}
	c.watches = append(c.watches, w)
	if initial {
		c.streams++
		if c.every > 0 {
			go w.stream()
		} else {
			w.streamLocked(func() {})
		}
		return w, nil
	}
	for _, event := range c.api.history {
		object := event.Object.(*corev1.ConfigMap)
		if version, _ := strconv.Atoi(object.ResourceVersion); version > from {
			w.send(event.Type, object)
		}
	}
	return w, nil
}

// stream sends the initial events, slowly.
func (w *fakeWatch) stream() {
	w.client.api.mu.Lock()
	defer w.client.api.mu.Unlock()
	w.streamLocked(func() {
		w.client.api.mu.Unlock()
		time.Sleep(w.client.every)
		w.client.api.mu.Lock()
	})
}

// streamLocked sends the initial events, and calls pause before each. The caller holds api.mu.
func (w *fakeWatch) streamLocked(pause func()) {
	for _, key := range slices.Sorted(maps.Keys(w.client.api.objects)) {
		if pause(); w.closed {
			return
		}
		w.send(watch.Added, w.client.api.objects[key])
	}
	if !w.client.loses {
		w.bookmark(w.client.api.version, true)
	}
}

// failure returns the error of a request. The caller holds api.mu.
func (c *fakeClient) failure(planned *[]error) error {
	if c.refuse {
		return fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	}
	if len(*planned) == 0 {
		return nil
	}
	err := (*planned)[0]
	*planned = (*planned)[1:]
	return err
}

// send sends a copy to each watch, since a client may change the object.
func (w *fakeWatch) send(kind watch.EventType, object *corev1.ConfigMap) {
	w.events <- watch.Event{Type: kind, Object: object.DeepCopy()}
}

func (w *fakeWatch) bookmark(version int, endOfInitialEvents bool) {
	mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}
	if endOfInitialEvents {
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	w.events <- watch.Event{Type: watch.Bookmark, Object: mark}
}

// end closes the watch. The caller holds api.mu.
func (w *fakeWatch) end() {
	if !w.closed {
		w.closed = true
		close(w.events)
		w.client.watches = slices.DeleteFunc(w.client.watches, func(o *fakeWatch) bool { return o == w })
	}
}

func (w *fakeWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *fakeWatch) Stop() {
	w.client.api.mu.Lock()
	defer w.client.api.mu.Unlock()
	w.end()
}

// transient are the errors of a busy API server.
var transient = []error{
	apierrors.NewInternalError(errors.New("leader changed")), apierrors.NewTooManyRequests("later", 1),
	apierrors.NewServiceUnavailable("starting"),
	apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "list", schema.GroupResource{}, "", "slow", 0, true),
}

// journal records the calls of a handler, object by object.
type journal struct {
	mu    sync.Mutex
	calls map[string][]call
}

// call is one call of a handler.
type call struct {
	method    string // add, update, delete
	old, new  string // resourceVersions; empty where the method has no such argument
	initial   bool
	tombstone bool
}

func (c call) String() string {
	switch c.method {
	case "add":
		return fmt.Sprintf("add %s (initial %t)", c.new, c.initial)
	case "delete":
		return fmt.Sprintf("delete %s (tombstone %t)", c.old, c.tombstone)
	}
	return fmt.Sprintf("%s %s → %s", c.method, c.old, c.new)
}

func (j *journal) record(obj any, c call) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		panic(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.calls == nil {
		j.calls = map[string][]call{}
	}
	j.calls[key] = append(j.calls[key], c)
}

func (j *journal) OnAdd(obj any, initial bool) {
	j.record(obj, call{method: "add", new: versionOf(obj), initial: initial})
}

func (j *journal) OnUpdate(old, obj any) {
	j.record(obj, call{method: "update", old: versionOf(old), new: versionOf(obj)})
}

func (j *journal) OnDelete(obj any) {
	c := call{method: "delete", old: versionOf(obj)}
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		c = call{method: "delete", old: versionOf(last.Obj), tombstone: true}
	}
	j.record(obj, c)
}

// take returns the calls since the last take.
func (j *journal) take() map[string][]call {
	j.mu.Lock()
	defer j.mu.Unlock()
	calls := j.calls
	j.calls = nil
	return calls
}

func versionOf(obj any) string {
	if object, ok := obj.(metav1.Object); ok {
		return object.GetResourceVersion()
	}
	return ""
}

// versions returns the resourceVersions in an index, by key.
func versions(index cache.Store) map[string]string {
	held := map[string]string{}
	for _, obj := range index.List() {
		key, _ := cache.MetaNamespaceKeyFunc(obj)
		held[key] = versionOf(obj)
	}
	return held
}
