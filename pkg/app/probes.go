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

// condition is one thing that a probe asks for.
type condition struct {
	name  string
	check func(context.Context) error
}

// probe answers in the format of the API server's probes: "ok" if all conditions hold, and otherwise a line for each condition with its
// error. With ?verbose in the request, it always answers with these lines.
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

// check returns a line for each condition, and the error of the first that does not hold.
func (p *probe) check(ctx context.Context) (lines []string, err error) {
	p.mu.Lock()
	conditions := slices.Clone(p.conditions)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	for _, c := range conditions {
		switch failed := c.check(ctx); {
		case failed == nil:
			lines = append(lines, "[+]"+c.name+" ok")
		default:
			lines = append(lines, "[-]"+c.name+" failed: "+strings.Join(strings.Fields(failed.Error()), " "))
			if err == nil {
				err = fmt.Errorf("%s: %w", c.name, failed)
			}
		}
	}
	return lines, err
}

func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lines, err := p.check(r.Context())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "%s\n%s check failed\n", strings.Join(lines, "\n"), p.name)
	case verbose:
		fmt.Fprintf(w, "%s\n%s check passed\n", strings.Join(lines, "\n"), p.name)
	default:
		fmt.Fprint(w, "ok")
	}
}

// probes are the liveness and readiness probes: whether the kubelet must restart this process, and whether the process can do its work.
type probes struct {
	live, ready probe

	mu    sync.Mutex
	stage error // the step that the start waits for, or "stopping"; nil in between
}

func newProbes() *probes {
	p := &probes{live: probe{name: "healthz"}, ready: probe{name: "readyz"}, stage: errors.New("starting")}
	p.live.require("ping", func(context.Context) error { return nil })
	p.ready.require("started", func(context.Context) error { return p.step() })
	return p
}

// say sets the error in the answer of readyz: the step that the operator waits for. nil means none.
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

// watchPatience is how long a watch may be without an answer before the operator is not ready. A server that is started again takes less.
const watchPatience = time.Minute

// requireCaches makes the informers of f a condition for being ready. suffix distinguishes the conditions of several scopes.
func (p *probes) requireCaches(suffix string, f *factories) {
	p.ready.require("caches"+suffix, func(context.Context) error {
		for _, i := range f.informers {
			if h := i.Health(); !h.Synced {
				return fmt.Errorf("%s: not listed yet%s", i.resource, because(h.Err))
			}
		}
		return nil
	})
	p.ready.require("watches"+suffix, func(context.Context) error {
		for _, i := range f.informers {
			if h := i.Health(); !h.Failing.IsZero() && time.Since(h.Failing) > watchPatience {
				return fmt.Errorf("%s: not watched for %s%s", i.resource, time.Since(h.Failing).Round(time.Second), because(h.Err))
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

// requireWebhooks adds that the port of the webhooks is open, and shows a certificate.
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

// shown returns the certificate that a TLS server of this process presents, for any host name.
func shown(ctx context.Context, address string) (*x509.Certificate, error) {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // It is this very process.
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	secured, ok := conn.(*tls.Conn)
	if !ok || len(secured.ConnectionState().PeerCertificates) == 0 {
		return nil, errors.New("none is shown")
	}
	return secured.ConnectionState().PeerCertificates[0], nil
}
