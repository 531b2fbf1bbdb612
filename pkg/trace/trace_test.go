// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestReportDoesNotAllocate(t *testing.T) {
	r := NewRecorder(16)
	e := Event{Stage: Index, Time: time.Now(), Source: "jobs.batch", Object: Object{"Job", "default", "x"}}
	for range maxLifeSteps {
		r.Report(e)
	}
	if n := testing.AllocsPerRun(100, func() { r.Report(e) }); n != 0 {
		t.Errorf("a report allocates %v times, want none", n)
	}
	var none *Recorder
	if n := testing.AllocsPerRun(100, func() { none.Report(e) }); n != 0 {
		t.Errorf("a report to a nil Recorder allocates %v times, want none", n)
	}
	if events, missed := none.Since(0, 0); none.Events() != nil || events != nil || missed != 0 {
		t.Error("a nil Recorder has events")
	}
}

func TestObserversGetEachEvent(t *testing.T) {
	for size, keeps := range map[int]bool{10: true, 0: false} {
		var got []string
		r := NewRecorder(size, func(e Event) { got = append(got, fmt.Sprintf("%s %t %d", e.Stage, !e.Time.IsZero(), e.OneIn)) })
		for stage := Wire; stage <= Done; stage++ {
			r.Report(Event{Stage: stage, Object: Object{Name: "a"}})
		}
		if len(got) != int(Done) || got[0] != "wire true 1" || got[Done-1] != "done true 1" {
			t.Errorf("observed %q", got)
		}
		life, _ := r.Life(Object{Name: "a"})
		if kept := len(r.Events()); !r.Wants("1") || (kept > 0) != keeps || (len(life) > 0) != keeps {
			t.Errorf("it wants events: %t, and keeps %d, and %d of the object", r.Wants("1"), kept, len(life))
		}
	}
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	r := NewRecorder(8)
	var reporting sync.WaitGroup
	for range 4 {
		reporting.Go(func() {
			for range 100 {
				r.Report(Event{})
				r.Since(0, 0)
			}
		})
	}
	reporting.Wait()
	last := uint64(392)
	for _, e := range r.Events() {
		if e.Seq != last+1 {
			t.Fatalf("event %d after %d", e.Seq, last)
		}
		last = e.Seq
	}
	if last != 400 {
		t.Errorf("the last event is %d, want 400", last)
	}
}

func TestEventReadsAsALine(t *testing.T) {
	sample, job := Object{"MyCronJob", "default", "sample"}, Object{"Job", "default", "sample-1"}
	because := []Cause{{Verb: "Added", Object: job, ResourceVersion: "7"}, {Verb: VerbAfter}}
	for want, e := range map[string]Event{
		"wire      jobs.batch  Added Job default/sample-1 (resourceVersion 7)": {
			Stage: Wire, Source: "jobs.batch", Verb: "Added", Object: job, ResourceVersion: "7",
		},
		"index     jobs.batch  Updated Job default/sample-1 (resourceVersion 8: status.active 1 → 0, metadata.labels)": {
			Stage: Index, Source: "jobs.batch", Verb: "Updated", Object: job,
			ResourceVersion: "8", Changes: []Change{{"status.active", "1", "0"}, {Path: "metadata.labels"}},
		},
		"enqueue   mycronjob  MyCronJob default/sample, because Added Job default/sample-1 (resourceVersion 7)": {
			Stage: Enqueue, Source: "mycronjob", Verb: "Added", Object: job, For: sample, ResourceVersion: "7",
		},
		"sync      mycronjob  MyCronJob default/sample, because Added Job default/sample-1 (resourceVersion 7); After; and 3 more": {
			Stage: Sync, Source: "mycronjob", Object: sample, For: sample, Causes: because, More: 3,
		},
		"write     mycronjob  create jobs.batch Job default/sample-1 (resourceVersion 7), for MyCronJob default/sample": {
			Stage: Write, Source: "mycronjob", Verb: "create jobs.batch", Object: job, For: sample, ResourceVersion: "7",
		},
		"done      mycronjob  MyCronJob default/sample, after 1.5ms, again in 5s": {
			Stage: Done, Source: "mycronjob", Object: sample, For: sample, Causes: because,
			Duration: 1500 * time.Microsecond, After: 5 * time.Second,
		},
		"done      mycronjob  MyCronJob default/sample, after 1s, failed: no": {
			Stage: Done, Source: "mycronjob", Object: sample, For: sample, Duration: time.Second, Err: "no",
		},
	} {
		if got := e.String(); got != want {
			t.Errorf("the event reads\n %s, want\n %s", got, want)
		}
	}
}

func TestSinceTellsWhatIsMissing(t *testing.T) {
	r := NewRecorder(3)
	for range 5 {
		r.Report(Event{})
	}
	for name, test := range map[string]struct {
		seq    uint64
		most   int
		want   string
		missed uint64
	}{
		"all that are left":       {0, 0, "3 4 5 ", 2},
		"those after one":         {3, 0, "4 5 ", 0},
		"the newest of too many":  {0, 1, "5 ", 4},
		"none":                    {5, 0, "", 0},
		"none of another process": {99, 0, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			events, missed := r.Since(test.seq, test.most)
			got := ""
			for _, e := range events {
				got += fmt.Sprint(e.Seq, " ")
			}
			if got != test.want || missed != test.missed {
				t.Errorf("events %q, and %d missed; want %q and %d", got, missed, test.want, test.missed)
			}
		})
	}
	if r.Last() != 5 {
		t.Errorf("the last is %d", r.Last())
	}
}

func TestLifeIsOfOneObject(t *testing.T) {
	r := NewRecorder(1)
	owner, child, other := Object{"Owner", "a", "x"}, Object{"Child", "a", "y"}, Object{"Owner", "b", "x"}
	r.Report(Event{Stage: Index, Object: child})
	r.Report(Event{Stage: Enqueue, Object: child, For: owner}) // the sync says so too
	r.Report(Event{Stage: Sync, Object: owner, For: owner})
	r.Report(Event{Stage: Write, Object: child, For: owner})
	r.Report(Event{Stage: Done, Object: other, For: other})
	r.Report(Event{Stage: Queue}) // of no object
	for object, want := range map[Object]string{owner: "sync write ", child: "index enqueue write ", other: "done ", {"Owner", "a", "z"}: ""} {
		events, forgotten := r.Life(object)
		got := ""
		for _, e := range events {
			got += e.Stage.String() + " "
		}
		if got != want || forgotten {
			t.Errorf("the life of %s is %q, want %q", object, got, want)
		}
	}
}

func TestQuietSyncsInARowAreOne(t *testing.T) {
	r := NewRecorder(1)
	object := Object{Name: "a"}
	sync := func(verb, err string) {
		causes := []Cause{{Verb: verb}}
		r.Report(Event{Stage: Sync, Object: object, For: object, Causes: causes})
		r.Report(Event{Stage: Done, Object: object, For: object, Causes: causes, Err: err})
	}
	sync("Added", "")
	for range 3 {
		sync(VerbAfter, "")
	}
	sync(VerbAfter, "no")
	sync(VerbRetry, "")
	sync(VerbAfter, "")
	r.Report(Event{Stage: Sync, Object: object, For: object, Causes: []Cause{{Verb: VerbAfter}}})
	r.Report(Event{Stage: Write, Object: Object{Name: "b"}, For: object})
	r.Report(Event{Stage: Done, Object: object, For: object})
	events, forgotten := r.Life(object)
	got := ""
	for _, e := range events {
		got += e.Stage.String() + " "
		if e.Repeats > 0 {
			got += fmt.Sprintf("×%d ", e.Repeats)
		}
	}
	if want := "sync done sync done ×2 sync done sync done sync done sync write done "; got != want || forgotten {
		t.Errorf("the life is\n %q, want\n %q", got, want)
	}
}

func TestLivesAreBounded(t *testing.T) {
	r := NewRecorder(1)
	long := Object{Name: "long"}
	for n := range maxLifeSteps + 3 {
		r.Report(Event{Stage: Index, Object: long, ResourceVersion: strconv.Itoa(n)})
	}
	events, forgotten := r.Life(long)
	if len(events) != maxLifeSteps-trimmed+3 || !forgotten || events[0].ResourceVersion != strconv.Itoa(trimmed) ||
		events[len(events)-1].ResourceVersion != strconv.Itoa(maxLifeSteps+2) {
		t.Errorf("%d events from %s on, forgotten: %t", len(events), events[0].ResourceVersion, forgotten)
	}
	for n := range maxLives - 1 {
		r.Report(Event{Stage: Index, Object: Object{Name: strconv.Itoa(n)}})
	}
	r.Report(Event{Stage: Index, Object: long})
	r.Report(Event{Stage: Index, Object: Object{Name: "one more"}})
	if events, _ := r.Life(Object{Name: "0"}); len(events) != 0 {
		t.Error("the one that is longest past is remembered")
	}
	if events, _ := r.Life(long); len(events) == 0 {
		t.Error("one to which something has just happened is forgotten")
	}
}

func TestSampling(t *testing.T) {
	for name, test := range map[string]struct {
		rate     int // of changes a second
		min, max int // of those that are recorded then
		oneIn    int // at least
	}{
		"a few are all recorded": {1000, 1000, 1000, 1},
		"many are sampled":       {20_000, maxRate / 4, maxRate * 3 / 2, 4},
		"very many are sampled":  {500_000, maxRate / 4, maxRate * 3 / 2, 64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, version := NewRecorder(1), 0
				second := func() (recorded int) {
					for range 1000 {
						for range test.rate / 1000 {
							version++
							if v := strconv.Itoa(version); r.Wants(v) {
								recorded++
								r.Report(Event{Stage: Index, ResourceVersion: v})
							}
						}
						time.Sleep(time.Millisecond)
					}
					return recorded
				}
				for range 4 {
					second()
				}
				if got := second(); got < test.min || got > test.max || r.OneIn() < test.oneIn {
					t.Errorf("%d are recorded in a second, one in %d; want %d to %d, one in %d", got, r.OneIn(), test.min, test.max, test.oneIn)
				}
				time.Sleep(2 * time.Second)
				if r.OneIn() != 1 {
					t.Errorf("one in %d is recorded when there is nothing", r.OneIn())
				}
			})
		})
	}
}

// All stages of a change are recorded, or none.
func TestSamplingTakesWholeChanges(t *testing.T) {
	r := NewRecorder(1)
	r.sampling.mask.Store(7)
	wanted := 0
	for n := range 8000 {
		version := strconv.Itoa(n)
		first := r.Wants(version)
		if again := r.Wants(version); again != first {
			t.Fatal("a change is wanted at one stage only")
		}
		if first {
			wanted++
		}
	}
	if wanted < 800 || wanted > 1200 {
		t.Errorf("%d of 8000 are wanted, want an eighth", wanted)
	}
	if !r.Wants("") {
		t.Error("what has no resourceVersion is not wanted")
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	kept := Shorten(strings.Repeat("ä", maxErr))
	if len(kept) > maxErr+len("…") || !strings.HasSuffix(kept, "ä…") || !utf8.ValidString(kept) {
		t.Errorf("%d bytes are kept, ending with %q", len(kept), kept[len(kept)-8:])
	}
}
