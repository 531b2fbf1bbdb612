// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestServerTimeIsThatOfTheAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		header func(now time.Time) string
		err    error
		want   time.Duration // ahead of this machine
	}{
		"the same time":                  {func(now time.Time) string { return now.Format(http.TimeFormat) }, nil, 0},
		"a slow answer is no other time": {func(now time.Time) string { return now.Add(-4 * time.Second).Format(http.TimeFormat) }, nil, 0},
		"an hour ahead":                  {func(now time.Time) string { return now.Add(time.Hour).Format(http.TimeFormat) }, nil, time.Hour},
		"a day behind": {
			func(now time.Time) string { return now.Add(-24 * time.Hour).Format(http.TimeFormat) }, nil, -24 * time.Hour,
		},
		"no answer leaves what was learned": {nil, errors.New("connection refused"), 42 * time.Hour},
		"no date leaves what was learned":   {func(time.Time) string { return "" }, nil, 42 * time.Hour},
		"nonsense leaves what was learned":  {func(time.Time) string { return "yesterday" }, nil, 42 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // where no time passes meanwhile
				s := &ServerTime{}
				s.ahead.Store(int64(42 * time.Hour))
				answer := s.listen(roundTripper(func(*http.Request) (*http.Response, error) {
					if test.err != nil {
						return nil, test.err
					}
					return &http.Response{Header: http.Header{"Date": {test.header(time.Now().UTC())}}, Body: http.NoBody}, nil
				}))
				response, err := answer.RoundTrip(&http.Request{})
				if !errors.Is(err, test.err) || (response == nil) != (test.err != nil) {
					t.Errorf("got %v and %v, want the transport's own answer", response, err)
				}
				if response != nil {
					response.Body.Close()
				}
				if got := time.Until(s.Now()); got != test.want {
					t.Errorf("ahead by %s, want %s", got, test.want)
				}
			})
		})
	}
}
