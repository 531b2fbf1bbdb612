// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/must"
)

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
	if events := l.Trace.Events(); len(events) != 0 {
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
