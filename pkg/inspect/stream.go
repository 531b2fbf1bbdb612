// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// The intervals and limits of a stream.
const (
	eventsEvery    = 100 * time.Millisecond
	overviewEvery  = 500 * time.Millisecond
	authorizeEvery = time.Minute     // interval at which the Guard of Config checks the request again
	sendTimeout    = 5 * time.Second // a stream ends if its client does not read a message within this time
	maxEvents      = 500             // maximum number in one message
	maxStreams     = 32
)

// stream returns a handler that streams the view of each request.
func stream(viewFor viewOf) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, failed := viewFor(r)
		if failed != nil {
			fail(w, failed)
			return
		}
		defer v.done()
		v.stream(w, r)
	}
}

// stream sends server-sent events until the client closes the connection. See
// https://html.spec.whatwg.org/multipage/server-sent-events.html. It reads the ring buffer of
// the Recorder at intervals, so that recording costs the same with and without streams.
func (s *view) stream(w http.ResponseWriter, r *http.Request) {
	wanted, failed := s.filter(r)
	if failed != nil {
		fail(w, failed)
		return
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		fail(w, &failure{http.StatusServiceUnavailable, fmt.Sprintf("there are %d streams already: close another page", maxStreams)})
		return
	}
	defer s.streams.Add(-1)
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // The read deadline of the server must not end the stream.
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(name string, data any) error {
		encoded, err := json.Marshal(data)
		if err != nil {
			return err
		}
		_ = out.SetWriteDeadline(time.Now().Add(sendTimeout))
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, encoded); err != nil {
			return err
		}
		return out.Flush()
	}
	seen, nextOverview := s.Trace.Last(), time.Time{}
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	authorize := time.NewTicker(authorizeEvery)
	defer authorize.Stop()
	for {
		s.advance()
		if now := time.Now(); !now.Before(nextOverview) {
			nextOverview = now.Add(overviewEvery)
			if send("overview", s.shared()) != nil {
				return
			}
		}
		var batch Events
		batch, seen = s.since(seen, wanted)
		if (len(batch.Events) > 0 || batch.Missed > 0) && send("events", batch) != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.Done:
			return
		case <-authorize.C:
			if s.refused(r) {
				return
			}
		case <-tick.C:
		}
	}
}

// refused reports whether the Guard refuses r now. An error of the Guard itself is no refusal.
func (s *server) refused(r *http.Request) bool {
	if s.authorize == nil {
		return false
	}
	answer := statusWriter{header: http.Header{}}
	s.authorize.ServeHTTP(&answer, r)
	return answer.status >= http.StatusBadRequest && answer.status < http.StatusInternalServerError
}

// statusWriter is a ResponseWriter that keeps only the status.
type statusWriter struct {
	header http.Header
	status int
}

func (w *statusWriter) Header() http.Header            { return w.header }
func (w *statusWriter) Write(text []byte) (int, error) { return len(text), nil }
func (w *statusWriter) WriteHeader(status int)         { w.status = status }

// shared returns an overview for all streams. Its age is at most half of overviewEvery.
func (s *server) shared() *Overview {
	s.latest.Lock()
	defer s.latest.Unlock()
	if s.latest.overview == nil || time.Since(s.latest.overview.Time) >= overviewEvery/2 {
		s.latest.overview, _ = s.overview(nil)
	}
	return s.latest.overview
}

// filter returns the filter in the query of r.
func (s *server) filter(r *http.Request) (filter, *failure) {
	f := filter{kind: r.FormValue("kind"), namespace: r.FormValue("namespace"), name: r.FormValue("name")}
	if f.kind != "" {
		kind, failed := s.kindCalled(f.kind)
		if failed != nil {
			return f, failed
		}
		f.kind = kind
	}
	if id := r.FormValue("informer"); id != "" {
		if _, failed := s.informerCalled(id); failed != nil {
			return f, failed
		}
		f.source = id
	}
	if id := r.FormValue("controller"); id != "" {
		if _, failed := s.loopCalled(id); failed != nil {
			return f, failed
		}
		f.source = id
	}
	return f, nil
}

// since returns the wanted events after number seen, and the number of the newest event.
func (s *server) since(seen uint64, wanted filter) (Events, uint64) {
	limit := maxEvents
	if wanted != (filter{}) {
		limit = 0 // The loop below limits the events that the filter keeps.
	}
	recorded, missed := s.Trace.Since(seen, limit)
	batch := Events{Events: []Event{}, Missed: missed}
	for n := range recorded {
		seen = recorded[n].Seq
		e := s.event(&recorded[n])
		switch {
		case !wanted.wants(&e):
		case len(batch.Events) == maxEvents:
			batch.Missed++
		default:
			batch.Events = append(batch.Events, e)
		}
	}
	return batch, seen
}
