// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"net/http"
	"sync/atomic"
	"time"
)

// ServerTime is the API server's clock, which it learns from the headers of answers. The API server compares the dates of certificates
// with its own clock, so certificates are made with this one.
type ServerTime struct {
	ahead atomic.Int64 // of this machine's clock, in nanoseconds
}

// noticeable is the smallest difference between two clocks that counts. A smaller one can come from the header Date, which has whole
// seconds, or from a slow answer.
const noticeable = 5 * time.Second

// Ahead returns how far the API server's clock is ahead of that of this machine: 0 if the two hardly differ.
func (s *ServerTime) Ahead() time.Duration { return time.Duration(s.ahead.Load()) }

// Now returns the API server's time, or that of this machine if the two hardly differ.
func (s *ServerTime) Now() time.Time { return time.Now().Add(s.Ahead()) }

// listen wraps a transport: s learns from each answer.
func (s *ServerTime) listen(transport http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(request)
		if err != nil {
			return response, err
		}
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			ahead := time.Until(date)
			if ahead.Abs() < noticeable {
				ahead = 0
			}
			s.ahead.Store(int64(ahead))
		}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
