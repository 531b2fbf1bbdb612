// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

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
}

// Recorder records syncs. A nil *Recorder records nothing.
type Recorder struct {
	writer *writer

	mu      sync.Mutex
	syncing map[syncKey]*entry
}

// syncKey identifies a running sync. A controller runs at most one sync of an object at a time.
type syncKey struct {
	controller string
	object     trace.Object
}

// entry is the record of a running sync.
type entry struct {
	Record

	writer  *writer
	dropped bool // whether the queue had no room for the decision
}

// Start returns a Recorder that records until Stop. It returns nil if config.Dir is empty, and an error if it cannot write a file there.
func Start(ctx context.Context, config Config) (*Recorder, error) {
	if config.Dir == "" {
		return nil, nil //nolint:nilnil // A nil Recorder records nothing.
	}
	w, err := newWriter(config.Dir, Header{
		Schema: Schema, Version: config.Version, Commit: config.Commit, Instance: config.Instance, Started: time.Now().UTC(),
		Fields: FieldsOf(config.Kinds),
	}, limits)
	if err != nil {
		return nil, err
	}
	go w.run(klog.FromContext(ctx))
	return &Recorder{writer: w, syncing: map[syncKey]*entry{}}, nil
}

// stopTimeout bounds the time in which Stop writes the last records.
const stopTimeout = 3 * time.Second

// Stop writes the records of the syncs that have ended. It takes at most stopTimeout. A second call does nothing.
func (r *Recorder) Stop() {
	if r != nil {
		r.writer.stop(stopTimeout)
	}
}

// Observe receives the events of a trace.Recorder. It begins and ends the record of each sync, and records the writes of the sync.
func (r *Recorder) Observe(e trace.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := syncKey{e.Source, e.For}
	current := r.syncing[key]
	switch {
	case e.Stage == trace.Sync:
		r.syncing[key] = &entry{writer: r.writer, Record: Record{
			Time: e.Time.UTC(), Controller: e.Source, Kind: e.For.Kind, Namespace: e.For.Namespace, Name: e.For.Name,
			Causes: causesOf(e.Causes), MoreCauses: e.More,
		}}
	case current == nil: // The sync began before the Recorder.
	case e.Stage == trace.Write:
		current.Writes = append(current.Writes, Write{Object(e.Object), e.Time.UTC(), e.Verb, e.ResourceVersion, e.Err})
	case e.Stage == trace.Done:
		delete(r.syncing, key)
		current.Took, current.After, current.Error = v1.Duration{Duration: e.Duration}, v1.Duration{Duration: e.After}, e.Err
		r.writer.put(&current.Record, current.dropped)
	}
}

// Follow makes r record the events of the stages before trace.Sync. Call it before the first Report of stages.
func (r *Recorder) Follow(stages *trace.Recorder) {
	if r == nil {
		return
	}
	stages.ObserveAll(func(e trace.Event) {
		if e.Stage < trace.Sync {
			r.writer.putStage(&e)
		}
	})
}

// SetOverview sets a function that returns the state of all informers and workqueues, as the page shows it. The Recorder calls it once a
// second, and records a result whose JSON differs from the last one.
func (r *Recorder) SetOverview(overview func() any) {
	if r != nil {
		r.writer.overview.Store(&overview)
	}
}

// Wrap makes r record the decisions of the syncs of l. Call it before l runs.
func (r *Recorder) Wrap(l *loop.Loop) {
	if r == nil {
		return
	}
	next, name, kind := l.Sync, l.Name, l.Kind
	l.Sync = func(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
		r.mu.Lock()
		current := r.syncing[syncKey{name, trace.Object{Kind: kind, Namespace: key.Namespace, Name: key.Name}}]
		r.mu.Unlock()
		if current != nil {
			ctx = WithSink(ctx, current)
		}
		return next(ctx, key)
	}
}

// Wants reports whether the queue has room for the decision. Once it had none, Wants stays false for this sync.
func (e *entry) Wants() bool {
	e.dropped = e.dropped || !e.writer.hasRoom()
	return !e.dropped
}

// Decided implements Sink.
func (e *entry) Decided(observed, plan any) { e.Observed, e.Plan = Encode(observed), Encode(plan) }
