// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

var webhookPath = webhook.Path("validate", schema.GroupVersionKind{Group: "groupa.k8s.zhuang.com", Version: "v1", Kind: "ApiExampleA"})

const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",` +
	`"resource":{"group":"groupa.k8s.zhuang.com","version":"v1","resource":"apiexampleas"},"namespace":"default","name":"a",` +
	`"object":{"apiVersion":"groupa.k8s.zhuang.com/v1","kind":"ApiExampleA","metadata":{"name":"a","namespace":"default"},"spec":%s}}}`

// feedWebhooks sends a request that is allowed, one that is refused, and two that are none.
func feedWebhooks(t *testing.T) {
	t.Helper()
	handler := webhook.NewHandler(fake.NewClientset())
	for body, want := range map[string]int{
		strings.ReplaceAll(review, "%s", `{"foo":"a","first_name":"Jimmy","last_name":"Song"}`): http.StatusOK,
		strings.ReplaceAll(review, "%s", `{"foo":1}`):                                           http.StatusOK,
		"":     http.StatusBadRequest,
		"null": http.StatusBadRequest,
	} {
		r := httptest.NewRequest(http.MethodPost, webhookPath, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: status %d, want %d: %s", body, w.Code, want, w.Body)
		}
	}
}

func TestWebhooks(t *testing.T) {
	before := scrape(t).series("controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code=200").GetCounter().GetValue()
	feedWebhooks(t)
	s := scrape(t)
	s.expect(t, before+2, "controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code=200")
	s.expect(t, before+2, "controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code=400")
	for _, code := range []string{"429", "500", "507"} {
		s.expect(t, 0, "controller_runtime_webhook_requests_total", "webhook="+webhookPath, "code="+code)
	}
	s.expect(t, 2*(before+2), "controller_runtime_webhook_latency_seconds", "webhook="+webhookPath)
	s.expect(t, 0, "controller_runtime_webhook_requests_in_flight", "webhook="+webhookPath)
}

// feedCertificates reads certificates that are there, and some that are not. It returns until when they are valid.
func feedCertificates(t *testing.T) time.Time {
	t.Helper()
	dir := t.TempDir()
	if _, err := certificate.OpenFiles(dir); err == nil {
		t.Error("there is a certificate in an empty directory")
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("glassback", nil, nil)
	must.Succeed(t, err)
	for name, text := range map[string][]byte{certificate.CertFile: certPEM, certificate.KeyFile: keyPEM} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if _, err := certificate.OpenFiles(dir); err != nil {
		t.Error(err)
	}
	parsed, err := cert.ParseCertsPEM(certPEM)
	must.Succeed(t, err)
	return parsed[0].NotAfter
}

func TestCertificates(t *testing.T) {
	before := scrape(t)
	until := feedCertificates(t)
	s := scrape(t)
	s.expect(t, float64(until.Unix()), "glassback_webhook_certificate_expiry_timestamp_seconds")
	s.expect(t, before.series("certwatcher_read_certificate_total").GetCounter().GetValue()+2, "certwatcher_read_certificate_total")
	s.expect(t, before.series("certwatcher_read_certificate_errors_total").GetCounter().GetValue()+1,
		"certwatcher_read_certificate_errors_total")
}

// crowd is a listener to which so many connect at once, all of one address.
type crowd struct {
	net.Listener
	n int
}

func (c *crowd) Accept() (net.Conn, error) {
	if c.n--; c.n < 0 {
		return nil, net.ErrClosed
	}
	conn, _ := net.Pipe()
	return conn, nil
}

// feedConnections has a listener refuse two connections.
func feedConnections(t *testing.T) {
	t.Helper()
	const admitted = 128
	listener := webhook.Bounded(&crowd{n: admitted + 2}, "webhooks")
	for n := 0; ; n++ {
		conn, err := listener.Accept()
		if err != nil {
			if n != admitted {
				t.Errorf("%d connections were admitted, want %d", n, admitted)
			}
			return
		}
		defer conn.Close()
	}
}

func TestRefusedConnections(t *testing.T) {
	const name, labels = "glassback_connections_refused_total", "server=webhooks"
	feedConnections(t)
	before := scrape(t).series(name, labels).GetCounter().GetValue()
	feedConnections(t)
	scrape(t).expect(t, before+2, name, labels)
}
