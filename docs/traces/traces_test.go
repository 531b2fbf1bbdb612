// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traces has only tests: the claims and the scenarios of docs/informer.md, and what the trace tells
// of each. The traces are in testdata, from where the document quotes them.
package traces

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/controller/apiexamplea"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/informers/externalversions"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// After go test ./docs/traces -update, go test ./docs -update writes the traces into the document.
var update = flag.Bool("update", false, "write the traces")

func TestMain(m *testing.M) {
	// Errors are part of it. And client-go's own error handler sleeps by the difference of two clocks, which mixes up synctest's bubbles.
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(klog.Logger{})
	os.Exit(m.Run())
}

// scenarios are played by an operator with each of the queues, as far as that makes a difference.
var scenarios = map[string]struct {
	queue pipeline.Queue
	play  func(*world)
}{
	"cold-start":          {pipeline.DeltaFIFO, coldStart},
	"burst":               {pipeline.DeltaFIFO, burst},
	"disconnect":          {pipeline.DeltaFIFO, disconnect},
	"disconnect-realfifo": {pipeline.RealFIFO, disconnect},
	"failure":             {pipeline.DeltaFIFO, failure},
}

// coldStart begins where another operator has ended: jimmy is greeted, and ada is not yet.
func coldStart(w *world) {
	w.operator.stop()
	w.greet("ada", "Ada")
	time.Sleep(time.Minute)
	w.begin()
	w.start(pipeline.DeltaFIFO)
	time.Sleep(time.Minute)
}

// burst changes an object five times while its sync waits for an answer.
func burst(w *world) {
	w.begin()
	w.note("The API server answers writes a second late from now on. A user edits jimmy,")
	w.with(func() { w.slow = time.Second })
	w.greet("jimmy", "James")
	time.Sleep(100 * time.Millisecond)
	w.note("and edits it five times more.")
	for _, name := range []string{"Jim", "Jimbo", "Jamie", "Jem", "Seamus"} {
		w.greet("jimmy", name)
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Minute)
}

// disconnect loses the WATCH of ConfigMaps for as long as it takes to forget a deletion.
func disconnect(w *world) {
	w.greet("ada", "Ada")
	time.Sleep(time.Minute)
	w.begin()
	w.note("The WATCH of ConfigMaps breaks, and no other can be opened.")
	w.lose(configMaps)
	time.Sleep(time.Second)
	w.note("A user deletes ConfigMap jimmy-greeting.")
	w.remove(configMaps, "jimmy-greeting")
	time.Sleep(time.Second)
	w.note("The API server forgets what happened until now, and can be reached again.")
	w.Compact()
	w.find(configMaps)
	time.Sleep(time.Minute)
	version := w.operator.informers[configMaps].GetStore().LastStoreSyncResourceVersion()
	if version == "" {
		version = `"", unknown`
	}
	w.note("The LastStoreSyncResourceVersion of the index of ConfigMaps is %s.", version)
}

// failure has a sync fail, until it does not any longer.
func failure(w *world) {
	w.begin()
	w.note("The API server refuses writes. A user deletes ConfigMap jimmy-greeting.")
	w.with(func() { w.refuse = true })
	w.remove(configMaps, "jimmy-greeting")
	time.Sleep(500 * time.Millisecond)
	w.note("It takes writes again.")
	w.with(func() { w.refuse = false })
	time.Sleep(59500 * time.Millisecond)
	w.note("It refuses them once more, for 10 milliseconds. A user deletes it again.")
	w.with(func() { w.refuse = true })
	w.remove(configMaps, "jimmy-greeting")
	time.Sleep(10 * time.Millisecond)
	w.with(func() { w.refuse = false })
	time.Sleep(time.Minute)
}

func TestScenarios(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			got := ""
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, server: newServer(), recorder: trace.NewRecorder(1000)}
				w.greet("jimmy", "Jimmy")
				w.start(scenario.queue)
				time.Sleep(time.Minute)
				scenario.play(w)
				got = w.String()
				w.operator.stop()
			})
			golden(t, filepath.Join("testdata", name+".trace"), got)
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	must.Succeed(t, err)
	if got != string(want) {
		t.Errorf("%s is another now:\n%s", file, diff.Diff(string(want), got))
	}
}

const (
	examples   = "apiexampleas"
	configMaps = "configmaps"
)

// How long things take on this network. What one goroutine causes another one to do through the API server is so never at the same instant.
const (
	roundTrip = 2 * time.Millisecond // of a write, until it is stored, and answered
	delivery  = time.Millisecond     // from there to each watch
)

// connecting is how long it takes to open a WATCH. It differs, so that no two informers read their first objects at the same instant.
var connecting = map[string]time.Duration{examples: time.Millisecond, configMaps: 2 * time.Millisecond}

// server is a fake API server with ApiExampleAs and their ConfigMaps, behind a network that takes time and can fail.
type server struct {
	*fakeapi.Server

	mu     sync.Mutex
	lost   map[string]bool // resources of which no WATCH can be opened
	slow   time.Duration   // how much longer than roundTrip an answer to a write takes
	refuse bool            // writes
}

func newServer() *server {
	s := &server{Server: fakeapi.New(), lost: map[string]bool{}}
	s.Before, s.After = s.send, s.receive
	s.Lag = func(string) time.Duration { return delivery }
	return s
}

// send is the way of a request to the API server.
func (s *server) send(r fakeapi.Request) error {
	switch r.Verb {
	case "list":
		return errors.New("unexpected LIST: a WATCH can begin with all objects")
	case "watch":
		time.Sleep(connecting[r.Resource])
	default:
		time.Sleep(roundTrip)
	}
	if r.Unguarded() {
		return errors.New("a write of any version: " + r.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Writes() && s.refuse || !r.Writes() && s.lost[r.Resource] {
		return fmt.Errorf("dial tcp 10.96.0.1:443: %w", syscall.ECONNREFUSED)
	}
	return nil
}

// receive is the way of an answer.
func (s *server) receive(fakeapi.Request) error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	return nil
}

func named(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

// greet creates the ApiExampleA with that name, or changes its first_name, as kubectl does.
func (s *server) greet(name, whom string) {
	if fakeapi.Get[*v1.ApiExampleA](s.Server, named(name)) == nil {
		s.Put(&v1.ApiExampleA{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.ApiExampleASpec{FirstName: whom},
		})
		return
	}
	fakeapi.Edit(s.Server, named(name), "kubectl", func(example *v1.ApiExampleA) { example.Spec.FirstName = whom })
}

// remove deletes an object, if there is one, as kubectl does.
func (s *server) remove(resource, name string) { s.Delete(resource, named(name)) }

// with changes how the network behaves.
func (s *server) with(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// lose breaks the WATCHes of a resource. None can be opened until find.
func (s *server) lose(resource string) {
	s.with(func() { s.lost[resource] = true })
	s.Break(resource)
}

func (s *server) find(resource string) { s.with(func() { s.lost[resource] = false }) }

// world is an API server, an operator, and what is written down of both. It lives in a
// bubble of testing/synctest, and so in a time of its own.
type world struct {
	*testing.T
	*server

	recorder *trace.Recorder
	operator *operator

	began time.Time
	after uint64 // of the recorder's events, those are written down that have a higher number
	notes []line
}

// operator is one process: the real informers, controller and loop.
type operator struct {
	informers map[string]*pipeline.Informer // by resource
	stop      func()
}

// start starts an operator whose informers have this queue: informers first, and workers once the caches are synced.
func (w *world) start(queue pipeline.Queue) {
	w.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	kube, client := w.Kube(), w.Glassback()
	w.operator = &operator{informers: map[string]*pipeline.Informer{
		examples:   w.informer(&v1.ApiExampleA{}, examples, examples+"."+v1.GroupName, queue),
		configMaps: w.informer(&corev1.ConfigMap{}, configMaps, configMaps+"("+apiexamplea.Name+")", queue),
	}}
	kubeFactory, factory := kubeinformers.NewSharedInformerFactory(kube, 0), externalversions.NewSharedInformerFactory(client, 0)
	kubeFactory.InformerFor(&corev1.ConfigMap{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return w.operator.informers[configMaps]
	})
	factory.InformerFor(&v1.ApiExampleA{}, func(versioned.Interface, time.Duration) cache.SharedIndexInformer {
		return w.operator.informers[examples]
	})
	controller, err := apiexamplea.New(apiexamplea.Config{
		Kube: kube, Client: client, ApiExampleAs: factory.Groupa().V1().ApiExampleAs(), ConfigMaps: kubeFactory.Core().V1().ConfigMaps(),
		Recorder: record.NewFakeRecorder(100), Clock: clock.RealClock{}, Observers: []loop.Observer{loop.Traced(w.recorder)},
	})
	must.Succeed(w, err)
	kubeFactory.StartWithContext(ctx)
	factory.StartWithContext(ctx)
	time.Sleep(10 * time.Millisecond)
	w.note("Both caches are synced, and the workers start.")
	var running sync.WaitGroup
	running.Go(func() { controller.Run(ctx, ctx, 16) })
	w.operator.stop = func() {
		cancel()
		running.Wait()
		kubeFactory.Shutdown()
		factory.Shutdown()
	}
}

func (w *world) informer(example fakeapi.Object, resource, name string, queue pipeline.Queue) *pipeline.Informer {
	return pipeline.New(pipeline.Config{
		ListerWatcher: fakeapi.Source{Server: w.Server, Name: resource, Example: example},
		Object:        example, Resource: name, Queue: queue, Trace: w.recorder,
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		// The operator's own, without what is random in it.
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 10, Cap: 4 * time.Second},
	})
}

// begin has everything written down from now on.
func (w *world) begin() {
	w.began, w.after, w.notes = time.Now(), w.recorder.Last(), nil
}

// note writes down what the scenario does.
func (w *world) note(format string, args ...any) {
	w.notes = append(w.notes, line{at: time.Now(), gear: noted, text: "# " + fmt.Sprintf(format, args...)})
}

// line is one line of a trace.
type line struct {
	at     time.Time
	gear   gear
	source string
	object string // where the order of the gear's lines for several objects means nothing
	text   string
}

// unordered reports whether a line might as well come before another one.
func (l line) unordered(other line) bool {
	return l.at.Equal(other.at) && l.gear == other.gear && l.source == other.source && l.object != "" && other.object != ""
}

// gear is the goroutine that reports an event. There is one of the first two for each
// informer, one of the third for each of its handlers, and one of the last for each key.
type gear int

const (
	noted gear = iota
	reflecting
	popping
	handling
	working
)

var gears = map[trace.Stage]gear{
	trace.Wire: reflecting, trace.Queue: reflecting, trace.Index: popping, trace.Dispatch: popping,
	trace.Enqueue: handling, trace.Sync: working, trace.Write: working, trace.Done: working,
}

// String renders what was written down, a line each.
//
// Goroutines that are busy at the same instant report in any order. Here one instant is told gear by gear, as the objects go: reflector,
// pop loop, handlers, workers. Nothing is so put before what it follows from, as within an instant nothing goes the other way: what a
// worker writes comes back over the wire, and that takes time (see delivery). A gear's own order is kept, but where it has none: the first
// objects of a WATCH are handed over in any order, so that Replaced are told by name; and handlers, and workers, are several goroutines.
func (w *world) String() string {
	lines := slices.Clone(w.notes)
	events, missed := w.recorder.Since(w.after, 0)
	if missed > 0 {
		w.Errorf("%d events are lost", missed)
	}
	for _, e := range events {
		l := line{at: e.Time, gear: gears[e.Stage], source: e.Source, text: e.String()}
		switch {
		case l.gear >= handling:
			l.object = e.For.String()
		case e.Verb == string(cache.Replaced):
			l.object = e.Object.String()
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.gear, b.gear), strings.Compare(a.source, b.source))
	})
	for from := 0; from < len(lines); {
		to := from + 1
		for to < len(lines) && lines[to].unordered(lines[from]) {
			to++
		}
		slices.SortStableFunc(lines[from:to], func(a, b line) int { return strings.Compare(a.object, b.object) })
		from = to
	}
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&text, "%-8s%s\n", fmt.Sprintf("%.3fs", l.at.Sub(w.began).Seconds()), l.text)
	}
	return text.String()
}
