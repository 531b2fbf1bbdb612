/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"net/http"
	"sync/atomic"
	"time"
)

// serverTime is the API server's clock, as the headers of its answers tell it. It judges
// the certificates that it is shown, so it is by its clock that they must be valid.
type serverTime struct {
	ahead atomic.Int64 // of this machine's clock, in nanoseconds
}

// noticeable is the least difference between two clocks that the header Date, in whole
// seconds, and a slow answer leave no doubt about.
const noticeable = 5 * time.Second

// Now returns the API server's time; this machine's, as long as the two hardly differ.
func (s *serverTime) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// listen has s learn from what comes through a transport.
func (s *serverTime) listen(transport http.RoundTripper) http.RoundTripper {
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
