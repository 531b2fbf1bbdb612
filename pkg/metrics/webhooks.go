// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/glassback/glassback/pkg/webhook"
)

// webhooks makes the metrics of webhooks.
type webhooks struct {
	total  *prometheus.CounterVec
	took   *prometheus.HistogramVec
	active *prometheus.GaugeVec

	refused *prometheus.CounterVec
}

func newWebhooks(in promauto.Factory) *webhooks {
	byPath := []string{"webhook"}
	return &webhooks{
		total: in.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_requests_total",
			Help: "Admission requests by path and HTTP status. 200: a verdict, also one that rejects the object. " +
				"429: there was no memory left for the request. 507: it was too large." + kubebuilder,
		}, []string{"webhook", "code"}),
		took: in.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "controller_runtime_webhook_latency_seconds",
			Help:    "How long admission requests took." + kubebuilder,
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, byPath),
		active: in.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_webhook_requests_in_flight",
			Help: "Admission requests that are being answered." + kubebuilder,
		}, byPath),
		refused: in.NewCounterVec(prometheus.CounterOpts{
			Name: "glassback_connections_refused_total",
			Help: "Connections that were closed at once: the client's address, or all addresses together, had too many open.",
		}, []string{"server"}),
	}
}

// Refused returns a function that counts a refused connection of a server.
func (m *Metrics) Refused(server string) func() {
	return m.webhooks.refused.WithLabelValues(server).Inc
}

// Webhook returns the metrics of a path.
func (m *Metrics) Webhook(path string) webhook.Metrics {
	w := &webhookMetrics{
		total:  m.webhooks.total.MustCurryWith(prometheus.Labels{"webhook": path}),
		took:   m.webhooks.took.WithLabelValues(path),
		active: m.webhooks.active.WithLabelValues(path),
	}
	w.ok = w.total.WithLabelValues(strconv.Itoa(http.StatusOK))
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusInsufficientStorage} {
		w.total.WithLabelValues(strconv.Itoa(status)) // The series starts with 0, so that rate() sees the first increase.
	}
	return w
}

type webhookMetrics struct {
	ok     prometheus.Counter // the counter of status 200: nearly all requests
	total  *prometheus.CounterVec
	took   prometheus.Observer
	active prometheus.Gauge
}

func (m *webhookMetrics) Started() { m.active.Inc() }

func (m *webhookMetrics) Finished(status int, took time.Duration) {
	m.active.Dec()
	m.took.Observe(took.Seconds())
	if status == http.StatusOK {
		m.ok.Inc()
		return
	}
	m.total.WithLabelValues(strconv.Itoa(status)).Inc()
}

// certificateMetrics are the metrics of the serving certificate. until has no value before the first certificate: a process without
// webhooks has none.
type certificateMetrics struct {
	reads, failures prometheus.Counter
	until           *prometheus.GaugeVec
}

func newCertificate(in promauto.Factory) *certificateMetrics {
	return &certificateMetrics{
		reads: in.NewCounter(prometheus.CounterOpts{
			Name: "certwatcher_read_certificate_total",
			Help: "How often the certificate files were read: at the start, at every TLS handshake, and for the readiness probe." + kubebuilder,
		}),
		failures: in.NewCounter(prometheus.CounterOpts{
			Name: "certwatcher_read_certificate_errors_total",
			Help: "How often the certificate files could not be read or used. The last certificate stayed in use." + kubebuilder,
		}),
		until: in.NewGaugeVec(prometheus.GaugeOpts{
			Name: "glassback_webhook_certificate_expiry_timestamp_seconds",
			Help: "Until when the serving certificate is valid, in seconds since 1970.",
		}, nil),
	}
}

// CertificateServed sets the expiry of the serving certificate.
func (m *Metrics) CertificateServed(expiry time.Time) {
	m.certificate.until.WithLabelValues().Set(float64(expiry.Unix()))
}

// CertificateRead counts a read of the certificate files. A certificate that is new has an expiry.
func (m *Metrics) CertificateRead(expiry time.Time, err error) {
	m.certificate.reads.Inc()
	if err != nil {
		m.certificate.failures.Inc()
	}
	if !expiry.IsZero() {
		m.CertificateServed(expiry)
	}
}
