// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/pipeline"
	"github.com/glassback/glassback/pkg/trace"
)

// Config describes the operator that the page shows.
type Config struct {
	// Version and Instance are shown unchanged.
	Version, Instance string
	// Trace is the Recorder that the Informers and the Loops report to.
	Trace *trace.Recorder
	// Informers and Loops are shown in this order.
	Informers []Watched
	Loops     []Run
	// Breakpoints lets a reader of the page hold single stages.
	Breakpoints bool
	// Done ends the streams; nil: never.
	Done <-chan struct{}
	// Guard protects the API; nil: it is open. The page itself contains no secret, and is always open.
	Guard func(http.Handler) http.Handler
}

// Watched is one informer. Its Name is unique.
type Watched struct {
	*pipeline.Informer

	// Resource is the informer's resource, such as "jobs.batch".
	Resource string
	// Namespace is the namespace that it watches; "" for all.
	Namespace string
	// Aliases are further names of the kind, beside its own and the resource's.
	Aliases []string
}

// Run is one controller's loop.
type Run struct {
	*loop.Loop

	// Namespace is the namespace that it works in; "" for all.
	Namespace string
}

// id returns the Run's unique name.
func (r Run) id() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Name + "/" + r.Namespace
}

//go:embed page
var page embed.FS

// server serves the API: of this operator, or of a recording at one moment.
type server struct {
	Config

	informers []*shownInformer
	loops     []*shownLoop
	now       func() time.Time
	started   time.Time
	oneIn     func() int
	recording *Recording // nil for this operator

	authorize http.Handler // the Guard alone, with an empty handler behind it; nil without a Guard
	lags      lags
	streams   *atomic.Int64
	latest    struct {
		sync.Mutex

		overview *Overview
	}
}

// prefix is the path of the page and its API. RBAC can grant it.
const prefix = "/inspect/"

// Page is the handler of the page and its API.
type Page struct {
	http.Handler

	server *server
}

// New returns the Page. It wraps parts of the Informers and Loops, which must not run yet.
func New(config Config) (*Page, error) {
	s := &server{Config: config, now: time.Now, started: time.Now(), oneIn: config.Trace.OneIn, lags: newLags(), streams: new(atomic.Int64)}
	for _, w := range config.Informers {
		i := s.showInformer(w)
		if config.Breakpoints {
			if err := w.WrapReflector(i.wire.Wrap, i.queue.Wrap); err != nil {
				return nil, fmt.Errorf("add breakpoints to informer %s: %w", w.Name(), err)
			}
		}
		s.informers = append(s.informers, i)
	}
	for _, run := range config.Loops {
		s.loops = append(s.loops, observe(run, config.Breakpoints).show())
	}
	present := func(r *http.Request) (*view, *failure) {
		if r.URL.Query().Get(atParameter) != "" {
			return nil, badRequest("this operator runs, and answers for the present only: leave out the moment")
		}
		return &view{server: s, advance: func() {}, done: func() {}}, nil
	}
	handler, err := s.handler(present, present)
	return &Page{handler, s}, err
}

// Overview returns the state of all gears, without the time and the lags: two results are equal unless something changed.
func (p *Page) Overview() any {
	o, _ := p.server.overview(nil) // It does not fail.
	o.Time = time.Time{}
	for n := range o.Informers {
		o.Informers[n].Lag = 0
	}
	return o
}

// atParameter is the query parameter with the moment of a recording.
const atParameter = "at"

// view is the server for one request. advance moves a recording forward during a stream. done ends the view.
type view struct {
	*server

	advance, done func()
}

// viewOf returns the view that a request asks for.
type viewOf func(*http.Request) (*view, *failure)

// handler returns the handler of the page and its API. moment returns the view for an answer, and following the view for a stream.
func (s *server) handler(moment, following viewOf) (http.Handler, error) {
	files, err := fs.Sub(page, "page")
	if err != nil {
		return nil, err
	}
	api := http.NewServeMux()
	api.HandleFunc("GET "+prefix+"api/overview", answer(moment, (*server).overview))
	api.HandleFunc("GET "+prefix+"api/stream", stream(following))
	api.HandleFunc("GET "+prefix+"api/queue", answer(moment, (*server).queue))
	api.HandleFunc("GET "+prefix+"api/index", answer(moment, (*server).index))
	api.HandleFunc("GET "+prefix+"api/workqueue", answer(moment, (*server).workqueue))
	api.HandleFunc("GET "+prefix+"api/life", answer(moment, (*server).life))
	api.HandleFunc("GET "+prefix+"api/find", answer(moment, (*server).find))
	api.HandleFunc("POST "+prefix+"api/hold", answer(moment, (*server).hold))
	var guarded http.Handler = api
	if s.Guard != nil {
		guarded = guardServed(api, s.Guard(api))
		s.authorize = s.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"api/", guarded)
	mux.Handle(prefix, http.StripPrefix(prefix, http.FileServerFS(files)))
	mux.Handle("GET /{$}", http.RedirectHandler(prefix, http.StatusFound))
	return withSecurityHeaders(mux), nil
}

// guardServed passes requests to guard only if api serves their path. So other paths do not make the Guard send requests to the API server.
func guardServed(api *http.ServeMux, guard http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal, pattern := api.Handler(r); pattern == "" {
			refusal.ServeHTTP(w, r)
			return
		}
		guard.ServeHTTP(w, r)
	})
}

// policy lets the page use its own files and API only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// withSecurityHeaders keeps other sites from using the page through a person's browser.
func withSecurityHeaders(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		handler.ServeHTTP(w, r)
	})
}

// LocalOnly passes only requests whose Host is a loopback address or localhost. It refuses requests for another name that resolves to a
// loopback address (DNS rebinding).
func LocalOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			fail(w, &failure{http.StatusForbidden, fmt.Sprintf("it is not called %q: use localhost or 127.0.0.1", r.Host)})
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func local(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	if address, err := netip.ParseAddrPort(host); err == nil {
		return address.Addr().IsLoopback()
	}
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return address.IsLoopback()
	}
	return name == "localhost"
}

// failure is an HTTP error.
type failure struct {
	status  int
	message string
}

func notFound(format string, args ...any) *failure {
	return &failure{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// answer returns a handler that writes the result of get as JSON.
func answer[T any](viewFor viewOf, get func(*server, *http.Request) (T, *failure)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, failed := viewFor(r)
		if failed != nil {
			fail(w, failed)
			return
		}
		result, failed := func() (T, *failure) {
			defer v.done()
			return get(v.server, r)
		}()
		if failed != nil {
			fail(w, failed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result) // The client may have gone.
	}
}

func fail(w http.ResponseWriter, f *failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(Problem{f.message})
}

func (s *server) informerCalled(id string) (*shownInformer, *failure) {
	for _, i := range s.informers {
		if i.id == id {
			return i, nil
		}
	}
	return nil, notFound("there is no informer %q: see the ids in overview", id)
}

func (s *server) loopCalled(id string) (*shownLoop, *failure) {
	for _, l := range s.loops {
		if l.id == id {
			return l, nil
		}
	}
	return nil, notFound("there is no controller %q: see the ids in overview", id)
}

// lags measures how long a change takes from the wire to the index. It keeps the newest recorded change of each informer.
type lags struct {
	mu       sync.Mutex
	seen     uint64 // Seq of the newest event that update has read
	since    map[lagKey]time.Time
	bySource map[string]float64 // seconds
}

type lagKey struct {
	source          string
	object          trace.Object
	resourceVersion string
}

func newLags() lags { return lags{since: map[lagKey]time.Time{}, bySource: map[string]float64{}} }

// maxUnderWay bounds the number of changes that have not reached an index.
const maxUnderWay = 10_000

// update reads the events since the last update.
func (l *lags) update(recorder *trace.Recorder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, _ := recorder.Since(l.seen, 0)
	for _, e := range events {
		l.seen = e.Seq
		key := lagKey{e.Source, e.Object, e.ResourceVersion}
		switch e.Stage {
		case trace.Wire:
			if len(l.since) >= maxUnderWay {
				clear(l.since)
			}
			l.since[key] = e.Time
		case trace.Index:
			if began, ok := l.since[key]; ok {
				delete(l.since, key)
				l.bySource[e.Source] = e.Time.Sub(began).Seconds()
			}
		}
	}
}

func (l *lags) get(source string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bySource[source]
}
