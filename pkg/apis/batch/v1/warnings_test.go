// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"slices"
	"testing"

	"k8s.io/utils/ptr"
)

func TestWarnings(t *testing.T) {
	const all = "spec.missedRunPolicy: All without startingDeadlineSeconds runs up to 100 slots after an outage, however old"
	spec := func(mutate func(s *MyCronJobSpec)) *MyCronJob {
		return valid(func(m *MyCronJob) { mutate(&m.Spec) })
	}
	for name, test := range map[string]struct {
		object *MyCronJob
		want   []string
	}{
		"the seed, whose Jobs may pile up, gets none": {valid(func(*MyCronJob) {}), nil},
		"Jobs every second get none":                  {spec(func(s *MyCronJobSpec) { s.IntervalSeconds = ptr.To[int32](1) }), nil},
		"a Job that vanishes as soon as it may gets none": {spec(func(s *MyCronJobSpec) {
			s.JobTemplate.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
		}), nil},
		"no history at all gets none": {spec(func(s *MyCronJobSpec) {
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](0)
		}), nil},
		"the missed slots of a long outage, however old": {spec(func(s *MyCronJobSpec) { s.MissedRunPolicy = AllMissed }), []string{all}},
		"one by one too": {spec(func(s *MyCronJobSpec) {
			s.MissedRunPolicy, s.ConcurrencyPolicy = AllMissed, ForbidConcurrent
		}), []string{all}},
		"the missed slots of the last hour get none": {spec(func(s *MyCronJobSpec) {
			s.MissedRunPolicy, s.StartingDeadlineSeconds = AllMissed, ptr.To[int64](3600)
		}), nil},
		"a deadline is no business of Latest": {spec(func(s *MyCronJobSpec) { s.MissedRunPolicy = LatestMissed }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if errs := test.object.Validate(nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			got := test.object.Warnings()
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, warning := range got {
				if len(warning) > 120 {
					t.Errorf("too long for one line: %q", warning)
				}
			}
		})
	}
}

func TestWithoutAWarningThereIsNoAllocation(t *testing.T) {
	m := valid(func(*MyCronJob) {})
	if n := testing.AllocsPerRun(100, func() { m.Warnings() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
