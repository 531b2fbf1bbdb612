// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/crds"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
)

// shownObjects is the number of objects that TestMain has shown one by one.
const shownObjects = 3

// caches returns informers that do not run, and whose caches hold these objects.
func caches(t testing.TB, objects ...metav1.Object) *informers {
	t.Helper()
	all, stores := &informers{}, map[string]cache.Store{}
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
			all.add(labels{informer.Kind(), ""}, informer)
		}
		must.Succeed(t, stores[informer.Kind()].Add(object))
	}
	return all
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
func show(t *testing.T, all *informers) {
	t.Helper()
	for _, m := range all.all {
		watched.add(m.labels, m.Informer)
		t.Cleanup(func() {
			watched.mu.Lock()
			defer watched.mu.Unlock()
			watched.all = slices.DeleteFunc(watched.all, func(other watchedInformer) bool { return other.Informer == m.Informer })
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
	var objects []metav1.Object
	for n := range 3 * maxConditionSeries {
		objects = append(objects, app("tenant", fmt.Sprint(n), metav1.ConditionFalse, fmt.Sprintf("Reason%05d", n)))
	}
	kinds, _ := (&conditions{informers: caches(t, objects...)}).count()
	bounded := bound("Application", kinds["Application"])
	if len(bounded) != maxConditionSeries {
		t.Errorf("%d series, want %d", len(bounded), maxConditionSeries)
	}
	if n := bounded[conditionSeries{kind: "Application"}]; n != 2*maxConditionSeries+1 {
		t.Errorf("%d objects are in the series of all others", n)
	}
	if again := bound("Application", kinds["Application"]); !maps.Equal(again, bounded) {
		t.Error("the next scrape shows other series")
	}
}

func TestWhatIsWrongIsCountedBeyondTheBound(t *testing.T) {
	var objects []metav1.Object
	for n := range 2 * maxConditionSeries {
		objects = append(objects, app("a", fmt.Sprint(n), metav1.ConditionTrue, fmt.Sprintf("Reason%05d", n)))
	}
	objects = append(objects, app("z", "last", metav1.ConditionFalse, "Conflict"))
	kinds, _ := (&conditions{informers: caches(t, objects...)}).count()
	if n := bound("Application", kinds["Application"])[conditionSeries{"Application", "z", "Ready", "False", "Conflict"}]; n != 1 {
		t.Errorf("%d objects of the last namespace are not ready, want 1", n)
	}
}

func TestObjectsThatAreNotReadyAreShownFirst(t *testing.T) {
	c := conditions{maxObjects: 2, informers: caches(t,
		app("a", "ready", metav1.ConditionTrue, "RolledOut"), app("b", "broken", metav1.ConditionFalse, "Conflict"),
		app("a", "waiting", metav1.ConditionUnknown, "Starting"),
	)}
	_, objects := c.count()
	slices.SortFunc(objects, compareObjects)
	var names []string
	for _, o := range objects {
		names = append(names, o.namespace+"/"+o.name)
	}
	if want := []string{"a/waiting", "b/broken", "a/ready"}; !slices.Equal(names, want) {
		t.Errorf("the order is %q, want %q", names, want)
	}
}

func TestObjectsAreShownOneByOne(t *testing.T) {
	namespace := unique("objects")
	var objects []metav1.Object
	for n := range 2 * shownObjects {
		objects = append(objects, app(namespace, fmt.Sprint(n), metav1.ConditionFalse, "Conflict"))
	}
	show(t, caches(t, objects...))
	s := scrape(t)
	s.expect(t, 2*shownObjects, "glassback_conditions",
		"kind=Application", "namespace="+namespace, "type=Ready", "status=False", "reason=Conflict")
	s.expect(t, 1, "glassback_object_condition",
		"kind=Application", "namespace="+namespace, "name=0", "type=Ready", "status=False", "reason=Conflict")
	if n := len(s["glassback_object_condition"].GetMetric()); n != shownObjects {
		t.Errorf("%d series of objects with one condition each, want %d", n, shownObjects)
	}
}

func TestEveryKindHasConditions(t *testing.T) {
	kinds := map[string]bool{}
	for _, definition := range crds.All() {
		kinds[definition.Spec.Names.Kind] = true
		if ConditionsOf[definition.Spec.Names.Kind] == nil {
			t.Errorf("the conditions of %s are not shown", definition.Spec.Names.Kind)
		}
	}
	if len(kinds) != len(ConditionsOf) {
		t.Errorf("there are conditions of %d kinds, want %d", len(ConditionsOf), len(kinds))
	}
}

// TestScrapesDuringChanges is for the race detector.
func TestScrapesDuringChanges(t *testing.T) {
	all := caches(t, app("a", "one", metav1.ConditionTrue, "RolledOut"))
	c, store := conditions{informers: all, maxObjects: 1}, all.all[0].GetStore()
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for range 100 {
				c.count()
			}
		})
	}
	for n := range 100 {
		if err := store.Update(app("a", fmt.Sprint(n%3), metav1.ConditionFalse, "Conflict")); err != nil {
			t.Error(err)
		}
	}
	running.Wait()
}

// BenchmarkConditions is the share of a scrape that the conditions of 10,000 objects have.
func BenchmarkConditions(b *testing.B) {
	var objects []metav1.Object
	for n := range 10_000 {
		objects = append(objects, app(fmt.Sprint("tenant-", n%100), fmt.Sprint(n), metav1.ConditionTrue, "RolledOut"))
	}
	all := caches(b, objects...)
	for _, shown := range []int{0, 1000} {
		b.Run(fmt.Sprint(shown), func(b *testing.B) {
			c := conditions{informers: all, maxObjects: shown}
			b.ReportAllocs()
			for b.Loop() {
				c.count()
			}
		})
	}
}
