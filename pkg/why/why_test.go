// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"

	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// history is what an operator has recorded, that watches MyCronJobs and Jobs, and syncs the former.
type history struct{ *trace.Recorder }

func newHistory() history { return history{trace.NewRecorder(4096)} }

// theDay is when it has happened. Tests leave it out of what is printed.
const theDay = "2022-01-09"

// report records that something happened at a time, such as "14:22:15.001".
func (h history) report(t *testing.T, at string, e trace.Event) {
	t.Helper()
	parsed, err := time.Parse(time.DateOnly+" 15:04:05.000", theDay+" "+at)
	must.Succeed(t, err)
	e.Time = parsed
	h.Report(e)
}

var (
	cron   = trace.Object{Kind: "MyCronJob", Namespace: "default", Name: "sample"}
	theJob = trace.Object{Kind: "Job", Namespace: "default", Name: "sample-1"}
)

// changed records that an index took in a change.
func (h history) changed(t *testing.T, at string, object trace.Object, verb, resourceVersion string, changes ...trace.Change) {
	h.report(t, at, trace.Event{
		Stage: trace.Index, Source: "watched", Object: object, Verb: verb, ResourceVersion: resourceVersion, Changes: changes,
	})
}

// written records that an index took in an object, and the last client that wrote it.
func (h history) written(t *testing.T, at string, object trace.Object, verb, resourceVersion, manager string, written time.Time) {
	h.report(t, at, trace.Event{
		Stage: trace.Index, Source: "watched", Object: object, Verb: verb, ResourceVersion: resourceVersion,
		Writer: &trace.Writer{Manager: manager, Time: written},
	})
}

// began and ended record a sync of cron.
func (h history) began(t *testing.T, at string, causes ...trace.Cause) {
	h.report(t, at, trace.Event{Stage: trace.Sync, Source: "mycronjob", Object: cron, For: cron, Causes: causes})
}

func (h history) ended(t *testing.T, at string, took, after time.Duration, failure string) {
	h.report(t, at, trace.Event{Stage: trace.Done, Source: "mycronjob", Object: cron, For: cron, Duration: took, After: after, Err: failure})
}

// wrote records that the sync has written.
func (h history) wrote(t *testing.T, at, did string, object trace.Object, resourceVersion string) {
	h.report(t, at, trace.Event{
		Stage: trace.Write, Source: "mycronjob", Verb: did, Object: object, For: cron, ResourceVersion: resourceVersion,
	})
}

func cause(verb string, object trace.Object, resourceVersion string, fields ...string) trace.Cause {
	return trace.Cause{Verb: verb, Object: object, ResourceVersion: resourceVersion, Fields: fields}
}

// operator is what is asked for it.
func (h history) operator() http.Handler {
	watched := func(object runtime.Object, resource string, aliases ...string) inspect.Watched {
		informer := pipeline.New(pipeline.Config{Object: object, Resource: resource, Trace: h.Recorder})
		return inspect.Watched{Informer: informer, Resource: resource, Aliases: aliases}
	}
	mycronjobs := loop.New(loop.Config{Name: "mycronjob", Kind: "MyCronJob"})
	mycronjobs.Queue.ShutDown()
	handler, err := inspect.New(inspect.Config{
		Instance: "vm", Trace: h.Recorder,
		Informers: []inspect.Watched{
			watched(&mcjv1.MyCronJob{}, "mycronjobs.batch.wzj.kubebuilder.io", "mcj"), watched(&batchv1.Job{}, "jobs.batch"),
		},
		Loops: []inspect.Run{{Loop: mycronjobs}},
	})
	if err != nil {
		panic(err) // Without breakpoints it does not fail.
	}
	return handler
}

// ran is what came of a command.
type ran struct {
	code           int
	stdout, stderr string
}

// asked runs why about an operator with this history.
func (h history) asked(t *testing.T, args ...string) ran {
	t.Helper()
	server := httptest.NewServer(h.operator())
	defer server.Close()
	var stdout, stderr bytes.Buffer
	code := command.Execute(t.Context(), New(), append([]string{"--address", server.URL}, args...), &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

func TestWhy(t *testing.T) {
	const lastSync, last2Syncs = "MyCronJob default/sample: its last sync", "MyCronJob default/sample: its last 2 syncs, the newest last"
	for name, test := range map[string]struct {
		history    func(*testing.T, history)
		args       []string
		head, want string // the first line, and those after the second
	}{
		"a change by another client": {func(t *testing.T, h history) {
			h.changed(t, "14:22:15.000", cron, "Updated", "5", trace.Change{Path: "spec.suspend", Old: "true", New: "false"},
				trace.Change{Path: "spec.jobTemplate"})
			h.began(t, "14:22:15.001", cause("Updated", cron, "5", "spec.suspend", "spec.jobTemplate"))
			h.ended(t, "14:22:15.002", time.Millisecond, 0, "")
		}, []string{"mcj/sample"}, lastSync, `
14:22:15.001000  mycronjob, took 1ms
  because MyCronJob default/sample was updated (resourceVersion 5), by another client
    spec.suspend true → false
    spec.jobTemplate
`},
		"writes before the operator started": {func(t *testing.T, h history) {
			before := time.Date(2022, 1, 9, 14, 20, 7, 0, time.UTC)
			h.written(t, "14:22:15.000", cron, "Replaced", "5", "kubectl", before)
			h.written(t, "14:22:15.001", theJob, "Replaced", "6", "glassback", before)
			h.began(t, "14:22:15.002", cause("Added", cron, "5"), cause("Added", theJob, "6"))
		}, []string{"mcj/sample"}, lastSync, `
14:22:15.002000  mycronjob, runs since then
  because MyCronJob default/sample was in the list with which the watch began (resourceVersion 5)
  because Job default/sample-1 was in the list with which the watch began (resourceVersion 6)
    last written by an earlier process of the operator at 14:20:07
`},
		"a deletion, and a removal of fields, of an object that the operator wrote before": {func(t *testing.T, h history) {
			before := time.Date(2022, 1, 9, 14, 20, 7, 0, time.UTC)
			h.written(t, "14:22:15.000", theJob, "Replaced", "6", "glassback", before)
			for version, field := range map[string]string{"7": "metadata.labels", "8": "metadata.deletionTimestamp"} {
				h.report(t, "14:22:15.00"+version, trace.Event{
					Stage: trace.Index, Source: "watched", Object: theJob, Verb: "Updated", ResourceVersion: version,
					Writer: &trace.Writer{Manager: "glassback", Time: before}, Changes: []trace.Change{{Path: field}},
				})
			}
			h.began(t, "14:22:15.010", cause("Updated", theJob, "7"), cause("Updated", theJob, "8"))
		}, []string{"mcj/sample"}, lastSync, `
14:22:15.010000  mycronjob, runs since then
  because Job default/sample-1 was updated (resourceVersion 7), by another client
    metadata.labels
  because Job default/sample-1 was updated (resourceVersion 8), by another client
    metadata.deletionTimestamp
`},
		"one failure, in one line": {func(t *testing.T, h history) {
			h.changed(t, "14:22:14.000", cron, "Updated", "5", trace.Change{Path: "spec.suspend"})
			h.changed(t, "14:22:15.000", cron, "Replaced", "5")
			h.began(t, "14:22:15.000", cause("Sync", cron, "5"))
			h.ended(t, "14:22:15.001", time.Millisecond, 0, "a\x1b[2Jb\nc")
			h.began(t, "14:22:16.000", trace.Cause{Verb: trace.VerbRetry})
		}, []string{"mcj/sample"}, last2Syncs, `
14:22:15.000000  mycronjob, took 1ms
  because MyCronJob default/sample was unchanged in a relist or a resync (resourceVersion 5)
  it failed: a [2Jb c

14:22:16.000000  mycronjob, runs since then
  because the sync at 14:22:15.000000 had failed, which is above: a [2Jb c
`},
		"writes of the operator after its start, in no sync": {func(t *testing.T, h history) {
			h.written(t, "14:22:15.000", cron, "Added", "5", "kubectl", time.Now())
			h.written(t, "14:22:15.001", theJob, "Added", "6", "glassback", time.Now())
			h.began(t, "14:22:15.002", cause("Added", cron, "5"), cause("Added", theJob, "6"))
			h.written(t, "14:22:15.003", theJob, "Updated", "7", "glassback", time.Now())
			h.wrote(t, "14:22:15.004", "update jobs.batch", theJob, "7")
			h.ended(t, "14:22:15.005", time.Millisecond, 0, "")
			h.began(t, "14:22:15.006", cause("Updated", theJob, "7"))
		}, []string{"mcj/sample"}, last2Syncs, `
14:22:15.002000  mycronjob, took 1ms
  because MyCronJob default/sample was added (resourceVersion 5), by another client
  because Job default/sample-1 was added (resourceVersion 6), by the operator, but by no sync of this process
  it wrote Job default/sample-1 (update jobs.batch, resourceVersion 7)

14:22:15.006000  mycronjob, runs since then
  because Job default/sample-1 was updated (resourceVersion 7)
    by the sync of MyCronJob default/sample at 14:22:15.002000, which is above: update jobs.batch
`},
		"a chain from a Job that was deleted back to a timer": {func(t *testing.T, h history) {
			h.began(t, "14:22:10.000", cause("Added", cron, "1"))
			h.ended(t, "14:22:10.001", time.Millisecond, 4999*time.Millisecond, "")
			h.began(t, "14:22:15.000", trace.Cause{Verb: trace.VerbAfter})
			h.changed(t, "14:22:15.002", theJob, "Added", "7") // The watch was faster than the answer.
			h.wrote(t, "14:22:15.003", "create jobs.batch", theJob, "7")
			h.ended(t, "14:22:15.004", 4*time.Millisecond, 0, "")
			h.began(t, "14:22:15.005", cause("Added", theJob, "7"))
			h.wrote(t, "14:22:15.006", "delete jobs.batch", theJob, "7")
			h.ended(t, "14:22:15.007", 2*time.Millisecond, 0, "")
			h.changed(t, "14:22:15.008", theJob, "Deleted", "9")
			h.began(t, "14:22:15.009", cause("Deleted", theJob, "9"))
		}, []string{"mycronjobs", "sample", "--last=1"}, lastSync, `
14:22:15.009000  mycronjob, runs since then
  because Job default/sample-1 was deleted (resourceVersion 9)
    by the sync of MyCronJob default/sample at 14:22:15.005000: delete jobs.batch
      because Job default/sample-1 was added (resourceVersion 7)
        by the sync of MyCronJob default/sample at 14:22:15.000000: create jobs.batch
          because the sync at 14:22:10.000000 had asked to run again at 14:22:15.000000
`},
		"failures in a row, back to what began them": {func(t *testing.T, h history) {
			h.began(t, "14:22:15.000", cause("Updated", cron, "5", "spec.schedule"))
			h.ended(t, "14:22:15.001", time.Millisecond, 0, "the first\nfailure")
			h.began(t, "14:22:16.000", trace.Cause{Verb: trace.VerbRetry})
			h.ended(t, "14:22:16.001", time.Millisecond, 0, "the second")
			h.began(t, "14:22:18.000", trace.Cause{Verb: trace.VerbRetry})
			h.ended(t, "14:22:18.001", time.Millisecond, 0, "")
		}, []string{"mcj/sample", "--last=1"}, lastSync, `
14:22:18.000000  mycronjob, took 1ms
  because it had failed 2 times, since the sync at 14:22:15.000000, the last time with: the second
    because MyCronJob default/sample was updated (resourceVersion 5)
      spec.schedule
`},
		"a deletion that the watch missed": {func(t *testing.T, h history) {
			h.changed(t, "14:22:14.000", theJob, "Updated", "7", trace.Change{Path: "status.active"})
			missed := trace.Event{Stage: trace.Index, Source: "watched", Object: theJob, Verb: "Deleted", ResourceVersion: "7", Missed: true}
			h.report(t, "14:22:17.000", missed)
			h.began(t, "14:22:17.001", cause("Deleted", theJob, "7"))
		}, []string{"mcj/sample", "--last=1"}, lastSync, `
14:22:17.001000  mycronjob, runs since then
  because Job default/sample-1 was found missing in a relist (last known resourceVersion 7)
`},
		"an eviction made no version before it": {func(t *testing.T, h history) {
			h.changed(t, "14:22:14.000", theJob, "Updated", "7", trace.Change{Path: "status.active"})
			h.began(t, "14:22:15.000", trace.Cause{Verb: trace.VerbStart})
			h.wrote(t, "14:22:15.001", "evict pods", theJob, "7")
			h.ended(t, "14:22:15.002", time.Millisecond, 0, "")
			h.changed(t, "14:22:15.003", theJob, "Updated", "9", trace.Change{Path: "metadata.deletionTimestamp"})
		}, []string{"job/sample-1"}, "Job default/sample-1 is watched, and not synced: its last 2 changes, the newest last", `
14:22:14.000000
  Job default/sample-1 was updated (resourceVersion 7), by another client
    status.active

14:22:15.003000
  Job default/sample-1 was updated (resourceVersion 9)
    metadata.deletionTimestamp
    by the sync of MyCronJob default/sample at 14:22:15.000000: evict pods
      because it is there from the start
`},
		"one that was never synced": {func(t *testing.T, h history) {
			h.changed(t, "14:22:15.000", cron, "Added", "5")
		}, []string{"mcj/sample"}, "MyCronJob default/sample: nothing is synced by vm, which stands by: ask the operator that leads", `
14:22:15.000000
  MyCronJob default/sample was added (resourceVersion 5), by another client
`},
		"syncs for which nothing had happened": {func(t *testing.T, h history) {
			h.began(t, "14:22:10.000", cause("Added", cron, "1"))
			h.ended(t, "14:22:10.001", time.Millisecond, time.Second, "")
			for _, at := range []string{"14:22:11.001", "14:22:12.001", "14:22:13.001"} {
				h.began(t, at, trace.Cause{Verb: trace.VerbAfter})
				h.ended(t, at, 0, time.Second, "")
			}
		}, []string{"mcj/sample", "--last=1"}, lastSync, `
14:22:13.001000  mycronjob, took 0s
  because an earlier sync had asked to run again
  as did 2 before it, which are left out
  it asked to run again at 14:22:14.001000
`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			test.history(t, h)
			got := h.asked(t, test.args...)
			got.stdout = strings.ReplaceAll(got.stdout, theDay+" ", "")
			if got.code != command.OK || got.stderr != "" || got.stdout != test.head+"\nIt is not there any more.\n"+test.want {
				t.Errorf("exit code %d, stderr %q, stdout\n%swant\n%s%s", got.code, got.stderr, got.stdout, test.head, test.want)
			}
		})
	}
}

// A chain ends after some syncs, and an answer has so many causes at most.
func TestAnAnswerIsBounded(t *testing.T) {
	h := newHistory()
	for n := range 40 {
		job := trace.Object{Kind: "Job", Namespace: "default", Name: fmt.Sprint("sample-", n)}
		before := trace.Object{Kind: "Job", Namespace: "default", Name: fmt.Sprint("sample-", n-1)}
		at := time.Date(2022, 1, 9, 14, 0, n, 0, time.UTC).Format("15:04:05.000")
		h.began(t, at, cause("Added", before, fmt.Sprint(n-1)))
		h.wrote(t, at, "create jobs.batch", job, fmt.Sprint(n))
		h.ended(t, at, 0, 0, "")
	}
	got := h.asked(t, "mcj/sample", "--last=1")
	if deepest := strings.Repeat("  ", 2*whyDepth+3) + "…\n"; strings.Count(got.stdout, "because") != whyDepth+1 ||
		!strings.Contains(got.stdout, "\n"+deepest) {
		t.Errorf("it is\n%s", got.stdout)
	}
}

func TestWhyInJSON(t *testing.T) {
	h := newHistory()
	h.began(t, "14:22:15.000", cause("Updated", cron, "5", "spec.schedule"))
	h.ended(t, "14:22:15.001", time.Millisecond, time.Second, "")
	got := h.asked(t, "mcj/sample", "-o", "json")
	answer := whyAnswer{}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || got.code != command.OK {
		t.Fatalf("exit code %d, error %v:\n%s", got.code, err, got.stdout)
	}
	if answer.Schema != whySchema || answer.Operator != "vm" || answer.Name != "sample" || len(answer.Syncs) != 1 ||
		answer.Syncs[0].Causes[0].Changes[0].Path != "spec.schedule" || answer.Syncs[0].Again.Second() != 16 {
		t.Errorf("it is\n%s", got.stdout)
	}
}

func TestWhyThatHasNoAnswerSaysWhatToDo(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	gone := server.URL
	server.Close()
	metrics := httptest.NewServer(http.NotFoundHandler()) // It has no page.
	defer metrics.Close()
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such object": {
			[]string{"mcj/other"},
			command.Failed,
			"there is no MyCronJob default/other: it has no recorded event, and it is in no index; check its name, and say its namespace with -n",
		},
		"no such kind":            {[]string{"pony/sample"}, command.Failed, `no informer watches a "pony": there are Job, MyCronJob`},
		"a name with a namespace": {[]string{"mcj/default/sample"}, command.Usage, `"mcj/default/sample" is no KIND/NAME`},
		"no sync":                 {[]string{"mcj/a", "--last=0"}, command.Usage, "--last must be from 1 to 64, not 0"},
		"an address by HTTPS": {
			[]string{"mcj/a", "--address=https://127.0.0.1:1"}, command.Usage, "an operator in a cluster is asked through the API server",
		},
		"an address and a kubeconfig": {[]string{"mcj/a", "--kubeconfig=a"}, command.Usage, "leave out --kubeconfig"},
		"no server":                   {[]string{"mcj/a", "--address=" + gone}, command.Failed, "does not answer, start it with --inspect"},
		"another server": {
			[]string{"mcj/a", "--address=" + metrics.URL}, command.Failed,
			"serves no page there: start it with --inspect-bind-address, and ask at that address: 404 Not Found: 404 page not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := newHistory().asked(t, test.args...)
			if got.code != test.code || !strings.Contains(got.stderr, test.want) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
				t.Errorf("exit code %d, %q, %q, want exit code %d, %q", got.code, got.stdout, got.stderr, test.code, test.want)
			}
		})
	}
}

// Which operator is asked, by what is said and what is there.
func TestTheOperatorThatIsAsked(t *testing.T) {
	here := httptest.NewServer(newHistory().operator())
	defer here.Close()
	another := httptest.NewServer(http.NotFoundHandler()) // It is no operator, and no API server.
	defer another.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, test := range map[string]struct {
		local, kubeconfig string
		args              []string
		called, err       string
	}{
		"the one on this machine":                        {here.URL, "", nil, "the operator at " + here.URL, ""},
		"the one on this machine, if a cluster has none": {here.URL, another.URL, nil, "the operator at " + here.URL, ""},
		"none": {another.URL, "", nil, "", "no operator answers at " + another.URL + ", and kubectl has no cluster"},
		"none in the cluster that was named": {
			here.URL, "", []string{"--master=" + another.URL}, "", "there is no Service glassback-inspect in namespace glassback-system",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "")
			if test.kubeconfig != "" {
				t.Setenv("KUBECONFIG", kubeconfig(t, test.kubeconfig))
			}
			o := &whyOptions{}
			c := o.command()
			must.Succeed(t, errors.Join(c.ParseFlags(test.args), c.PreRunE(c, []string{"mcj/sample"})))
			o.local = test.local
			got, err := o.reach(t.Context(), func(string) {})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || got.called != test.called {
				t.Fatalf("%+v, error %v, want %s", got, err, test.called)
			}
			got.close()
		})
	}
}

// kubeconfig returns a file that names an API server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": {"server": %q}}],
		"contexts": [{"name": "a", "context": {"cluster": "a", "namespace": "mine"}}]}`, server)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestATokenIsSent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"name": "%s of %s"}`, r.Header.Get("Authorization"), r.URL.Query().Get("namespace"))
	}))
	defer server.Close()
	c := clientAt(server.URL + "/")
	defer c.close()
	c.token = "secret"
	life, err := c.life(t.Context(), inspect.Object{Kind: "jobs.batch", Namespace: "a&b", Name: "c"})
	if err != nil || life.Name != "Bearer secret of a&b" {
		t.Errorf("%+v, error %v", life, err)
	}
}

// follow runs trace until stop is called, or it ends.
func follow(t *testing.T, handler func(stop func()) http.Handler, stdout io.Writer, args ...string) (stderr string, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	server := httptest.NewServer(handler(stop))
	defer server.Close()
	o := &traceOptions{}
	c := o.command()
	must.Succeed(t, c.ParseFlags(append([]string{"--address", server.URL}, args...)))
	must.Succeed(t, c.PreRunE(c, c.Flags().Args()))
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
		"event: of a later version\ndata: {}\n\n: comment\n\n"+oneIn(1)+happenings(0, "sync a"),
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
	refusing := func(func()) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error": "no"}`, http.StatusNotFound) })
	}
	full, writer := io.Pipe()
	full.Close()
	for name, test := range map[string]struct {
		handler func(func()) http.Handler
		stdout  io.Writer
		want    string
	}{
		"the kind is none":          {refusing, io.Discard, "no"},
		"standard output is closed": {streams(oneIn(1) + happenings(0, "sync a")), writer, "print: io: read/write on closed pipe"},
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

func TestTraceRefusesAStageThatThereIsNot(t *testing.T) {
	var stderr bytes.Buffer
	code := command.Execute(t.Context(), NewTrace(), []string{"--stage=wires"}, io.Discard, &stderr)
	if code != command.Usage || !strings.Contains(stderr.String(), `--stage: there is no "wires"; there are wire, queue, index, `) {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}
