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
	"slices"
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
	var review any
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		a.tokens.Add(1)
		token := &authenticationv1.TokenReview{}
		err = json.Unmarshal(body, token)
		token.Status.User, token.Status.Authenticated = users[token.Spec.Token], users[token.Spec.Token].Username != ""
		review = token
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		a.accesses.Add(1)
		access := &authorizationv1.SubjectAccessReview{}
		err = json.Unmarshal(body, access)
		a.last = access.Spec
		may := authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		access.Status.Allowed = access.Spec.User == users[scraperToken].Username && *access.Spec.NonResourceAttributes == may
		review = access
	default:
		err = fmt.Errorf("unexpected request for %s", r.URL.Path)
	}
	if err != nil {
		return nil, err
	}
	if a.fail != nil {
		if message, err := a.fail(r.URL.Path, body); message != "" || err != nil {
			return reply(http.StatusForbidden,
				fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, message)), err
		}
	}
	text, err := json.Marshal(review)
	return reply(http.StatusCreated, string(text)), err
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
	for name, test := range map[string]struct {
		method, path, authorization string
		fail                        func(string, []byte) (string, error)
		status                      int
		line                        string // part of it
		tokens, accesses            int64
	}{
		"no token":         {status: 401, line: "there is no bearer token"},
		"a password":       {authorization: "Basic YTpi", status: 401, line: "there is no bearer token"},
		"an unknown token": {authorization: "Bearer " + scraperToken + "x", status: 401, line: "not accepted", tokens: 1},
		"a user without the right": {
			authorization: "Bearer " + strayToken, status: 403, line: `"system:serviceaccount:default:default" may not get "/metrics"`,
			tokens: 1, accesses: 1,
		},
		"a user with the right": {authorization: "Bearer " + scraperToken, status: 200, line: "go_goroutines 1", tokens: 1, accesses: 1},
		"the right is to get": {
			method: http.MethodDelete, authorization: "Bearer " + scraperToken, status: 403, line: "may not delete", tokens: 1, accesses: 1,
		},
		"a path with two lines is one line": {
			path: "/a%0Ab", authorization: "Bearer " + scraperToken, status: 403, line: `may not get "/a\nb"`, tokens: 1, accesses: 1,
		},
		"a path that is too long to be served": {
			path: "/metrics/" + strings.Repeat("x", maxAsked), authorization: "Bearer " + scraperToken, status: 414, line: "too long",
		},
		"a user with a long name": {
			authorization: "Bearer " + wordyToken, status: 403, line: `x" may not get "/metrics"`, tokens: 1, accesses: 1,
		},
		"no API server": {
			authorization: "Bearer " + scraperToken, fail: func(string, []byte) (string, error) { return "", errors.New("connection refused") },
			status: 500,
			line:   "see the log", tokens: 1,
		},
		"the operator may not review access": {
			authorization: "Bearer " + scraperToken, fail: func(path string, body []byte) (string, error) {
				if strings.HasSuffix(path, "/tokenreviews") {
					return "", nil
				}
				return "no role says so: " + scraperToken + string(body), nil
			}, status: 500, line: "see the log", tokens: 1, accesses: 1,
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
			if user := users[scraperToken]; test.status == http.StatusOK && (api.last.UID != user.UID ||
				!slices.Equal(api.last.Groups, user.Groups) ||
				!slices.Equal(api.last.Extra["authentication.kubernetes.io/pod-name"], []string{"prometheus-0"})) {
				t.Errorf("asked about %+v, want %+v", api.last, user)
			}
			failed := test.status == http.StatusInternalServerError
			if logged := log.Len() > 0; logged != failed {
				t.Errorf("logged %q", log)
			}
			if api.fail = nil; failed && send(handler, test.method, test.path, test.authorization).Code != http.StatusOK {
				t.Error("the failure is still the verdict when the API server answers again")
			}
		})
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

// TestVerdictsAreSmall has users without the right ask at great length. No time passes, so that no verdict expires.
func TestVerdictsAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Protect(http.NotFoundHandler(), (&reviewer{}).client()).(*guard)
		long := strings.Repeat("x", 10_000)
		for n := range 3 {
			get(g, fmt.Sprint("Bearer ", long, n))
		}
		if code := get(g, "Bearer "+wordyToken).Code; code != http.StatusForbidden {
			t.Errorf("status %d, want %d", code, http.StatusForbidden)
		}
		keys := g.denied.Keys()
		if len(keys) != 4 {
			t.Errorf("%d verdicts are kept, want 4", len(keys))
		}
		for _, key := range keys {
			kept, _ := g.denied.Get(key)
			if user := kept.(verdict).user; len(key.(string)) > sha256.Size || len(user) > maxUser {
				t.Errorf("a verdict has a key of %d bytes and a user of %d", len(key.(string)), len(user))
			}
		}
	})
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

// TestMadeUpTokensStopNoScrape sends made-up tokens from one address, as fast as they are answered. A scraper of another address is known
// before, and a second one is not. The API server gets 20 reviews a second at most.
func TestMadeUpTokensStopNoScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{delay: 5 * time.Millisecond}
		handler, _ := api.protect(t)
		from := func(address, token string) int {
			r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
			r.RemoteAddr = address
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		if code := from("10.0.0.1:1", scraperToken); code != http.StatusOK {
			t.Fatalf("status %d", code)
		}
		begin := time.Now()
		var attacking sync.WaitGroup
		for n := range 100 {
			attacking.Go(func() {
				for i := 0; time.Since(begin) < 10*time.Minute; i++ {
					if code := from("10.0.0.2:1", fmt.Sprint("made-up-", n, "-", i)); code == http.StatusOK {
						t.Error("a made-up token is accepted")
					}
				}
			})
		}
		time.Sleep(allowedFor)
		synctest.Wait()
		for address, token := range map[string]string{"10.0.0.1:1": scraperToken, "10.0.0.3:1": strayToken} {
			for range 10 {
				now := time.Now()
				if code := from(address, token); code == http.StatusServiceUnavailable || time.Since(now) > time.Second {
					t.Errorf("%s: status %d after %v", address, code, time.Since(now))
				}
				time.Sleep(30 * time.Second)
			}
		}
		attacking.Wait()
		if n, seconds := api.tokens.Load(), int64(time.Since(begin)/time.Second); n > 20*seconds+20 {
			t.Errorf("%d reviews in %d s", n, seconds)
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
