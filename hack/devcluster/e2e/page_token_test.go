// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// inspectHere serves the page in this process. It shows an informer with one ConfigMap, without a cluster.
func inspectHere(t *testing.T, guard func(http.Handler) http.Handler) string {
	t.Helper()
	source, recorder := cachetesting.NewFakeControllerSource(), trace.NewRecorder(1024)
	source.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "here", CreationTimestamp: metav1.Now()}})
	informer := pipeline.New(pipeline.Config{ListerWatcher: source, Object: &corev1.ConfigMap{}, Resource: "configmaps", Trace: recorder})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		informer.Run(stop)
	}()
	handler, err := inspect.New(inspect.Config{
		Instance: "here", Trace: recorder, Informers: []inspect.Watched{{Informer: informer, Resource: "configmaps"}}, Guard: guard, Done: stop,
	})
	must.Succeed(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		close(stop)
		server.Close()
		<-stopped
	})
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	return server.URL + "/inspect/"
}

// TestPageAsksForToken serves the page with authorization, so the page asks for a token.
func TestPageAsksForToken(t *testing.T) {
	light.parallel(t)
	const token = "e2e-token-of-the-reader"
	b := browse(t)
	url := inspectHere(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				w.WriteHeader(http.StatusUnauthorized)
				_ = json.NewEncoder(w).Encode(inspect.Problem{Error: "this token is not known"})
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	p := b.open(t, url+"#/gear/index/configmaps")
	p.expected = func(complaint string) bool { return strings.Contains(complaint, "status of 401") }

	p.until(pagePatience, visible("dialog#auth[open]"))
	p.shoot("token-asks")
	p.press("not-this-one" + kb.Enter)
	p.until(pagePatience, visible("dialog#auth[open]")+" && "+textOf("#auth-problem")+".includes('this token is not known')", textOf("#auth"))
	p.shoot("token-asks-again")
	p.readable(t, "the dialog")
	p.press(token)
	p.click("#auth-submit")
	count := textOf(gear("index", "configmaps") + " .gear-value")
	p.until(pagePatience, "!document.querySelector('dialog[open]') && "+count+" === '1'", count, textOf("#connection"))
	p.until(pagePatience, textOf("#panel")+".includes('default/here')", textOf("#panel"))
	p.shoot("token-works")

	// The browser stores the token nowhere after the page is closed, and no address contains it.
	kept := ask[string](p, `JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }, history.state,
		document.getElementById('token').value, document.documentElement.outerHTML])`)
	if strings.Contains(kept, token) {
		t.Errorf("the page keeps the token: %s", kept)
	}
	if databases := ask[int](p, "indexedDB.databases().then((all) => all.length)"); databases > 0 {
		t.Errorf("the page has %d databases", databases)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 || slices.ContainsFunc(p.asked, func(url string) bool { return strings.Contains(url, token) }) {
		t.Errorf("the page requested %q", p.asked)
	}
}

// TestBrowserComplains makes a page do forbidden things, and expects a record of each.
func TestBrowserComplains(t *testing.T) {
	p := browse(t).open(t, inspectHere(t, nil))
	for statement, want := range map[string]string{
		"console.error('wrong')":                                                                       `says "wrong"`,
		"setTimeout(() => { throw new Error('thrown') })":                                              "fails: Uncaught Error: thrown",
		"Promise.reject(new Error('rejected'))":                                                        "rejected",
		"fetch('http://elsewhere.example/').catch(() => {})":                                           "Content Security Policy",
		"document.body.setAttribute('style', 'color: red')":                                            "Content Security Policy",
		"document.body.append(new Image()); document.body.lastChild.src = 'http://elsewhere.example/'": "elsewhere.example",
		"fetch('there/is/none')":                                                                       "status of 404",
	} {
		p.run(statement)
		var all []string
		eventually(t, pagePatience, func(ctx context.Context) error {
			if all = append(all, p.heard()...); !slices.ContainsFunc(all, func(c string) bool { return strings.Contains(c, want) }) {
				return fmt.Errorf("%s: the records are %q, want %q", statement, all, want)
			}
			return nil
		})
	}
	p.do(chromedp.Navigate("about:blank"))
	p.heard()
}
