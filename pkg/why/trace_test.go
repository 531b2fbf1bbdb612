// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/trace"
)

// follow runs trace until stop is called, or it ends.
func follow(t *testing.T, handler func(stop func()) http.Handler, stdout io.Writer, args ...string) (stderr string, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	server := httptest.NewServer(handler(stop))
	defer server.Close()
	o, err := parseTrace(append([]string{"--address", server.URL}, args...), io.Discard)
	must.Succeed(t, err)
	var said bytes.Buffer
	err = (&tracer{traceOptions: o, stdout: stdout, stderr: &said, retry: time.Millisecond, oneIn: 1}).run(ctx)
	return strings.ReplaceAll(said.String(), server.URL, "URL"), err
}

// streams sends one text after the other, each to who asks next; an empty one is an error. It stops who asks after that.
func streams(texts ...string) func(stop func()) http.Handler {
	return func(stop func()) http.Handler {
		var asked atomic.Int32
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch n := int(asked.Add(1)) - 1; {
			case n >= len(texts):
				stop()
			case texts[n] == "":
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				fmt.Fprint(w, texts[n])
			}
		})
	}
}

func sent(name string, data any) string {
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("event: %s\ndata: %s\n\n", name, encoded)
}

func oneIn(n int) string {
	return sent("overview", inspect.Overview{Instance: fmt.Sprint("vm-", n), OneIn: n})
}

func happenings(missed uint64, lines ...string) string {
	batch := inspect.Events{Missed: missed}
	for _, line := range lines {
		batch.Events = append(batch.Events, inspect.Event{Stage: strings.Fields(line)[0], Line: line})
	}
	return sent("events", batch)
}

func TestTraceGoesOnWhenTheOperatorBeginsAgain(t *testing.T) {
	var stdout bytes.Buffer
	stderr, err := follow(t, streams(
		oneIn(1)+happenings(0, "sync a"),
		"", // It is not yet there.
		oneIn(1)+happenings(0, "sync b"),
	), &stdout)
	if err != nil || stdout.String() != "sync a\nsync b\n" {
		t.Errorf("stdout %q, error %v", stdout.String(), err)
	}
	const want = "glassback: the operator is gone, waiting for it: the stream has ended\n" +
		"glassback: connected to vm-1\n"
	if !strings.HasPrefix(stderr, want) {
		t.Errorf("stderr\n%swant\n%s", stderr, want)
	}
}

func TestTraceSaysWhatItDoesNotShow(t *testing.T) {
	var stdout bytes.Buffer
	stderr, _ := follow(t, streams(oneIn(1)+oneIn(8)+happenings(7, "sync a", "wire b", "write \x1b[2Jc")+oneIn(8)+oneIn(1)), &stdout,
		"--stage=sync,write", "--stage", "done")
	if stdout.String() != "sync a\nwrite  [2Jc\n" {
		t.Errorf("stdout %q", stdout.String())
	}
	const want = "glassback: many changes: the operator records 1 in 8, with all of its stages\n" +
		"glassback: 7 events are left out: there are too many to send\n" +
		"glassback: all changes are recorded again\n"
	if !strings.HasPrefix(stderr, want) {
		t.Errorf("stderr\n%swant\n%s", stderr, want)
	}
}

func TestTraceEndsWhereWaitingDoesNotHelp(t *testing.T) {
	refusing := func(status int) func(func()) http.Handler {
		return func(func()) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				fmt.Fprint(w, `{"error": "no"}`)
			})
		}
	}
	full, writer := io.Pipe()
	full.Close()
	for name, test := range map[string]struct {
		handler func(func()) http.Handler
		stdout  io.Writer
		want    string
	}{
		"the kind is none":            {refusing(http.StatusNotFound), io.Discard, "no"},
		"no replica has answered yet": {refusing(http.StatusServiceUnavailable), io.Discard, "no"},
		"standard output is closed":   {streams(oneIn(1) + happenings(0, "sync a")), writer, "print: io: read/write on closed pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := follow(t, test.handler, test.stdout); err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// reporting is told of the first thing that is written.
type reporting struct {
	http.ResponseWriter
	once  *sync.Once
	first func()
}

func (r reporting) Write(data []byte) (int, error) {
	defer r.once.Do(r.first)
	return r.ResponseWriter.Write(data)
}

func (r reporting) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// lines stops when it has one.
type lines struct {
	bytes.Buffer
	stop func()
}

func (l *lines) Write(data []byte) (int, error) {
	defer l.stop()
	return l.Buffer.Write(data)
}

func TestTraceShowsWhatAnOperatorRecords(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"as lines": {
			nil, "14:22:15.000000  index     watched  Updated MyCronJob default/sample (resourceVersion 5: spec.suspend true → false)\n",
		},
		"as JSON": {[]string{"-o=json"}, `{"seq":2,"time":"2022-01-09T14:22:15Z","stage":"index",`},
		"as YAML": {[]string{"-o=yaml"}, "---\nchanges:\n- "},
		"of all namespaces": {
			[]string{"-n", "other", "-A", "--stage=index"}, "14:22:15.000000  index     watched  Updated MyCronJob default/sample ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, stdout := newHistory(), &lines{}
			_, err := follow(t, func(stop func()) http.Handler {
				stdout.stop = stop
				once := &sync.Once{}
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.operator().ServeHTTP(reporting{w, once, func() {
						h.changed(t, "14:22:15.000", theJob, "Updated", "4")
						h.changed(t, "14:22:15.000", cron, "Updated", "5", trace.Change{Path: "spec.suspend", Old: "true", New: "false"})
					}}, r)
				})
			}, stdout, append(test.args, "mcj/sample")...)
			if err != nil || !strings.HasPrefix(stdout.String(), test.want) {
				t.Errorf("%q, error %v, want %q", stdout.String(), err, test.want)
			}
		})
	}
}

func TestTraceRefusesWhatItCannotShow(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a stage that there is not": {
			[]string{"--stage=wires"}, `--stage: there is no "wires"; there are wire, queue, index, dispatch, enqueue, sync, write, done`,
		},
		"two objects":           {[]string{"mcj", "a", "b"}, `unexpected argument "b"`},
		"a name without a kind": {[]string{"/a"}, `"/a" is no KIND/NAME`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := Trace(t.Context(), test.args, &stdout, &stderr)
			if code != command.Usage || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("exit code %d, %q", code, stderr.String())
			}
		})
	}
	var stdout bytes.Buffer
	if code := Trace(t.Context(), []string{"--help"}, &stdout, io.Discard); code != command.OK ||
		!strings.Contains(stdout.String(), "--stage") {
		t.Errorf("--help: exit code %d, %s", code, stdout.String())
	}
}
