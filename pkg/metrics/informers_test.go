// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	glassbackinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// pods lists Pods, and watches as long as it does not refuse.
type pods struct {
	names  []string
	refuse atomic.Bool
	events chan watch.Event
}

var errRefused = errors.New("refused")

func (p *pods) IsWatchListSemanticsUnSupported() bool { return true }

func (p *pods) List(metav1.ListOptions) (runtime.Object, error) {
	if p.refuse.Load() {
		return nil, errRefused
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, name := range p.names {
		list.Items = append(list.Items, *pod(name))
	}
	return list, nil
}

func (p *pods) Watch(metav1.ListOptions) (watch.Interface, error) {
	if p.refuse.Load() {
		return nil, errRefused
	}
	return watch.NewProxyWatcher(p.events), nil
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1"}}
}

// start runs an informer of these pods until the test ends, or stop is called.
func (p *pods) start(t testing.TB, resource, namespace string) (informer *pipeline.Informer, stop func()) {
	p.events = make(chan watch.Event)
	informer = pipeline.New(pipeline.Config{ListerWatcher: p, Object: &corev1.Pod{}, Resource: resource})
	all.AddInformer(resource, namespace, informer)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return informer, stop
}

func feedInformers(t *testing.T) {
	informer, _ := (&pods{names: []string{"a"}}).start(t, unique("promised"), "")
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("it does not sync")
	}
}

// bubble runs a test in synctest, without client-go's error handlers: they wait by the
// difference of two clocks. What is added in it does not outlive it.
func bubble(t *testing.T, test func(t *testing.T)) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { all.informers.look() }) // after all other cleanups
		test(t)
	})
}

func (s scraped) expectInformer(t *testing.T, resource, namespace string, objects, synced, queued, backlog, watching, failures float64) {
	t.Helper()
	for name, want := range map[string]float64{
		"objects": objects, "synced": synced, "queue_length": queued, "backlog": backlog, "watching": watching, "watch_errors_total": failures,
	} {
		s.expect(t, want, "glassback_informer_"+name, "resource="+resource, "namespace="+namespace)
	}
}

func TestInformers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		resource := unique("pods")
		source := &pods{names: []string{"a", "b"}}
		source.refuse.Store(true)
		informer, stop := source.start(t, resource, "default")
		proceed := make(chan struct{})
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-proceed }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		scrape(t).expectInformer(t, resource, "default", 0, 0, 0, 0, 0, 1)
		source.refuse.Store(false)
		time.Sleep(time.Minute)
		scrape(t).expectInformer(t, resource, "default", 2, 1, 0, 2, 1, 1)
		source.events <- watch.Event{Type: watch.Added, Object: pod("c")}
		synctest.Wait()
		scrape(t).expectInformer(t, resource, "default", 3, 1, 0, 3, 1, 1)
		close(proceed)
		synctest.Wait()
		scrape(t).expectInformer(t, resource, "default", 3, 1, 0, 0, 1, 1)

		stop()
		s := scrape(t)
		if m := s.series("glassback_informer_objects", "resource="+resource, "namespace=default"); m != nil {
			t.Errorf("an informer that has stopped is shown: %v", m)
		}
		s.expect(t, 1, "glassback_informer_watch_errors_total", "resource="+resource, "namespace=default")
	})
}

// Every Secret has an informer, and the Services of two controllers have two.
func TestInformersOfOneResourceAreOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		services := unique("services")
		good, bad := &pods{names: []string{"a", "b", "c"}}, &pods{}
		bad.refuse.Store(true)
		good.start(t, services, "")
		_, stop := bad.start(t, services, "")
		(&pods{}).start(t, services, "elsewhere")
		synctest.Wait()
		s := scrape(t)
		s.expectInformer(t, services, "", 3, 0, 0, 0, 0, 1)
		s.expectInformer(t, services, "elsewhere", 0, 1, 0, 0, 1, 0)
		stop()
		scrape(t).expectInformer(t, services, "", 3, 1, 0, 0, 1, 1)
		for range 3 {
			another := &pods{}
			another.refuse.Store(true)
			_, stop := another.start(t, services, "")
			synctest.Wait()
			stop()
		}
		scrape(t).expectInformer(t, services, "", 3, 1, 0, 0, 1, 4)
	})
}

// Stopped informers are dropped also where metrics are never scraped.
func TestInformersThatHaveStoppedAreLetGo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		scrape(t)
		before := len(all.informers.all)
		for range 100 {
			_, stop := (&pods{}).start(t, "secrets", "")
			stop()
		}
		if got := len(all.informers.all); got > before+1 {
			t.Errorf("%d informers are kept, want 1", got-before)
		}
	})
}

func newLoop(name string, sync loop.SyncFunc) *loop.Loop {
	return loop.New(loop.Config{
		Name: name, Sync: sync, MinRetry: time.Millisecond, MaxRetry: time.Second, Observers: []loop.Observer{all.Controller(name)},
	})
}

// once returns a Sync. Its first call for a key has the outcome of the key's name; all later calls succeed.
func once(outcomes map[string]func() (time.Duration, error)) loop.SyncFunc {
	var done sync.Map
	return func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
		if _, again := done.LoadOrStore(key, true); again || outcomes[key.Name] == nil {
			return 0, nil
		}
		return outcomes[key.Name]()
	}
}

var outcomes = map[string]func() (time.Duration, error){
	"success":      nil,
	"later":        func() (time.Duration, error) { return time.Hour, nil },
	"failed":       func() (time.Duration, error) { return 0, errors.New("no") },
	"failed-later": func() (time.Duration, error) { return time.Hour, errors.New("no, and again in an hour") },
	"panicked":     func() (time.Duration, error) { panic("oh") },
	"conflict": func() (time.Duration, error) {
		return 0, apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "j", errors.New("the object has been modified"))
	},
}

// feedControllers runs two Loops with the same name, as in an operator for two namespaces. Each syncs one key per outcome.
func feedControllers(t *testing.T, name string) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		var running sync.WaitGroup
		for range 2 {
			l := newLoop(name, once(outcomes))
			for name := range outcomes {
				l.Add(cache.NewObjectName("default", name), trace.Cause{Object: trace.Object{Kind: "Job"}, Verb: "Added"})
			}
			running.Go(func() { l.Run(ctx, ctx, 3) })
		}
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
	})
}

func TestControllers(t *testing.T) {
	name := unique("controllers")
	feedControllers(t, name)
	s := scrape(t)
	for result, want := range map[string]float64{
		"success":       2 * 5, // each key except "later", if necessary after a retry
		"error":         2 * 3,
		"requeue":       2,
		"requeue_after": 2,
	} {
		s.expect(t, want, "controller_runtime_reconcile_total", "controller="+name, "result="+result)
	}
	s.expect(t, 2*3, "controller_runtime_reconcile_errors_total", "controller="+name)
	s.expect(t, 2, "controller_runtime_reconcile_panics_total", "controller="+name)
	s.expect(t, 2*10, "controller_runtime_reconcile_time_seconds", "controller="+name)
	s.expect(t, 0, "controller_runtime_active_workers", "controller="+name)
	s.expect(t, 0, "controller_runtime_max_concurrent_reconciles", "controller="+name)
	s.expect(t, 2*6, "glassback_reconcile_causes_total", "controller="+name, "kind=Job", "verb=Added")
	s.expect(t, 2*4, "glassback_reconcile_causes_total", "controller="+name, "kind=", "verb=Retry")
	s.expect(t, 2*10, "workqueue_adds_total", "name="+name)
	s.expect(t, 0, "workqueue_depth", "name="+name)
	s.expect(t, 2*10, "workqueue_work_duration_seconds", "name="+name)
	s.expect(t, 2*6, "workqueue_retries_total", "name="+name) // Each AddAfter counts. "failed-later" leads to two.
}

func TestWorkers(t *testing.T) {
	name := unique("workers")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		proceed := make(chan struct{})
		l := newLoop(name, func(context.Context, cache.ObjectName) (time.Duration, error) {
			<-proceed
			return 0, nil
		})
		scrape(t).expect(t, 0, "controller_runtime_reconcile_total", "controller="+name, "result=error")
		for _, object := range []string{"a", "b"} {
			l.Add(cache.NewObjectName("default", object), trace.Cause{Object: trace.Object{Kind: "Job"}, Verb: "Added"})
		}
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx, ctx, 5) })
		synctest.Wait()
		s := scrape(t)
		s.expect(t, 2, "controller_runtime_active_workers", "controller="+name)
		s.expect(t, 5, "controller_runtime_max_concurrent_reconciles", "controller="+name)
		close(proceed)
		cancel()
		running.Wait()
		s = scrape(t)
		s.expect(t, 0, "controller_runtime_active_workers", "controller="+name)
		s.expect(t, 0, "controller_runtime_max_concurrent_reconciles", "controller="+name)
	})
}

// feedMissed syncs a MyCronJob with a slot every 5 s, one minute after its last sync. Its spec has no Pod template, so all 12 slots are
// missed.
func feedMissed(t *testing.T, namespace string) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	mcj := &v1.MyCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sample", Namespace: namespace, Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)),
		},
		Spec:   v1.MyCronJobSpec{IntervalSeconds: ptr.To[int32](0)},
		Status: v1.MyCronJobStatus{Schedule: "every 5s", AccountedTime: ptr.To(metav1.NewTime(now.Add(-time.Minute)))},
	}
	kube, client := kubefake.NewClientset(), &fake.Clientset{}
	client.AddReactor("update", "mycronjobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, action.(clienttesting.UpdateAction).GetObject(), nil
	})
	crons := glassbackinformers.NewSharedInformerFactory(client, 0).Batch().V1().MyCronJobs()
	c, err := mycronjob.New(mycronjob.Config{
		Kube: kube, Client: client, MyCronJobs: crons, Jobs: kubeinformers.NewSharedInformerFactory(kube, 0).Batch().V1().Jobs(),
		Recorder: record.NewFakeRecorder(10), Clock: clocktesting.NewFakeClock(now), Missed: all.Missed,
	})
	must.Succeed(t, errors.Join(err, crons.Informer().GetStore().Add(mcj)))
	if _, err := c.Sync(t.Context(), cache.MetaObjectToName(mcj)); err != nil {
		t.Fatal(err)
	}
	scrape(t).expect(t, 12, "glassback_mycronjob_missed_total", "namespace="+namespace)
}

// shownObjects is the number of objects that are shown one by one.
const shownObjects = 3

// caches returns informers that do not run, and whose caches hold these objects.
func caches(t testing.TB, objects ...metav1.Object) *informers {
	t.Helper()
	shown, stores := &informers{}, map[string]cache.Store{}
	for _, object := range objects {
		var informer *pipeline.Informer
		switch o := object.(type) {
		case *appv1.Application:
			informer = pipeline.New(pipeline.Config{Object: &appv1.Application{}, Resource: "applications.app.aiops.org"})
		case *redisv1.RedisCluster:
			informer = pipeline.New(pipeline.Config{Object: &redisv1.RedisCluster{}, Resource: "redisclusters"})
		default:
			informer = pipeline.New(pipeline.Config{Object: pod(o.GetName()), Resource: "pods"})
		}
		if stores[informer.Kind()] == nil {
			stores[informer.Kind()] = informer.GetStore()
			shown.add(labels{informer.Kind(), ""}, informer)
		}
		must.Succeed(t, stores[informer.Kind()].Add(object))
	}
	return shown
}

func conditionsWith(status metav1.ConditionStatus, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: glassback.ConditionReady, Status: status, Reason: reason}}
}

func app(namespace, name string, status metav1.ConditionStatus, reason string) *appv1.Application {
	return &appv1.Application{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status:     appv1.ApplicationStatus{Conditions: conditionsWith(status, reason)},
	}
}

func feedConditions(t *testing.T) {
	t.Helper()
	show(t, caches(t, app("default", "sample", metav1.ConditionTrue, "RolledOut")))
}

// show adds informers to those that are scraped, until the test ends.
func show(t *testing.T, more *informers) {
	t.Helper()
	for _, m := range more.all {
		all.informers.add(m.labels, m.Informer)
		t.Cleanup(func() {
			all.informers.mu.Lock()
			defer all.informers.mu.Unlock()
			all.informers.all = slices.DeleteFunc(all.informers.all, func(other watchedInformer) bool { return other.Informer == m.Informer })
		})
	}
}

func TestConditionsAreCounted(t *testing.T) {
	c := conditions{informers: caches(t,
		app("a", "one", metav1.ConditionTrue, "RolledOut"), app("a", "two", metav1.ConditionTrue, "RolledOut"),
		app("a", "three", metav1.ConditionFalse, "Conflict"), app("b", "one", metav1.ConditionTrue, "RolledOut"),
		&appv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "new"}},
		&redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "cache"},
			Status:     redisv1.RedisClusterStatus{Conditions: conditionsWith(metav1.ConditionUnknown, "Forming")},
		}, pod("other"),
	)}
	kinds, objects := c.count()
	want := map[string]map[conditionSeries]int{
		"Application": {
			{"Application", "a", "Ready", "True", "RolledOut"}: 2,
			{"Application", "a", "Ready", "False", "Conflict"}: 1,
			{"Application", "b", "Ready", "True", "RolledOut"}: 1,
		},
		"RedisCluster": {{"RedisCluster", "a", "Ready", "Unknown", "Forming"}: 1},
	}
	if !maps.EqualFunc(kinds, want, maps.Equal) || objects != nil {
		t.Errorf("%v, want %v; and %v, want no objects", kinds, want, objects)
	}
}

func TestConditionsHaveABoundedNumberOfSeries(t *testing.T) {
	objects := []metav1.Object{app("z", "last", metav1.ConditionFalse, "Conflict")} // What is wrong is counted, also beyond the bound.
	for n := range 3 * maxConditionSeries {
		objects = append(objects, app("tenant", fmt.Sprint(n), metav1.ConditionFalse, fmt.Sprintf("Reason%05d", n)))
	}
	kinds, _ := (&conditions{informers: caches(t, objects...)}).count()
	bounded := bound("Application", kinds["Application"])
	if len(bounded) != maxConditionSeries {
		t.Errorf("%d series, want %d", len(bounded), maxConditionSeries)
	}
	if n := bounded[conditionSeries{"Application", "z", "Ready", "False", "Conflict"}]; n != 1 {
		t.Errorf("%d objects of the last namespace are not ready, want 1", n)
	}
	if n := bounded[conditionSeries{kind: "Application"}]; n != 2*maxConditionSeries+2 {
		t.Errorf("%d objects are in the series of all others", n)
	}
	if again := bound("Application", kinds["Application"]); !maps.Equal(again, bounded) {
		t.Error("the next scrape shows other series")
	}
}

func TestObjectsThatAreNotReadyAreShownOneByOne(t *testing.T) {
	namespace := unique("objects")
	objects := []metav1.Object{
		app(namespace, "z-broken", metav1.ConditionFalse, "Conflict"), app(namespace, "z-waiting", metav1.ConditionUnknown, "Starting"),
	}
	for n := range 2 * shownObjects {
		objects = append(objects, app(namespace, fmt.Sprint(n), metav1.ConditionTrue, "RolledOut"))
	}
	show(t, caches(t, objects...))
	s := scrape(t)
	const shown, kind, ready = "glassback_object_condition", "kind=Application", "type=Ready"
	s.expect(t, 2*shownObjects, "glassback_conditions", kind, "namespace="+namespace, ready, "status=True", "reason=RolledOut")
	s.expect(t, 1, shown, kind, "namespace="+namespace, "name=z-broken", ready, "status=False", "reason=Conflict")
	s.expect(t, 1, shown, kind, "namespace="+namespace, "name=z-waiting", ready, "status=Unknown", "reason=Starting")
	if n := len(s[shown].GetMetric()); n != shownObjects {
		t.Errorf("%d series of objects with one condition each, want %d", n, shownObjects)
	}
}
