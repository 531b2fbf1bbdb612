// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// The tokens with their users. No other token is valid, and only prometheus may get /metrics.
const (
	scraperToken = "eyJhbGciOiJSUzI1NiJ9.prometheus"
	strayToken   = "eyJhbGciOiJSUzI1NiJ9.stray"
	wordyToken   = "eyJhbGciOiJSUzI1NiJ9.wordy"
)

var users = map[string]authenticationv1.UserInfo{
	scraperToken: {
		Username: "system:serviceaccount:monitoring:prometheus", UID: "4711", Groups: []string{"system:serviceaccounts", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"prometheus-0"}},
	},
	strayToken: {Username: "system:serviceaccount:default:default"},
	wordyToken: {Username: "https://login.example.com#" + strings.Repeat("x", 10_000)},
}

// reviewer is an API server that has reviews alone.
type reviewer struct {
	tokens, accesses atomic.Int64 // reviews that it was asked for
	delay            time.Duration
	// fail returns an error of the network, or, of the API server, the message; neither if it goes well. It may be nil.
	fail func(path string, body []byte) (message string, err error)

	mu   sync.Mutex
	last authorizationv1.SubjectAccessReviewSpec
}

func (a *reviewer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(a.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	count := &a.tokens
	if strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
		count = &a.accesses
	}
	count.Add(1)
	if a.fail != nil {
		if message, err := a.fail(r.URL.Path, body); message != "" || err != nil {
			return reply(http.StatusForbidden,
				fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, message)), err
		}
	}
	answer, err := a.review(r.URL.Path, body)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(answer)
	return reply(http.StatusCreated, string(text)), err
}

func (a *reviewer) review(path string, body []byte) (any, error) {
	switch path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		review := &authenticationv1.TokenReview{}
		if err := json.Unmarshal(body, review); err != nil {
			return nil, err
		}
		review.Status.User, review.Status.Authenticated = users[review.Spec.Token], users[review.Spec.Token].Username != ""
		return review, nil
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.Unmarshal(body, review); err != nil {
			return nil, err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.last = review.Spec
		may := authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		review.Status.Allowed = review.Spec.User == users[scraperToken].Username && *review.Spec.NonResourceAttributes == may
		return review, nil
	}
	return nil, fmt.Errorf("unexpected request for %s", path)
}

func (a *reviewer) client() kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(&rest.Config{
		Host: "http://server", QPS: -1, Transport: a, ContentConfig: rest.ContentConfig{ContentType: apiruntime.ContentTypeJSON},
	})
}

// protect returns what an API server protects, and what it logs.
func (a *reviewer) protect(t testing.TB) (http.Handler, *bytes.Buffer) {
	t.Helper()
	handler := Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "go_goroutines 1\n") }), a.client())
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(10)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(klog.NewContext(r.Context(), logger)))
	}), &log
}

func get(handler http.Handler, authorization string) *httptest.ResponseRecorder {
	return send(handler, http.MethodGet, "/metrics", authorization)
}

func send(handler http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, http.NoBody)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestWhoSeesTheMetrics(t *testing.T) {
	down := errors.New("connection refused")
	says := func(suffix, message string) func(string, []byte) (string, error) {
		return func(path string, body []byte) (string, error) {
			if !strings.HasSuffix(path, suffix) {
				return "", nil
			}
			return message + string(body), nil
		}
	}
	for name, test := range map[string]struct {
		method, path, authorization string
		fail                        func(string, []byte) (string, error)
		status                      int
		line                        string // part of it
		tokens, accesses            int64
	}{
		"no token":                 {status: 401, line: "there is no bearer token"},
		"a password":               {authorization: "Basic YTpi", status: 401, line: "there is no bearer token"},
		"a scheme without a token": {authorization: "Bearer  ", status: 401, line: "there is no bearer token"},
		"an unknown token":         {authorization: "Bearer " + scraperToken + "x", status: 401, line: "not accepted", tokens: 1},
		"a user without the right": {
			authorization: "Bearer " + strayToken,
			status:        403,
			line:          `"system:serviceaccount:default:default" may not get "/metrics"`,
			tokens:        1,
			accesses:      1,
		},
		"a user with the right": {authorization: "Bearer " + scraperToken, status: 200, line: "go_goroutines 1", tokens: 1, accesses: 1},
		"schemes are the same in any case": {
			authorization: "bearer " + scraperToken, status: 200, line: "go_goroutines 1", tokens: 1, accesses: 1,
		},
		"the right is to get": {
			method: http.MethodDelete, authorization: "Bearer " + scraperToken, status: 403, line: "may not delete", tokens: 1, accesses: 1,
		},
		"the right is for a path": {
			path: "/debug", authorization: "Bearer " + scraperToken, status: 403, line: `may not get "/debug"`, tokens: 1, accesses: 1,
		},
		"a path with two lines is one line": {
			path: "/a%0Ab", authorization: "Bearer " + scraperToken, status: 403, line: `may not get "/a\nb"`, tokens: 1, accesses: 1,
		},
		"a path that is too long to be served": {
			path: "/metrics/" + strings.Repeat("x", maxAsked), authorization: "Bearer " + scraperToken, status: 414, line: "too long",
		},
		"... also without a token": {path: "/metrics/" + strings.Repeat("%01", 20_000), status: 414, line: "too long"},
		"a method that is too long": {
			method: strings.Repeat("X", maxAsked), authorization: "Bearer " + scraperToken, status: 414, line: "too long",
		},
		"a user with a long name": {
			authorization: "Bearer " + wordyToken, status: 403, line: `x" may not get "/metrics"`, tokens: 1, accesses: 1,
		},
		"two lines without a token too": {path: "/a%0Ab", status: 401, line: `may get "/a\nb"`},
		"no API server": {
			authorization: "Bearer " + scraperToken,
			fail:          func(string, []byte) (string, error) { return "", down },
			status:        500,
			line:          "see the log",
			tokens:        1,
		},
		"the operator may not review tokens": {
			authorization: "Bearer " + scraperToken, fail: says("/tokenreviews", "no role says so: "), status: 500, line: "see the log", tokens: 1,
		},
		"the operator may not review access": {
			authorization: "Bearer " + scraperToken, fail: says("/subjectaccessreviews", "no role says so: "+scraperToken), status: 500,
			line: "see the log", tokens: 1, accesses: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := &reviewer{fail: test.fail}
			handler, log := api.protect(t)
			if test.method == "" {
				test.method = http.MethodGet
			}
			if test.path == "" {
				test.path = "/metrics"
			}
			w := send(handler, test.method, test.path, test.authorization)
			text := w.Body.String()
			if w.Code != test.status || !strings.Contains(text, test.line) || strings.Count(text, "\n") != 1 {
				t.Errorf("status %d and %q, want %d and one line with %q", w.Code, text, test.status, test.line)
			}
			if asks := w.Header().Get("WWW-Authenticate"); (asks == "Bearer") != (test.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate is %q", asks)
			}
			if tokens, accesses := api.tokens.Load(), api.accesses.Load(); tokens != test.tokens || accesses != test.accesses {
				t.Errorf("%d token reviews and %d access reviews, want %d and %d", tokens, accesses, test.tokens, test.accesses)
			}
			if _, token, _ := strings.Cut(test.authorization, " "); len(token) > 5 &&
				(strings.Contains(text, token) || strings.Contains(log.String(), token)) {
				t.Errorf("the token is told: %q, log %q", text, log)
			}
			if logged := log.Len() > 0; logged != (test.status == http.StatusInternalServerError) {
				t.Errorf("logged %q", log)
			}
		})
	}
}

func TestTheReviewKnowsTheWholeUser(t *testing.T) {
	api := &reviewer{}
	handler, _ := api.protect(t)
	get(handler, "Bearer "+scraperToken)
	user := users[scraperToken]
	want := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		Extra:                 map[string]authorizationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"prometheus-0"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}
	if !reflect.DeepEqual(api.last, want) {
		t.Errorf("asked about %+v, want %+v", api.last, want)
	}
}

func TestVerdictsHoldForAMoment(t *testing.T) {
	for name, test := range map[string]struct {
		token string
		holds time.Duration
	}{
		"allowed":     {scraperToken, allowedFor},
		"not allowed": {strayToken, deniedFor},
		"not good":    {"stolen", deniedFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &reviewer{}
				handler, _ := api.protect(t)
				first := get(handler, "Bearer "+test.token).Code
				for elapsed := time.Duration(0); elapsed < test.holds; elapsed += time.Second {
					time.Sleep(time.Second)
					if got := get(handler, "Bearer "+test.token).Code; got != first {
						t.Fatalf("status %d, and before %d", got, first)
					}
				}
				if n := api.tokens.Load(); n != 1 {
					t.Errorf("%d reviews within %s, want 1", n, test.holds)
				}
				time.Sleep(time.Second)
				get(handler, "Bearer "+test.token)
				if n := api.tokens.Load(); n != 2 {
					t.Errorf("%d reviews after %s, want 2", n, test.holds)
				}
			})
		})
	}
}

func TestVerdictsAreOfOneTokenPathAndVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // No time passes, so that no verdict expires.
		api := &reviewer{}
		handler, _ := api.protect(t)
		for range 2 {
			for _, request := range []struct {
				method, path, token string
				want                int
			}{
				{http.MethodGet, "/metrics", scraperToken, 200},
				{http.MethodGet, "/metrics", strayToken, 403},
				{http.MethodGet, "/metrics/", scraperToken, 403},
				{http.MethodPost, "/metrics", scraperToken, 403},
			} {
				if got := send(handler, request.method, request.path, "Bearer "+request.token).Code; got != request.want {
					t.Errorf("%+v: status %d", request, got)
				}
			}
		}
		if n := api.tokens.Load(); n != 4 {
			t.Errorf("%d reviews, want 4", n)
		}
	})
}

func TestVerdictsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // No time passes, so that no verdict expires.
		g := Protect(http.NotFoundHandler(), (&reviewer{}).client()).(*guard)
		for n := range maxVerdicts + 100 {
			get(g, fmt.Sprintf("Bearer guess-%d", n))
		}
		if n := len(g.verdicts.Keys()); n != maxVerdicts {
			t.Errorf("%d verdicts are kept, want %d", n, maxVerdicts)
		}
	})
}

// TestVerdictsAreSmall has users without the right ask for many paths, and at great length.
func TestVerdictsAreSmall(t *testing.T) {
	for sentence, test := range map[string]struct {
		path  func(n int) string
		token func(n int) string
		code  int
	}{
		"paths of 15 KB": {
			func(n int) string { return fmt.Sprint("/inspect/api/", n, strings.Repeat("%01", 5_000)) }, func(int) string { return strayToken }, 414,
		},
		"a long name, and many paths": {
			func(n int) string { return fmt.Sprint("/inspect/api/", n) }, func(int) string { return wordyToken }, 403,
		},
		"made-up tokens of 10 KB": {
			func(int) string { return "/metrics" }, func(n int) string { return fmt.Sprint(strings.Repeat("x", 10_000), n) }, 401,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := Protect(http.NotFoundHandler(), (&reviewer{}).client()).(*guard)
			send(g, http.MethodGet, test.path(0), "Bearer "+test.token(0))
			for n := range 200 {
				if w := send(g, http.MethodGet, test.path(n), "Bearer "+test.token(n)); w.Code != test.code {
					t.Fatalf("status %d, want %d", w.Code, test.code)
				}
			}
			for _, key := range g.verdicts.Keys() {
				kept, _ := g.verdicts.Get(key)
				if user := kept.(verdict).user; len(key.(string)) > sha256.Size || len(user) > maxUser {
					t.Errorf("a verdict has a key of %d bytes and a user of %d", len(key.(string)), len(user))
				}
			}
		})
	}
}

// An API server that fails is asked again at once.
func TestFailuresAreNoVerdicts(t *testing.T) {
	api := &reviewer{fail: func(string, []byte) (string, error) { return "", errors.New("not yet") }}
	handler, _ := api.protect(t)
	if got := get(handler, "Bearer "+scraperToken).Code; got != http.StatusInternalServerError {
		t.Errorf("status %d", got)
	}
	api.fail = nil
	if got := get(handler, "Bearer "+scraperToken).Code; got != http.StatusOK {
		t.Errorf("status %d once the API server is there", got)
	}
}

func TestScrapesAtOnceAreOneReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{delay: time.Second}
		handler, _ := api.protect(t)
		first, giveUp := context.WithCancel(t.Context())
		var scraping sync.WaitGroup
		scraping.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody).WithContext(first)
			r.Header.Set("Authorization", "Bearer "+scraperToken)
			handler.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		for range 50 {
			scraping.Go(func() {
				if got := get(handler, "Bearer "+scraperToken).Code; got != http.StatusOK {
					t.Errorf("status %d", got)
				}
			})
		}
		synctest.Wait()
		giveUp() // It asks for the others, too.
		scraping.Wait()
		if tokens, accesses := api.tokens.Load(), api.accesses.Load(); tokens != 1 || accesses != 1 {
			t.Errorf("%d and %d reviews, want one of each", tokens, accesses)
		}
	})
}

func TestFewTokensAreLookedAtAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{delay: time.Second}
		handler, _ := api.protect(t)
		const more = 20
		codes := make(chan int, maxReviews+more)
		for n := range cap(codes) {
			go func() { codes <- get(handler, fmt.Sprint("Bearer made-up-", n)).Code }()
		}
		got := map[int]int{}
		for range cap(codes) {
			got[<-codes]++
		}
		if got[http.StatusUnauthorized] != maxReviews || got[http.StatusServiceUnavailable] != more || api.tokens.Load() != maxReviews {
			t.Errorf("answers by status: %v, after %d reviews", got, api.tokens.Load())
		}
	})
}

func TestReviewsDoNotTakeForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{delay: time.Hour}
		handler, log := api.protect(t)
		start := time.Now()
		if got := get(handler, "Bearer "+scraperToken).Code; got != http.StatusInternalServerError || time.Since(start) != reviewTimeout {
			t.Errorf("status %d after %s, want %d after %s", got, time.Since(start), http.StatusInternalServerError, reviewTimeout)
		}
		if strings.Contains(log.String(), scraperToken) {
			t.Errorf("the token is told: %s", log)
		}
	})
}

// BenchmarkProtect is a request whose verdict is remembered.
func BenchmarkProtect(b *testing.B) {
	handler, _ := (&reviewer{}).protect(b)
	b.ReportAllocs()
	for b.Loop() {
		get(handler, "Bearer "+scraperToken)
	}
}
