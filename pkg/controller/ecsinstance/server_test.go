/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	typed "github.com/glassback/glassback/pkg/generated/clientset/versioned/typed/alibabacloud/v1alpha1"
)

// object is what a shelf holds.
type object interface {
	runtime.Object
	metav1.Object
}

// shelf is what an API server does for one resource, as far as this controller relies on it:
// resourceVersions that must be those of the last write, finalizers, and watches that may be
// far behind.
type shelf[T object] struct {
	resource schema.GroupResource
	behind   func(watch string) time.Duration // how long an event is on its way

	mu      sync.Mutex
	version int64
	objects map[cache.ObjectName]T
	history []watch.Event
	streams map[*stream]bool
}

func newShelf[T object](group, resource string) *shelf[T] {
	return &shelf[T]{
		resource: schema.GroupResource{Group: group, Resource: resource}, behind: func(string) time.Duration { return 0 },
		objects: map[cache.ObjectName]T{}, streams: map[*stream]bool{},
	}
}

func clone[T object](obj T) T { return obj.DeepCopyObject().(T) }

// store writes obj, and tells of it. The caller holds mu.
func (s *shelf[T]) store(kind watch.EventType, obj T) T {
	s.version++
	obj.SetResourceVersion(strconv.FormatInt(s.version, 10))
	key := cache.MetaObjectToName(obj)
	if kind == watch.Deleted {
		delete(s.objects, key)
	} else {
		s.objects[key] = obj
	}
	event := watch.Event{Type: kind, Object: obj}
	s.history = append(s.history, event)
	for w := range s.streams {
		w.put(event)
	}
	return clone(obj)
}

func (s *shelf[T]) create(obj T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj.SetUID(types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", s.version+1)))
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.Now())
	s.store(watch.Added, clone(obj))
}

func (s *shelf[T]) get(key cache.ObjectName) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[key]
	if !ok {
		return obj, false
	}
	return clone(obj), true
}

// update changes an object as a person does: whatever it is by now. It returns false if there
// is none.
func (s *shelf[T]) update(key cache.ObjectName, change func(T)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[key]
	if !ok {
		return false
	}
	obj = clone(obj)
	change(obj)
	obj.SetGeneration(obj.GetGeneration() + 1)
	s.put(obj)
	return true
}

// put stores a changed object, or deletes it if nothing keeps it.
func (s *shelf[T]) put(obj T) T {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		return s.store(watch.Deleted, obj)
	}
	return s.store(watch.Modified, obj)
}

// remove deletes an object as a person does.
func (s *shelf[T]) remove(key cache.ObjectName) {
	s.update(key, func(obj T) {
		if obj.GetDeletionTimestamp() == nil {
			obj.SetDeletionTimestamp(ptr.To(metav1.Now()))
		}
	})
}

// write changes an object as a client does: if it still is of that resourceVersion.
func (s *shelf[T]) write(key cache.ObjectName, version string, uid types.UID, change func(T)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[key]
	if !ok || (uid != "" && obj.GetUID() != uid) {
		return obj, apierrors.NewNotFound(s.resource, key.Name)
	}
	if obj.GetResourceVersion() != version {
		return obj, apierrors.NewConflict(s.resource, key.Name, fmt.Errorf("it is %s and not %s", obj.GetResourceVersion(), version))
	}
	obj = clone(obj)
	change(obj)
	return s.put(obj), nil
}

func (s *shelf[T]) keys() []cache.ObjectName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted()
}

// sorted is keys. The caller holds mu.
func (s *shelf[T]) sorted() []cache.ObjectName {
	var keys []cache.ObjectName
	for key := range s.objects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b cache.ObjectName) int {
		return len(a.Name) - len(b.Name) + slices.Compare([]byte(a.Name), []byte(b.Name))
	})
	return keys
}

// listWatch reads the objects that match picks, in the order of their names.
func (s *shelf[T]) listWatch(name string, list func([]T, string) runtime.Object, match func(T) bool) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Millisecond): // So that the list never is there when WaitForCacheSync first looks, every 100 ms.
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			var all []T
			for _, key := range s.sorted() {
				if obj := s.objects[key]; match(obj) {
					all = append(all, clone(obj))
				}
			}
			return list(all, strconv.FormatInt(s.version, 10)), nil
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			from, err := strconv.ParseInt(options.ResourceVersion, 10, 64)
			if err != nil {
				return nil, err
			}
			w := &stream{
				events: make(chan watch.Event), woken: make(chan struct{}, 1), stopped: make(chan struct{}),
				behind: func() time.Duration { return s.behind(name) },
			}
			w.match = func(e watch.Event) bool { return match(e.Object.(T)) }
			for _, e := range s.history[from:] {
				w.put(e)
			}
			s.streams[w] = true
			w.drop = func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.streams, w)
			}
			go w.run()
			return w, nil
		},
	}, noWatchList{})
}

// noWatchList says that the server cannot stream the first list.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// stream is one watch.
type stream struct {
	events  chan watch.Event
	woken   chan struct{}
	stopped chan struct{}
	once    sync.Once
	behind  func() time.Duration
	match   func(watch.Event) bool
	drop    func()

	mu      sync.Mutex
	waiting []watch.Event
}

func (w *stream) put(e watch.Event) {
	if !w.match(e) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()})
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *stream) run() {
	defer close(w.events)
	for {
		w.mu.Lock()
		waiting := w.waiting
		w.waiting = nil
		w.mu.Unlock()
		for _, e := range waiting {
			if d := w.behind(); d > 0 {
				select {
				case <-time.After(d):
				case <-w.stopped:
					return
				}
			}
			select {
			case w.events <- e:
			case <-w.stopped:
				return
			}
		}
		if len(waiting) > 0 {
			continue
		}
		select {
		case <-w.woken:
		case <-w.stopped:
			return
		}
	}
}

func (w *stream) ResultChan() <-chan watch.Event { return w.events }

func (w *stream) Stop() {
	w.once.Do(func() {
		w.drop()
		close(w.stopped)
	})
}

func listInstances(all []*v1alpha1.ECSInstance, version string) runtime.Object {
	list := &v1alpha1.ECSInstanceList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, e := range all {
		list.Items = append(list.Items, *e)
	}
	return list
}

func listSecrets(all []*corev1.Secret, version string) runtime.Object {
	list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, e := range all {
		list.Items = append(list.Items, *e)
	}
	return list
}

// client is the clientset of one life of the operator: of the two writes that there are.
type client struct {
	versioned.Interface
	typed.AlibabacloudV1alpha1Interface
	typed.ECSInstanceInterface
	life      *operator
	namespace string
}

func (c client) AlibabacloudV1alpha1() typed.AlibabacloudV1alpha1Interface { return c }

func (c client) ECSInstances(namespace string) typed.ECSInstanceInterface {
	c.namespace = namespace
	return c
}

func (c client) UpdateStatus(ctx context.Context, ecs *v1alpha1.ECSInstance, _ metav1.UpdateOptions) (*v1alpha1.ECSInstance, error) {
	return mortal(ctx, c.life, "update status", ecs.Name, func() (*v1alpha1.ECSInstance, error) {
		return c.life.world.instances.write(cache.MetaObjectToName(ecs), ecs.ResourceVersion, ecs.UID, func(stored *v1alpha1.ECSInstance) {
			stored.Status = *ecs.Status.DeepCopy()
		})
	})
}

func (c client) Patch(
	ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*v1alpha1.ECSInstance, error) {
	var patch struct {
		Metadata struct {
			ResourceVersion string
			UID             types.UID
			Finalizers      []string
		}
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	return mortal(ctx, c.life, "patch", name, func() (*v1alpha1.ECSInstance, error) {
		return c.life.world.instances.write(cache.NewObjectName(c.namespace, name), patch.Metadata.ResourceVersion, patch.Metadata.UID,
			func(stored *v1alpha1.ECSInstance) { stored.Finalizers = patch.Metadata.Finalizers })
	})
}
