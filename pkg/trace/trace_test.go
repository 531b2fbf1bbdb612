/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package trace

import (
	"sync"
	"testing"
	"time"
)

func TestRecorderKeepsTheNewestEvents(t *testing.T) {
	r := NewRecorder(3)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.Report(Event{Stage: Wire, Name: name})
	}
	events := r.Events()
	got := ""
	for i, e := range events {
		got += e.Name
		if e.Seq != uint64(i+3) || e.Time.IsZero() {
			t.Errorf("event %d has number %d and time %s", i, e.Seq, e.Time)
		}
	}
	if got != "cde" {
		t.Errorf("kept %q, want the newest three, oldest first", got)
	}
}

func TestSlowSubscriberLosesEventsAndIsTold(t *testing.T) {
	r := NewRecorder(1)
	s := r.Subscribe(2)
	for range 5 {
		r.Report(Event{})
	}
	if s.Dropped() != 3 {
		t.Errorf("%d events dropped, want 3", s.Dropped())
	}
	s.Close()
	s.Close()
	r.Report(Event{})
	var seqs []uint64
	for e := range s.Events() {
		seqs = append(seqs, e.Seq)
	}
	if len(seqs) != 2 || seqs[0] != 1 || seqs[1] != 2 {
		t.Errorf("received %v, want the first two", seqs)
	}
}

func TestNilRecorderRecordsNothing(t *testing.T) {
	var r *Recorder
	r.Report(Event{Name: "x"})
	s := r.Subscribe(1)
	if r.Events() != nil || len(s.Events()) != 0 || s.Dropped() != 0 {
		t.Error("a nil Recorder has events")
	}
	s.Close()
	if _, open := <-s.Events(); open {
		t.Error("a closed subscription is still open")
	}
}

func TestReportDoesNotAllocate(t *testing.T) {
	r := NewRecorder(16)
	e := Event{Stage: Index, Time: time.Now(), Source: "jobs.batch", Namespace: "default", Name: "x"}
	if n := testing.AllocsPerRun(100, func() { r.Report(e) }); n != 0 {
		t.Errorf("a report allocates %v times, want none", n)
	}
	var none *Recorder
	if n := testing.AllocsPerRun(100, func() { none.Report(e) }); n != 0 {
		t.Errorf("a report to nobody allocates %v times, want none", n)
	}
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	r := NewRecorder(8)
	s := r.Subscribe(1000)
	var reporting sync.WaitGroup
	for range 4 {
		reporting.Go(func() {
			for range 100 {
				r.Report(Event{})
				r.Events()
			}
		})
	}
	reporting.Wait()
	s.Close()
	last := uint64(0)
	for e := range s.Events() {
		if e.Seq != last+1 {
			t.Fatalf("event %d after %d", e.Seq, last)
		}
		last = e.Seq
	}
	if last != 400 {
		t.Errorf("%d events, want 400", last)
	}
}

func TestCauseReadsAsALine(t *testing.T) {
	for want, c := range map[string]Cause{
		"Updated Job default/x (resourceVersion 7: status.active, status.failed)": {
			Kind: "Job", Namespace: "default", Name: "x", Verb: "Updated", ResourceVersion: "7", Fields: []string{"status.active", "status.failed"},
		},
		"Added Node n (resourceVersion 1)": {Kind: "Node", Name: "n", Verb: "Added", ResourceVersion: "1"},
		"After":                            {Verb: VerbAfter},
	} {
		if got := c.String(); got != want {
			t.Errorf("cause reads %q, want %q", got, want)
		}
	}
	if got := Stage(99).String(); got != "stage(99)" {
		t.Errorf("an unknown stage is %q", got)
	}
}
