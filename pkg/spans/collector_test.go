// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// collector is a TraceService of OTLP, behind HTTP. It is the transport to itself as well, for tests without a network.
type collector struct {
	coltracepb.UnimplementedTraceServiceServer

	mu       sync.Mutex
	requests []*coltracepb.ExportTraceServiceRequest
	headers  []http.Header
	raw      strings.Builder // all bodies
}

// Export is the method of the TraceService.
func (c *collector) Export(
	_ context.Context, request *coltracepb.ExportTraceServiceRequest,
) (*coltracepb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, request)
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is the binding of Export to HTTP, as of https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &coltracepb.ExportTraceServiceRequest{}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || err != nil ||
		proto.Unmarshal(body, request) != nil || len(request.ProtoReflect().GetUnknown()) > 0 {
		http.Error(w, "this is no request of OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.headers = append(c.headers, r.Header)
	c.raw.Write(body)
	c.mu.Unlock()
	response, err := c.Export(r.Context(), request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer, _ := proto.Marshal(response)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// RoundTrip answers as ServeHTTP does.
func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	c.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// spans returns all spans, in the order of their beginnings.
func (c *collector) spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*tracepb.Span
	for _, request := range c.requests {
		for _, resource := range request.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				all = append(all, scope.GetSpans()...)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *tracepb.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	return all
}

// text returns all that has arrived, as it is and in JSON.
func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.raw.String()
	for _, request := range c.requests {
		all += protojson.Format(request)
	}
	return all
}

// syncs returns the spans of syncs.
func (c *collector) syncs() []*tracepb.Span {
	return slices.DeleteFunc(c.spans(), func(s *tracepb.Span) bool { return len(s.GetParentSpanId()) > 0 })
}

// children returns the spans below a span, a line for each.
func (c *collector) children(parent *tracepb.Span) []string {
	var lines []string
	for _, s := range c.spans() {
		if string(s.GetParentSpanId()) == string(parent.GetSpanId()) && string(s.GetTraceId()) == string(parent.GetTraceId()) {
			line := s.GetName() + " " + attributesText(s.GetAttributes())
			if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				line += " error=" + s.GetStatus().GetMessage()
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// causes returns the events of a span, a line for each.
func causes(span *tracepb.Span) []string {
	var lines []string
	for _, event := range span.GetEvents() {
		lines = append(lines, event.GetName()+" "+attributesText(event.GetAttributes()))
	}
	return lines
}

func attributesText(attributes []*commonpb.KeyValue) string {
	var texts []string
	for _, a := range attributes {
		value := a.GetValue().GetStringValue()
		if value == "" {
			value = strings.Join(strings.Fields(a.GetValue().String()), "")
		}
		texts = append(texts, a.GetKey()+"="+value)
	}
	return strings.Join(texts, " ")
}

// start returns a Tracer that sends to c until the test ends.
func start(t testing.TB, c http.RoundTripper) *Tracer {
	t.Helper()
	tracer, err := Start(context.Background(), Config{Endpoint: "http://collector:4318", Version: "v1", Instance: "here", Transport: c})
	must.Succeed(t, err)
	t.Cleanup(tracer.Stop)
	return tracer
}

var thing = trace.Object{Kind: "Thing", Namespace: "default", Name: "one"}

// sync reports the events of a sync of thing, which calls do.
func (t *Tracer) sync(do func(), causes ...trace.Cause) {
	t.Observe(trace.Event{Stage: trace.Sync, Source: "things", Object: thing, For: thing, Causes: causes})
	do()
	t.Observe(trace.Event{Stage: trace.Done, Source: "things", Object: thing, For: thing, Causes: causes})
}

func wrote(verb, name, version string) trace.Event {
	return trace.Event{
		Stage: trace.Write, Source: "things", For: thing, Verb: verb, ResourceVersion: version,
		Object: trace.Object{Kind: "ConfigMap", Namespace: "default", Name: name},
	}
}

func changed(verb, name, version string) trace.Cause {
	return trace.Cause{Verb: verb, ResourceVersion: version, Object: trace.Object{Kind: "ConfigMap", Namespace: "default", Name: name}}
}

// linked returns the indexes of the syncs that a sync is linked to.
func linked(syncs []*tracepb.Span, span *tracepb.Span) string {
	var to []int
	for _, link := range span.GetLinks() {
		to = append(to, slices.IndexFunc(syncs, func(s *tracepb.Span) bool {
			return string(s.GetSpanId()) == string(link.GetSpanId()) && string(s.GetTraceId()) == string(link.GetTraceId())
		}))
	}
	return fmt.Sprint(to)
}
