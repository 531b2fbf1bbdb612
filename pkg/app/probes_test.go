// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/webhook"
)

func testLogger(t *testing.T) klog.Logger {
	logger, _ := ktesting.NewTestContext(t)
	return logger
}

func TestProbes(t *testing.T) {
	broken := func(context.Context) error { return errors.New("pods: not watched\nfor 2m0s") }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	fine := func(context.Context) error { return nil }
	for sentence, test := range map[string]struct {
		path  string
		stage error
		check func(context.Context) error
		code  int
		body  string
	}{
		"all is well":               {"/readyz", nil, fine, 200, "ok"},
		"all is well, line by line": {"/readyz?verbose", nil, fine, 200, "[+]started ok\n[+]watches ok\nreadyz check passed\n"},
		"what fails is named, in one line": {
			"/readyz", nil, broken, 503, "[+]started ok\n[-]watches failed: pods: not watched for 2m0s\nreadyz check failed\n",
		},
		"a check that hangs is cut short": {
			"/readyz", nil, hangs, 503, "[+]started ok\n[-]watches failed: context deadline exceeded\nreadyz check failed\n",
		},
		"it has not started yet": {
			"/readyz", errors.New("waiting for the API server"), fine, 503,
			"[-]started failed: waiting for the API server\n[+]watches ok\nreadyz check failed\n",
		},
		"it lives although it is not ready": {"/healthz", errors.New("waiting for the API server"), broken, 200, "ok"},
		"there is nothing else":             {"/", nil, fine, 404, "404 page not found\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbes()
				p.say(test.stage)
				p.ready.require("watches", test.check)
				answer := httptest.NewRecorder()
				p.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil))
				if answer.Code != test.code || answer.Body.String() != test.body {
					t.Errorf("%d %q, want %d %q", answer.Code, answer.Body, test.code, test.body)
				}
			})
		})
	}
}

func TestAPortThatIsTakenIsRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	for flag, o := range map[string]*options.Options{
		"--health-probe-bind-address": {ProbeAddress: address},
		"--metrics-bind-address":      {MetricsAddress: address},
	} {
		s, err := newServers(t.Context(), o, &clients.Clients{}, newProbes())
		if err == nil {
			s.stop()
		}
		if err == nil || !strings.Contains(err.Error(), "cannot listen at "+flag+" "+address+", choose another, or 0 for none") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestTheWebhooksAreReadyWithACertificate(t *testing.T) {
	held := make(chan *tls.Certificate, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	w := &webhooks{listener: listener, certificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		select {
		case c := <-held:
			held <- c
			return c, nil
		case <-hello.Context().Done():
			return nil, hello.Context().Err()
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- webhook.Serve(ctx, listener, http.NotFoundHandler(), w.certificate, 0) }()
	p := newProbes()
	p.say(nil)
	p.requireWebhooks(w)
	readyz := func() string {
		answer := httptest.NewRecorder()
		p.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		return answer.Body.String()
	}

	if got := readyz(); !strings.Contains(got,
		"[+]webhook-server ok\n[-]webhook-certificate failed: there is none yet, or it is not shown in time\n") {
		t.Errorf("without a certificate: %s", got)
	}
	good, err := selfSigned()(nil)
	must.Succeed(t, err)
	held <- good
	if got := readyz(); got != "ok" {
		t.Errorf("with a certificate: %s", got)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if got := readyz(); !strings.Contains(got, "[-]webhook-server failed: ") {
		t.Errorf("without a listener: %s", got)
	}
}
