// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/webhook"
)

// servers serve probes, metrics and the page, from the start of the process to its end.
type servers struct {
	probes, metrics, inspect net.Listener // nil for none
	handler                  http.Handler // of the metrics port
	secure                   bool
	page                     page

	logger  klog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// newServers listens for all servers, and serves the probes. A page on loopback answers with the step that the start waits for.
func newServers(ctx context.Context, o *options.Options, c *clients.Clients, p *probes, m *metrics.Metrics) (*servers, error) {
	s := &servers{secure: o.MetricsSecure, logger: klog.FromContext(ctx)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	handler := m.Handler()
	s.handler = metricsPort(s.ctx, handler, nil)
	if s.secure {
		s.handler = metricsPort(s.ctx, handler, func(h http.Handler) http.Handler { return metrics.Protect(h, c.Kube) })
	}
	var err1, err2, err3 error
	s.probes, err1 = listen("health-probe-bind-address", o.ProbeAddress, m.Refused("probes"))
	s.metrics, err2 = listen("metrics-bind-address", o.MetricsAddress, m.Refused("metrics"))
	s.inspect, err3 = listen("inspect-bind-address", o.InspectAddress, m.Refused("inspect"))
	if err := errors.Join(err1, err2, err3); err != nil {
		s.stop()
		return nil, err
	}
	if s.probes != nil {
		s.logger.Info("Serving probes", "address", s.probes.Addr())
		s.running.Go(func() { s.serve(s.probes, p.handler()) })
	}
	if s.inspect != nil && command.Loopback(o.InspectAddress) {
		s.page.probes = p
		s.running.Go(func() { s.serve(s.inspect, inspect.LocalOnly(&s.page)) })
	}
	return s, nil
}

// listen returns a listener at the address of a flag; nil if the address is empty.
func listen(flag, address string, refused func()) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen at --%s %s, choose another, or 0 for none: %w", flag, address, err)
	}
	return webhook.Bounded(listener, refused), nil
}

// serveMetrics serves metrics, with the certificate of the webhooks if the operator has webhooks: a client
// that trusts their CA can authenticate this operator.
func (s *servers) serveMetrics(w *webhooks) {
	if s.metrics == nil {
		return
	}
	s.logger.Info("Serving metrics", "address", s.metrics.Addr(), "secure", s.secure)
	if !s.secure {
		s.running.Go(func() { s.serve(s.metrics, s.handler) })
		return
	}
	s.serveSecurely(s.metrics, s.handler, w, "The server of metrics failed")
}

// serveSecurely serves HTTPS until stop. It logs the message failed if the server ends earlier.
func (s *servers) serveSecurely(listener net.Listener, handler http.Handler, w *webhooks, failed string) {
	certificate := selfSigned()
	if w != nil {
		certificate = w.certificate
	}
	s.running.Go(func() {
		if err := webhook.Serve(s.ctx, listener, handler, certificate, 0); err != nil {
			s.logger.Error(err, failed)
		}
	})
}

// selfSigned returns a function that makes a self-signed certificate when it is first called.
func selfSigned() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := sync.OnceValues(func() (*tls.Certificate, error) {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			return nil, err
		}
		made, err := tls.X509KeyPair(certPEM, keyPEM)
		return &made, err
	})
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair() }
}

// serve serves HTTP until stop.
func (s *servers) serve(listener net.Listener, handler http.Handler) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: webhook.MaxHeaderBytes, ErrorLog: webhook.ConnectionLog(s.logger),
	}
	defer context.AfterFunc(s.ctx, func() { _ = server.Close() })() // Clients retry.
	if err := server.Serve(listener); s.ctx.Err() == nil {
		s.logger.Error(err, "The server failed", "address", listener.Addr())
	}
}

// stop ends all servers.
func (s *servers) stop() {
	s.cancel()
	for _, listener := range []net.Listener{s.probes, s.metrics, s.inspect} {
		if listener != nil {
			_ = listener.Close() // It may be closed already.
		}
	}
	s.running.Wait()
}
