// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// works is an operator of one informer and one controller, on an API server that is a channel, and what looks at it.
type works struct {
	*testing.T

	watch    *watch.FakeWatcher
	informer *pipeline.Informer
	loop     *loop.Loop
	handler  http.Handler
	version  int
	syncs    chan error // what each sync returns; it waits for it
}

// listing is an API server that streams no lists.
type listing struct{ *cache.ListWatch }

func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// hidden is what no answer may show.
const hidden = "hunter2"

func newWorks(t *testing.T, config Config) *works {
	t.Helper()
	w := &works{T: t, watch: watch.NewFake(), version: 1, syncs: make(chan error, 100)}
	config.Trace = trace.NewRecorder(1000)
	w.informer = pipeline.New(pipeline.Config{
		ListerWatcher: listing{&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return w.watch, nil },
		}},
		Object: &corev1.Secret{}, Resource: "secrets",
		Trace: config.Trace, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	w.loop = loop.New(loop.Config{
		Name: "keeper", Kind: "Thing", MinRetry: time.Second, MaxRetry: time.Minute,
		Observers: []loop.Observer{loop.Traced(config.Trace)},
		Sync: func(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
			select {
			case err := <-w.syncs:
				return 0, err
			case <-ctx.Done():
				return 0, nil
			}
		},
	})
	must.Succeed(t, w.loop.Watch(w.informer, "Secret", loop.Self))
	config.Informers = []Watched{{Informer: w.informer, Resource: "secrets", Aliases: []string{"sec"}}}
	config.Loops = []Run{{Loop: w.loop}}
	var err error
	if w.handler, err = New(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.informer.RunWithContext(ctx) })
	running.Go(func() { w.loop.Run(ctx, ctx, 1) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

// send has the API server tell of a Secret.
func (w *works) send(change watch.EventType, name string) {
	w.version++
	w.watch.Action(change, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name,
			ResourceVersion: fmt.Sprint(w.version), Annotations: map[string]string{"a": hidden + fmt.Sprint(w.version)},
		},
		Type: corev1.SecretType(hidden + fmt.Sprint(w.version)), Data: map[string][]byte{"password": []byte(hidden + fmt.Sprint(w.version))},
	})
	synctest.Wait()
}

// ask asks for a path, and returns the status and the answer.
func (w *works) ask(method, path, body string) (int, string) {
	w.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	if text := recorder.Body.String(); strings.Contains(text, hidden) {
		w.Errorf("%s shows a secret:\n%s", path, text)
	}
	return recorder.Code, recorder.Body.String()
}

// get asks for a path of the API, and decodes the answer.
func get[T any](w *works, path string) T {
	w.Helper()
	var answer T
	status, body := w.ask(http.MethodGet, "/inspect/api/"+path, "")
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		w.Errorf("%s: %d %s", path, status, body)
	}
	return answer
}

func stages(events []Event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Stage)
	}
	return strings.Join(all, " ")
}

func TestWhatGearsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks(t, Config{Version: "v1", Instance: "me"})
		synctest.Wait()
		w.send(watch.Added, "a")
		w.send(watch.Added, "b")
		w.send(watch.Modified, "a")

		overview := get[Overview](w, "overview")
		if overview.Version != "v1" || overview.Instance != "me" || overview.OneIn != 1 || overview.Breakpoints {
			t.Errorf("overview is %+v", overview)
		}
		i := overview.Informers[0]
		if i.ID != "secrets" || i.Kind != "Secret" || !i.Synced || !i.Watching || i.Arrived != 3 || i.Applied != 3 || i.Objects != 2 ||
			i.ResourceVersion != "4" {
			t.Errorf("the informer is %+v", i)
		}
		if len(i.Handlers) != 1 || i.Handlers[0].Controller != "keeper" || !i.Handlers[0].Synced {
			t.Errorf("its handlers are %+v", i.Handlers)
		}
		if c := overview.Controllers[0]; c.ID != "keeper" || c.Kind != "Thing" || c.Workers != 1 || c.Added != 3 || c.Waiting != 1 ||
			c.Processing != 1 {
			t.Errorf("the controller is %+v", c)
		}

		queue := get[Workqueue](w, "workqueue?controller=keeper")
		if len(queue.Waiting) != 1 || queue.Waiting[0].Name != "b" ||
			queue.Waiting[0].Causes[0].Line != "Added Secret default/b (resourceVersion 3)" {
			t.Errorf("waiting is %+v", queue.Waiting)
		}
		if len(queue.Processing) != 1 || queue.Processing[0].Name != "a" || !queue.Processing[0].Again {
			t.Errorf("processing is %+v", queue.Processing)
		}

		index := get[Index](w, "index?informer=secrets")
		if len(index.Indexers) != 1 || len(index.Groups) != 1 || len(index.Groups[0].Objects) != 2 ||
			index.Groups[0].Objects[0].ResourceVersion != "4" {
			t.Errorf("the index is %+v", index)
		}
		index = get[Index](w, "index?informer=secrets&by=namespace")
		if len(index.Groups) != 1 || index.Groups[0].Value != "default" || len(index.Groups[0].Objects) != 2 {
			t.Errorf("by namespace it is %+v", index)
		}

		deltas := get[Queue](w, "queue?informer=secrets")
		if deltas.Held != nil || len(deltas.Objects) != 0 || len(deltas.Passed) != 3 || deltas.Passed[0].ResourceVersion != "4" {
			t.Errorf("the delta queue is %+v", deltas)
		}
	})
}

func TestALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks(t, Config{})
		synctest.Wait()
		w.send(watch.Added, "a")
		w.send(watch.Modified, "a")
		w.send(watch.Added, "b")
		for _, kind := range []string{"Secret", "secret", "secrets", "SEC"} {
			life := get[Life](w, "life?namespace=default&name=a&kind="+kind)
			if !life.Exists || life.Kind != "Secret" || life.Gaps || life.Forgotten {
				t.Errorf("%s: the life is %+v", kind, life)
			}
			if got, want := stages(life.Events), "wire queue index dispatch enqueue wire queue index dispatch enqueue"; got != want {
				t.Errorf("%s: its stages are %q, want %q", kind, got, want)
			}
			updated := life.Events[7]
			if len(updated.Changes) == 0 ||
				updated.Line[17:] != "index     secrets  Updated Secret default/a (resourceVersion 3: metadata.annotations, data, type)" {
				t.Errorf("%s: the update reads %q, with %+v", kind, updated.Line, updated.Changes)
			}
			if last := life.Events[9]; last.Source != "keeper" || *last.For != (Object{Kind: "Thing", Namespace: "default", Name: "a"}) {
				t.Errorf("%s: the last event is %+v", kind, last)
			}
		}
		w.syncs <- errors.New("no")
		synctest.Wait()
		life := get[Life](w, "life?kind=thing&namespace=default&name=a")
		if got, want := stages(life.Events), "sync done"; got != want || life.Exists {
			t.Errorf("the synced object's stages are %q, want %q", got, want)
		}
		if done := life.Events[1]; done.Error != "no" || done.Causes[0].Line != "Added Secret default/a (resourceVersion 2)" {
			t.Errorf("the sync ended with %+v", done)
		}
		if found := get[Found](w, "find?q=Secret+b"); len(found.Objects) != 1 || found.Objects[0].Name != "b" {
			t.Errorf("found %+v", found)
		}
	})
}

func TestWrongQuestionsAreAnsweredWithWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks(t, Config{})
		synctest.Wait()
		for path, test := range map[string]struct {
			status int
			says   string
		}{
			"index?informer=secrets&by=node":               {404, `no index \"node\": there are [\"namespace\"]`},
			"workqueue?controller=x":                       {404, `no controller \"x\"`},
			"life?kind=Pod&name=a":                         {404, `no informer watches a \"Pod\": there are Secret`},
			"life?kind=Secret":                             {400, "kind and name are missing"},
			"life?kind=Secret&namespace=default&name=none": {404, "there is no Secret default/none"},
			"stream?informer=pods":                         {404, "no informer"},
		} {
			if status, body := w.ask(http.MethodGet, "/inspect/api/"+path, ""); status != test.status || !strings.Contains(body, test.says) {
				t.Errorf("%s: %d %s, want %d with %s", path, status, body, test.status, test.says)
			}
		}
	})
}

func TestGearsAreHeldOnlyWhereTheyMay(t *testing.T) {
	for name, test := range map[string]struct {
		breakpoints bool
		body        string
		status      int
		says        string
	}{
		"where they may not":              {false, `{"gear":"queue","id":"secrets","action":"hold"}`, 403, "does not let itself be held"},
		"a queue":                         {true, `{"gear":"queue","id":"secrets","action":"hold"}`, 200, `"queueHeld":{`},
		"a wire":                          {true, `{"gear":"wire","id":"secrets","action":"hold"}`, 200, `"wireHeld":{`},
		"a WATCH that is dropped":         {true, `{"gear":"wire","id":"secrets","action":"drop"}`, 200, `"version"`},
		"syncs":                           {true, `{"gear":"sync","id":"keeper","action":"hold"}`, 200, `"syncHeld":{`},
		"syncs that are delayed":          {true, `{"gear":"sync","id":"keeper","action":"delay","delay":1.5}`, 200, `"delay":1.5`},
		"syncs that are delayed for ever": {true, `{"gear":"sync","id":"keeper","action":"delay","delay":301}`, 400, "300 at most"},
		"what a queue does not do":        {true, `{"gear":"queue","id":"secrets","action":"drop"}`, 400, "hold or release a queue"},
		"what a sync does not do":         {true, `{"gear":"sync","id":"keeper","action":"drop"}`, 400, "hold, release or delay"},
		"a controller that there is not":  {true, `{"gear":"sync","id":"x","action":"hold"}`, 404, "no controller"},
		"a field that there is not":       {true, `{"gear":"sync","name":"x"}`, 400, "unknown field"},
		"no JSON":                         {true, `hold`, 400, "send a HoldRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorks(t, Config{Breakpoints: test.breakpoints})
				synctest.Wait()
				if status, body := w.ask(http.MethodPost, "/inspect/api/hold", test.body); status != test.status || !strings.Contains(body, test.says) {
					t.Errorf("%d %s, want %d with %s", status, body, test.status, test.says)
				}
			})
		})
	}
}

// A page elsewhere can send a form, and no JSON.
func TestOtherSitesHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorks(t, Config{Breakpoints: true})
		r := httptest.NewRequest(http.MethodPost, "/inspect/api/hold", strings.NewReader(`{"gear":"queue","id":"secrets","action":"hold"}`))
		r.Header.Set("Content-Type", "text/plain")
		recorder := httptest.NewRecorder()
		if w.handler.ServeHTTP(recorder, r); recorder.Code != http.StatusUnsupportedMediaType {
			t.Errorf("it was answered with %d", recorder.Code)
		}
	})
}

// read reads messages of a stream, until there are so many events.
func read(t *testing.T, stream io.Reader, events int) (lines []string, overviews int) {
	t.Helper()
	scanner := bufio.NewScanner(stream)
	scanner.Buffer(nil, 1<<20)
	name := ""
	for len(lines) < events && scanner.Scan() {
		line := scanner.Text()
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			name = n
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if strings.Contains(data, hidden) {
			t.Errorf("the stream shows a secret: %s", data)
		}
		if name == "overview" {
			overviews++
			continue
		}
		var batch Events
		must.Succeed(t, json.Unmarshal([]byte(data), &batch))
		for _, e := range batch.Events {
			lines = append(lines, e.Line[17:])
		}
	}
	return lines, overviews
}

func TestTheStreamTellsWhatPasses(t *testing.T) {
	for query, want := range map[string]string{
		"":                          "wire queue index dispatch enqueue sync",
		"?kind=sec&name=a":          "wire queue index dispatch enqueue",
		"?controller=keeper":        "enqueue sync",
		"?namespace=default&name=a": "wire queue index dispatch enqueue sync",
	} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := make(chan struct{})
				w := newWorks(t, Config{Done: done})
				synctest.Wait()
				in, out := io.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() {
					defer out.Close()
					r := httptest.NewRequest(http.MethodGet, "/inspect/api/stream"+query, nil).WithContext(t.Context())
					w.handler.ServeHTTP(&piped{header: http.Header{}, Writer: out}, r)
				})
				first, overviews := make(chan []string, 1), 0
				go func() {
					var lines []string
					lines, overviews = read(t, in, len(strings.Fields(want)))
					first <- lines
					_, _ = io.Copy(io.Discard, in)
				}()
				synctest.Wait()
				w.send(watch.Added, "a")
				var got []string
				for _, line := range <-first {
					got = append(got, strings.Fields(line)[0])
				}
				if strings.Join(got, " ") != want || overviews == 0 {
					t.Errorf("it sent %v and %d overviews, want %s", got, overviews, want)
				}
				close(done) // The operator stops: so does the stream.
				serving.Wait()
			})
		})
	}
}

// A stream ends when its reader loses the right to it. An error of the Guard does not end it.
func TestAStreamLastsAsLongAsTheRightToIt(t *testing.T) {
	for status, ends := range map[int]bool{
		http.StatusOK: false, http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusInternalServerError: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			var verdict atomic.Int64
			verdict.Store(http.StatusOK)
			w := newWorks(t, Config{Guard: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if code := int(verdict.Load()); code != http.StatusOK {
						rw.WriteHeader(code)
						return
					}
					next.ServeHTTP(rw, r)
				})
			}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				r := httptest.NewRequest(http.MethodGet, "/inspect/api/stream", nil).WithContext(ctx)
				w.handler.ServeHTTP(&piped{header: http.Header{}, Writer: io.Discard}, r)
			}()
			time.Sleep(time.Hour)
			select {
			case <-ended:
				t.Error("it ended, and nothing had changed")
			default:
			}
			verdict.Store(int64(status))
			time.Sleep(authorizeEvery + time.Second)
			synctest.Wait()
			select {
			case <-ended:
				if !ends {
					t.Errorf("%d: it ended", status)
				}
			default:
				if ends {
					t.Errorf("%d: it continues", status)
				}
			}
			cancel()
			<-ended
		})
	}
}

// piped is a ResponseWriter whose reader sees what is written at once.
type piped struct {
	io.Writer

	header http.Header
}

func (p *piped) Header() http.Header { return p.header }
func (p *piped) WriteHeader(int)     {}
func (p *piped) Flush()              {}

func TestTooManyEventsAreCounted(t *testing.T) {
	recorder := trace.NewRecorder(10_000)
	for n := range 3 * maxEvents {
		recorder.Report(trace.Event{Stage: trace.Done, Object: trace.Object{Kind: "Thing", Name: fmt.Sprint(n % 2)}})
	}
	s := &server{Config: Config{Trace: recorder}, lags: newLags()}
	batch, seen := s.since(0, filter{})
	if len(batch.Events) != maxEvents || batch.Missed != 2*maxEvents || seen != 3*maxEvents || batch.Events[maxEvents-1].Seq != seen {
		t.Errorf("%d events, %d missed, up to %d", len(batch.Events), batch.Missed, seen)
	}
	if batch, _ := s.since(0, filter{name: "1"}); len(batch.Events) != maxEvents || batch.Missed != maxEvents/2 {
		t.Errorf("of those that a filter selects, %d events, %d missed", len(batch.Events), batch.Missed)
	}
}

func TestThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guarded := 0
		w := newWorks(t, Config{Guard: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				guarded++
				rw.WriteHeader(http.StatusUnauthorized)
			})
		}})
		for path, want := range map[string]int{
			"/": 302, "/inspect/": 200, "/inspect/main.js": 200, "/inspect/style.css": 200, "/inspect/nothing": 404, "/other": 404,
		} {
			if status, _ := w.ask(http.MethodGet, path, ""); status != want {
				t.Errorf("%s: %d, want %d", path, status, want)
			}
		}
		if guarded != 0 {
			t.Error("the page is guarded")
		}
		for n, path := range []string{"overview", "stream", "queue", "index", "workqueue", "life", "find", "hold"} {
			method := http.MethodGet
			if path == "hold" {
				method = http.MethodPost
			}
			if status, _ := w.ask(method, "/inspect/api/"+path, ""); status != http.StatusUnauthorized || guarded != n+1 {
				t.Errorf("%s: %d, and it should be guarded", path, status)
			}
		}
		// The API server is not asked who may see what is not served.
		guarded = 0
		for request, want := range map[string]int{
			"GET x": 404, "GET ": 404, "GET overview/": 404, "GET hold": 405, "DELETE overview": 405, "GET " + strings.Repeat("%01", 20_000): 404,
		} {
			method, path, _ := strings.Cut(request, " ")
			if status, _ := w.ask(method, "/inspect/api/"+path, ""); status != want || guarded != 0 {
				t.Errorf("%.20s: %d and guarded %d times, want %d and never", request, status, guarded, want)
			}
		}
	})
}

func TestOnlyThisMachine(t *testing.T) {
	handler := LocalOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8082": 200, "127.0.0.1:8082": 200, "127.0.0.1": 200, "[::1]:8082": 200, "[::1]": 200,
		"evil.example.com": 403, "evil.example.com:8082": 403, "127.0.0.1.evil.example.com:8082": 403, "192.0.2.1:8082": 403, "": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		recorder := httptest.NewRecorder()
		if handler.ServeHTTP(recorder, r); recorder.Code != want {
			t.Errorf("%q: %d, want %d", host, recorder.Code, want)
		}
	}
}

func newLoop(sync loop.SyncFunc) (*loop.Loop, *observedLoop) {
	l := loop.New(loop.Config{Name: "test", Kind: "Thing", Sync: sync, MinRetry: time.Second, MaxRetry: 8 * time.Second})
	return l, observe(Run{Loop: l}, true)
}

// runLoop runs l with one worker until the end of the test.
func runLoop(t *testing.T, l *loop.Loop) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx, context.WithoutCancel(ctx), 1)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// describe renders a workqueue in one line, with times since start.
func describe(state *Workqueue, start time.Time) string {
	var parts []string
	for _, e := range state.Waiting {
		parts = append(parts, fmt.Sprintf("%s waits since %s", e.Name, e.Since.Sub(start)))
	}
	for _, e := range state.Processing {
		again := ""
		if e.Again {
			again = " and again"
		}
		parts = append(parts, fmt.Sprintf("%s is synced since %s, because %s%s", e.Name, e.Since.Sub(start), e.Causes[0].Verb, again))
	}
	for _, e := range state.Timers {
		parts = append(parts, fmt.Sprintf("%s comes at %s after %d failures", e.Name, e.At.Sub(start), e.Retries))
	}
	return strings.Join(parts, "; ")
}

func named(name string) cache.ObjectName { return cache.NewObjectName("default", name) }

func TestAWorkqueueFollowsItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		l, o := newLoop(func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
			time.Sleep(10 * time.Second)
			switch {
			case key.Name == "after":
				return time.Minute, nil
			case !failed:
				failed = true
				return 0, errors.New("no")
			}
			return 0, nil
		})
		start := time.Now()
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := describe(o.workqueue(), start); got != want {
				t.Errorf("after %s:\n got  %s\n want %s", time.Since(start), got, want)
			}
		}
		l.Add(named("after"), trace.Cause{Verb: "Added"})
		time.Sleep(time.Second)
		l.Add(named("fails"), trace.Cause{Verb: "Added"})
		expect("after waits since 0s; fails waits since 1s")
		runLoop(t, l)
		expect("fails waits since 1s; after is synced since 1s, because Added")
		l.Add(named("after"), trace.Cause{Verb: "Updated"})
		expect("fails waits since 1s; after is synced since 1s, because Added and again")
		time.Sleep(11 * time.Second)
		expect("after waits since 1s; fails is synced since 11s, because Added; after comes at 1m11s after 0 failures")
		time.Sleep(9500 * time.Millisecond) // fails has, and comes back after a second; meanwhile the other is synced
		expect("after is synced since 21s, because Updated; fails comes at 22s after 1 failures; after comes at 1m11s after 0 failures")
		time.Sleep(time.Second)
		expect("fails waits since 22s; after is synced since 21s, because Updated; after comes at 1m11s after 0 failures")
		want := Controller{
			ID: "test", Name: "test", Kind: "Thing", Workers: 1, Added: 3, Syncs: 2, Failed: 1, Waiting: 1, Processing: 1, Timers: 1,
		}
		if got := o.describe(); got != want {
			t.Errorf("it is %+v, want %+v", got, want)
		}
		time.Sleep(20 * time.Second)
		expect("after comes at 1m11s after 0 failures")
	})
}

// A sync that is held when the Loop ends runs then: its worker has its key.
func TestHeldSyncsDoNotDelayTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var began time.Duration
		l, o := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) {
			began = time.Since(start)
			return 0, nil
		})
		o.breakpoint.Hold(0)
		l.Add(named("a"), trace.Cause{Verb: "Added"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l.Run(ctx, t.Context(), 1); time.Since(start) != time.Second || began != time.Second {
			t.Errorf("it ended after %s, and its sync began after %s", time.Since(start), began)
		}
	})
}

func TestPanicsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := newLoop(func(context.Context, cache.ObjectName) (time.Duration, error) { panic("oh") })
		l.Add(named("a"), trace.Cause{Verb: "Added"})
		runLoop(t, l)
		synctest.Wait()
		if c := o.describe(); c.Syncs != 1 || c.Failed != 1 || c.Panics != 1 || c.Retrying != 1 {
			t.Errorf("it is %+v", c)
		}
	})
}
