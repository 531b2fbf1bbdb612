// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"mime"
	"net/http"
	"time"

	"github.com/glassback/glassback/pkg/breakpoint"
)

// hold sets or releases a breakpoint.
func (s *server) hold(r *http.Request) (*Overview, *failure) {
	if s.recording != nil {
		return nil, &failure{http.StatusForbidden, "a recording cannot be held: this needs a running operator"}
	}
	if !s.Breakpoints {
		return nil, &failure{http.StatusForbidden,
			"this operator does not let itself be held: start it with --inspect-breakpoints, for learning only"}
	}
	// A form on another site's page cannot send this type.
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		return nil, &failure{http.StatusUnsupportedMediaType, "send it as application/json"}
	}
	var request HoldRequest
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 4096))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return nil, badRequest("send a HoldRequest: %v", err)
	}
	if failed := s.setBreakpoint(request); failed != nil {
		return nil, failed
	}
	return s.overview(r)
}

func (s *server) setBreakpoint(request HoldRequest) *failure {
	if request.Gear == "sync" {
		l, failed := s.loopCalled(request.ID)
		if failed != nil {
			return failed
		}
		return holdSync(l.breakpoint, request)
	}
	i, failed := s.informerCalled(request.ID)
	if failed != nil {
		return failed
	}
	switch request.Gear + " " + request.Action {
	case "queue hold":
		i.queue.Hold()
	case "queue release":
		i.queue.Release()
	case "wire hold":
		i.wire.Hold()
	case "wire release":
		i.wire.Release()
	case "wire drop":
		i.wire.Drop()
	case "wire expire":
		i.wire.Expire()
	default:
		return badRequest("no %q for %q: hold or release a queue; hold, release, drop or expire a wire; hold, release or delay a sync",
			request.Action, request.Gear)
	}
	return nil
}

func holdSync(syncs *breakpoint.Sync, request HoldRequest) *failure {
	switch delay := time.Duration(request.Delay * float64(time.Second)); request.Action {
	case "hold":
		syncs.Hold(0)
	case "release":
		syncs.Release()
	case "delay":
		if delay <= 0 || delay > breakpoint.Limit {
			return badRequest("a delay of %v seconds: say more than 0, and %v at most", request.Delay, breakpoint.Limit.Seconds())
		}
		syncs.Hold(delay)
	default:
		return badRequest("no %q for a sync: hold, release or delay it", request.Action)
	}
	return nil
}
