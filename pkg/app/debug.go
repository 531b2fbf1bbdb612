// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"maps"
	"net/http"
	"net/http/pprof"
	"time"
)

// metricsPort returns the handler of the metrics port. guard authorizes each path as a nonResourceURL. Without a guard, any client can
// reach the port, so the port serves only metrics. Profiles end with ctx, because a server that stops waits for them.
func metricsPort(ctx context.Context, metrics http.Handler, guard func(http.Handler) http.Handler) http.Handler {
	handlers := map[string]http.Handler{"GET /metrics": metrics}
	if guard == nil {
		return serveMux(handlers)
	}
	maps.Copy(handlers, map[string]http.Handler{
		"GET /debug/pprof/":        untilDone(ctx, pprof.Index),
		"GET /debug/pprof/profile": untilDone(ctx, pprof.Profile),
		"GET /debug/pprof/trace":   untilDone(ctx, pprof.Trace),
		"PUT /debug/flags/v":       http.HandlerFunc(setVerbosity),
	})
	guarded := guard(serveMux(handlers))
	for pattern := range handlers { // For other paths, the guard does not send requests to the API server.
		handlers[pattern] = guarded
	}
	return serveMux(handlers)
}

func serveMux(handlers map[string]http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handler := range handlers {
		mux.Handle(pattern, handler)
	}
	return mux
}

// untilDone lets a profile take longer than the ReadTimeout of the server, and ends the profile with ctx. net/http cancels a request whose
// connection reaches that deadline, even if the whole request has been read. Package pprof extends the write deadline itself.
func untilDone(ctx context.Context, profile http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // If that fails, the profile ends early.
		request, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		profile(w, r.WithContext(request))
	})
}
