// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import "context"

// Sink gets what a sync observed and decided, in the form of a record. It must not keep the values: they share parts with the caches and
// with the sync.
type Sink interface {
	// Wants reports whether Decided is to be called.
	Wants() bool
	Decided(observed, plan any)
}

type sinkKey struct{}

// WithSink returns a context whose syncs are recorded.
func WithSink(ctx context.Context, sink Sink) context.Context {
	return context.WithValue(ctx, sinkKey{}, sink)
}

// Observed is what a sync decided on. Record returns it in the form of a record, with all that decide reads.
type Observed interface{ Record() any }

// Plan is what a sync decided. Record returns it in the form of a record.
type Plan[O any] interface{ Record(observed O) any }

// Decided records a decision, before it is carried out. It does nothing unless the sync is recorded.
func Decided[O Observed, P Plan[O]](ctx context.Context, observed O, plan P) {
	if sink, ok := ctx.Value(sinkKey{}).(Sink); ok && sink.Wants() {
		sink.Decided(observed.Record(), plan.Record(observed))
	}
}
