// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

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
		Recorder: record.NewFakeRecorder(100), Clock: clock.RealClock{}, Trace: w.recorder,
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
