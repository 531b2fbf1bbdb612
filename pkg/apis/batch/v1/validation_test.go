// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/must"
)

// valid returns a MyCronJob that is valid, after mutate has been at it.
func valid(mutate func(m *MyCronJob)) *MyCronJob {
	m := &MyCronJob{ObjectMeta: metav1.ObjectMeta{Name: "sample"}}
	m.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
		Containers:    []corev1.Container{{Name: "hello", Image: "busybox"}},
		RestartPolicy: corev1.RestartPolicyNever,
	}
	m.Default()
	mutate(m)
	return m
}

func TestValidate(t *testing.T) {
	spec := func(mutate func(s *MyCronJobSpec)) *MyCronJob {
		return valid(func(m *MyCronJob) { mutate(&m.Spec) })
	}
	for name, test := range map[string]struct {
		object *MyCronJob
		want   string // in the error; "" for none
	}{
		"the defaults are valid": {valid(func(*MyCronJob) {}), ""},
		"every field at its upper bound is valid": {spec(func(s *MyCronJobSpec) {
			s.IntervalSeconds, s.StartingDeadlineSeconds, s.JitterSeconds = ptr.To[int32](31536000), ptr.To[int64](31536000), ptr.To[int32](86400)
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To[int32](10000), ptr.To[int32](10000)
		}), ""},
		"every field at its lower bound is valid": {spec(func(s *MyCronJobSpec) {
			s.IntervalSeconds, s.StartingDeadlineSeconds, s.JitterSeconds = ptr.To[int32](1), ptr.To[int64](1), ptr.To[int32](0)
			s.SuccessfulJobsHistoryLimit, s.FailedJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](0)
		}), ""},
		"a schedule in a time zone is valid, with any jitter": {spec(func(s *MyCronJobSpec) {
			s.Schedule, s.TimeZone, s.JitterSeconds = ptr.To("0 30 6 * * mon-fri"), ptr.To("Europe/Berlin"), ptr.To[int32](86400)
		}), ""},
		"29 February comes": {spec(func(s *MyCronJobSpec) { s.Schedule = ptr.To("0 0 29 2 *") }), ""},
		"30 February does not": {spec(func(s *MyCronJobSpec) { s.Schedule = ptr.To("0 0 30 2 *") }),
			`spec.schedule: Invalid value: "0 0 30 2 *": never comes`},

		"a name of 52 characters leaves room for its Jobs": {valid(func(m *MyCronJob) { m.Name = strings.Repeat("x", 52) }), ""},
		"a name of 53 characters does not": {valid(func(m *MyCronJob) { m.Name = strings.Repeat("x", 53) }),
			"metadata.name: Invalid value: \"" + strings.Repeat("x", 53) + "\": must have no more than 52 characters"},

		"an interval of nothing": {spec(func(s *MyCronJobSpec) { s.IntervalSeconds = ptr.To[int32](0) }),
			"spec.intervalSeconds: Invalid value: 0: must be from 1 to 31536000"},
		"an interval that goes back": {spec(func(s *MyCronJobSpec) { s.IntervalSeconds = ptr.To[int32](-5) }),
			"spec.intervalSeconds: Invalid value: -5: must be from 1 to 31536000"},
		"an interval of more than a year": {spec(func(s *MyCronJobSpec) { s.IntervalSeconds = ptr.To[int32](31536001) }),
			"spec.intervalSeconds: Invalid value: 31536001: must be"},
		"both an interval and a schedule": {spec(func(s *MyCronJobSpec) {
			s.IntervalSeconds, s.Schedule = ptr.To[int32](5), ptr.To("@daily")
		}), `spec.schedule: Invalid value: "@daily": intervalSeconds and schedule exclude each other`},
		"a schedule that is none": {spec(func(s *MyCronJobSpec) { s.Schedule = ptr.To("now") }),
			`spec.schedule: Invalid value: "now": must be a cron expression`},
		"a time zone that is none": {spec(func(s *MyCronJobSpec) { s.Schedule, s.TimeZone = ptr.To("@daily"), ptr.To("Europe/Bern") }),
			`spec.timeZone: Invalid value: "Europe/Bern": must be the name of an IANA time zone`},
		"a time zone without a schedule": {spec(func(s *MyCronJobSpec) { s.TimeZone = ptr.To("UTC") }),
			`spec.timeZone: Invalid value: "UTC": goes with schedule`},
		"jitter as long as the interval": {spec(func(s *MyCronJobSpec) {
			s.IntervalSeconds, s.JitterSeconds = ptr.To[int32](60), ptr.To[int32](60)
		}), "spec.jitterSeconds: Invalid value: 60: must be less than the interval between two Jobs, 60"},
		"jitter as long as the default interval": {spec(func(s *MyCronJobSpec) { s.JitterSeconds = ptr.To[int32](5) }),
			"spec.jitterSeconds: Invalid value: 5: must be less than the interval between two Jobs, 5"},
		"negative jitter": {spec(func(s *MyCronJobSpec) { s.JitterSeconds = ptr.To[int32](-1) }),
			"spec.jitterSeconds: Invalid value: -1: must be from 0 to 86400"},
		"a deadline of nothing": {spec(func(s *MyCronJobSpec) { s.StartingDeadlineSeconds = ptr.To[int64](0) }),
			"spec.startingDeadlineSeconds: Invalid value: 0: must be from 1 to 31536000"},
		"a negative history of successes": {spec(func(s *MyCronJobSpec) { s.SuccessfulJobsHistoryLimit = ptr.To[int32](-1) }),
			"spec.successfulJobsHistoryLimit: Invalid value: -1: must be from 0 to 10000"},
		"a negative history of failures": {spec(func(s *MyCronJobSpec) { s.FailedJobsHistoryLimit = ptr.To[int32](-1) }),
			"spec.failedJobsHistoryLimit: Invalid value: -1: must be from 0 to 10000"},
		"an unknown concurrencyPolicy": {spec(func(s *MyCronJobSpec) { s.ConcurrencyPolicy = "Queue" }),
			`spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"`},
		"an unknown missedRunPolicy": {spec(func(s *MyCronJobSpec) { s.MissedRunPolicy = "Some" }),
			`spec.missedRunPolicy: Unsupported value: "Some": supported values: "Latest", "Skip", "All"`},
		"catching up with Jobs that replace each other": {spec(func(s *MyCronJobSpec) {
			s.ConcurrencyPolicy, s.MissedRunPolicy = ReplaceConcurrent, AllMissed
		}), `spec.missedRunPolicy: Invalid value: "All": does not go with concurrencyPolicy Replace`},

		"no template": {spec(func(s *MyCronJobSpec) { s.JobTemplate = batchv1.JobTemplateSpec{} }),
			"spec.jobTemplate: Required value"},
		"a template without containers": {spec(func(s *MyCronJobSpec) { s.JobTemplate.Spec.Template.Spec.Containers = nil }),
			"spec.jobTemplate.spec.template.spec.containers: Required value: a Job needs at least one container"},
		"a template that always restarts": {
			spec(func(s *MyCronJobSpec) { s.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways }),
			`spec.jobTemplate.spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: "OnFailure", "Never"`,
		},
		"a template that does not say when to restart": {spec(func(s *MyCronJobSpec) { s.JobTemplate.Spec.Template.Spec.RestartPolicy = "" }),
			`spec.jobTemplate.spec.template.spec.restartPolicy: Unsupported value: "": supported values: "OnFailure", "Never"`},
	} {
		t.Run(name, func(t *testing.T) {
			errs := test.object.Validate(nil)
			switch {
			case test.want == "" && len(errs) > 0:
				t.Errorf("got %v, want none", errs.ToAggregate())
			case test.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), test.want)):
				t.Errorf("got %v, want %s", errs.ToAggregate(), test.want)
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
		"UTC is one":                               {ptr.To("UTC"), "UTC"},
		"a name of the IANA database is one":       {ptr.To("Europe/Berlin"), "Europe/Berlin"},
		"an empty name is none":                    {ptr.To(""), ""},
		"the machine's own is none":                {ptr.To("Local"), ""},
		"the machine's own is none, however cased": {ptr.To("lOCAL"), ""},
		"the machine's own file is none":           {ptr.To("localtime"), ""},
		"an unknown name is none":                  {ptr.To("Europe/Bern"), ""},
		"an abbreviation is none":                  {ptr.To("CEST"), ""},
		"an offset is none":                        {ptr.To("+02:00"), ""},
		"a path is none":                           {ptr.To("../zoneinfo/UTC"), ""},
		"a directory is none":                      {ptr.To("Europe"), ""},
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

// FuzzValidate reads objects as clients send them.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"sample"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"a"}],` +
			`"restartPolicy":"Never"}}}}}}`,
		`{"spec":{"schedule":"0 30 6 * * mon-fri","timeZone":"Europe/Berlin","suspend":true,"jitterSeconds":3}}`,
		`{"spec":{"schedule":"0 0 30 2 *","timeZone":"Local","intervalSeconds":0}}`,
		`{"spec":{"intervalSeconds":-2147483648,"jitterSeconds":2147483647,"startingDeadlineSeconds":-9223372036854775808}}`,
		`{"spec":{"concurrencyPolicy":"Replace","missedRunPolicy":"All","successfulJobsHistoryLimit":-1,"failedJobsHistoryLimit":10001}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &MyCronJob{}
		if json.Unmarshal(data, m) != nil {
			return
		}
		m.Default()
		again := m.DeepCopy()
		again.Default()
		errs := again.Validate(nil)
		if !reflect.DeepEqual(m, again) {
			t.Errorf("Default or Validate changed an object with defaults: %+v became %+v", m, again)
		}
		for _, err := range errs {
			if err.Field == "" {
				t.Errorf("names no field: %v", err)
			}
		}
		if len(errs) > 0 {
			return
		}
		// What is valid can be worked with.
		for _, warning := range m.Warnings() {
			if !strings.HasPrefix(warning, "spec.") {
				t.Errorf("names no field: %s", warning)
			}
		}
		location, err := m.Spec.Location()
		must.Succeed(t, err)
		if m.Spec.Schedule == nil {
			if interval := m.Spec.Interval(); interval < 1 || ptr.Deref(m.Spec.JitterSeconds, 0) >= interval {
				t.Errorf("valid with an interval of %d and %v of jitter", interval, m.Spec.JitterSeconds)
			}
			return
		}
		schedule, err := ParseSchedule(*m.Spec.Schedule)
		must.Succeed(t, err)
		for now := time.Date(2027, 6, 1, 0, 0, 0, 0, location); now.Year() < 2200; now = now.AddDate(17, 5, 11) {
			if schedule.Next(now).IsZero() {
				t.Errorf("%s never comes after %v", *m.Spec.Schedule, now)
			}
		}
	})
}
