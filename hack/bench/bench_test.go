// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/must"
)

func TestMedian(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		want   float64
	}{
		"of nothing":            {nil, 0},
		"of one":                {[]float64{3}, 3},
		"of an odd number":      {[]float64{9, 1, 5}, 5},
		"of an even number":     {[]float64{4, 1, 3, 100}, 3.5},
		"does not sort in situ": {[]float64{2, 1, 3}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := median(test.values); got != test.want {
				t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for p, want := range map[int]time.Duration{0: 1, 1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(hundred, p); got != want {
			t.Errorf("percentile %d = %d, want %d", p, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("percentile of nothing = %d, want 0", got)
	}
}

func TestPrintHasTheRatiosToTheFirstParticipant(t *testing.T) {
	r := result{scenario: "burst", participants: []string{"a", "b"}, samples: map[string][]sample{
		"a": {{perSecond: 100}, {perSecond: 50}}, "b": {{perSecond: 150, requests: 4}, {perSecond: 150, requests: 4}},
	}}
	var b strings.Builder
	r.print(&b)
	want := "\n| burst, 2 rounds | a | b |\n|---|---|---|\n| objects a second | 75.0 | 150 (× 2.00) |\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestCPUOf(t *testing.T) {
	stat := "42 (a (b) c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 100 200 300"
	if got, err := cpuOf(stat); err != nil || got != 2*time.Second {
		t.Errorf("cpuOf(%q) = %s, %v, want 2s", stat, got, err)
	}
	if _, err := cpuOf("42 (a) S"); err == nil {
		t.Error("cpuOf accepts a line without times")
	}
}

func TestField(t *testing.T) {
	text := "VmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nempty:\n"
	for name, want := range map[string]float64{"VmRSS:": 1024, "VmHWM:": 2048, "VmSwap:": 0, "empty:": 0} {
		if got := field(text, name); got != want {
			t.Errorf("field %s = %v, want %v", name, got, want)
		}
	}
}

func TestRequestsIn(t *testing.T) {
	metrics := `# TYPE apiserver_request_total counter
apiserver_request_total{code="201",group="apps",resource="deployments",verb="POST"} 3
apiserver_request_total{code="200",group="",resource="services",verb="APPLY"} 1.5e+03
apiserver_request_total{code="200",group="apps",resource="deployments",verb="WATCH"} 70
apiserver_request_total{code="200",group="",resource="leases",verb="PUT"} 700
apiserver_request_total_other{resource="services",verb="PUT"} 7000
`
	for _, test := range []struct {
		want  float64
		verbs []string
	}{{1573, nil}, {70, []string{"WATCH"}}, {1503, []string{"POST", "APPLY"}}, {0, []string{"LIST"}}} {
		if got := requestsIn(metrics, counted, test.verbs...); got != test.want {
			t.Errorf("requests with the verbs %q: %v, want %v, without the API server's own resources", test.verbs, got, test.want)
		}
	}
}

func TestPIDOf(t *testing.T) {
	status := "COMPONENT        CONDITION   READY   PID     PORT\netcd             running     yes     19591   29286\n" +
		"kube-apiserver   running     yes     19625   27429\n"
	if got, err := pidOf(status, "kube-apiserver"); err != nil || got != 19625 {
		t.Errorf("pidOf = %d, %v, want 19625", got, err)
	}
	if _, err := pidOf(status, "kwok"); err == nil {
		t.Error("pidOf finds a component that is not there")
	}
}

// TestEveryScenarioIsSmall keeps the smoke run short, and each round fair: every participant begins one.
func TestEveryScenarioIsSmall(t *testing.T) {
	for _, s := range scenarios {
		if s.smoke.objects > 50 || s.smoke.slots*s.smoke.seconds > 10 || s.run == nil || len(s.participants) < 2 {
			t.Errorf("%s: %+v", s.name, s.smoke)
		}
		if s.full.objects > 0 && s.full.objects%changedMeanwhile != 0 {
			t.Errorf("%s: the %d changed Applications are not spread over %d", s.name, changedMeanwhile, s.full.objects)
		}
	}
}

func TestCheckPlan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.json")
	for text, want := range map[string]string{
		`{"objects":[{"settled":false},{"settled":false}]}`: "",
		`{"objects":[{"settled":false},{"settled":true}]}`:  "the plan has 2 objects, of which 1 are not settled, want 2",
		`{"objects":[{"settled":false}]}`:                   "the plan has 1 objects",
		"nothing":                                           "the plan is not valid JSON",
	} {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		if err := checkPlan(file, 2); (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
