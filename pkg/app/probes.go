// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// probePatience is how long one check of a probe may take. The kubelet waits for a second by default.
const probePatience = 900 * time.Millisecond

// condition is one requirement of a probe.
type condition struct {
	name  string
	check func(context.Context) error
}

// probe answers in the format of the API server's probes: "ok" if all conditions hold. If one fails, or for a request with ?verbose, the
// answer has a line for each condition, with its error.
type probe struct {
	name string

	mu         sync.Mutex
	conditions []condition
}

// require adds a condition.
func (p *probe) require(name string, check func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conditions = append(p.conditions, condition{name, check})
}

// check returns a line for each condition, and whether all hold.
func (p *probe) check(ctx context.Context) (lines []string, ok bool) {
	p.mu.Lock()
	conditions := slices.Clone(p.conditions)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	ok = true
	for _, c := range conditions {
		if err := c.check(ctx); err != nil {
			lines, ok = append(lines, "[-]"+c.name+" failed: "+strings.Join(strings.Fields(err.Error()), " ")), false
		} else {
			lines = append(lines, "[+]"+c.name+" ok")
		}
	}
	return lines, ok
}

func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lines, ok := p.check(r.Context())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case !ok:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "%s\n%s check failed\n", strings.Join(lines, "\n"), p.name)
	case verbose:
		fmt.Fprintf(w, "%s\n%s check passed\n", strings.Join(lines, "\n"), p.name)
	default:
		fmt.Fprint(w, "ok")
	}
}

// probes are the liveness probe, which says whether the kubelet must restart this container, and the readiness probe, which says
// whether the operator can do its work.
type probes struct {
	live, ready probe

	mu    sync.Mutex
	stage error // the step that the start waits for; nil after the start; "stopping" at the end
}

func newProbes() *probes {
	p := &probes{live: probe{name: "healthz"}, ready: probe{name: "readyz"}, stage: errors.New("starting")}
	p.live.require("ping", func(context.Context) error { return nil })
	p.ready.require("started", func(context.Context) error { return p.step() })
	return p
}

// say sets stage, the error of the condition "started" of readyz; nil means that the condition holds.
func (p *probes) say(stage error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage = stage
}

// step returns the last argument of say.
func (p *probes) step() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage
}

func (p *probes) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", &p.live)
	mux.Handle("GET /readyz", &p.ready)
	return mux
}

// watchPatience is how long an informer may be without a WATCH before the operator is not ready. A restart of the API server takes less.
const watchPatience = time.Minute

// requireCaches makes readiness depend on the informers of f. suffix distinguishes the conditions of several scopes.
func (p *probes) requireCaches(suffix string, f *informers) {
	p.ready.require("caches"+suffix, func(context.Context) error {
		for _, i := range f.all {
			if h := i.Health(); !h.Synced {
				return fmt.Errorf("%s: not listed yet%s", i.Resource(), because(h.Err))
			}
		}
		return nil
	})
	p.ready.require("watches"+suffix, func(context.Context) error {
		for _, i := range f.all {
			if h := i.Health(); !h.Failing.IsZero() && time.Since(h.Failing) > watchPatience {
				return fmt.Errorf("%s: not watched for %s%s", i.Resource(), time.Since(h.Failing).Round(time.Second), because(h.Err))
			}
		}
		return nil
	})
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// requireWebhooks makes readiness depend on the port of the webhooks, which must be open and present a certificate that has not expired.
func (p *probes) requireWebhooks(w *webhooks) {
	address := w.listener.Addr().String()
	p.ready.require("webhook-server", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	p.ready.require("webhook-certificate", func(ctx context.Context) error {
		certificate, err := shown(ctx, address)
		switch {
		case ctx.Err() != nil:
			return errors.New("there is none yet, or it is not shown in time")
		case err != nil:
			return err
		case time.Now().After(certificate.NotAfter):
			return fmt.Errorf("it was good until %s", certificate.NotAfter.Format(time.RFC3339))
		}
		return nil
	})
}

// shown returns the certificate that a TLS server of this process presents. It does not verify the certificate.
func shown(ctx context.Context, address string) (*x509.Certificate, error) {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // It is this very process.
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// A tls.Dialer returns a *tls.Conn. Its handshake fails if the server shows no certificate.
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}
