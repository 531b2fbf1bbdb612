// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/glassback/glassback/pkg/leaktest"
)

// traceService is a TraceService of OTLP over HTTP. It keeps all spans that it receives.
type traceService struct {
	url string

	mu    sync.Mutex
	spans []*tracepb.Span
	raw   strings.Builder // all bodies
}

// newTraceService starts a TraceService that ends with the test.
func newTraceService(t *testing.T) *traceService {
	t.Helper()
	s := &traceService{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ServeHTTP receives spans, as of https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
func (s *traceService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &coltracepb.ExportTraceServiceRequest{}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(body, request) != nil {
		http.Error(w, "this is not a request of OTLP", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(body)
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			s.spans = append(s.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // The empty answer accepts all spans.
}

// syncs returns the spans of a controller's syncs of an object, sorted by start time.
func (s *traceService) syncs(controller, object string) []*tracepb.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*tracepb.Span
	for _, span := range s.spans {
		if len(span.GetParentSpanId()) == 0 && span.GetName() == "sync "+controller && attribute(span, "glassback.object.name") == object {
			found = append(found, span)
		}
	}
	slices.SortFunc(found, func(a, b *tracepb.Span) int { return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) })
	return found
}

// calls returns the names of the child spans of a span. It leaves out failed ones.
func (s *traceService) calls(parent *tracepb.Span) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, span := range s.spans {
		if string(span.GetTraceId()) == string(parent.GetTraceId()) && string(span.GetParentSpanId()) == string(parent.GetSpanId()) &&
			span.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
			names = append(names, span.GetName())
		}
	}
	return names
}

func attribute(span *tracepb.Span, key string) string {
	for _, a := range span.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// check checks the traces of one ECSInstance from its creation to its deletion. The spans of syncs have the calls as children. If a write
// caused a sync, the sync has a link to the sync that wrote.
func (s *traceService) check(t *testing.T, object string) {
	t.Helper()
	syncs := s.syncs("ecsinstance", object)
	var calls, linked, causes []string
	for _, sync := range syncs {
		calls = append(calls, s.calls(sync)...)
		for _, event := range sync.GetEvents() {
			causes = append(causes, event.GetName())
		}
		for _, link := range sync.GetLinks() {
			at := slices.IndexFunc(syncs, func(s *tracepb.Span) bool { return string(s.GetSpanId()) == string(link.GetSpanId()) })
			if at < 0 {
				t.Errorf("a sync has a link to a span that is no sync of %s", object)
				continue
			}
			linked = append(linked, s.calls(syncs[at])...)
		}
	}
	const kind = "ecsinstances.alibabacloud.zhouzhengxi.com"
	for _, want := range []string{
		"patch " + kind, "update " + kind + "/status", "ecs CreateInstance", "ecs StopInstance", "ecs DeleteInstance",
	} {
		if !slices.Contains(calls, want) {
			t.Errorf("no sync of %s has the call %q; the calls of %d syncs are %q", object, want, len(syncs), calls)
		}
	}
	if !slices.Contains(causes, "cause") || !slices.Contains(linked, "patch "+kind) {
		t.Errorf("%d syncs have %d causes, and links to syncs with the calls %q", len(syncs), len(causes), linked)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range (leaktest.Secrets{"the access key ID": cloudKeyID, "its secret": cloudKeySecret}).In(s.raw.String()) {
		t.Errorf("the spans contain %s", found)
	}
	t.Logf("%d spans, of them %d syncs of %s", len(s.spans), len(syncs), object)
}
