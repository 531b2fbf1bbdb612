// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
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
		s, err := newServers(t.Context(), &options.Options{MetricsSecure: secure}, &clients.Clients{Kube: rbacServer(t)}, newProbes())
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
		"metrics, without a token":         {request: "GET /metrics", code: 401, text: "no bearer token"},
		"a profile, with the right":        {request: "GET /debug/pprof/heap?debug=1 profile_reader", code: 200, text: "heap profile"},
		"the list of profiles":             {request: "GET /debug/pprof/ profile_reader", code: 200, text: "goroutine"},
		"a profile, without a token":       {request: "GET /debug/pprof/heap", code: 401, text: "no bearer token"},
		"a profile, with an unknown token": {request: "GET /debug/pprof/heap unknown", code: 401, text: "not accepted"},
		"a profile, by a metrics reader":   {request: "GET /debug/pprof/heap metrics_reader", code: 403, text: `may not get "/debug/pprof/heap"`},
		"a CPU profile, by one":            {request: "GET /debug/pprof/profile metrics_reader", code: 403, text: "may not get"},
		"metrics, by a profile reader":     {request: "GET /metrics profile_reader", code: 403, text: `may not get "/metrics"`},
		"the command line is not served":   {request: "GET /debug/pprof/cmdline profile_reader", code: 404, text: "Unknown profile"},
		"another verb":                     {request: "POST /debug/pprof/heap profile_reader", code: 405, text: "Method Not Allowed"},
		"the verbosity, without a token":   {request: "PUT /debug/flags/v", code: 401, text: "no bearer token"},
		"the verbosity, by a reader":       {request: "PUT /debug/flags/v profile_reader", code: 403, text: `may not put "/debug/flags/v"`},
		"the verbosity, without a body":    {request: "PUT /debug/flags/v verbosity_writer", code: 400, text: "must be a number"},
		"profiles, by a verbosity writer":  {request: "GET /debug/pprof/heap verbosity_writer", code: 403, text: "may not get"},
		"a path that is not served":        {request: "GET /debug profile_reader", code: 404, text: "not found"},
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

// TestAProfileMayTakeLongerThanARequest asks a server whose ReadTimeout is shorter than the profile.
func TestAProfileMayTakeLongerThanARequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	const timeout = time.Second
	stopping, stop := context.WithCancel(t.Context())
	handler := metricsPort(stopping, func(h http.Handler) http.Handler { return h })
	server := &http.Server{Handler: handler, ReadHeaderTimeout: timeout, ReadTimeout: timeout}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // It returns http.ErrServerClosed.
	ask := func(t *testing.T, query string) (status int) {
		t.Helper()
		url := "http://" + listener.Addr().String() + "/debug/pprof/" + query
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must.Succeed(t, err)
		response, err := http.DefaultClient.Do(request)
		must.Succeed(t, err)
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		return response.StatusCode
	}
	for _, profile := range []string{"profile", "trace", "heap"} {
		t.Run(profile, func(t *testing.T) {
			if status := ask(t, profile+"?seconds=2"); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		})
	}
	t.Run("ends with the operator", func(t *testing.T) {
		time.AfterFunc(timeout, stop)
		ask(t, "trace?seconds=100000")
	})
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
		{"2", 200, 2},
		{"4\n", 200, 4},
		{"7", 200, 7},
		{"8", 400, 7},
		{"", 400, 7},
		{"-1", 400, 7},
		{"high", 400, 7},
		{"256", 400, 7},
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
