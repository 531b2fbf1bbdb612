/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// stream sends server-sent events until the client goes, as
// https://html.spec.whatwg.org/multipage/server-sent-events.html has it. It reads the Recorder's
// ring now and then: recording costs nothing more for who looks.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	wanted, failed := s.narrow(r)
	if failed != nil {
		tell(w, failed)
		return
	}
	if s.streams.Add(1) > mostStreams {
		s.streams.Add(-1)
		tell(w, &failure{http.StatusServiceUnavailable, fmt.Sprintf("%d look already: close one of their pages", mostStreams)})
		return
	}
	defer s.streams.Add(-1)
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // It takes as long as the client stays, and reads.
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(name string, data any) error {
		encoded, err := json.Marshal(data)
		if err != nil {
			return err
		}
		_ = out.SetWriteDeadline(time.Now().Add(sendPatience))
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, encoded); err != nil {
			return err
		}
		return out.Flush()
	}
	seen, next := s.Trace.Last(), time.Time{}
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	right := time.NewTicker(rightEvery)
	defer right.Stop()
	for {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(overviewEvery)
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
		case <-right.C:
			if s.refused(r) {
				return
			}
		case <-tick.C:
		}
	}
}

// refused reports whether the Guard does not let r through any longer. That it cannot tell now is
// no reason to end what it has let through.
func (s *server) refused(r *http.Request) bool {
	if s.right == nil {
		return false
	}
	said := verdict{header: http.Header{}}
	s.right.ServeHTTP(&said, r)
	return said.status >= http.StatusBadRequest && said.status < http.StatusInternalServerError
}

// verdict is a ResponseWriter that keeps the status alone.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header            { return v.header }
func (v *verdict) Write(text []byte) (int, error) { return len(text), nil }
func (v *verdict) WriteHeader(status int)         { v.status = status }

// shared returns an overview for all streams: one that is not older than they are to see.
func (s *server) shared() *Overview {
	s.latest.Lock()
	defer s.latest.Unlock()
	if s.latest.overview == nil || time.Since(s.latest.overview.Time) >= overviewEvery/2 {
		s.latest.overview, _ = s.overview(nil)
	}
	return s.latest.overview
}

// narrow reads which events are wanted.
func (s *server) narrow(r *http.Request) (narrow, *failure) {
	n := narrow{kind: r.FormValue("kind"), namespace: r.FormValue("namespace"), name: r.FormValue("name")}
	if n.kind != "" {
		kind, failed := s.kindCalled(n.kind)
		if failed != nil {
			return n, failed
		}
		n.kind = kind
	}
	if id := r.FormValue("informer"); id != "" {
		if _, failed := s.informerCalled(id); failed != nil {
			return n, failed
		}
		n.source = id
	}
	if id := r.FormValue("controller"); id != "" {
		if _, failed := s.loopCalled(id); failed != nil {
			return n, failed
		}
		n.source = id
	}
	return n, nil
}

// since returns the events after the one numbered seen, and the number of the newest.
func (s *server) since(seen uint64, wanted narrow) (Events, uint64) {
	most := mostEvents
	if wanted != (narrow{}) {
		most = 0 // What is not wanted costs nothing to send.
	}
	recorded, missed := s.Trace.Since(seen, most)
	batch := Events{Events: []Event{}, Missed: missed}
	for n := range recorded {
		seen = recorded[n].Seq
		e := s.event(&recorded[n])
		switch {
		case !wanted.wants(&e):
		case len(batch.Events) == mostEvents:
			batch.Missed++
		default:
			batch.Events = append(batch.Events, e)
		}
	}
	return batch, seen
}
