// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/trace"
)

// maxSteps bounds the memory for a recording, to about a GB.
const maxSteps = 1_000_000

// tape is what the page shows of a recording, in the order of time.
type tape struct {
	Recording

	version, instance string
	steps             []step
}

// step is one event, or one new state of the gears, or the first record of an operator that started at some time.
type step struct {
	time    time.Time
	event   *trace.Event
	gears   *gears
	started time.Time
}

// gears are the informers and controllers of an Overview. Equal ones of two successive overviews share one pointer.
type gears struct {
	informers   []*Informer
	controllers []*Controller
}

// run is the part of a recording that one process has recorded.
type run struct {
	file     string // the first one
	instance string
	started  time.Time
	from, to time.Time
}

// reader reads a tape.
type reader struct {
	tape

	file  string // that is read
	runs  []*run
	last  gears
	texts map[string]string // Each text of the events, once.
}

// readTape reads files of one operator, or of several that ran one after another. It reads a damaged file up to the damage.
func readTape(files []string) (*tape, error) {
	r := &reader{texts: map[string]string{}}
	var damages error
	for _, file := range files {
		r.file = file
		err := recording.Read(file, r.add)
		if damage := new(recording.Damage); errors.As(err, &damage) {
			damages = errors.Join(damages, err)
			r.Damaged = append(r.Damaged, err.Error())
		} else if err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(r.steps, func(s step) bool { return s.gears != nil }) {
		if damages != nil {
			return nil, damages
		}
		return nil, errors.New("the recording has no states of the informers and workqueues: an earlier version recorded it. " +
			"Record again with this version, or run glassback replay")
	}
	if err := r.checkRuns(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.steps, func(a, b step) int { return a.time.Compare(b.time) })
	r.From, r.To = r.steps[0].time, r.steps[len(r.steps)-1].time
	return &r.tape, nil
}

// add adds one line of a file.
func (r *reader) add(header *recording.Header, _ int, record *recording.Record) error {
	r.addRun(header, record.Time)
	r.Dropped += record.Dropped
	r.DroppedStages += record.DroppedStages
	if record.Overview != nil {
		if err := r.addOverview(record); err != nil {
			return err
		}
	}
	for _, e := range record.Events() {
		r.keep(&e)
		r.steps = append(r.steps, step{time: e.Time, event: &e})
	}
	if len(r.steps) > maxSteps {
		return fmt.Errorf("the recording has more than %d changes: name fewer files", maxSteps)
	}
	return nil
}

// addRun notes which process has recorded a line.
func (r *reader) addRun(header *recording.Header, at time.Time) {
	n := len(r.runs) - 1
	if n < 0 || r.runs[n].instance != header.Instance || !r.runs[n].started.Equal(header.Started) {
		r.version, r.instance = header.Version, header.Instance
		r.runs = append(r.runs, &run{r.file, header.Instance, header.Started, at, at})
		started := header.Started
		if started.IsZero() { // An earlier version recorded it.
			started = at
		}
		r.steps = append(r.steps, step{time: at, started: started})
		return
	}
	if at.Before(r.runs[n].from) {
		r.runs[n].from = at
	}
	if at.After(r.runs[n].to) {
		r.runs[n].to = at
	}
}

// checkRuns returns an error if two operators have recorded at the same time: the page shows one.
func (r *reader) checkRuns() error {
	slices.SortStableFunc(r.runs, func(a, b *run) int { return a.from.Compare(b.from) })
	for n := 1; n < len(r.runs); n++ {
		if a, b := r.runs[n-1], r.runs[n]; b.from.Before(a.to) {
			return fmt.Errorf("two operators recorded at the same time, %s from %s on and %s from %s on: name the files of one of them",
				a.instance, a.file, b.instance, b.file)
		}
	}
	return nil
}

func (r *reader) addOverview(record *recording.Record) error {
	var o Overview
	if err := json.Unmarshal(record.Overview, &o); err != nil {
		return fmt.Errorf("the overview: %w", err)
	}
	next := gears{}
	for n := range o.Informers {
		next.informers = append(next.informers, same(r.last.informers, n, &o.Informers[n]))
	}
	for n := range o.Controllers {
		next.controllers = append(next.controllers, same(r.last.controllers, n, &o.Controllers[n]))
	}
	r.last = next
	r.steps = append(r.steps, step{time: record.Time, gears: &next})
	return nil
}

// same returns the gear at index n of last if it equals gear, and gear otherwise.
func same[T any](last []*T, n int, gear *T) *T {
	if n < len(last) && reflect.DeepEqual(last[n], gear) {
		return last[n]
	}
	return gear
}

// keep replaces each text of an event with the equal text that the reader already has, to save memory.
func (r *reader) keep(e *trace.Event) {
	for _, text := range []*string{
		&e.Source, &e.Kind, &e.Namespace, &e.Name, &e.For.Kind, &e.For.Namespace, &e.For.Name, &e.Verb, &e.ResourceVersion,
	} {
		if kept, ok := r.texts[*text]; ok {
			*text = kept
		} else {
			r.texts[*text] = *text
		}
	}
}
