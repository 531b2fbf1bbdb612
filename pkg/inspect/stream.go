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
	out := http.NewResponseController(w)
	_, _ = out.SetReadDeadline(time.Time{}), out.SetWriteDeadline(time.Time{}) // It takes as long as the client stays.
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(name string, data any) error {
		encoded, err := json.Marshal(data)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, encoded); err != nil {
			return err
		}
		return out.Flush()
	}
	seen, next := s.Trace.Last(), time.Time{}
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	for {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(overviewEvery)
			overview, _ := s.overview(r)
			if send("overview", overview) != nil {
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
		case <-tick.C:
		}
	}
}

// narrow reads which events are wanted.
func (s *server) narrow(r *http.Request) (narrow, *failure) {
	n := narrow{kind: r.FormValue("kind"), namespace: r.FormValue("namespace"), name: r.FormValue("name")}
	if n.kind != "" {
		watched := s.watching(n.kind)
		if len(watched) == 0 {
			return n, missing("nobody here watches a %q: there are %q", n.kind, s.kinds())
		}
		n.kind = watched[0].Kind()
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
		if e := s.event(&recorded[n]); wanted.wants(&e) && len(batch.Events) < mostEvents {
			batch.Events = append(batch.Events, e)
		}
	}
	return batch, seen
}
