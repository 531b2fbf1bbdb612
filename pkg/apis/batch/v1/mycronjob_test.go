// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	for name, test := range map[string]struct {
		spec, want MyCronJobSpec
		interval   int32
	}{
		"an empty spec gets what the schema defaults, and the seed's interval": {MyCronJobSpec{}, defaults, 5},
		"what is set stays, zero too":                                          {set, set, 7},
		"a schedule gets no interval and no time zone":                         {MyCronJobSpec{Schedule: ptr.To("@daily")}, withSchedule, 5},
	} {
		t.Run(name, func(t *testing.T) {
			m := &MyCronJob{Spec: *test.spec.DeepCopy()}
			m.Default()
			if !reflect.DeepEqual(m.Spec, test.want) || m.Spec.Interval() != test.interval {
				t.Errorf("got %+v, and an interval of %d, want %+v and %d", m.Spec, m.Spec.Interval(), test.want, test.interval)
			}
		})
	}
}

func TestLocation(t *testing.T) {
	for name, test := range map[string]struct {
		zone *string
		want string // "" for an error
	}{
		"not set, it is UTC":                       {nil, "UTC"},
		"a name of the IANA database is one":       {ptr.To("Europe/Berlin"), "Europe/Berlin"},
		"the machine's own is none, however cased": {ptr.To("lOCAL"), ""},
		"the machine's own file is none":           {ptr.To("localtime"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			location, err := (&MyCronJobSpec{TimeZone: test.zone}).Location()
			switch {
			case test.want == "" && err == nil:
				t.Errorf("got %s, want an error", location)
			case test.want != "" && (err != nil || location.String() != test.want):
				t.Errorf("got %v, %v, want %s", location, err, test.want)
			}
		})
	}
}

// TestValidate has the rules without which there is no timetable.
func TestValidate(t *testing.T) {
	spec := func(schedule, zone string) MyCronJobSpec { return MyCronJobSpec{Schedule: &schedule, TimeZone: &zone} }
	suspended := spec("0 0 30 2 *", "UTC")
	suspended.Suspend = ptr.To(true)
	for name, test := range map[string]struct {
		spec MyCronJobSpec
		want string // the beginning of the error; "" for none
	}{
		"neither an interval nor a schedule": {MyCronJobSpec{}, ""},
		"an interval of nothing": {MyCronJobSpec{IntervalSeconds: ptr.To[int32](0)},
			"spec.intervalSeconds: Invalid value: 0: must be from 1 to 31536000"},
		"a schedule":              {spec("0 6 29 2 *", "Europe/Berlin"), ""},
		"a schedule that is none": {spec("* * *", "UTC"), `spec.schedule: Invalid value: "* * *": must be a cron expression of five fields `},
		"a time zone that is none": {
			spec("0 6 * * *", "Europe/Berlni"), `spec.timeZone: Invalid value: "Europe/Berlni": must be the name of an IANA `,
		},
		"a schedule without a slot": {spec("0 0 30 2 *", "UTC"), `spec.schedule: Invalid value: "0 0 30 2 *": never comes: `},
		"... for Jobs on request":   {suspended, ""},
	} {
		t.Run(name, func(t *testing.T) {
			errs := (&MyCronJob{Spec: test.spec}).Validate(nil)
			if test.want == "" && len(errs) == 0 {
				return
			}
			if len(errs) != 1 || test.want == "" || !strings.HasPrefix(errs[0].Error(), test.want) {
				t.Errorf("got %v, want %s", errs, test.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	const all = "spec.missedRunPolicy: All without startingDeadlineSeconds runs up to 100 slots after an outage, however old"
	for name, test := range map[string]struct {
		mutate func(s *MyCronJobSpec)
		want   []string
	}{
		"Jobs every second, without a history, get none": {func(s *MyCronJobSpec) {
			s.IntervalSeconds = ptr.To[int32](1)
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](0)
		}, nil},
		"the missed slots of a long outage, however old": {func(s *MyCronJobSpec) { s.MissedRunPolicy = AllMissed }, []string{all}},
		"the missed slots of the last hour get none": {func(s *MyCronJobSpec) {
			s.MissedRunPolicy, s.StartingDeadlineSeconds = AllMissed, ptr.To[int64](3600)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &MyCronJob{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}
			m.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
				Containers:    []corev1.Container{{Name: "hello", Image: "busybox"}},
				RestartPolicy: corev1.RestartPolicyNever,
			}
			test.mutate(&m.Spec)
			m.Default()
			if errs := m.Validate(nil); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if got := m.Warnings(); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
