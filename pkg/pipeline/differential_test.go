// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// These tests run the stock informer and our informer, with each of its two queues, on one fake API server. They compare the informers.
//
// A seed determines all actions of the server. GLASSBACK_SEED=n runs only the seed n. GLASSBACK_SEEDS=n runs n seeds instead of a few.

func seeds(t *testing.T, usual int) []uint64 {
	if one, err := strconv.ParseUint(os.Getenv("GLASSBACK_SEED"), 10, 64); err == nil {
		return []uint64{one}
	}
	if n, err := strconv.Atoi(os.Getenv("GLASSBACK_SEEDS")); err == nil {
		usual = n
	}
	if testing.Short() {
		usual = min(usual, 10)
	}
	all := make([]uint64, usual)
	for n := range all {
		all[n] = uint64(n + 1)
	}
	return all
}

// subject is one informer of a comparison.
type subject struct {
	name       string
	informer   cache.SharedIndexInformer
	journals   []*journal
	handles    []cache.ResourceEventHandlerRegistration
	transforms atomic.Int64
	stop       func()
}

// byColor is an indexer that depends on the contents of objects.
func byColor(obj any) ([]string, error) { return []string{obj.(*corev1.ConfigMap).Data["color"]}, nil }

func newSubjects(api *fakeAPI, streaming bool, resync time.Duration) []*subject {
	stock := &subject{name: "stock"}
	stock.informer = cache.NewSharedIndexInformer(api.newClient(streaming), &corev1.ConfigMap{}, resync, cache.Indexers{"color": byColor})
	subjects := []*subject{stock}
	for _, queue := range []Queue{DeltaFIFO, RealFIFO} {
		subjects = append(subjects, &subject{name: queue.String(), informer: New(Config{
			ListerWatcher: api.newClient(streaming),
			Object:        &corev1.ConfigMap{},
			Resource:      "configmaps",
			Queue:         queue,
			Indexers:      cache.Indexers{"color": byColor},
			ResyncPeriod:  resync,
		})})
	}
	for _, s := range subjects {
		panicOn(s.informer.SetTransform(func(obj any) (any, error) {
			s.transforms.Add(1)
			return obj, nil
		}))
	}
	return subjects
}

func panicOn(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *subject) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.informer.RunWithContext(ctx) })
	s.stop = func() {
		cancel()
		running.Wait()
	}
}

func (s *subject) addHandler(period time.Duration) {
	j := &journal{}
	handle, err := s.informer.AddEventHandlerWithResyncPeriod(j, period)
	panicOn(err)
	s.journals = append(s.journals, j)
	s.handles = append(s.handles, handle)
}

// TestStepwiseLikeStock waits after each step until all goroutines are idle. Then all informers have read the same, and no difference is
// allowed. For each object, the handlers of all informers have got the same calls with the same arguments. All indexes have the same
// objects.
func TestStepwiseLikeStock(t *testing.T) {
	for _, seed := range seeds(t, 50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stepwise(t, seed) })
		})
	}
}

func stepwise(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	api := newFakeAPI()
	// After a lost connection, each informer reconnects at another time, and its resync timer starts again at that time. So a run has either
	// lost connections or resyncs.
	var resync time.Duration
	if random.IntN(3) == 0 {
		resync = time.Duration(10+random.IntN(20)) * time.Second
	}
	subjects := newSubjects(api, random.IntN(2) == 0, resync)
	for range random.IntN(8) {
		api.put(randomKey(random))
	}
	if resync == 0 && random.IntN(4) == 0 {
		api.fail([]error{transient[random.IntN(4)]}, []error{transient[random.IntN(4)]})
	}
	for range 1 + random.IntN(2) {
		period := time.Duration(random.IntN(3)) * 15 * time.Second
		for _, s := range subjects {
			s.addHandler(period)
		}
	}
	for _, s := range subjects {
		s.start()
		defer s.stop()
	}
	time.Sleep(5 * time.Minute)
	settle(t, api, subjects, "start")

	for n := range 40 {
		var step string
		switch {
		case random.IntN(8) == 0:
			step = handlerStep(random, subjects)
		case resync != 0 && random.IntN(4) == 0:
			step = "time passes"
			time.Sleep(time.Duration(random.IntN(60)) * time.Second)
		case resync == 0 && random.IntN(3) == 0:
			step = disruption(random, api)
			// After this time, the longest series of backoffs has ended. Every watch is old enough: client-go does not treat it as very short when
			// it ends.
			time.Sleep(5 * time.Minute)
		default:
			step = change(random, api)
		}
		settle(t, api, subjects, fmt.Sprintf("step %d: %s", n, step))
		if t.Failed() {
			return
		}
	}
}

// keys are few, so that the same objects are created and deleted many times. The last one only keeps watches alive.
var keys = []string{"a/1", "a/2", "a/3", "b/1", "b/2", "c", "keep-alive"}

func randomKey(random *rand.Rand) string { return keys[random.IntN(len(keys)-1)] }

func change(random *rand.Rand, api *fakeAPI) string {
	key := randomKey(random)
	switch random.IntN(6) {
	case 0, 1:
		api.remove(key)
		return "remove " + key
	case 2:
		api.bookmark()
		return "bookmark"
	default:
		api.put(key)
		return "put " + key
	}
}

// disruption makes the reflectors reconnect. Objects can change in between.
func disruption(random *rand.Rand, api *fakeAPI) string {
	changes := func() {
		for range random.IntN(6) {
			change(random, api)
		}
	}
	switch random.IntN(6) {
	case 0:
		api.closeWatches()
		return "watch closed"
	case 1:
		api.expireWatches()
		return "410 in the stream"
	case 2:
		api.offline(true)
		changes()
		api.compact()
		api.offline(false)
		return "offline, and 410 afterwards"
	case 3:
		api.offline(true)
		changes()
		time.Sleep(time.Duration(random.IntN(60)) * time.Second)
		changes()
		api.offline(false)
		return "away"
	case 4:
		api.fail([]error{transient[random.IntN(4)], transient[random.IntN(4)]}, []error{transient[random.IntN(4)]})
		api.offline(true)
		changes()
		api.compact()
		api.offline(false)
		return "offline, 410 afterwards, and errors"
	default:
		api.fail(nil, []error{transient[random.IntN(4)], transient[random.IntN(4)]})
		api.closeWatches()
		return "watch closed, and errors"
	}
}

// handlerStep adds a handler to every informer, or removes one.
func handlerStep(random *rand.Rand, subjects []*subject) string {
	if len(subjects[0].journals) < 4 && random.IntN(2) == 0 {
		period := time.Duration(random.IntN(3)) * 20 * time.Second
		for _, s := range subjects {
			s.addHandler(period)
		}
		return fmt.Sprintf("add handler, resync %s", period)
	}
	n := random.IntN(len(subjects[0].handles))
	for _, s := range subjects {
		panicOn(s.informer.RemoveEventHandler(s.handles[n]))
	}
	return fmt.Sprintf("remove handler %d", n)
}

// settle waits until all goroutines are idle, and compares the informers.
func settle(t *testing.T, api *fakeAPI, subjects []*subject, step string) {
	t.Helper()
	synctest.Wait()
	stock, contents := subjects[0], api.contents()
	expected := make([]map[string][]call, len(stock.journals))
	for n, j := range stock.journals {
		expected[n] = j.take()
	}
	for _, s := range subjects {
		if held := versions(s.informer.GetStore()); !maps.Equal(held, contents) {
			t.Errorf("%s: %s: the index has %v, the server %v", step, s.name, held, contents)
		}
		for _, color := range []string{"red", "green", "blue"} {
			want := []string{}
			for _, obj := range s.informer.GetStore().List() {
				if object := obj.(*corev1.ConfigMap); object.Data["color"] == color {
					want = append(want, cache.MetaObjectToName(object).String())
				}
			}
			slices.Sort(want)
			if got, err := s.informer.GetIndexer().IndexKeys("color", color); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %s: indexed as %s: %v, %v; want %v", step, s.name, color, got, err, want)
			}
		}
		if s == stock {
			continue
		}
		for n, j := range s.journals {
			got := j.take()
			for _, key := range keys {
				if !reflect.DeepEqual(got[key], expected[n][key]) {
					t.Errorf("%s: %s, handler %d, object %s:\n got   %v\n stock %v", step, s.name, n, key, got[key], expected[n][key])
				}
			}
		}
		for n, handle := range s.handles {
			if got, want := handle.HasSynced(), stock.handles[n].HasSynced(); got != want {
				t.Errorf("%s: %s, handler %d: synced %t, stock %t", step, s.name, n, got, want)
			}
		}
		if got, want := s.informer.LastSyncResourceVersion(), stock.informer.LastSyncResourceVersion(); got != want {
			t.Errorf("%s: %s: the reflector has the resourceVersion %s, stock %s", step, s.name, got, want)
		}
		if got, want := s.transforms.Load(), stock.transforms.Load(); got != want {
			t.Errorf("%s: %s: %d transforms, stock %d", step, s.name, got, want)
		}
		ours := s.informer.(*Informer)
		if got, want := ours.GetStore().LastStoreSyncResourceVersion(),
			stock.informer.GetStore().LastStoreSyncResourceVersion(); ours.cfg.Queue == RealFIFO && got != want {
			t.Errorf("%s: %s: the index has the resourceVersion %s, stock %s", step, s.name, got, want)
		}
		if queued := ours.arrived.Load() - ours.applied.Load(); queued != 0 {
			t.Errorf("%s: %s: all goroutines are idle, but %d events are queued", step, s.name, queued)
		}
	}
}

// TestFreeRunningLikeStock does not wait between the changes, so that the queues fill with deltas. As long as no informer relists, each of
// them reads every change. So the calls of the handlers are still determined: for each object, they are its history. A DeltaFIFO pops all
// deltas of an object at once. This changes only the order between objects, and one flag: deltas that are popped together with the first
// list count as initial.
func TestFreeRunningLikeStock(t *testing.T) {
	for _, seed := range seeds(t, 25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { freeRunning(t, seed, false) })
		})
	}
}

// TestFreeRunningRelists adds lost connections after which the informers must relist. Each informer reads only some of the changes, and a
// different part of them, since each was disconnected for another time. But its calls never contradict each other, and end with the present
// state.
func TestFreeRunningRelists(t *testing.T) {
	for _, seed := range seeds(t, 25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { freeRunning(t, seed, true) })
		})
	}
}

func freeRunning(t *testing.T, seed uint64, relists bool) {
	random := rand.New(rand.NewPCG(seed, 2))
	api := newFakeAPI()
	subjects := newSubjects(api, random.IntN(2) == 0, 0)
	for _, s := range subjects {
		s.addHandler(0)
		s.start()
		defer s.stop()
	}
	synctest.Wait() // The first watch is open: from now on, the informers read every change.
	for range 10 + random.IntN(20) {
		for range random.IntN(60) {
			change(random, api)
		}
		switch {
		case relists && random.IntN(4) == 0:
			disruption(random, api)
			time.Sleep(time.Duration(random.IntN(3)) * time.Second)
		case random.IntN(6) == 0:
			time.Sleep(2 * time.Second) // after a shorter watch, the reflector relists
			api.put("keep-alive")       // after a watch without an event, it relists too
			api.closeWatches()
		}
	}
	time.Sleep(10 * time.Minute)
	synctest.Wait()

	contents := api.contents()
	expected := subjects[0].journals[0].take()
	for _, s := range subjects {
		calls := expected
		if s != subjects[0] {
			calls = s.journals[0].take()
		}
		if held := versions(s.informer.GetStore()); !maps.Equal(held, contents) {
			t.Errorf("%s: the index has %v, the server %v", s.name, held, contents)
		}
		for _, key := range keys {
			checkHistory(t, s.name, key, calls[key], contents[key])
			if !relists && !slices.EqualFunc(calls[key], expected[key], sameButInitial) {
				t.Errorf("%s, object %s:\n got   %v\n stock %v", s.name, key, calls[key], expected[key])
			}
		}
		if ours, ok := s.informer.(*Informer); ok && ours.arrived.Load() != ours.applied.Load() {
			t.Errorf("%s: all goroutines are idle, but %d events are queued", s.name, ours.arrived.Load()-ours.applied.Load())
		}
	}
}

func sameButInitial(a, b call) bool {
	a.initial, b.initial = false, false
	return a == b
}

// checkHistory fails the test if the calls for an object contradict each other: two adds, an update from an unknown state, or an older
// version after a newer one. It also fails the test if the last call does not have the present state.
func checkHistory(t *testing.T, name, key string, calls []call, final string) {
	t.Helper()
	known, latest := "", 0
	for n, c := range calls {
		version, _ := strconv.Atoi(c.new)
		var legal bool
		switch c.method {
		case "add":
			legal = known == ""
		case "delete": // The version is the last known one, or the version of the deletion.
			version, _ = strconv.Atoi(c.old)
			legal = known != "" && (c.old == known || !c.tombstone)
		default:
			legal = known != "" && c.old == known
		}
		if !legal || version < latest {
			t.Errorf("%s, object %s: call %d contradicts the calls before: %v", name, key, n, calls)
			return
		}
		known, latest = c.new, version
	}
	if known != final {
		t.Errorf("%s, object %s: the last version is %q, the server has %q: %v", name, key, known, final, calls)
	}
}
