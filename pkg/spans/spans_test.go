// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/trace"
)

// carrier answers requests in place of a network.
type carrier func(*http.Request) (*http.Response, error)

func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

func says(status int, body string) carrier {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// logs is a log that a test reads.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.text.String(), func(r rune) bool { return r == '\n' })
}

func (l *logs) context() context.Context {
	return klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(l))))
}

func TestLinksToTheSyncThatWrote(t *testing.T) {
	for name, test := range map[string]struct {
		write trace.Event
		cause trace.Cause
		links string // of the second sync
	}{
		"the version that was written":    {wrote("apply configmaps", "a", "7"), changed("Updated", "a", "7"), "[0]"},
		"a later version":                 {wrote("apply configmaps", "a", "7"), changed("Updated", "a", "8"), "[]"},
		"the same version of another one": {wrote("apply configmaps", "a", "7"), changed("Updated", "b", "7"), "[]"},
		"the end of what it deleted":      {wrote("delete configmaps", "a", "7"), changed("Deleted", "a", "9"), "[0]"},
		"a change before the deletion":    {wrote("delete configmaps", "a", "7"), changed("Updated", "a", "7"), "[]"},
		"the end of what others deleted":  {wrote("apply configmaps", "a", "7"), changed("Deleted", "a", "7"), "[]"},
		"a timer":                         {wrote("delete configmaps", "", ""), trace.Cause{Verb: trace.VerbAfter}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			received := &collector{}
			tracer := start(t, received)
			tracer.sync(func(ctx context.Context) { tracer.Wrote(ctx, test.write) })
			time.Sleep(time.Millisecond) // for the order of the spans
			tracer.sync(func(context.Context) {}, test.cause)
			tracer.Stop()
			syncs := received.syncs()
			if len(syncs) != 2 || len(syncs[0].GetLinks()) > 0 {
				t.Fatalf("%d syncs: %s", len(syncs), syncs)
			}
			if got := linked(syncs, syncs[1]); got != test.links {
				t.Errorf("links to %s, want %s", got, test.links)
			}
		})
	}
}

// TestTracesOfALoop: the second sync of a loop is linked to the first, whose write caused it, and each has its request below it.
func TestTracesOfALoop(t *testing.T) {
	received := &collector{}
	tracer := start(t, received)
	api := tracer.Transport(says(http.StatusOK, ""))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	key, syncs := cache.NewObjectName("default", "one"), 0
	l := loop.New(loop.Config{Name: "things", Kind: "Thing", Observers: []loop.Observer{tracer}})
	l.Sync = func(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
		const url = "https://10.0.0.1/api/v1/namespaces/default/configmaps/a"
		if err := send(api, noErr(http.NewRequestWithContext(ctx, http.MethodPatch, url, http.NoBody))); err != nil {
			t.Error(err)
		}
		if syncs++; syncs == 1 {
			tracer.Wrote(ctx, wrote("patch configmaps", "a", "7"))
			l.Add(key, changed("Added", "a", "7"))
		} else {
			cancel()
		}
		return 0, nil
	}
	l.Add(key, trace.Cause{Verb: "Added", Object: thing})
	l.Run(ctx, context.WithoutCancel(ctx), 1)
	tracer.Stop()
	spans := received.syncs()
	if len(spans) != 2 || linked(spans, spans[1]) != "[0]" || len(spans[0].GetLinks()) > 0 {
		t.Fatalf("the syncs are %s", spans)
	}
	for _, span := range spans {
		if children := received.children(span); len(children) != 1 || !strings.HasPrefix(children[0], "patch configmaps ") ||
			len(span.GetEvents()) != 1 || span.GetEndTimeUnixNano() <= span.GetStartTimeUnixNano() {
			t.Errorf("%s has %q below it", span, children)
		}
	}
	resource := attributesText(received.requests[0].GetResourceSpans()[0].GetResource().GetAttributes())
	for _, want := range []string{"service.name=glassback", "service.version=v1", "service.instance.id=here"} {
		if !strings.Contains(resource, want) {
			t.Errorf("the resource is %s, without %s", resource, want)
		}
	}
}

func TestASpanSaysHowItsSyncEnded(t *testing.T) {
	received := &collector{}
	tracer := start(t, received)
	var many []trace.Cause
	for i := range 8 {
		many = append(many, trace.Cause{Verb: "Updated", Object: thing, ResourceVersion: strconv.Itoa(i), Fields: []string{"spec.a"}})
	}
	ctx := tracer.Begin(t.Context(), trace.Event{Stage: trace.Sync, Source: "things", For: thing, Causes: many, More: 3})
	tracer.End(ctx, trace.Event{
		Stage: trace.Done, Source: "things", For: thing, Err: "create Job one: forbidden", After: 1500 * time.Millisecond,
	}, loop.Error)
	tracer.Stop()
	span := received.syncs()[0]
	attributes := attributesText(span.GetAttributes())
	for _, want := range []string{
		"glassback.controller=things", "glassback.object.kind=Thing", "k8s.namespace.name=default", "glassback.object.name=one",
		"glassback.more_causes=int_value:3", "glassback.after_seconds=double_value:1.5",
	} {
		if !strings.Contains(attributes, want) {
			t.Errorf("the attributes are %s, without %s", attributes, want)
		}
	}
	if span.GetStatus().GetMessage() != "create Job one: forbidden" || len(span.GetEvents()) != 8 {
		t.Errorf("status %s and %d events", span.GetStatus(), len(span.GetEvents()))
	}
	if event := causes(span)[7]; !strings.Contains(event, "glassback.resource_version=7") || !strings.Contains(event, "spec.a") {
		t.Errorf("the last event is %s", event)
	}
}

func TestWritesAreBounded(t *testing.T) {
	tracer := start(t, &collector{})
	tracer.sync(func(ctx context.Context) {
		for i := range maxWrites + 10 {
			tracer.Wrote(ctx, wrote("apply configmaps", "a", strconv.Itoa(i)))
			tracer.Wrote(ctx, wrote("apply configmaps", "a", strconv.Itoa(i))) // as an apply that changes nothing
		}
	})
	if w := tracer.writes; len(w.spans) != maxWrites || len(w.order) != maxWrites {
		t.Errorf("%d writes in an order of %d", len(w.spans), len(w.order))
	}
	for version, want := range map[int]bool{9: false, 10: true, maxWrites + 9: true} {
		cause := changed("Updated", "a", strconv.Itoa(version))
		if _, got := tracer.writes.by(&cause); got != want {
			t.Errorf("version %d is known: %t, want %t", version, got, want)
		}
	}
}

func TestWithoutAnEndpointThereIsNoTracer(t *testing.T) {
	tracer, err := Start(t.Context(), Config{})
	if tracer != nil || err != nil {
		t.Fatalf("%v, error %v", tracer, err)
	}
	next := &http.Transport{}
	if got := tracer.Transport(next); got != next {
		t.Error("a transport is wrapped")
	}
	tracer.Stop()
}

// redisServer answers each command with OK, but HELLO and MIGRATE with an error that quotes a secret, as if it were an argument.
func redisServer(t *testing.T, secret string) (string, int) {
	t.Helper()
	return "127.0.0.1", must.Listen(t, func(conn net.Conn) {
		for words := bufio.NewScanner(conn); words.Scan(); {
			switch strings.ToUpper(words.Text()) {
			case "HELLO", "MIGRATE":
				fmt.Fprintf(conn, "-ERR unknown command 'X', with args beginning with: %s\r\n", secret)
			case "AUTH", "CLUSTER":
				fmt.Fprint(conn, "+OK\r\n")
			}
		}
	})
}

func noErr[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// send sends request by a transport, and ignores the body of the answer.
func send(by http.RoundTripper, request *http.Request) error {
	response, err := by.RoundTrip(request)
	if err == nil {
		response.Body.Close()
	}
	return err
}

// TestCallsAreChildrenAndTellNoSecret makes a sync that calls the API server, Redis and ECS, and has secrets in all that it sends and gets.
func TestCallsAreChildrenAndTellNoSecret(t *testing.T) {
	secrets := must.Secrets{
		"an access key ID": "LTAI5tExampleAccessKeyID", "its secret": "s3cr3tOfTheAccessKey/+=", "its token": "CAIS+securityTokenOfSTS==",
		"the password of Redis": "password-of-the-default-user", "a Redis key": "session:of-a-customer-4711",
		"the operator's token": "bearer-token-of-the-operator", "a body": "private-key-in-a-Secret",
		"an answer": "data-of-another-Secret", "a query": "selector-that-names-a-customer",
		"a header of the collector": "token-of-the-collector",
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20"+secrets["a header of the collector"])
	received, log := &collector{}, &logs{}
	tracer, err := Start(log.context(), Config{Endpoint: "http://collector:4318", Transport: received})
	must.Succeed(t, err)
	defer tracer.Stop()
	cloud := noErr(aliyun.New(aliyun.Config{Observers: []aliyun.Observer{tracer.Cloud}, Transport: says(http.StatusForbidden,
		`{"RequestId":"R-1","Code":"Forbidden.RAM","Message":"`+secrets["its secret"]+`"}`)}))
	region := cloud.Open(&aliyun.AccessKey{
		ID: secrets["an access key ID"], Secret: secrets["its secret"], SecurityToken: secrets["its token"],
	}, "cn-beijing")
	ip, port := redisServer(t, secrets["the password of Redis"])
	node := redisnode.Dial(ip, port, redisnode.Login{Password: secrets["the password of Redis"]}, tracer.Redis)
	defer node.Close()
	server := tracer.Transport(says(http.StatusConflict, secrets["an answer"]))
	broken := tracer.Transport(carrier(func(*http.Request) (*http.Response, error) {
		return nil, errors.New(secrets["the operator's token"])
	}))

	var after context.Context
	tracer.sync(func(ctx context.Context) {
		after = ctx
		if _, err := region.Describe(ctx, []string{"i-1"}); err == nil {
			t.Error("ECS has not refused")
		}
		if err := node.Meet(ctx, "10.0.0.7", 6379, 16379); err != nil {
			t.Error(err)
		}
		if err := node.Migrate(ctx, "10.0.0.7", 6379, redisnode.Login{Password: secrets["the password of Redis"]}, time.Second,
			[]string{secrets["a Redis key"]}); err == nil {
			t.Error("Redis has not refused")
		}
		url := "https://10.0.0.1/api/v1/namespaces/here/secrets/redis?labelSelector=" + secrets["a query"]
		request := noErr(http.NewRequestWithContext(ctx, http.MethodPatch, url, strings.NewReader(secrets["a body"])))
		request.Header.Set("Authorization", "Bearer "+secrets["the operator's token"])
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
		if err := send(server, request); err != nil {
			t.Error(err)
		}
		if err := send(broken, request); err == nil {
			t.Error("the connection is not broken")
		}
	})

	// Calls without a sync, or after it, are no children, and work as well.
	for _, ctx := range []context.Context{t.Context(), after} {
		if err := node.Forget(ctx, "id"); err != nil {
			t.Error(err)
		}
		if err := send(server, noErr(http.NewRequestWithContext(ctx, http.MethodGet, "https://10.0.0.1/api/v1/pods", http.NoBody))); err != nil {
			t.Error(err)
		}
	}
	tracer.Stop()
	syncs := received.syncs()
	if len(syncs) != 1 {
		t.Fatalf("%d root spans, want one: %s", len(syncs), syncs)
	}
	got := received.children(syncs[0])
	want := []string{
		"ecs DescribeInstances cloud.provider=alibaba_cloud cloud.region=cn-beijing error=" + string(aliyun.Unauthorized),
		"redis CLUSTER MEET db.system.name=redis db.operation.name=CLUSTER MEET",
		"redis MIGRATE db.system.name=redis db.operation.name=MIGRATE error=refused",
		"apply secrets http.request.method=PATCH k8s.namespace.name=here glassback.object.name=redis " +
			"http.response.status_code=int_value:409 error=Conflict",
		"apply secrets http.request.method=PATCH k8s.namespace.name=here glassback.object.name=redis error=no answer",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("below the sync are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, found := range secrets.In(received.text() + strings.Join(log.lines(), "\n")) {
		t.Error(found)
	}
	if header := received.headers[0].Get("Authorization"); header != "Bearer "+secrets["a header of the collector"] {
		t.Errorf("the collector gets %q", header)
	}
}

func TestParsePath(t *testing.T) {
	for path, want := range map[string][3]string{
		"/api/v1/namespaces/default/configmaps/a":              {"configmaps", "default", "a"},
		"/apis/batch/v1/namespaces/default/jobs":               {"jobs.batch", "default", ""},
		"/apis/apps/v1/namespaces/default/deployments/a/scale": {"deployments.apps/scale", "default", "a"},
		"/api/v1/namespaces/default":                           {"namespaces", "", "default"},
		"/apis/x.example/v1/things/a":                          {"things.x.example", "", "a"},
		"/k8s/clusters/c-1/api/v1/nodes/a":                     {"nodes", "", "a"},
		"/version":                                             {},
		"/":                                                    {},
	} {
		if resource, namespace, name := parsePath(path); [3]string{resource, namespace, name} != want {
			t.Errorf("%s is %q %q %q, want %q", path, resource, namespace, name, want)
		}
	}
}

func TestWrongEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	must.Succeed(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	const (
		headers    = "OTEL_EXPORTER_OTLP_HEADERS must be NAME=VALUE,..., with percent-encoded values"
		attributes = "OTEL_RESOURCE_ATTRIBUTES must be NAME=VALUE,..., with percent-encoded values"
	)
	for name, test := range map[string]struct{ variable, value, err string }{
		"a header without a value":       {headersEnv, "token-of-the-collector", headers},
		"a header that is badly encoded": {headersEnv, "a=token-of-the-collector%zz", headers},
		"no file of a CA":                {certificateEnv, file + "-", "read the file of OTEL_EXPORTER_OTLP_CERTIFICATE: open " + file + "-"},
		"an empty CA":                    {certificateEnv, file, "the file of OTEL_EXPORTER_OTLP_CERTIFICATE, " + file + ", holds no"},
		"no such sampler": {"OTEL_TRACES_SAMPLER", "often",
			"OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG do not name a sampler: unsupported sampler: often"},
		"an attribute without a value": {"OTEL_RESOURCE_ATTRIBUTES", "a", attributes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(test.variable, test.value)
			tracer, err := Start(t.Context(), Config{Endpoint: "http://collector:4318"})
			if tracer != nil || err == nil || !strings.HasPrefix(err.Error(), test.err) || strings.Contains(err.Error(), "\n") ||
				strings.Contains(err.Error(), "token-of") {
				t.Errorf("%v, error %v, want %s", tracer, err, test.err)
			}
		})
	}
}

func TestSyncsThatTheSamplerLeavesOutCostNothing(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	received := &collector{}
	tracer := start(t, received)
	tracer.sync(func(ctx context.Context) { tracer.Wrote(ctx, wrote("apply configmaps", "a", "7")) })
	tracer.Stop()
	if syncs := received.syncs(); len(syncs) > 0 || len(tracer.writes.spans) > 0 {
		t.Errorf("%d syncs, and %d writes", len(syncs), len(tracer.writes.spans))
	}
}

// A collector that does not answer delays no sync, and the end by flushTimeout at most.
func TestACollectorThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logs{}
		hangs := carrier(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		tracer, err := Start(log.context(), Config{Endpoint: "http://collector:4318", Transport: hangs})
		must.Succeed(t, err)
		began := time.Now()
		for range 10_000 {
			tracer.sync(func(context.Context) {})
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("syncs have waited %s", took)
		}
		tracer.Stop()
		if took := time.Since(began); took != flushTimeout {
			t.Errorf("the end took %s, want %s", took, flushTimeout)
		}
		tracer.Stop()
		tracer.sync(func(context.Context) {}) // as webhooks do, which end later
		if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], `"Lost spans"`) {
			t.Errorf("the log is %q", lines)
		}
	})
}

// Lost spans are logged at once, and then once a minute, without credentials.
func TestLostSpansAreLoggedOnceAMinute(t *testing.T) {
	for name, test := range map[string]struct {
		carrier carrier
		err     string
	}{
		"it refuses": {says(http.StatusUnauthorized, "bad token-of-the-collector"), "the collector answered 401 Unauthorized"},
		"the proxy is none": {func(*http.Request) (*http.Response, error) {
			return nil, errors.New(`invalid proxy address "http://me:token-of-the-proxy@proxy:x"`)
		}, `invalid proxy address \"http://proxy:x\"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &logs{}
				tracer, err := Start(log.context(), Config{Endpoint: "http://collector:4318", Transport: test.carrier})
				must.Succeed(t, err)
				time.Sleep(500 * time.Millisecond) // No sync is at the moment at which a batch of spans is sent.
				for range 300 {
					tracer.sync(func(context.Context) {})
					time.Sleep(time.Second)
				}
				tracer.Stop()
				lines := log.lines()
				if len(lines) != 5 {
					t.Errorf("%d lines in five minutes: %q", len(lines), lines)
				}
				for i, line := range lines {
					if !strings.Contains(line, test.err) || strings.Contains(line, "token-of") {
						t.Errorf("line %d is %s", i, line)
					}
				}
				if want := "spans=60"; !strings.Contains(lines[1], want) {
					t.Errorf("the second line is %s, want %s", lines[1], want)
				}
			})
		})
	}
}

// collector is a TraceService of OTLP, behind HTTP, and the transport to itself.
type collector struct {
	mu       sync.Mutex
	requests []*coltracepb.ExportTraceServiceRequest
	headers  []http.Header
	raw      strings.Builder // all bodies
}

// RoundTrip answers a request, as of https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	request := &coltracepb.ExportTraceServiceRequest{}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || err != nil ||
		proto.Unmarshal(body, request) != nil || len(request.ProtoReflect().GetUnknown()) > 0 {
		return says(http.StatusBadRequest, "this is no request of OTLP")(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, request)
	c.headers = append(c.headers, r.Header)
	c.raw.Write(body)
	return says(http.StatusOK, "")(r) // An empty ExportTraceServiceResponse has no bytes.
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

// sync observes a sync of thing, which calls do.
func (t *Tracer) sync(do func(context.Context), causes ...trace.Cause) {
	e := trace.Event{Source: "things", Object: thing, For: thing, Causes: causes}
	ctx := t.Begin(context.Background(), e)
	do(ctx)
	t.End(ctx, e, loop.Success)
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
