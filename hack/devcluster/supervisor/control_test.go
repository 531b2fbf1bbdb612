// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

// recorder is a fake supervisor. It records the requests that it receives, and refuses each restart.
type recorder struct{ requests []string }

func (r *recorder) Status(context.Context) []Component {
	return []Component{{Name: "etcd", Ready: true}}
}

func (r *recorder) Kill(_ context.Context, component string, signal syscall.Signal) error {
	r.requests = append(r.requests, "kill "+component+" "+signal.String())
	return nil
}

func (r *recorder) Restart(context.Context, string) error { return errors.New("restart refused") }

func (r *recorder) Pull(_ context.Context, image string) error {
	r.requests = append(r.requests, "pull "+image)
	return nil
}

func (r *recorder) Stop() { r.requests = append(r.requests, "stop") }

func TestClientReachesTheSupervisor(t *testing.T) {
	supervisor := &recorder{}
	server := httptest.NewServer(handler("secret", supervisor))
	defer server.Close()
	client := NewClient(&state.Record{Control: strings.TrimPrefix(server.URL, "http://"), Token: "secret"})
	ctx := t.Context()

	components, err := client.Status(ctx)
	if err != nil || len(components) != 1 || components[0].Name != "etcd" || !components[0].Ready {
		t.Errorf("status: %v, %v", components, err)
	}
	must.Succeed(t, client.Kill(ctx, "etcd", "TERM"))
	if err := client.Kill(ctx, "etcd", "HUP"); err == nil || err.Error() != `unknown signal "HUP": use KILL or TERM` {
		t.Errorf("unknown signal: %v", err)
	}
	if err := client.Restart(ctx, "etcd"); err == nil || err.Error() != "restart refused" {
		t.Errorf("refused restart: %v", err)
	}
	must.Succeed(t, client.Pull(ctx, "a/b:1"))
	must.Succeed(t, client.Stop(ctx))
	if got := strings.Join(supervisor.requests, ", "); got != "kill etcd terminated, pull a/b:1, stop" {
		t.Errorf("requests: %s", got)
	}
}

func TestControlRequiresTheToken(t *testing.T) {
	supervisor := &recorder{}
	server := httptest.NewServer(handler("secret", supervisor))
	defer server.Close()
	for _, token := range []string{"", "Bearer ", "Bearer wrong", "secret"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/stop", nil)
		must.Succeed(t, err)
		request.Header.Set("Authorization", token)
		response, err := server.Client().Do(request)
		must.Succeed(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("Authorization %q: status %s, want 401", token, response.Status)
		}
	}
	if len(supervisor.requests) > 0 {
		t.Errorf("the supervisor got requests without the token: %v", supervisor.requests)
	}
}
