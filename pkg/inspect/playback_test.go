// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
)

// experiments is the recording of the experiments of docs/informer.md.
const experiments = "../../docs/informer/experiments.jsonl.gz"

func TestWhatItCannotServe(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must.Succeed(t, os.WriteFile(text, []byte("text"), 0o600))
	for name, test := range map[string]struct {
		args []string
		code int
		want string // the beginning of the error
	}{
		"no file":             {nil, command.Usage, "glassback: name a recording, or the directory of --record"},
		"help":                {[]string{"--help"}, command.OK, ""},
		"a missing file":      {[]string{"/none"}, command.Failed, "glassback: stat /none"},
		"an open address":     {[]string{experiments, "--bind-address=0.0.0.0:0"}, command.Usage, "glassback: --bind-address must be on"},
		"no recording":        {[]string{text}, command.Failed, "glassback: " + text + " is not a recording of glassback --record"},
		"one without changes": {[]string{"../replay/testdata"}, command.Failed, "glassback: the recording has no states of the informers"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr strings.Builder
			code := command.Execute(t.Context(), NewPlayback(), test.args, io.Discard, &stderr)
			if code != test.code || !strings.HasPrefix(stderr.String(), test.want) ||
				strings.Count(stderr.String(), "\n") > 1 {
				t.Errorf("exit code %d, %s", code, stderr.String())
			}
		})
	}
}

// The output has the address of the page, and Ctrl-C ends the command.
func TestItServesUntilCtrlC(t *testing.T) {
	if life, errs := serveOnce(t, experiments); !strings.Contains(life, "Greetings to Jimmy Song") || errs != "" {
		t.Errorf("%s, %s", life, errs)
	}
}

// What is before the end of a truncated file is served.
func TestATruncatedFileIsServed(t *testing.T) {
	text, err := os.ReadFile(experiments)
	must.Succeed(t, err)
	cut := filepath.Join(t.TempDir(), "cut.jsonl.gz")
	must.Succeed(t, os.WriteFile(cut, text[:len(text)*9/10], 0o600))
	life, errs := serveOnce(t, cut)
	if !strings.Contains(life, "Greetings to ") || !strings.HasPrefix(errs, "glassback: "+cut+" is truncated after line ") ||
		!strings.HasSuffix(errs, "To read the rest, copy the file again\n") {
		t.Errorf("%s, %s", life, errs)
	}
	must.Succeed(t, os.WriteFile(cut, text[:100], 0o600))
	var stderr strings.Builder
	if code := command.Execute(t.Context(), NewPlayback(), []string{cut}, io.Discard, &stderr); code != command.Failed ||
		!strings.HasPrefix(stderr.String(), "glassback: "+cut+" is truncated after line 0: no record was read.") {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}

// serveOnce serves a recording, and returns the life of the object of the experiments, and what the command writes to stderr.
func serveOnce(t *testing.T, file string) (life, errs string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var stderr strings.Builder
	reader, writer := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- command.Execute(ctx, NewPlayback(), []string{file, "--bind-address=127.0.0.1:0"}, writer, &stderr)
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	must.Succeed(t, err)
	_, address, _ := strings.Cut(strings.TrimSpace(line), "The page is at ")
	response, err := http.Get(address + "api/life?kind=aea&namespace=default&name=apiexamplea-jimmy")
	must.Succeed(t, err)
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	cancel()
	if code := <-ended; code != command.OK {
		t.Errorf("exit code %d, %s", code, response.Status)
	}
	return string(body), stderr.String()
}
