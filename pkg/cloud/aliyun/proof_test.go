/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aliyun

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

const nothing = `{"RequestId":"R-1","Instances":{"Instance":[]}}`

// TestWhoMayNotAskHearsNothing: ECS answers with an empty list, and only a dry run tells why.
func TestWhoMayNotAskHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed, proofs := false, 0
		region := open(t, wire(func(r *http.Request) (*http.Response, error) {
			switch query := r.URL.Query(); {
			case query.Get("Action") != "DescribeInstances":
				return reply(200, `{"RequestId":"R-1","AccountId":"42"}`)
			case query.Get("DryRun") == "":
				return reply(200, nothing)
			case allowed:
				proofs++
				return reply(400, refusal("DryRunOperation", "x"))
			default:
				return reply(403, refusal("Forbidden.RAM", "x"))
			}
		}))
		ask := func(want Class) {
			t.Helper()
			if found, err := region.Find(t.Context(), map[string]string{"a": "b"}); ClassOf(err) != want {
				t.Errorf("Find: got %v, %v, want %q", found, err, want)
			}
			if found, err := region.Describe(t.Context(), []string{"i-1"}); ClassOf(err) != want {
				t.Errorf("Describe: got %v, %v, want %q", found, err, want)
			}
		}
		ask(Unauthorized)
		allowed = true
		ask("")
		if proofs != 1 {
			t.Errorf("it was proven %d times", proofs)
		}
		allowed = false
		time.Sleep(proofLasts)
		ask(Unauthorized)
	})
}
