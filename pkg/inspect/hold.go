/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package inspect

import (
	"encoding/json"
	"mime"
	"net/http"
	"time"

	"github.com/glassback/glassback/pkg/loop"
)

// hold does what a HoldRequest says.
func (s *server) hold(r *http.Request) (*Overview, *failure) {
	if !s.Breakpoints {
		return nil, &failure{http.StatusForbidden, "this operator does not let itself be held: start it with --inspect-breakpoints, for learning only"}
	}
	// A form on a page elsewhere cannot send this type.
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		return nil, &failure{http.StatusUnsupportedMediaType, "send it as application/json"}
	}
	var request HoldRequest
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 4096))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return nil, wrong("send a HoldRequest: %v", err)
	}
	if failed := s.holdGear(request); failed != nil {
		return nil, failed
	}
	return s.overview(r)
}

func (s *server) holdGear(request HoldRequest) *failure {
	if request.Gear == "sync" {
		run, failed := s.loopCalled(request.ID)
		if failed != nil {
			return failed
		}
		return holdSync(run, request)
	}
	w, failed := s.informerCalled(request.ID)
	if failed != nil {
		return failed
	}
	switch request.Gear + " " + request.Action {
	case "queue hold":
		w.HoldQueue()
	case "queue release":
		w.ReleaseQueue()
	case "wire hold":
		w.HoldWire()
	case "wire release":
		w.ReleaseWire()
	case "wire drop":
		w.DropWatch(false)
	case "wire expire":
		w.DropWatch(true)
	default:
		return wrong("no %q for %q: hold or release a queue; hold, release, drop or expire a wire; hold, release or delay a sync", request.Action, request.Gear)
	}
	return nil
}

func holdSync(run *Run, request HoldRequest) *failure {
	switch delay := time.Duration(request.Delay * float64(time.Second)); request.Action {
	case "hold":
		run.Hold(0)
	case "release":
		run.Release()
	case "delay":
		if delay <= 0 || delay > loop.HoldLimit {
			return wrong("a delay of %v seconds: say more than 0, and %v at most", request.Delay, loop.HoldLimit.Seconds())
		}
		run.Hold(delay)
	default:
		return wrong("no %q for a sync: hold, release or delay it", request.Action)
	}
	return nil
}
