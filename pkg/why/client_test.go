// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/inspect"
)

// answering returns a Client of a server.
func answering(t *testing.T, handler http.HandlerFunc) *client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c := clientAt(server.URL + "/")
	c.token = "secret"
	t.Cleanup(c.close)
	return c
}

func TestALifeIsAskedForByItsObject(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("without the token")
		}
		fmt.Fprintf(w, `{"kind": "Job", "name": %q}`, r.URL.String())
	})
	life, err := c.life(t.Context(), inspect.Object{Kind: "jobs.batch", Namespace: "a&b", Name: "c"})
	if want := "/inspect/api/life?kind=jobs.batch&name=c&namespace=a%26b"; err != nil || life.Name != want {
		t.Errorf("%+v, error %v, want %s", life, err, want)
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"by the API":     {404, `{"error": "there is no Job a"}`, "there is no Job a"},
		"by a proxy":     {401, "there is no bearer token\nmore\n", "401 Unauthorized: there is no bearer token"},
		"without a text": {503, "", "503 Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			_, err := c.overview(t.Context())
			if refusal, is := errors.AsType[*refusedError](err); !is || refusal.Status != test.status || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestAStreamIsTold(t *testing.T) {
	for name, test := range map[string]struct{ body, want, err string }{
		"in its order": {
			"event: overview\ndata: {\"oneIn\": 1}\n\nevent: events\ndata: {\"events\": [{\"line\": \"a\"}, {\"line\": \"b\"}]}\n\n" +
				"event: overview\ndata: {\"oneIn\": 4}\n\n",
			"1 in 1, a, b, 1 in 4", "the stream has ended",
		},
		"without what is of a later version": {
			"event: news\ndata: {}\n\n: comment\n\nevent: overview\ndata: {\"oneIn\": 1}\n\n", "1 in 1", "the stream has ended",
		},
		"up to what is none": {
			"event: events\ndata: [\n\n", "", "decode the stream message \"events\": unexpected end of JSON input",
		},
		"and is nothing but a page elsewhere": {"<html>\n", "", "the stream has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, test.body) })
			var got []string
			err := c.stream(t.Context(), inspect.Object{}, listener{
				Overview: func(o *inspect.Overview) { got = append(got, fmt.Sprintf("1 in %d", o.OneIn)) },
				Events: func(events *inspect.Events) {
					for _, e := range events.Events {
						got = append(got, e.Line)
					}
				},
			})
			if strings.Join(got, ", ") != test.want || err == nil || err.Error() != test.err {
				t.Errorf("%q, error %v, want %q, error %s", got, err, test.want, test.err)
			}
		})
	}
}
