// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

var small = writerLimits{fileSize: 2000, files: 3, queueLength: 8, queueSize: 1 << 20, memberSize: 1000}

func newTestWriter(t *testing.T, dir string, limits writerLimits) *writer {
	t.Helper()
	w, err := newWriter(dir, Header{Schema: Schema, Version: "v1"}, limits, nil)
	must.Succeed(t, err)
	return w
}

func record(name string) *Record { return &Record{Time: time.Unix(1, 0), Kind: "Thing", Name: name} }

// all returns the records of files and directories.
func all(t *testing.T, paths ...string) []*Record {
	t.Helper()
	files, err := Files(paths)
	must.Succeed(t, err)
	var records []*Record
	for _, file := range files {
		if err := Read(file, func(header *Header, _ int, r *Record) error {
			if records = append(records, r); header.Version != "v1" {
				return fmt.Errorf("the header is %+v", header)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	return records
}

// read returns the names of all records, and how many were dropped.
func read(t *testing.T, dir string) (names []string, dropped uint64) {
	t.Helper()
	for _, r := range all(t, dir) {
		if dropped += r.Dropped; r.Dropped == 0 {
			names = append(names, r.Name)
		}
	}
	return names, dropped
}

func TestRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	w := newTestWriter(t, dir, small)
	go w.run(klog.Logger{})
	const all = 400
	for i := range all {
		for !w.hasRoom() {
			time.Sleep(time.Millisecond)
		}
		w.put(record(fmt.Sprint(i, time.Now().UnixNano())), false)
	}
	w.stop(5 * time.Minute)
	w.stop(5 * time.Minute) // does nothing
	files, err := filesIn(dir)
	if err != nil || len(files) != small.files {
		t.Errorf("there are %d files, error %v", len(files), err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() > int64(small.fileSize+small.memberSize) {
			t.Errorf("%v, error %v", info, err)
		}
	}
	names, dropped := read(t, dir)
	if len(names) == 0 || len(names) >= all || dropped > 0 || !strings.HasPrefix(names[len(names)-1], fmt.Sprint(all-1)) {
		t.Errorf("%d records are left, the last one is %s; %d were dropped", len(names), names[len(names)-1], dropped)
	}
}

// A disk that takes no time to accept nothing: the queue fills, and put does not wait.
func TestASlowDiskDropsRecords(t *testing.T) {
	results := map[Result]int{}
	dir := t.TempDir()
	w := newTestWriter(t, dir, small) // Its goroutine does not run: the disk hangs.
	w.counted = func(result Result, records int) { results[result] += records }
	for i := range 20 {
		w.put(record(fmt.Sprint(i)), false)
	}
	w.put(record("without room for its decision"), true)
	if w.hasRoom() || results[Dropped] != 13 {
		t.Errorf("results %v", results)
	}
	w.stop(time.Millisecond) // does not wait for the disk
	w.run(klog.Logger{})
	names, dropped := read(t, dir)
	if len(names) != 8 || names[0] != "0" || dropped != 13 || results[Written] != 8 {
		t.Errorf("records %v, dropped %d, results %v", names, dropped, results)
	}
}

// A disk that fails while the operator ends: each record that was queued is counted.
func TestTheLastRecordsAreCounted(t *testing.T) {
	results := map[Result]int{}
	limits := small
	limits.memberSize = 1 // Each record is written at once.
	w := newTestWriter(t, t.TempDir(), limits)
	w.counted = func(result Result, records int) { results[result] += records }
	for _, name := range []string{"a", "b", "c"} {
		w.put(record(name), false)
	}
	_ = w.file.Close() // Each write fails from now on.
	if err := w.finish(); err == nil || results[Dropped] != 3 || len(w.queue) != 0 {
		t.Errorf("error %v, results %v, %d records in the queue", err, results, len(w.queue))
	}
}

func TestLargeDecisionsFillTheQueue(t *testing.T) {
	limits := small
	limits.queueSize = 100
	w := newTestWriter(t, t.TempDir(), limits)
	large := record("large")
	large.Observed = json.RawMessage(`"` + strings.Repeat("x", 200) + `"`)
	w.put(large, false)
	if w.hasRoom() {
		t.Error("there is room")
	}
	if err := w.write(<-w.queue); err != nil || !w.hasRoom() {
		t.Errorf("error %v, room %t", err, w.hasRoom())
	}
}

// The files of an operator that is killed have all of their members. A copy that ends within a member is truncated.
func TestACopyThatEndsEarly(t *testing.T) {
	dir := t.TempDir()
	w := newTestWriter(t, dir, limits)
	for _, name := range []string{"a", "b"} {
		must.Succeed(t, errors.Join(w.write(record(name)), w.flush()))
	}
	if names, _ := read(t, dir); len(names) != 2 {
		t.Errorf("while the operator runs, there are the records %v", names)
	}
	files, _ := filesIn(dir)
	text, err := os.ReadFile(files[0])
	must.Succeed(t, err)
	cut := filepath.Join(t.TempDir(), "cut.gz")
	for length := range text {
		must.Succeed(t, os.WriteFile(cut, text[:length], 0o600))
		records := 0
		err := Read(cut, func(*Header, int, *Record) error { records++; return nil })
		switch {
		case err == nil && records < 2:
		case err == nil:
			t.Errorf("%d of %d bytes: no error", length, len(text))
		case length < len(magic) && strings.HasPrefix(err.Error(), cut+" is not a recording"):
		case !errors.As(err, new(*Damage)) || !strings.HasPrefix(err.Error(), cut+" is truncated after line ") ||
			(records > 0) != strings.Contains(err.Error(), fmt.Sprintf(": %d syncs were read, until 1970-01-01T", records)):
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

func TestForeignFiles(t *testing.T) {
	packed := func(text string) string {
		var out bytes.Buffer
		packer := gzip.NewWriter(&out)
		_, _ = packer.Write([]byte(text))
		_ = packer.Close()
		return out.String()
	}
	header := `{"schema":"` + Schema + `"}` + "\n"
	changed := []byte(packed(header))
	changed[len(changed)-8] ^= 0x10 // of the checksum
	for sentence, test := range map[string]struct{ text, want string }{
		"an empty file":         {"", "is truncated after line 0: no record was read"},
		"a text":                {"text", "is not a recording of glassback --record: it is not packed by gzip"},
		"one that never ends":   {packed(strings.Repeat(" ", 2*maxHeader)), "is not a recording"},
		"another schema":        {packed(`{"schema":"glassback.dev/recording/v2"}` + "\n"), `has the schema "glassback.dev/recording/v2"`},
		"a line without an end": {packed(header + `{"kind":`), "is truncated after line 1: no record was read. To read the rest, copy the"},
		"a line that is none":   {packed(header + "text\n"), "is damaged (invalid character 'e' in literal true (expecting 'r')) after line 1"},
		"a changed byte":        {string(changed), "is damaged (gzip: invalid checksum) after line 1: no record was read"},
		"something behind it":   {packed(header) + "a text behind it", "is damaged (gzip: invalid header) after line 1: no record was read"},
	} {
		t.Run(sentence, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			must.Succeed(t, os.WriteFile(file, []byte(test.text), 0o600))
			err := Read(file, func(*Header, int, *Record) error { return nil })
			if err == nil || !strings.HasPrefix(err.Error(), file) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
	if _, err := Files([]string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "there is no recording in") {
		t.Errorf("an empty directory: %v", err)
	}
}

// A disk that is full costs records, and the operator tries again.
func TestAWriterThatFailsBeginsAnotherFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newTestWriter(t, dir, small)
		_ = w.file.Close() // Each write fails from now on.
		if err := errors.Join(w.write(record("lost")), w.flush()); err == nil || w.file != nil {
			t.Errorf("error %v", err)
		}
		if err := w.write(record("too early")); err != nil || w.file != nil {
			t.Errorf("error %v", err)
		}
		time.Sleep(retryInterval)
		if err := errors.Join(w.write(record("later")), w.flush()); err != nil {
			t.Error(err)
		}
		if names, dropped := read(t, dir); fmt.Sprint(names) != "[later]" || dropped != 2 {
			t.Errorf("records %v, dropped %d", names, dropped)
		}
	})
	if _, err := Start(t.Context(), Config{Dir: "/dev/null/none"}); err == nil {
		t.Error("a Recorder starts where it cannot write")
	}
}

// observedThing and plannedThing are what the test's syncs decide on, and decide.
type (
	observedThing struct{ Text string }
	plannedThing  struct{ Policy string }
)

func (o observedThing) Record() any             { return o }
func (p plannedThing) Record(observedThing) any { return p }

func TestARecorderRecordsSyncs(t *testing.T) {
	dir := t.TempDir()
	kind := Kind{Name: "Thing", Observed: observedThing{}, Plan: plannedThing{}}
	r, err := Start(t.Context(), Config{Dir: dir, Version: "v1", Kinds: []Kind{kind}})
	must.Succeed(t, err)
	key := cache.NewObjectName("default", "a")
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	l := loop.New(loop.Config{Name: "thing", Kind: "Thing", MinRetry: time.Millisecond, MaxRetry: time.Hour, Observers: []loop.Observer{r}})
	syncs := 0
	job := trace.Event{
		Stage: trace.Write, Source: "thing", Verb: "create jobs", Object: trace.Object{Kind: "Job", Name: "b"}, ResourceVersion: "7",
	}
	var first context.Context
	l.Sync = func(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
		if syncs++; syncs == 3 {
			cancel()
			r.Wrote(first, job)     // too late
			return time.Minute, nil // without a decision
		}
		first = ctx
		Decided(ctx, observedThing{"observed"}, plannedThing{"policy"})
		r.Wrote(ctx, job)
		return 0, errors.New("failed")
	}
	l.Add(key, trace.Cause{Verb: "Added", Object: trace.Object{Kind: "Thing", Name: "a"}})
	l.Run(ctx, ctx, 2)
	r.Stop()
	var got []string
	files, _ := filesIn(dir)
	must.Succeed(t, Read(files[0], func(header *Header, _ int, r *Record) error {
		if fmt.Sprint(header.Fields) != "map[Thing:{[Text] [Policy]}]" {
			t.Errorf("the header is %+v", header)
		}
		got = append(got, fmt.Sprintf("%s/%s %s %s %s %s writes %d after %s error %q",
			r.Kind, r.Name, r.Controller, r.Causes[0].Verb, r.Observed, r.Plan, len(r.Writes), r.After.Duration, r.Error))
		return nil
	}))
	want := []string{
		`Thing/a thing Added {"Text":"observed"} {"Policy":"policy"} writes 1 after 0s error "failed"`,
		`Thing/a thing Retry {"Text":"observed"} {"Policy":"policy"} writes 1 after 0s error "failed"`,
		`Thing/a thing Retry   writes 0 after 1m0s error ""`,
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var none *Recorder
	none.Stop()
}

// Many syncs at once: the race detector looks.
func TestManySyncsAtOnce(t *testing.T) {
	r, err := Start(t.Context(), Config{Dir: t.TempDir(), Version: "v1"})
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	l := loop.New(loop.Config{Name: "thing", Kind: "Thing", Observers: []loop.Observer{r}})
	done := make(chan struct{}, 1000)
	l.Sync = func(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
		Decided(ctx, observedThing{key.Name}, plannedThing{})
		done <- struct{}{}
		return 0, nil
	}
	for i := range cap(done) {
		l.Add(cache.NewObjectName("default", fmt.Sprint(i)), trace.Cause{Verb: "Added"})
	}
	go func() {
		for range cap(done) {
			<-done
		}
		cancel()
	}()
	l.Run(ctx, ctx, 16)
	r.Stop()
}

func TestARecordingHasEachEventOfTheTrace(t *testing.T) {
	dir := t.TempDir()
	r, err := Start(t.Context(), Config{Dir: dir, Version: "v1"})
	must.Succeed(t, err)
	stages := trace.NewRecorder(0, r.Stage)
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
	for _, e := range want[:3] {
		stages.Report(e)
	}
	ctx := r.Begin(t.Context(), want[3])
	r.Wrote(ctx, want[4])
	r.End(ctx, want[5], loop.Error)
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

func TestWall(t *testing.T) {
	now := time.Now()
	earlier := now.Add(-time.Minute)
	stepped := now.Round(0).Add(time.Hour) // The wall clock was set.
	if got := Wall(now, earlier); !got.Equal(earlier) || stepped.Sub(got) != time.Hour+time.Minute {
		t.Errorf("got %v", got)
	}
	if got := Wall(now, time.Time{}); !got.IsZero() {
		t.Errorf("of no time: %v", got)
	}
	if at := time.Unix(1_600_000_000, 5); !Wall(now, at).Equal(at) {
		t.Error("a time of the API changes")
	}
}
