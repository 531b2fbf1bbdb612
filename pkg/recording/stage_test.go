// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// all returns the records of a directory.
func all(t *testing.T, dir string) []*Record {
	t.Helper()
	files, err := Files([]string{dir})
	must.Succeed(t, err)
	var records []*Record
	for _, file := range files {
		if err := Read(file, func(_ *Header, _ int, r *Record) error {
			records = append(records, r)
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	return records
}

func TestARecordingHasEachEventOfTheTrace(t *testing.T) {
	dir := t.TempDir()
	r, err := Start(t.Context(), Config{Dir: dir})
	must.Succeed(t, err)
	stages := trace.NewObserved(r.Observe)
	r.Follow(stages)
	if !stages.Wants("1") {
		t.Error("the stages do not report")
	}
	began := time.Now().UTC().Round(0)
	at := func(milliseconds int) time.Time { return began.Add(time.Duration(milliseconds) * time.Millisecond) }
	cron := trace.Object{Kind: "MyCronJob", Namespace: "default", Name: "sample"}
	job := trace.Object{Kind: "Job", Namespace: "default", Name: "a"}
	causes := []trace.Cause{{Time: at(2), Object: job, Verb: "Updated", ResourceVersion: "7", Fields: []string{"status.active"}}}
	want := []trace.Event{
		{Time: at(0), Stage: trace.Wire, Source: "jobs.batch", Object: job, Verb: "Updated", ResourceVersion: "7"},
		{Time: at(1), Stage: trace.Index, Source: "jobs.batch", Object: job, Verb: "Updated", ResourceVersion: "7",
			Writer:  &trace.Writer{Manager: "kubectl", Time: at(0)},
			Missed:  true,
			Changes: []trace.Change{{Path: "status.active", Old: "1", New: "0"}, {Path: "metadata.labels"}}},
		{Time: at(2), Stage: trace.Enqueue, Source: "mycronjob", Object: job, For: cron, Verb: "Updated", ResourceVersion: "7"},
		{Time: at(3), Stage: trace.Sync, Source: "mycronjob", Object: cron, For: cron, Causes: causes, More: 2},
		{Time: at(4), Stage: trace.Write, Source: "mycronjob", Object: job, For: cron, Verb: "delete jobs.batch", Err: "refused"},
		{Time: at(5), Stage: trace.Done, Source: "mycronjob", Object: cron, For: cron, Causes: causes, More: 2, Duration: 2 * time.Millisecond,
			After: time.Minute, Err: "failed"},
	}
	for _, e := range want {
		stages.Report(e)
	}
	r.Stop()
	var got []trace.Event
	for _, record := range all(t, dir) {
		got = append(got, record.Events()...)
	}
	for i := range want {
		want[i].OneIn = 1
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	for name, r := range map[string]*Record{
		"a count": {Dropped: 1}, "an overview": {Overview: json.RawMessage("{}")}, "a stage of a later version": {Stage: &Stage{Stage: "later"}},
	} {
		if r.IsSync() || r.Events() != nil {
			t.Errorf("%s is a sync, or has events", name)
		}
	}
	var none *Recorder
	none.Follow(stages)
	none.SetOverview(nil)
}

// Stages take half of the queue at most: a burst of changes costs no sync.
func TestABurstOfChangesLeavesRoomForSyncs(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, small) // Its goroutine does not run: the disk hangs.
	for range 20 {
		w.putStage(&trace.Event{Time: time.Now(), Stage: trace.Wire, OneIn: 1})
	}
	for range small.queueLength / 2 {
		w.put(record("a"), false)
	}
	w.stop(time.Millisecond) // does not wait for the disk
	w.run(klog.Logger{})
	names, dropped := read(t, dir)
	var stages, droppedStages uint64
	for _, r := range all(t, dir) {
		if droppedStages += r.DroppedStages; r.Stage != nil {
			stages++
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	if len(names) != 4 || dropped != 0 || stages != 4 || droppedStages != 16 {
		t.Errorf("%d syncs, %d dropped; %d stages, %d dropped", len(names), dropped, stages, droppedStages)
	}
}

func TestEachFileHasAnOverviewAndEachChangeOfIt(t *testing.T) {
	dir := t.TempDir()
	limits := small
	limits.memberSize, limits.fileSize, limits.files = 1, 400, 10
	w := newTestWriter(t, dir, limits)
	gears := 1
	overview := func() any { return map[string]int{"gears": gears} }
	w.overview.Store(&overview)
	for _, gears = range []int{1, 1, 2} {
		w.addOverview(time.Unix(1, 0))
		must.Succeed(t, w.write(record("a")))
	}
	for i := range 20 { // These fill the file.
		must.Succeed(t, w.write(record(string(rune('a'+i)))))
	}
	files, _ := filesIn(dir)
	if len(files) < 2 {
		t.Fatalf("there are %d files", len(files))
	}
	for i, file := range files {
		var got []string
		if err := Read(file, func(_ *Header, line int, r *Record) error {
			if r.Overview != nil {
				got = append(got, string(r.Overview))
			} else if line == 2 {
				t.Errorf("%s does not begin with an overview", file)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		want := []string{`{"gears":1}`, `{"gears":2}`}[min(i, 1):]
		if i == len(files)-1 && len(got) == 0 {
			continue // Nothing is in it yet.
		}
		if !slices.Equal(got, want) {
			t.Errorf("file %d has the overviews %q, want %q", i, got, want)
		}
	}
}

// BenchmarkStage measures what a recorded stage costs the informer that reports it.
func BenchmarkStage(b *testing.B) {
	w, err := newWriter(b.TempDir(), Header{}, limits)
	must.Succeed(b, err)
	e := trace.Event{Time: time.Now(), Stage: trace.Wire, Source: "jobs.batch", Object: trace.Object{Kind: "Job", Name: "a"}}
	b.ReportAllocs()
	for b.Loop() {
		w.putStage(&e)
		<-w.queue
	}
}
