// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"time"

	"github.com/glassback/glassback/pkg/trace"
)

// Observer observes Loops, and the writes of their syncs. Many workers call it at once. It does not change the causes of an event.
type Observer interface {
	// Run is called when a Loop begins to run with workers. ctx ends when the Loop takes no more keys, and end is called after its last sync.
	Run(ctx context.Context, workers int) (end func())
	// Enqueue is called with a trace.Enqueue: a key is added to the queue.
	Enqueue(e trace.Event)
	// Begin is called with a trace.Sync: a worker has taken a key. The sync begins when all observers have returned. It gets the context
	// that the last of them returns, and so do its other observations.
	Begin(ctx context.Context, e trace.Event) context.Context
	// Wrote is called with a trace.Write: a sync has changed an object.
	Wrote(ctx context.Context, e trace.Event)
	// End is called with a trace.Done: the sync has ended, also by a panic.
	End(ctx context.Context, e trace.Event, result Result)
}

// Result is the outcome of a sync.
type Result int

// The results. Package metrics has a name for each.
const (
	Success Result = iota
	// Error: the sync failed. It runs again after a backoff.
	Error
	// Panic: the sync panicked. It runs again after a backoff.
	Panic
	// Requeue: the sync met a conflict with another writer. It runs again after a backoff.
	Requeue
	// RequeueAfter: the sync succeeded, and asked to run again after a delay.
	RequeueAfter
	// Results is the number of results.
	Results = iota
)

func resultOf(after time.Duration, err error) Result {
	switch {
	case isConflict(err):
		return Requeue
	case err != nil:
		return Error
	case after > 0:
		return RequeueAfter
	}
	return Success
}

// NoObserver does nothing. An Observer embeds it for the methods that it does not need.
type NoObserver struct{}

// Run implements Observer.
func (NoObserver) Run(context.Context, int) func() { return func() {} }

// Enqueue implements Observer.
func (NoObserver) Enqueue(trace.Event) {}

// Begin implements Observer.
func (NoObserver) Begin(ctx context.Context, _ trace.Event) context.Context { return ctx }

// Wrote implements Observer.
func (NoObserver) Wrote(context.Context, trace.Event) {}

// End implements Observer.
func (NoObserver) End(context.Context, trace.Event, Result) {}

// Traced returns an Observer that reports each event to recorder.
func Traced(recorder *trace.Recorder) Observer { return traced{recorder: recorder} }

type traced struct {
	NoObserver

	recorder *trace.Recorder
}

func (t traced) Enqueue(e trace.Event) {
	if t.recorder.Wants(e.ResourceVersion) {
		t.recorder.Report(e)
	}
}

func (t traced) Begin(ctx context.Context, e trace.Event) context.Context {
	t.recorder.Report(e)
	return ctx
}

func (t traced) Wrote(_ context.Context, e trace.Event)         { t.recorder.Report(e) }
func (t traced) End(_ context.Context, e trace.Event, _ Result) { t.recorder.Report(e) }
