// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// The API server keeps its connections open, and sends one request after the other.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute // longer than that of the API server, which then closes connections first
	shutdownTimeout   = 10 * time.Second
)

// MaxHeaderBytes is the longest header of a request, in bytes; net/http accepts 4 KiB more. A header
// of many short lines takes thirty times its length in memory.
const MaxHeaderBytes = 4 << 10

// Serve handles the requests of listener with handler, over TLS, until ctx is done, and then for linger: clients take so long to notice the
// end. certificate returns the serving certificate. During linger, each answer asks its client to close the connection, so that hardly any
// connection closes during a request. Serve closes listener. It returns an error if the listener fails, or if a request was not answered in
// time.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), linger time.Duration) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // and not HTTP/2: CVE-2023-44487, CVE-2023-39325
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if ctx.Err() != nil {
				w.Header().Set("Connection", "close")
			}
			handler.ServeHTTP(w, r)
		}),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate},
		Protocols:         &protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          ConnectionLog(klog.FromContext(ctx)),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	defer server.Close() // the remaining connections, also those that a broken listener accepted
	stopped := make(chan error, 1)
	broken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(linger):
		case <-broken:
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	err := server.ServeTLS(listener, "", "")
	close(broken) // There is no reason to linger any more.
	if stop() {
		return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("answer the last requests for webhooks: %w", err)
	}
	return nil
}

// ConnectionLog returns an ErrorLog for an http.Server that logs important errors only.
func ConnectionLog(logger klog.Logger) *log.Logger { return log.New(connectionLog{logger}, "", 0) }

// connectionLog logs the messages of http.Server about connections.
type connectionLog struct{ logger klog.Logger }

// Write logs one line. A client that does not trust the certificate is important. A client that
// disconnects, such as a probe of the port, is not.
func (l connectionLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	switch {
	case strings.HasPrefix(text, "http: panic"):
		l.logger.Error(nil, "A handler panicked", "err", text)
	case strings.Contains(text, "remote error: tls:"):
		l.logger.Info("A client refused the serving certificate", "err", text)
	default:
		l.logger.V(4).Info("A connection failed", "err", text)
	}
	return len(line), nil
}
