/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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

// Config says what there is to look at.
type Config struct {
	// Version and Instance are shown as they are.
	Version, Instance string
	// Trace is the Recorder that the Informers and the Loops report to.
	Trace *trace.Recorder
	// Informers and Loops are shown in this order.
	Informers []Watched
	Loops     []Run
	// Breakpoints lets who looks hold gears.
	Breakpoints bool
	// Done ends what goes on for as long as somebody looks; nil: never.
	Done <-chan struct{}
	// Guard is put before the API, if it is not nil: not before the page, in which there is
	// nothing to hide.
	Guard func(http.Handler) http.Handler
}

// Watched is one informer.
type Watched struct {
	*pipeline.Informer

	// Resource is what it watches, such as "jobs.batch". Its Name is unlike that of all others.
	Resource string
	// Namespace is the one that it watches; "" for all.
	Namespace string
	// Aliases are what people call the kind, beside its own name and that of the resource.
	Aliases []string
}

// Run is one controller's loop.
type Run struct {
	*loop.Loop

	// Namespace is the one that it works in; "" for all.
	Namespace string
}

// id is the Run's name, unlike all others.
func (r Run) id() string { return scoped(r.Name, r.Namespace) }

func scoped(name, namespace string) string {
	if namespace == "" {
		return name
	}
	return name + "/" + namespace
}

//go:embed page
var page embed.FS

// server answers.
type server struct {
	Config

	right   http.Handler // answers as the Guard does, to those whom it lets through too; nil without one
	lags    lags
	streams atomic.Int64
	latest  struct {
		sync.Mutex

		overview *Overview
	}
}

// prefix is where everything is: a path for which rights can be given.
const prefix = "/inspect/"

// New returns what serves the page and its API.
func New(config Config) http.Handler {
	s := &server{Config: config, lags: newLags()}
	api := http.NewServeMux()
	api.HandleFunc("GET "+prefix+"api/overview", answer(s.overview))
	api.HandleFunc("GET "+prefix+"api/stream", s.stream)
	api.HandleFunc("GET "+prefix+"api/queue", answer(s.queue))
	api.HandleFunc("GET "+prefix+"api/index", answer(s.index))
	api.HandleFunc("GET "+prefix+"api/workqueue", answer(s.workqueue))
	api.HandleFunc("GET "+prefix+"api/life", answer(s.life))
	api.HandleFunc("GET "+prefix+"api/find", answer(s.find))
	api.HandleFunc("POST "+prefix+"api/hold", answer(s.hold))
	var guarded http.Handler = api
	if s.Guard != nil {
		guarded = onlyServed(api, s.Guard(api))
		s.right = s.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // It is embedded under that name.
	}
	mux := http.NewServeMux()
	mux.Handle(prefix+"api/", guarded)
	mux.Handle(prefix, http.StripPrefix(prefix, http.FileServerFS(files)))
	mux.Handle("GET /{$}", http.RedirectHandler(prefix, http.StatusFound))
	return careful(mux)
}

// onlyServed keeps from guard what api does not serve: the API server is not asked who may see
// that.
func onlyServed(api *http.ServeMux, guard http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refusal, pattern := api.Handler(r); pattern == "" {
			refusal.ServeHTTP(w, r)
			return
		}
		guard.ServeHTTP(w, r)
	})
}

// policy lets the page use what comes with it, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// careful keeps other sites from what a person's browser can reach.
func careful(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		handler.ServeHTTP(w, r)
	})
}

// LocalOnly lets through to handler only those who have named this machine in the address: not a
// page elsewhere whose name has been made to lead here.
func LocalOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			tell(w, &failure{http.StatusForbidden, fmt.Sprintf("it is not called %q: use localhost or 127.0.0.1", r.Host)})
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

// failure is an answer that there is none.
type failure struct {
	status  int
	message string
}

func (f *failure) Error() string { return f.message }

func missing(format string, args ...any) *failure {
	return &failure{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func wrong(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// answer serves what ask returns, in JSON.
func answer[T any](ask func(*http.Request) (T, *failure)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, failed := ask(r)
		if failed != nil {
			tell(w, failed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result) // Who has asked may be gone.
	}
}

func tell(w http.ResponseWriter, f *failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(Problem{f.message})
}

// informer returns the one that was asked for.
func (s *server) informer(r *http.Request) (*Watched, *failure) {
	return s.informerCalled(r.FormValue("informer"))
}

func (s *server) informerCalled(id string) (*Watched, *failure) {
	for n := range s.Informers {
		if s.Informers[n].Name() == id {
			return &s.Informers[n], nil
		}
	}
	return nil, missing("there is no informer %q: see the ids in overview", id)
}

func (s *server) loopCalled(id string) (*Run, *failure) {
	for n := range s.Loops {
		if s.Loops[n].id() == id {
			return &s.Loops[n], nil
		}
	}
	return nil, missing("there is no controller %q: see the ids in overview", id)
}

// lags measures how long changes take from the wire into the index: of each informer, the
// newest that was recorded.
type lags struct {
	mu       sync.Mutex
	seen     uint64 // Seq of the newest event that was looked at
	since    map[lagKey]time.Time
	bySource map[string]float64 // seconds
}

type lagKey struct {
	source          string
	object          trace.Object
	resourceVersion string
}

func newLags() lags { return lags{since: map[lagKey]time.Time{}, bySource: map[string]float64{}} }

// maxUnderWay bounds what is remembered of changes that have not reached an index.
const maxUnderWay = 10_000

// look takes in what was recorded meanwhile.
func (l *lags) look(recorder *trace.Recorder) {
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

func (l *lags) of(source string) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bySource[source]
}
