// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// profiled is the duration of a CPU profile. Most scenarios are shorter. The idle rest adds nothing to a profile.
const profiled = 15 * time.Second

// profiler writes CPU profiles of operators to a directory.
type profiler struct {
	dir     string // empty: it writes none
	address string // where operators serve their profiles
	token   string
}

// newProfiler creates a ServiceAccount that may get profiles. A relative dir is relative to the root of the repository.
func newProfiler(ctx context.Context, c *cluster, dir string) (*profiler, error) {
	if dir == "" {
		return &profiler{}, nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.root, dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of profiles: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	token := ""
	for _, args := range []string{
		"create serviceaccount profiler", "create clusterrolebinding profiler --clusterrole=cluster-admin --serviceaccount=default:profiler",
		"create token profiler",
	} {
		if token, err = c.devcluster(ctx, "kubectl", append([]string{"--"}, strings.Fields(args)...)...); err != nil {
			return nil, err
		}
	}
	return &profiler{dir, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), strings.TrimSpace(token)}, nil
}

// args are the flags with which a participant serves profiles.
func (p *profiler) args(participant string) []string {
	switch {
	case p.dir == "" || participant == bareClient:
		return nil
	case participant == cr1 || participant == cr16:
		return []string{"--pprof-bind-address", p.address}
	default:
		return []string{"--metrics-bind-address", p.address}
	}
}

// profile begins to profile a participant. It returns a function that waits for the end. The file is SCENARIO-PARTICIPANT.pprof.
func (p *profiler) profile(ctx context.Context, scenario, participant string) func() error {
	if len(p.args(participant)) == 0 {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() { ended <- p.write(ctx, scenario, participant) }()
	return func() error { return <-ended }
}

func (p *profiler) write(ctx context.Context, scenario, participant string) error {
	scheme := "http"
	if p.args(participant)[0] == "--metrics-bind-address" {
		scheme = "https"
	}
	url := fmt.Sprintf("%s://%s/debug/pprof/profile?seconds=%.0f", scheme, p.address, profiled.Seconds())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	// The operator's certificate for metrics is signed by itself, and the address is on loopback.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	for deadline := time.Now().Add(stopPatience); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // The operator has just started.
		response, err = client.Do(request)
	}
	if err != nil {
		return fmt.Errorf("get profile: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read profile: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get profile: %s: %s", response.Status, data)
	}
	file := strings.NewReplacer(",", "", " ", "-").Replace(scenario+" "+participant) + ".pprof"
	return os.WriteFile(filepath.Join(p.dir, file), data, 0o644)
}
