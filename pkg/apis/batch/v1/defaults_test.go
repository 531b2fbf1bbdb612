// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"reflect"
	"testing"

	"k8s.io/utils/ptr"
)

func TestDefault(t *testing.T) {
	defaults := MyCronJobSpec{
		Suspend:                    ptr.To(false),
		ConcurrencyPolicy:          AllowConcurrent,
		MissedRunPolicy:            LatestMissed,
		SuccessfulJobsHistoryLimit: ptr.To[int32](3),
		FailedJobsHistoryLimit:     ptr.To[int32](1),
	}
	set := MyCronJobSpec{
		IntervalSeconds:            ptr.To[int32](7),
		Suspend:                    ptr.To(true),
		StartingDeadlineSeconds:    ptr.To[int64](8),
		ConcurrencyPolicy:          ForbidConcurrent,
		MissedRunPolicy:            AllMissed,
		SuccessfulJobsHistoryLimit: ptr.To[int32](0),
		FailedJobsHistoryLimit:     ptr.To[int32](0),
		JitterSeconds:              ptr.To[int32](0),
	}
	withSchedule := defaults
	withSchedule.Schedule = ptr.To("@daily")
	for name, test := range map[string]struct{ spec, want MyCronJobSpec }{
		"an empty spec gets what the schema defaults, and no interval": {MyCronJobSpec{}, defaults},
		"what is set stays, zero too":                                  {set, set},
		"a schedule gets no interval and no time zone":                 {MyCronJobSpec{Schedule: ptr.To("@daily")}, withSchedule},
		"defaults get no more defaults":                                {defaults, defaults},
	} {
		t.Run(name, func(t *testing.T) {
			m := &MyCronJob{Spec: *test.spec.DeepCopy()}
			m.Default()
			if !reflect.DeepEqual(m.Spec, test.want) {
				t.Errorf("got %+v, want %+v", m.Spec, test.want)
			}
		})
	}
}

func TestInterval(t *testing.T) {
	for name, test := range map[string]struct {
		seconds *int32
		want    int32
	}{
		"not set, it is the seed's five seconds": {nil, 5},
		"set, it is that":                        {ptr.To[int32](3600), 3600},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&MyCronJobSpec{IntervalSeconds: test.seconds}).Interval(); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
