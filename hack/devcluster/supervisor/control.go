// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/glassback/glassback/hack/devcluster/state"
)

// Component is the state of one component.
type Component struct {
	Name      string `json:"name"`
	Condition string `json:"condition"` // "running", "killed", "died: …", "not started"
	Ready     bool   `json:"ready"`
	PID       int    `json:"pid,omitempty"`
	Port      int    `json:"port,omitempty"`
	RSS       int64  `json:"rss,omitempty"` // resident memory in bytes; 0 if unknown, as on a system without /proc
}

// operations are the requests that a supervisor serves. Programs print the errors for the user without a change.
type operations interface {
	Status(ctx context.Context) []Component
	Kill(ctx context.Context, component string, signal syscall.Signal) error
	Restart(ctx context.Context, component string) error
	Pull(ctx context.Context, image string) error
	Stop()
}

// signals are the signals that Kill can send, by name.
var signals = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}

// handler serves the operations over HTTP on loopback, to clients that send the token from the cluster's state.json. Only the owner of that
// file can read it.
func handler(token string, ops operations) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(ops.Status(r.Context()))
	})
	mux.HandleFunc("POST /kill", func(w http.ResponseWriter, r *http.Request) {
		signal, known := signals[r.FormValue("signal")]
		if !known {
			answer(w, fmt.Errorf("unknown signal %q: use KILL or TERM", r.FormValue("signal")))
			return
		}
		answer(w, ops.Kill(r.Context(), r.FormValue("component"), signal))
	})
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) {
		answer(w, ops.Restart(r.Context(), r.FormValue("component")))
	})
	mux.HandleFunc("POST /pull", func(w http.ResponseWriter, r *http.Request) {
		answer(w, ops.Pull(r.Context(), r.FormValue("image")))
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		ops.Stop()
		answer(w, nil)
	})
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// answer writes the result of an operation: no content, or 409 Conflict with the text of err.
func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Client sends requests to the supervisor of one cluster.
type Client struct {
	address, token string
	http           *http.Client
}

// NewClient returns a client for the supervisor that the record names. It ignores the proxies that the environment configures.
func NewClient(record *state.Record) *Client {
	return &Client{address: record.Control, token: record.Token, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Status returns the state of all components.
func (c *Client) Status(ctx context.Context) ([]Component, error) {
	body, err := c.do(ctx, http.MethodGet, "status", nil)
	if err != nil {
		return nil, err
	}
	var components []Component
	if err := json.Unmarshal(body, &components); err != nil {
		return nil, fmt.Errorf("decode status: %w", err)
	}
	return components, nil
}

// Kill sends KILL or TERM to a component and returns when its process has ended.
func (c *Client) Kill(ctx context.Context, component, signal string) error {
	_, err := c.do(ctx, http.MethodPost, "kill", url.Values{"component": {component}, "signal": {signal}})
	return err
}

// Restart starts a component, after killing it if it runs, and returns when it is ready.
func (c *Client) Restart(ctx context.Context, component string) error {
	_, err := c.do(ctx, http.MethodPost, "restart", url.Values{"component": {component}})
	return err
}

// Pull makes the node fetch an image from the cluster's registry anew.
func (c *Client) Pull(ctx context.Context, image string) error {
	_, err := c.do(ctx, http.MethodPost, "pull", url.Values{"image": {image}})
	return err
}

// Stop requests the end of the cluster. It returns before the cluster has ended.
func (c *Client) Stop(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodPost, "stop", nil)
	return err
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: c.address, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("create a request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("send a request to the supervisor: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the response of the supervisor: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, errors.New(strings.TrimSuffix(string(body), "\n")) // the supervisor's message, for the user
	}
	return body, nil
}
