// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/redisnode"
)

// startCall begins the span of a call of a sync. It returns nil if ctx has no span of a running sync: a span that has ended gets no more
// children.
func startCall(ctx context.Context, name string, options ...oteltrace.SpanStartOption) oteltrace.Span {
	parent := oteltrace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return nil
	}
	options = append(options, oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	_, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
	return span
}

// Transport wraps the transport of a client of the API server, so that requests of syncs get spans.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return transport{next}
}

type transport struct{ next http.RoundTripper }

// RoundTrip sends request. The span ends with the header of the answer.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !oteltrace.SpanFromContext(request.Context()).IsRecording() {
		return t.next.RoundTrip(request)
	}
	name, attributes := describe(request)
	span := startCall(request.Context(), name, oteltrace.WithAttributes(attributes...))
	if span == nil { // The sync has just ended.
		return t.next.RoundTrip(request)
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		span.SetStatus(codes.Error, "no answer") // The error may hold the URL.
	} else {
		span.SetAttributes(semconv.HTTPResponseStatusCode(response.StatusCode))
		if response.StatusCode >= http.StatusBadRequest {
			span.SetStatus(codes.Error, http.StatusText(response.StatusCode))
		}
	}
	span.End()
	return response, err
}

// describe returns the name and the attributes of the span of a request to the API server. A name is "create jobs.batch", for example. It
// reads only the method, the type of a patch, and the path.
func describe(request *http.Request) (string, []attribute.KeyValue) {
	verb := strings.ToLower(request.Method)
	switch request.Method {
	case http.MethodPost:
		verb = "create"
	case http.MethodPut:
		verb = "update"
	case http.MethodPatch:
		if strings.HasPrefix(request.Header.Get("Content-Type"), "application/apply-patch") {
			verb = "apply"
		}
	}
	attributes := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(request.Method)}
	resource, namespace, name := parsePath(request.URL.Path)
	if namespace != "" {
		attributes = append(attributes, semconv.K8SNamespaceName(namespace))
	}
	switch {
	case name != "":
		attributes = append(attributes, attribute.String("glassback.object.name", name))
	case request.Method == http.MethodGet && resource != "":
		verb = "list"
	}
	return strings.TrimSpace(verb + " " + resource), attributes
}

// parsePath returns the resource in a path of the API server, such as "jobs.batch/status", and the object. All are "" for other paths.
// The path may begin with the prefix of a proxy.
func parsePath(path string) (resource, namespace, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	for len(parts) > 0 && parts[0] != "api" && parts[0] != "apis" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "apis" {
		group = "." + parts[1]
		parts = parts[1:]
	}
	if len(parts) < 3 {
		return "", "", ""
	}
	parts = parts[2:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	resource = parts[0] + group
	if len(parts) > 1 {
		name = parts[1]
	}
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return resource, namespace, name
}

// Redis is a redisnode.Observer.
func (*Tracer) Redis(ctx context.Context, command string, result redisnode.Result, took time.Duration) {
	problem := string(result)
	if result == redisnode.Success {
		problem = ""
	}
	addCall(ctx, "redis "+command, problem, took, semconv.DBSystemNameRedis, semconv.DBOperationName(command))
}

// Cloud is an aliyun.Observer.
func (*Tracer) Cloud(ctx context.Context, action, region string, class aliyun.Class, took time.Duration) {
	addCall(ctx, "ecs "+action, string(class), took, semconv.CloudProviderAlibabaCloud, semconv.CloudRegion(region))
}

// addCall adds the span of a call that has just ended. problem is the reason of a failure in one word, or "".
func addCall(ctx context.Context, name, problem string, took time.Duration, attributes ...attribute.KeyValue) {
	now := time.Now()
	span := startCall(ctx, name, oteltrace.WithTimestamp(now.Add(-took)), oteltrace.WithAttributes(attributes...))
	if span == nil {
		return
	}
	if problem != "" {
		span.SetStatus(codes.Error, problem)
	}
	span.End(oteltrace.WithTimestamp(now))
}
