// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traces has only tests: the claims and the scenarios of docs/informer.md, and what the trace tells
// of each. The traces are in testdata, from where the document quotes them.
package traces

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

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
		t.Errorf("%s is another now:\n%s", file, difference(string(want), got))
	}
}

// difference returns the lines that only one of two texts has, the old one's marked by a minus, and puts as few of them as there need be.
func difference(old, now string) string {
	a, b := strings.Split(old, "\n"), strings.Split(now, "\n")
	common := make([][]int, len(a)+1) // the most lines that a[i:] and b[j:] have in common, in their order
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, old := range slices.Backward(a) {
		for j, now := range slices.Backward(b) {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if old == now {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var text strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || (i < len(a) && common[i+1][j] >= common[i][j+1]):
			text.WriteString("- " + a[i] + "\n")
			i++
		default:
			text.WriteString("+ " + b[j] + "\n")
			j++
		}
	}
	return text.String()
}
