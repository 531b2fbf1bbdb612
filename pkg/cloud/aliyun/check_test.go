// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"net/http"
	"testing"
)

func TestACheckAsksForTheAccountAndForNoInstance(t *testing.T) {
	for name, test := range map[string]struct {
		identity, dryRun wire
		account          string
		class            Class
	}{
		"a key that may": {says(200, `{"RequestId":"R-1","AccountId":"42"}`), says(400, refusal("DryRunOperation", "x")), "42", ""},
		"a key that may not ask for instances": {
			says(200, `{"RequestId":"R-1","AccountId":"42"}`), says(403, refusal("Forbidden.RAM", "x")), "42", Unauthorized,
		},
		"a key that there is none of":     {says(404, refusal("InvalidAccessKeyId.NotFound", "x")), nil, "", BadCredentials},
		"a dry run that was none":         {says(200, `{"RequestId":"R-1","AccountId":"42"}`), says(200, nothing), "42", Transient},
		"an answer that names no account": {says(200, fine), nil, "", Transient},
		"a region whose name can be none": {
			says(200, `{"RequestId":"R-1","AccountId":"42"}`), says(404, refusal("InvalidRegionId.NotFound", "x")), "42", Rejected,
		},
		"a clock that ECS does not accept": {says(400, refusal("InvalidTimeStamp.Expired", "x")), nil, "", Clock},
	} {
		t.Run(name, func(t *testing.T) {
			region := open(t, wire(func(r *http.Request) (*http.Response, error) {
				query := r.URL.Query()
				if query.Get("Action") == "GetCallerIdentity" {
					return test.identity.RoundTrip(r)
				}
				if query.Get("Action") != "DescribeInstances" || query.Get("DryRun") != "true" {
					t.Errorf("it asked for %s with DryRun %q", query.Get("Action"), query.Get("DryRun"))
				}
				return test.dryRun.RoundTrip(r)
			}))
			if account, err := region.Check(t.Context()); account != test.account || ClassOf(err) != test.class {
				t.Errorf("got %q, %v, want %q, %q", account, err, test.account, test.class)
			}
		})
	}
}
