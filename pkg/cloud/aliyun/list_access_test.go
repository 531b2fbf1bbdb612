// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

const nothing = `{"RequestId":"R-1","Instances":{"Instance":[]}}`

// TestListAccess: ECS answers with an empty list, and only a dry run shows that the right to list instances is missing.
func TestListAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed, dryRuns := false, 0
		region := open(t, wire(func(r *http.Request) (*http.Response, error) {
			switch query := r.URL.Query(); {
			case query.Get("Action") != "DescribeInstances":
				return reply(200, `{"RequestId":"R-1","AccountId":"42"}`)
			case query.Get("DryRun") == "":
				return reply(200, nothing)
			case allowed:
				dryRuns++
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
		if dryRuns != 1 {
			t.Errorf("got %d dry runs, want 1", dryRuns)
		}
		allowed = false
		time.Sleep(listAccessTTL)
		ask(Unauthorized)
	})
}
