// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/trace"
)

// scope is the name of the tracer, which collectors show as the instrumentation scope.
const scope = "github.com/glassback/glassback/pkg/spans"

// flushTimeout bounds the time in which Stop sends the last spans.
const flushTimeout = 3 * time.Second

// Config describes a Tracer.
type Config struct {
	// Endpoint is the http://HOST:PORT or https://HOST:PORT of the collector; empty for no Tracer.
	Endpoint string
	// Version and Instance are those of the operator, for the resource of all spans.
	Version, Instance string
	// Transport carries the requests to the collector; nil for a transport that follows the environment.
	Transport http.RoundTripper
}

// Tracer is a loop.Observer that makes a span of each sync.
type Tracer struct {
	loop.NoObserver

	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
	client   *client

	mu     sync.Mutex
	writes writes
}

// Start returns a Tracer that sends spans until Stop. It returns nil if config has no endpoint. An error is one line that says which
// variable of the environment to correct.
//
// Start reads OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE: see newClient. The SDK reads OTEL_TRACES_SAMPLER,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, and the limits of its queue and of spans. Without a sampler it sends all syncs.
func Start(ctx context.Context, config Config) (*Tracer, error) {
	if config.Endpoint == "" {
		return nil, nil //nolint:nilnil // A nil Tracer makes no spans.
	}
	// The SDK would print its settings to stderr, also the headers.
	otel.SetLogger(logr.Discard())
	client, err := newClient(config, klog.FromContext(ctx))
	if err != nil {
		return nil, err
	}
	var problem error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { problem = errors.Join(problem, err) }))
	attributes, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName(glassback.Name), semconv.ServiceVersion(config.Version), semconv.ServiceInstanceID(config.Instance),
	), resource.WithFromEnv())
	if err != nil || problem != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES must be NAME=VALUE,..., with percent-encoded values")
	}
	// The exporter only fails if it is started twice.
	exporter := otlptrace.NewUnstarted(client)
	if err := exporter.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the exporter of spans: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(attributes), sdktrace.WithBatcher(exporter))
	if problem != nil {
		_ = provider.Shutdown(ctx) // There are no spans.
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG do not name a sampler: %w", problem)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { client.losses.add(0, err) }))
	return &Tracer{
		provider: provider, tracer: provider.Tracer(scope), client: client, writes: writes{spans: map[writeKey]oteltrace.SpanContext{}},
	}, nil
}

// Stop sends the spans that have ended, for flushTimeout at most, and ends what Start has started. Spans that end later are lost. It does
// nothing when it is called again.
func (t *Tracer) Stop() {
	if t == nil {
		return
	}
	timer := time.AfterFunc(flushTimeout, t.client.cancel) // Each further request fails at once.
	defer timer.Stop()
	if err := t.provider.Shutdown(context.Background()); err != nil {
		t.client.losses.add(0, err)
	}
	t.client.cancel()
}

// Begin begins the span of a sync, whose requests become its children. It implements loop.Observer.
func (t *Tracer) Begin(ctx context.Context, e trace.Event) context.Context {
	if span := t.begin(&e); span.IsRecording() {
		return oteltrace.ContextWithSpan(ctx, span)
	}
	return ctx // The sync is not sampled.
}

// Wrote remembers which sync wrote what. It implements loop.Observer.
func (t *Tracer) Wrote(ctx context.Context, e trace.Event) {
	if span := oteltrace.SpanFromContext(ctx); span.IsRecording() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.writes.add(writeOf(&e), span.SpanContext())
	}
}

// End ends the span of a sync. It implements loop.Observer.
func (t *Tracer) End(ctx context.Context, e trace.Event, _ loop.Result) {
	span := oteltrace.SpanFromContext(ctx)
	if e.After > 0 {
		span.SetAttributes(attribute.Float64("glassback.after_seconds", e.After.Seconds()))
	}
	if e.Err != "" {
		span.SetStatus(codes.Error, e.Err)
	}
	span.End()
}

// links returns the links to the syncs whose writes are among the causes.
func (t *Tracer) links(causes []trace.Cause) []oteltrace.Link {
	t.mu.Lock()
	defer t.mu.Unlock()
	var links []oteltrace.Link
	for i := range causes {
		if by, ok := t.writes.by(&causes[i]); ok {
			links = append(links, oteltrace.Link{SpanContext: by})
		}
	}
	return links
}

// begin returns the span of a sync, with its causes and links.
func (t *Tracer) begin(e *trace.Event) oteltrace.Span {
	attributes := append(attributesOf(e.For), attribute.String("glassback.controller", e.Source))
	_, span := t.tracer.Start(context.Background(), "sync "+e.Source, oteltrace.WithNewRoot(), oteltrace.WithTimestamp(e.Time),
		oteltrace.WithLinks(t.links(e.Causes)...), oteltrace.WithAttributes(attributes...))
	if !span.IsRecording() {
		return span
	}
	for i := range e.Causes {
		cause := &e.Causes[i]
		attributes := append(attributesOf(cause.Object), attribute.String("glassback.verb", cause.Verb))
		if cause.ResourceVersion != "" {
			attributes = append(attributes, attribute.String("glassback.resource_version", cause.ResourceVersion))
		}
		if len(cause.Fields) > 0 {
			attributes = append(attributes, attribute.StringSlice("glassback.fields", cause.Fields))
		}
		span.AddEvent("cause", oteltrace.WithTimestamp(cause.Time), oteltrace.WithAttributes(attributes...))
	}
	if e.More > 0 {
		span.SetAttributes(attribute.Int("glassback.more_causes", e.More))
	}
	return span
}

// attributesOf returns the attributes that name an object; none for no object.
func attributesOf(object trace.Object) []attribute.KeyValue {
	if object == (trace.Object{}) {
		return nil
	}
	attributes := []attribute.KeyValue{
		attribute.String("glassback.object.kind", object.Kind), attribute.String("glassback.object.name", object.Name),
	}
	if object.Namespace != "" {
		attributes = append(attributes, semconv.K8SNamespaceName(object.Namespace))
	}
	return attributes
}
