// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apitest tests the two programs of docs/informer. It plays one scenario to both, with an API server for ConfigMaps.
package apitest

import (
	"bufio"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is how long a line may take on a slow machine.
const patience = time.Minute

// Play starts a program, changes ConfigMaps, and ends the program. It expects the lines of testdata/output.txt, and only
// one request to the API server: a WATCH.
func Play(t *testing.T, run func(ctx context.Context, client kubernetes.Interface, out io.Writer) error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "apitest", "testdata", "output.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	api := &server{objects: map[string]int{}}
	api.put("colors", 2)
	listener := httptest.NewServer(api)
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // before Close, which waits for the requests
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, kubernetes.NewForConfigOrDie(&rest.Config{Host: listener.URL}), writer)
		_ = writer.Close()
		ended <- err
	}()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()

	changes := []func(){ // each after one more line
		func() { api.put("shapes", 3) },
		func() { api.put("colors", 4) },
		func() { api.remove("shapes") },
		cancel,
	}
	for i, change := range changes {
		select {
		case line := <-lines:
			if line != want[i] {
				t.Fatalf("line %d is %q, want %q", i, line, want[i])
			}
		case <-time.After(patience):
			t.Fatalf("no line %q", want[i])
		}
		change()
	}
	for line := range lines {
		t.Errorf("one line more: %q", line)
	}
	if err := <-ended; err != nil {
		t.Errorf("the program failed: %v", err)
	}
	if requests := api.made(); !slices.Equal(requests, []string{"WATCH that begins with all objects"}) {
		t.Errorf("the program sent %q, want one WATCH", requests)
	}
}
