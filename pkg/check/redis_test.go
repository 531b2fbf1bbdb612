// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"testing"

	"github.com/glassback/glassback/pkg/redisnode"
)

func TestTheAnswersOfRedis(t *testing.T) {
	well, unwell := nodeAnswer{pod: "p", view: &redisnode.View{StateOK: true}}, nodeAnswer{pod: "p", view: &redisnode.View{}}
	silent, locked := nodeAnswer{pod: "p", err: errors.New("connect: refused")}, nodeAnswer{pod: "p", err: redisnode.ErrPassword}
	for name, test := range map[string]struct {
		answers         []nodeAnswer
		inside, outside State
	}{
		"all are well":                  {[]nodeAnswer{well, well}, OK, OK},
		"none has an address":           {nil, Skipped, Skipped},
		"none can be reached":           {[]nodeAnswer{silent, silent}, Failed, Skipped},
		"one cannot be reached":         {[]nodeAnswer{well, silent}, Warning, Warning},
		"one takes no requests":         {[]nodeAnswer{well, unwell}, Warning, Warning},
		"all of them want to know more": {[]nodeAnswer{locked, locked}, Failed, OK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answered(test.answers, 2, true); got.State != test.inside {
				t.Errorf("inside: %+v, want %s", got, test.inside)
			}
			if got := answered(test.answers, 2, false); got.State != test.outside {
				t.Errorf("outside: %+v, want %s", got, test.outside)
			}
		})
	}
}
