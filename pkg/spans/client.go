// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
)

// The variables that client reads, of https://opentelemetry.io/docs/specs/otel/protocol/exporter/
const (
	headersEnv     = "OTEL_EXPORTER_OTLP_HEADERS"
	certificateEnv = "OTEL_EXPORTER_OTLP_CERTIFICATE"
)

// sendTimeout bounds one request, as that specification does by default.
const sendTimeout = 10 * time.Second

// client sends spans by OTLP over HTTP: https://opentelemetry.io/docs/specs/otlp/#otlphttp. It implements otlptrace.Client.
//
// The SDK's own clients link gRPC, and that links packages that keep the linker from removing unused methods: the binary would be 80
// MB in place of 45 MB. A client that sends again is not worth that. What a collector does not take is lost.
type client struct {
	url     string
	headers http.Header
	http    http.Client
	losses  losses

	ctx    context.Context // of all requests
	cancel context.CancelFunc
}

// newClient returns a client. OTEL_EXPORTER_OTLP_HEADERS has the headers of each request, such as credentials, and
// OTEL_EXPORTER_OTLP_CERTIFICATE the file of the CA that the collector is trusted by. An error holds no header.
func newClient(config Config, logger klog.Logger) (*client, error) {
	headers, err := parseHeaders(os.Getenv(headersEnv))
	if err != nil {
		return nil, err
	}
	headers.Set("Content-Type", "application/x-protobuf")
	headers.Set("User-Agent", "glassback/"+config.Version)
	carrier := config.Transport
	if carrier == nil {
		if carrier, err = newTransport(); err != nil {
			return nil, err
		}
	}
	c := &client{url: config.Endpoint + "/v1/traces", headers: headers, losses: losses{logger: logger}, http: http.Client{
		Transport: carrier, Timeout: sendTimeout,
		// A collector does not redirect, and the headers are for no other host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// parseHeaders reads NAME=VALUE,..., with percent-encoded values.
func parseHeaders(text string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, encoded, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if !found || err != nil || !headerName.MatchString(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, errors.New(headersEnv + " must be NAME=VALUE,..., with percent-encoded values")
		}
		headers.Set(name, value)
	}
	return headers, nil
}

func newTransport() (*http.Transport, error) {
	made := http.DefaultTransport.(*http.Transport).Clone()
	made.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	file := os.Getenv(certificateEnv)
	if file == "" {
		return made, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the file of %s: %w", certificateEnv, err)
	}
	made.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !made.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the file of %s, %s, holds no certificate", certificateEnv, file)
	}
	return made, nil
}

// Start does nothing: a request opens the connection.
func (*client) Start(context.Context) error { return nil }

// Stop closes the connections.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans once. If that fails, it logs the loss, and returns nil: the SDK could do nothing else with the error.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if err := c.send(ctx, spans); err != nil {
		lost := 0
		for _, resource := range spans {
			for _, scope := range resource.GetScopeSpans() {
				lost += len(scope.GetSpans())
			}
		}
		c.losses.add(lost, err)
	}
	return nil
}

func (c *client) send(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	// It is encoded as an ExportTraceServiceRequest is. The package of that one links gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = c.headers.Clone()
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // So that the connection can be used again.
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return nil
}

// lossesEvery is how often lost spans are logged at most.
const lossesEvery = time.Minute

// losses logs that spans were lost, now and then.
type losses struct {
	logger klog.Logger

	mu     sync.Mutex
	logged time.Time // the last time
	spans  int       // lost since then
}

// userinfo is the user and the password of a URL, such as that of a proxy.
var userinfo = regexp.MustCompile(`//\S*@`)

// add records that spans were lost, or that the SDK has another problem.
func (l *losses) add(spans int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans += spans
	now := time.Now()
	if !l.logged.IsZero() && now.Sub(l.logged) < lossesEvery {
		return
	}
	l.logger.Info("Lost spans", "spans", l.spans, "err", userinfo.ReplaceAllString(err.Error(), "//"))
	l.logged, l.spans = now, 0
}
