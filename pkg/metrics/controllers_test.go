// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/controller/mycronjob"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	glassbackinformers "github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

func newLoop(name string, sync loop.SyncFunc) *loop.Loop {
	return loop.New(loop.Config{Name: name, Sync: sync, MinRetry: time.Millisecond, MaxRetry: time.Second})
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
		s := scrape(t)
		s.expect(t, 0, "controller_runtime_max_concurrent_reconciles", "controller="+name)
		s.expect(t, 0, "controller_runtime_reconcile_total", "controller="+name, "result=error")
		for _, object := range []string{"a", "b"} {
			l.Add(cache.NewObjectName("default", object), trace.Cause{Object: trace.Object{Kind: "Job"}, Verb: "Added"})
		}
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx, ctx, 5) })
		synctest.Wait()
		s = scrape(t)
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
		Spec:   v1.MyCronJobSpec{IntervalSeconds: ptr.To[int32](5)},
		Status: v1.MyCronJobStatus{Schedule: "every 5s", AccountedTime: ptr.To(metav1.NewTime(now.Add(-time.Minute)))},
	}
	kube, client := kubefake.NewClientset(), &fake.Clientset{}
	client.AddReactor("update", "mycronjobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, action.(clienttesting.UpdateAction).GetObject(), nil
	})
	crons := glassbackinformers.NewSharedInformerFactory(client, 0).Batch().V1().MyCronJobs()
	c, err := mycronjob.New(mycronjob.Config{
		Kube: kube, Client: client, MyCronJobs: crons, Jobs: kubeinformers.NewSharedInformerFactory(kube, 0).Batch().V1().Jobs(),
		Recorder: record.NewFakeRecorder(10), Clock: clocktesting.NewFakeClock(now),
	})
	must.Succeed(t, errors.Join(err, crons.Informer().GetStore().Add(mcj)))
	if _, err := c.Sync(t.Context(), cache.MetaObjectToName(mcj)); err != nil {
		t.Fatal(err)
	}
}

func TestMissedSlots(t *testing.T) {
	namespace := unique("missed")
	feedMissed(t, namespace)
	scrape(t).expect(t, 12, "glassback_mycronjob_missed_total", "namespace="+namespace)
}

// TestCountingDoesNotAllocate keeps the metrics cheap: each sync of a controller updates them.
func TestCountingDoesNotAllocate(t *testing.T) {
	m := newControllers(promauto.With(prometheus.NewRegistry())).ForController("allocations")
	causes := []trace.Cause{
		{Object: trace.Object{Kind: "Job", Name: "a"}, Verb: "Added"},
		{Object: trace.Object{Kind: "Pod", Name: "b"}, Verb: "Updated"},
		{Verb: trace.VerbRetry},
	}
	if got := testing.AllocsPerRun(1000, func() {
		m.Started(causes)
		m.Finished(loop.Error, time.Second)
	}); got != 0 {
		t.Errorf("%v allocations for one sync, want 0", got)
	}
}

// BenchmarkLoop measures one event, from Add to the end of its sync. The benchmark of package loop measures the same without metrics.
func BenchmarkLoop(b *testing.B) {
	ctx, cancel := context.WithCancel(klog.NewContext(b.Context(), klog.Logger{}))
	synced := make(chan struct{})
	l := newLoop(unique("bench"), func(context.Context, cache.ObjectName) (time.Duration, error) {
		synced <- struct{}{}
		return 0, nil
	})
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx, ctx, 1) })
	key, cause := cache.NewObjectName("default", "sample"), trace.Cause{Time: time.Now(), Object: trace.Object{Kind: "Job"}, Verb: "Added"}
	b.ReportAllocs()
	for b.Loop() {
		l.Add(key, cause)
		<-synced
	}
	b.StopTimer()
	cancel()
	running.Wait()
}
