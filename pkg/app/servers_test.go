// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/metrics"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/trace"
	"github.com/glassback/glassback/pkg/webhook"
)

// rbacServer returns a client of a fake API server. The bearer token is the name of a role: "metrics_reader" has the rights of
// artifacts/rbac/metrics_reader_role.yaml.
func rbacServer(t *testing.T) *fake.Clientset {
	t.Helper()
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.User.Username, review.Status.Authenticated = review.Spec.Token, review.Spec.Token != "unknown"
		return true, review, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		data, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "rbac", review.Spec.User+"_role.yaml"))
		if err != nil {
			return true, nil, err
		}
		var role rbacv1.ClusterRole
		err = yaml.UnmarshalStrict(data, &role)
		review.Status.Allowed = slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return grants(rule, review.Spec.NonResourceAttributes)
		})
		return true, review, err
	})
	return kube
}

// grants does what the API server does: nonResourceURLMatches in k8s.io/component-helpers/auth/rbac/validation.
func grants(rule rbacv1.PolicyRule, wanted *authorizationv1.NonResourceAttributes) bool {
	return slices.Contains(rule.Verbs, wanted.Verb) && slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
		prefix, all := strings.CutSuffix(url, "*")
		return url == wanted.Path || all && strings.HasPrefix(wanted.Path, prefix)
	})
}

func TestEachPathOfTheMetricsPortNeedsARightOfItsOwn(t *testing.T) {
	handlers := map[bool]http.Handler{}
	for _, secure := range []bool{true, false} {
		o := &options.Options{MetricsSecure: secure}
		s, err := newServers(t.Context(), o, &clients.Clients{Kube: rbacServer(t)}, newProbes(), metrics.New("", "", 0))
		must.Succeed(t, err)
		defer s.stop()
		handlers[secure] = s.handler
	}
	for name, test := range map[string]struct {
		request  string // METHOD PATH, or METHOD PATH TOKEN
		insecure bool   // --metrics-secure=false
		code     int
		text     string
	}{
		"metrics, with the right":          {request: "GET /metrics metrics_reader", code: 200, text: "go_goroutines"},
		"a profile, with the right":        {request: "GET /debug/pprof/heap?debug=1 profile_reader", code: 200, text: "heap profile"},
		"a profile, with an unknown token": {request: "GET /debug/pprof/heap unknown", code: 401, text: "not accepted"},
		"a profile, by a metrics reader":   {request: "GET /debug/pprof/heap metrics_reader", code: 403, text: `may not get "/debug/pprof/heap"`},
		"metrics, by a profile reader":     {request: "GET /metrics profile_reader", code: 403, text: `may not get "/metrics"`},
		"the command line is not served":   {request: "GET /debug/pprof/cmdline profile_reader", code: 404, text: "Unknown profile"},
		"another verb":                     {request: "POST /debug/pprof/heap profile_reader", code: 405, text: "Method Not Allowed"},
		"the verbosity, without a token":   {request: "PUT /debug/flags/v", code: 401, text: "no bearer token"},
		"the verbosity, by a reader":       {request: "PUT /debug/flags/v profile_reader", code: 403, text: `may not put "/debug/flags/v"`},
		"the verbosity, without a body":    {request: "PUT /debug/flags/v verbosity_writer", code: 400, text: "must be a number"},
		"metrics for everybody":            {request: "GET /metrics", insecure: true, code: 200, text: "go_goroutines"},
		"the verbosity is never for all":   {request: "PUT /debug/flags/v", insecure: true, code: 404, text: "not found"},
		"profiles are never for everybody": {request: "GET /debug/pprof/heap", insecure: true, code: 404, text: "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			method, rest, _ := strings.Cut(test.request, " ")
			path, token, _ := strings.Cut(rest, " ")
			request := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			answer := httptest.NewRecorder()
			handlers[!test.insecure].ServeHTTP(answer, request)
			if answer.Code != test.code || !strings.Contains(answer.Body.String(), test.text) {
				t.Errorf("status %d, want %d with %q: %.300s", answer.Code, test.code, test.text, answer.Body)
			}
		})
	}
}

// patient is a client without a read deadline, if the server takes the deadline away.
type patient struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (p *patient) SetReadDeadline(at time.Time) error {
	p.deadlines = append(p.deadlines, at)
	return nil
}

// TestAProfileMayTakeLongerThanARequest: no deadline ends a profile, but the end of the operator does.
func TestAProfileMayTakeLongerThanARequest(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	stop()
	handler := metricsPort(stopping, http.NotFoundHandler(), func(h http.Handler) http.Handler { return h })
	for _, profile := range []string{"profile", "trace", "heap"} {
		w := &patient{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/"+profile+"?seconds=100000", http.NoBody))
		if len(w.deadlines) != 1 || !w.deadlines[0].IsZero() {
			t.Errorf("%s: the read deadlines are %v, want none", profile, w.deadlines)
		}
	}
}

// putVerbosity returns the answer to a change of the verbosity.
func putVerbosity(t *testing.T, body string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	setVerbosity(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/debug/flags/v", strings.NewReader(body)))
	return answer
}

func TestTheVerbosityChangesAtRunTime(t *testing.T) {
	logger := klog.FromContext(t.Context()).WithName("made before the change")
	defer putVerbosity(t, "0")
	for _, test := range []struct {
		body    string
		code    int
		enabled int // the highest verbosity that is logged afterwards
	}{
		{"4\n", 200, 4},
		{"7", 200, 7},
		{"8", 400, 7},
		{"", 400, 7},
		{"high", 400, 7},
		{"1" + strings.Repeat(" ", 1<<20), 400, 7},
		{"0", 200, 0},
	} {
		if answer := putVerbosity(t, test.body); answer.Code != test.code {
			t.Errorf("%.20q: status %d, want %d: %s", test.body, answer.Code, test.code, answer.Body)
		}
		if !logger.V(test.enabled).Enabled() || logger.V(test.enabled+1).Enabled() {
			t.Errorf("%.20q: the verbosity is not %d", test.body, test.enabled)
		}
	}
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
		s, err := newServers(t.Context(), o, &clients.Clients{}, newProbes(), metrics.New("", "", 0))
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

// Who sees the page, and how, follows from where it listens.
func TestWhoSeesThePage(t *testing.T) {
	type answers map[string]int // by scheme, Host and path
	for name, test := range map[string]struct {
		address string
		want    answers
	}{
		"on loopback": {"127.0.0.1:0", answers{
			"http localhost /inspect/":                    http.StatusOK,
			"http localhost /inspect/api/overview":        http.StatusOK,
			"http evil.example.com /inspect/":             http.StatusForbidden,
			"http evil.example.com /inspect/api/overview": http.StatusForbidden,
		}},
		"elsewhere": {":0", answers{
			"https localhost /inspect/":             http.StatusOK,
			"https localhost /inspect/api/overview": http.StatusUnauthorized,
			"https glassback.example.com /inspect/": http.StatusOK,
			"http localhost /inspect/api/overview":  http.StatusBadRequest,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options.Options{InspectAddress: test.address}
			kube := fake.NewClientset()
			s, err := newServers(t.Context(), o, &clients.Clients{Kube: kube}, newProbes(), metrics.New("", "", 0))
			must.Succeed(t, err)
			defer s.stop()
			must.Succeed(t, s.serveInspection(o, kube, &operator{observers: &observers{stages: trace.NewRecorder(1)}}))
			_, port, err := net.SplitHostPort(s.inspect.Addr().String())
			must.Succeed(t, err)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
			for question, want := range test.want {
				words := strings.Fields(question)
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, words[0]+"://127.0.0.1:"+port+words[2], nil)
				must.Succeed(t, err)
				request.Host = words[1]
				response, err := client.Do(request)
				must.Succeed(t, err)
				response.Body.Close()
				if response.StatusCode != want {
					t.Errorf("%s: %d, want %d", question, response.StatusCode, want)
				}
			}
		})
	}
}

// A client that asks for the page during the start gets an answer at once, and not none at all.
func TestThePageReportsTheStart(t *testing.T) {
	o, p := &options.Options{InspectAddress: "127.0.0.1:0"}, newProbes()
	s, err := newServers(t.Context(), o, &clients.Clients{}, p, metrics.New("", "", 0))
	must.Succeed(t, err)
	defer s.stop()
	p.say(errors.New("checking CRDs"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.inspect.Addr().String()+"/inspect/api/stream", nil)
	must.Succeed(t, err)
	response, err := http.DefaultClient.Do(request)
	must.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	const want = "the operator is not ready yet: checking CRDs; try again in some seconds\n"
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || string(body) != want {
		t.Errorf("the answer is %s, %q, error %v, want 503 and %q", response.Status, body, err, want)
	}
}
