// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// TestOrder uses the order as a workqueue does. "u1" is an urgent key, and "1" is a key that is not urgent.
func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		push, touch []string // touch makes a key urgent
		want        []string
	}{
		"urgent keys come first": {push: []string{"1", "2", "u1", "3", "u2"}, want: []string{"u1", "u2", "1", "2", "3"}},
		"a key that becomes urgent moves": {
			push: []string{"1", "2", "u1", "3"}, touch: []string{"3"}, want: []string{"u1", "3", "1", "2"},
		},
		"a key that was urgent keeps its place": {push: []string{"u1", "u2"}, touch: []string{"u1"}, want: []string{"u1", "u2"}},
		"touch does not add a key":              {push: []string{"u1"}, touch: []string{"7"}, want: []string{"u1"}},
		"every eighth key is not urgent": {
			push: []string{"1", "2", "u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"},
			want: []string{"u1", "u2", "u3", "u4", "u5", "u6", "u7", "1", "u8", "u9", "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			touched := map[string]bool{}
			o := newOrder(func(key cache.ObjectName) bool { return key.Name[0] == 'u' || touched[key.Name] })
			for _, name := range test.push {
				o.Push(cache.ObjectName{Name: name})
			}
			for _, name := range test.touch {
				touched[name] = true
				o.Touch(cache.ObjectName{Name: name})
			}
			var got []string
			for o.Len() > 0 {
				got = append(got, o.Pop().Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// TestNamespacesTakeTurns: "a/u1" is an urgent key in namespace a.
func TestNamespacesTakeTurns(t *testing.T) {
	o := newOrder(func(key cache.ObjectName) bool { return key.Name[0] == 'u' })
	for key := range strings.FieldsSeq("a/1 a/2 a/3 b/1 b/2 a/u1 a/u2 b/u1 c/1") {
		namespace, name, _ := strings.Cut(key, "/")
		o.Push(cache.NewObjectName(namespace, name))
	}
	var got []string
	for o.Len() > 0 {
		got = append(got, o.Pop().String())
	}
	if want := strings.Fields("a/u1 b/u1 a/u2 a/1 b/1 c/1 a/2 b/2 a/3"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSlowSyncsOfANamespaceLeaveWorkers: all syncs of a namespace hang, until their contexts end. Four workers sync the objects of another
// one at once, and in the end each object was synced.
func TestSlowSyncsOfANamespaceLeaveWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects = 20
		var mu sync.Mutex
		syncs, running, most := map[string]int{}, 0, 0
		count := func(change int, namespace string, synced int) {
			mu.Lock()
			defer mu.Unlock()
			running += change
			most = max(most, running)
			syncs[namespace] += synced
		}
		l := newLoop(func(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
			if key.Namespace == "slow" {
				count(1, key.Namespace, 0)
				<-ctx.Done()
				count(-1, key.Namespace, 1)
			} else {
				count(0, key.Namespace, 1)
			}
			return 0, nil
		})
		l.Add(cache.NewObjectName("fast", "first"), trace.Cause{})
		for i := range objects {
			l.Add(cache.NewObjectName("slow", fmt.Sprint(i)), trace.Cause{Urgent: true})
		}
		run(t, l, 4)
		synctest.Wait()
		if n := l.Waiting(); n != objects-2 {
			t.Errorf("%d objects wait, want %d", n, objects-2)
		}
		for i := range objects {
			l.Add(cache.NewObjectName("fast", fmt.Sprint(i)), trace.Cause{})
		}
		synctest.Wait()
		mu.Lock()
		if syncs["fast"] != objects+1 || running != 2 {
			t.Errorf("%v syncs have ended, and %d of the slow namespace run", syncs, running)
		}
		mu.Unlock()
		time.Sleep(objects/2*maxSync + time.Second)
		mu.Lock()
		defer mu.Unlock()
		if syncs["slow"] != objects || most != 2 {
			t.Errorf("%d syncs of the slow namespace have ended, %d at one time", syncs["slow"], most)
		}
	})
}

// TestAKeyThatMovedIsHandedOutOnce: a key becomes urgent and moves. After Pop, the key is added again. Its first place must not return it a
// second time.
func TestAKeyThatMovedIsHandedOutOnce(t *testing.T) {
	urgent := false
	o := newOrder(func(cache.ObjectName) bool { return urgent })
	o.Push(key)
	urgent = true
	o.Touch(key)
	if got := o.Pop(); got != key || o.Len() != 0 {
		t.Fatalf("Pop returned %s, and %d keys wait", got, o.Len())
	}
	urgent = false
	o.Push(key)
	if got := o.Pop(); got != key || o.Len() != 0 {
		t.Fatalf("Pop returned %s, and %d keys wait", got, o.Len())
	}
	if _, found := o.take(false); found {
		t.Error("the key is handed out twice")
	}
}

func TestOnlyChangesAreUrgent(t *testing.T) {
	old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", ResourceVersion: "1"}}
	changed := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", ResourceVersion: "2"}}
	for name, test := range map[string]struct {
		event  func(cache.ResourceEventHandler)
		urgent bool
	}{
		"an object of the first list": {func(h cache.ResourceEventHandler) { h.OnAdd(old, true) }, false},
		"a new object":                {func(h cache.ResourceEventHandler) { h.OnAdd(old, false) }, true},
		"a resync":                    {func(h cache.ResourceEventHandler) { h.OnUpdate(old, old) }, false},
		"a change":                    {func(h cache.ResourceEventHandler) { h.OnUpdate(old, changed) }, true},
		"a deletion":                  {func(h cache.ResourceEventHandler) { h.OnDelete(old) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(nil)
			l.begun.Store(true)
			test.event(&handler{loop: l, kind: "Job", keyOf: Self})
			if got := l.causes.urgent(cache.ObjectName{Name: "job"}, time.Now()); got != test.urgent {
				t.Errorf("urgent is %t, want %t", got, test.urgent)
			}
		})
	}
}

// TestWhichTimersAreUrgent: a sync asks for a time, or fails. In some rows, the key also waits in the queue for another reason.
func TestWhichTimersAreUrgent(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		failed, asked, waits bool
		after                time.Duration // since the sync
		urgent               bool
	}{
		"a time that a sync asked for":                  {asked: true, after: time.Minute, urgent: true},
		"a time that a failed sync asked for":           {asked: true, failed: true, after: time.Minute, urgent: true},
		"a retry":                                       {failed: true, after: time.Minute},
		"a time that has passed, of a key in the queue": {asked: true, waits: true, after: time.Minute, urgent: true},
		"a time in the future, of a key in the queue":   {asked: true, waits: true, after: time.Second},
		"a retry that is due, of a key in the queue":    {failed: true, waits: true, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCauses()
			c.done(key, now, time.Minute, test.failed, test.asked)
			if test.waits {
				c.add(key, trace.Cause{Verb: string(cache.Sync)})
			}
			if got := c.urgent(key, now.Add(test.after)); got != test.urgent {
				t.Errorf("urgent is %t, want %t", got, test.urgent)
			}
		})
	}
}

// TestChangesDoNotWaitBehindARestart: while the keys of a restart wait, an object changes, a time is due, and a sync fails.
func TestChangesDoNotWaitBehindARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const backlog, each = 1000, time.Second
		var mu sync.Mutex
		var synced []string
		names := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(synced)
		}
		l := newLoop(func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
			time.Sleep(each)
			mu.Lock()
			defer mu.Unlock()
			synced = append(synced, key.Name)
			switch {
			case key.Name == "due" && slices.Index(synced, "due") == len(synced)-1:
				return 10 * time.Second, nil
			case key.Name == "failing":
				return 0, errors.New("no")
			}
			return 0, nil
		})
		cause := trace.Cause{Verb: string(cache.Added)}
		l.Add(cache.ObjectName{Name: "due"}, cause)
		l.Add(cache.ObjectName{Name: "failing"}, cause)
		for i := range backlog {
			l.Add(cache.ObjectName{Name: fmt.Sprintf("old-%d", i)}, cause)
		}
		run(t, l, 1)
		time.Sleep(5*each + each/2)
		l.Add(cache.ObjectName{Name: "old-900"}, trace.Cause{Verb: string(cache.Updated), Urgent: true})
		time.Sleep(14 * each)
		order := names()
		if at := slices.Index(order, "old-900"); at < 5 || at > 6 {
			t.Errorf("the changed object was synced at position %d of %v", at, order)
		}
		if at := slices.Index(order[1:], "due") + 1; at < 10 || at > 12 {
			t.Errorf("the object that was due after 10 s was synced at position %d of %v", at, order)
		}
		time.Sleep(backlog * each)
		order = names()
		if at := slices.Index(order[2:], "failing") + 2; at < backlog {
			t.Errorf("the retry of the failed object was at position %d, want after the %d waiting objects", at, backlog)
		}
		if n := len(slices.DeleteFunc(slices.Clone(order), func(s string) bool { return !strings.HasPrefix(s, "old-") })); n != backlog {
			t.Errorf("%d objects of the restart were synced, want %d", n, backlog)
		}
	})
}

// informer is a fake informer that a test controls. Like a real one, it first changes its store, and then calls its handler.
type informer struct {
	cache.SharedIndexInformer
	store   cache.Store
	handler cache.ResourceEventHandler
}

func newInformer() *informer { return &informer{store: cache.NewStore(cache.MetaNamespaceKeyFunc)} }

func (i *informer) GetStore() cache.Store { return i.store }

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, nil
}

func (i *informer) add(j *batchv1.Job) {
	_ = i.store.Add(j) // The key function never fails for a Job.
	i.handler.OnAdd(j, false)
}

func (i *informer) update(old, j *batchv1.Job) {
	_ = i.store.Update(j)
	i.handler.OnUpdate(old, j)
}

func (i *informer) delete(j *batchv1.Job) {
	_ = i.store.Delete(j)
	i.handler.OnDelete(j)
}

// watching returns a Loop that watches parents and children, and the two informers.
func watching(t *testing.T) (l *Loop, parents, children *informer) {
	t.Helper()
	l, parents, children = newLoop(nil), newInformer(), newInformer()
	must.Succeed(t, l.Watch(parents, "Thing", Self))
	must.Succeed(t, l.Watch(children, "Job", ControllerOf("batch.example.com", "MyCronJob")))
	return l, parents, children
}

// TestAStandbyHoldsNoKeys creates, changes and deletes objects and their children while the Loop does not run.
func TestAStandbyHoldsNoKeys(t *testing.T) {
	l, parents, children := watching(t)
	recorder := trace.NewRecorder(10)
	l.Observe(Traced(recorder))
	defer l.Queue.ShutDown()
	for i := range 10 {
		name := fmt.Sprint("run-", i)
		parent, child := job(name, "", "1"), job(name+"-child", name, "2")
		parents.add(parent)
		children.add(child)
		parents.update(parent, job(name, "", "3", func(j *batchv1.Job) { j.Status.Succeeded = 1 }))
		children.delete(child)
		parents.delete(parent)
	}
	if n := l.Queue.Len(); n != 0 {
		t.Errorf("%d keys wait, want none", n)
	}
	if n := len(l.causes.waiting); n != 0 {
		t.Errorf("the loop keeps the causes of %d keys, want none", n)
	}
	if events := recorder.Events(); len(events) != 0 {
		t.Errorf("the trace has %q, want no events", events[0].String())
	}
}

// TestRunBeginsWithWhatTheCachesHold: Run adds the key of each object in the caches once, with its causes.
func TestRunBeginsWithWhatTheCachesHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, parents, children := watching(t)
		parents.add(job("a", "", "1"))
		parents.update(job("a", "", "1"), job("a", "", "3"))
		children.add(job("a-1", "a", "2"))
		children.add(job("stranger", "", "4"))
		parents.add(job("b", "", "5"))
		parents.delete(job("b", "", "5"))
		parents.add(job("c", "", "6"))
		parents.delete(job("c", "", "6"))
		children.add(job("c-1", "c", "7")) // The owner does not exist.
		go l.Run(t.Context(), t.Context(), 0)
		synctest.Wait()
		var got []string
		for key, why := range l.Snapshot().Waiting {
			got = append(got, fmt.Sprintf("%s: %s", key.Name, why))
		}
		slices.Sort(got)
		want := []string{
			"a: Added Thing default/a (resourceVersion 3); Added Job default/a-1 (resourceVersion 2)",
			"c: Added Job default/c-1 (resourceVersion 7)",
		}
		if !slices.Equal(got, want) {
			t.Errorf("Run adds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := l.Queue.Len(); n != len(want) {
			t.Errorf("%d keys wait, want %d", n, len(want))
		}
		children.delete(job("a-1", "a", "8"))
		if why := l.Snapshot().Waiting[cache.NewObjectName("default", "a")]; why.Causes[len(why.Causes)-1].Verb != string(cache.Deleted) {
			t.Errorf("a change after the start adds no cause: %s", why)
		}
	})
}

// TestNoChangeIsLostWhenRunBegins creates objects while Run begins. Run finds each object in the cache, or the handler adds its key.
func TestNoChangeIsLostWhenRunBegins(t *testing.T) {
	for round := range 50 {
		l, parents, _ := watching(t)
		const objects = 400
		var adding sync.WaitGroup
		adding.Go(func() {
			for i := range objects {
				parents.add(job(fmt.Sprint(i), "", "1"))
			}
		})
		adding.Go(func() {
			for len(parents.store.ListKeys()) < round*objects/50 {
				runtime.Gosched()
			}
			l.begin()
		})
		adding.Wait()
		if n := l.Queue.Len(); n != objects {
			t.Errorf("%d keys wait, want %d", n, objects)
		}
		l.Queue.ShutDown()
	}
}
