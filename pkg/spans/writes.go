// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"strings"

	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// maxWrites bounds the writes that a Tracer remembers, some 1 MB. The watch brings most writes back within a second.
const maxWrites = 4096

// writeKey identifies a version of an object that a sync wrote. A deletion has none: the answer to it does not say which version the
// watch will bring.
type writeKey struct {
	object  trace.Object
	version string
}

// writes remembers which sync made each of the last maxWrites writes.
type writes struct {
	spans  map[writeKey]oteltrace.SpanContext
	oldest int        // in order, once that is full
	order  []writeKey // a ring
}

// writeOf returns the key of a write.
func writeOf(e *trace.Event) writeKey {
	if strings.HasPrefix(e.Verb, "delete ") {
		return writeKey{object: e.Object}
	}
	return writeKey{e.Object, e.ResourceVersion}
}

// add records that the sync of a span made a write.
func (w *writes) add(key writeKey, span oteltrace.SpanContext) {
	if _, known := w.spans[key]; !known {
		if len(w.order) < maxWrites {
			w.order = append(w.order, key)
		} else {
			delete(w.spans, w.order[w.oldest])
			w.order[w.oldest] = key
			w.oldest = (w.oldest + 1) % maxWrites
		}
	}
	w.spans[key] = span
}

// by returns the span of the sync that made the change of a cause, if that is known.
func (w *writes) by(cause *trace.Cause) (oteltrace.SpanContext, bool) {
	key := writeKey{object: cause.Object}
	if cause.Verb != string(cache.Deleted) {
		if cause.ResourceVersion == "" {
			return oteltrace.SpanContext{}, false
		}
		key.version = cause.ResourceVersion
	}
	span, ok := w.spans[key]
	return span, ok
}
