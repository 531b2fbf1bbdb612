// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// Config describes a Recorder.
type Config struct {
	// Dir is the directory of the files. Start creates it if it does not exist. If Dir is empty, there is no Recorder.
	Dir string
	// Version, Commit and Instance are those of the operator, for the headers of the files.
	Version, Commit, Instance string
	// Kinds are the kinds whose decisions are recorded.
	Kinds []Kind
	// Count is called with the number of records that were written or dropped; nil for no such call. Several goroutines call it at once.
	Count func(result Result, records int)
}

// Recorder is a loop.Observer that records syncs. A nil *Recorder is valid for SetOverview and Stop.
type Recorder struct {
	loop.NoObserver

	writer *writer
}

// entry is the record of a running sync.
type entry struct {
	Record

	writer  *writer
	dropped bool // whether the queue had no room for the decision

	mu    sync.Mutex
	ended bool // A write that is reported later is not recorded.
}

// Start returns a Recorder that records until Stop. It returns nil if config.Dir is empty, and an error if it cannot write a file there.
func Start(ctx context.Context, config Config) (*Recorder, error) {
	if config.Dir == "" {
		return nil, nil //nolint:nilnil // A nil Recorder records nothing.
	}
	w, err := newWriter(config.Dir, Header{
		Schema: Schema, Version: config.Version, Commit: config.Commit, Instance: config.Instance, Started: time.Now().UTC(),
		Fields: FieldsOf(config.Kinds),
	}, limits, config.Count)
	if err != nil {
		return nil, err
	}
	go w.run(klog.FromContext(ctx))
	return &Recorder{writer: w}, nil
}

// stopTimeout bounds the time in which Stop writes the last records.
const stopTimeout = 3 * time.Second

// Stop writes the records of the syncs that have ended. It takes at most stopTimeout. A second call does nothing.
func (r *Recorder) Stop() {
	if r != nil {
		r.writer.stop(stopTimeout)
	}
}

// Begin begins the record of a sync. It implements loop.Observer.
func (r *Recorder) Begin(ctx context.Context, e trace.Event) context.Context {
	return WithSink(ctx, &entry{writer: r.writer, Record: Record{
		Time: e.Time.UTC(), Controller: e.Source, Kind: e.For.Kind, Namespace: e.For.Namespace, Name: e.For.Name,
		Causes: causesOf(e.Causes), MoreCauses: e.More,
	}})
}

// Wrote adds a write to the record of its sync. It implements loop.Observer.
func (r *Recorder) Wrote(ctx context.Context, e trace.Event) {
	if current := entryOf(ctx); current != nil {
		current.mu.Lock()
		defer current.mu.Unlock()
		if !current.ended {
			current.Writes = append(current.Writes, Write{Object(e.Object), e.Time.UTC(), e.Verb, e.ResourceVersion, e.Err})
		}
	}
}

// End ends the record of a sync. It implements loop.Observer.
func (r *Recorder) End(ctx context.Context, e trace.Event, _ loop.Result) {
	current := entryOf(ctx)
	current.mu.Lock()
	defer current.mu.Unlock()
	current.ended = true
	current.Took, current.After, current.Error = v1.Duration{Duration: e.Duration}, v1.Duration{Duration: e.After}, e.Err
	r.writer.put(&current.Record, current.dropped)
}

// entryOf returns the record of the running sync; nil outside of a sync.
func entryOf(ctx context.Context) *entry {
	current, _ := ctx.Value(sinkKey{}).(*entry)
	return current
}

// Stage records an event of a trace.Recorder, if it is of a stage before trace.Sync.
func (r *Recorder) Stage(e trace.Event) {
	if e.Stage < trace.Sync {
		r.writer.putStage(&e)
	}
}

// SetOverview sets a function that returns the state of all informers and workqueues, as the page shows it. The Recorder calls it once a
// second, and records a result whose JSON differs from the last one.
func (r *Recorder) SetOverview(overview func() any) {
	if r != nil {
		r.writer.overview.Store(&overview)
	}
}

// Wants reports whether the queue has room for the decision. Once it had none, Wants stays false for this sync.
func (e *entry) Wants() bool {
	e.dropped = e.dropped || !e.writer.hasRoom()
	return !e.dropped
}

// Decided implements Sink.
func (e *entry) Decided(observed, plan any) {
	e.Observed, e.Plan = fields.Encode(observed), fields.Encode(plan)
}
