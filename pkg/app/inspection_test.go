// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/trace"
)

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
			s, err := newServers(t.Context(), o, &clients.Clients{Kube: kube}, newProbes())
			must.Succeed(t, err)
			defer s.stop()
			must.Succeed(t, s.serveInspection(o, kube, &operator{}, trace.NewRecorder(1), nil))
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
	s, err := newServers(t.Context(), o, &clients.Clients{}, p)
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
