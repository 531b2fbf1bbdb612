// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// maxNameLength leaves room for "-" and the ten digits of a Unix second in the
// 63 characters of a Job's name.
const maxNameLength = 63 - 1 - 10

const (
	maxScheduleLength = 120
	maxSeconds        = 365 * 24 * 60 * 60
)

// Validate returns the errors of m, or nil. The argument is the object that m replaces:
// it is not used, because no field of a MyCronJob is immutable.
//
// It has the same rules as the schema, and one more: a schedule must have a slot.
func (m *MyCronJob) Validate(_ *MyCronJob) field.ErrorList {
	var errs field.ErrorList
	if len(m.Name) > maxNameLength {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), m.Name, fmt.Sprintf(
			"must have no more than %d characters: its Jobs are named <name>-<unix second>, which must fit into 63", maxNameLength)))
	}
	return append(errs, m.Spec.validate(field.NewPath("spec"))...)
}

func (s *MyCronJobSpec) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateTemplate(path.Child("jobTemplate"), &s.JobTemplate)...)
	errs = append(errs, s.validateTimes(path)...)
	errs = append(errs, s.validatePolicies(path)...)
	inRange := func(name string, value *int32, low, high int32) {
		if value != nil && (*value < low || *value > high) {
			errs = append(errs, field.Invalid(path.Child(name), *value, fmt.Sprintf("must be from %d to %d", low, high)))
		}
	}
	inRange("intervalSeconds", s.IntervalSeconds, 1, maxSeconds)
	inRange("maxActive", s.MaxActive, 1, 10000)
	inRange("successfulJobsHistoryLimit", s.SuccessfulJobsHistoryLimit, 0, 10000)
	inRange("failedJobsHistoryLimit", s.FailedJobsHistoryLimit, 0, 10000)
	inRange("jitterSeconds", s.JitterSeconds, 0, 24*60*60)
	if d := s.StartingDeadlineSeconds; d != nil && (*d < 1 || *d > maxSeconds) {
		errs = append(errs, field.Invalid(path.Child("startingDeadlineSeconds"), *d, fmt.Sprintf("must be from 1 to %d", maxSeconds)))
	}
	return errs
}

// validateTemplate returns the errors for which the API server would reject every Job.
// The API server reports other errors when the operator creates the first Job.
func validateTemplate(path *field.Path, template *batchv1.JobTemplateSpec) field.ErrorList {
	if reflect.ValueOf(template).Elem().IsZero() {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	pod, podPath := &template.Spec.Template.Spec, path.Child("spec", "template", "spec")
	if len(pod.Containers) == 0 {
		errs = append(errs, field.Required(podPath.Child("containers"), "a Job needs at least one container"))
	}
	restart := []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	if !slices.Contains(restart, pod.RestartPolicy) {
		errs = append(errs, field.NotSupported(podPath.Child("restartPolicy"), pod.RestartPolicy, restart))
	}
	return errs
}

func (s *MyCronJobSpec) validateTimes(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Schedule == nil {
		if s.TimeZone != nil {
			errs = append(errs, field.Invalid(path.Child("timeZone"), *s.TimeZone,
				"goes with schedule: slots of intervalSeconds do not depend on it"))
		}
		if s.JitterSeconds != nil && *s.JitterSeconds >= s.Interval() {
			errs = append(errs, field.Invalid(path.Child("jitterSeconds"), *s.JitterSeconds,
				fmt.Sprintf("must be less than the interval between two Jobs, %d", s.Interval())))
		}
		return errs
	}
	if s.IntervalSeconds != nil {
		errs = append(errs, field.Invalid(path.Child("schedule"), *s.Schedule,
			"intervalSeconds and schedule exclude each other: set one of them, or neither for a Job every 5 seconds"))
	}
	location, err := s.Location()
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("timeZone"), *s.TimeZone, err.Error()))
		location = time.UTC
	}
	schedule, err := ParseSchedule(*s.Schedule)
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("schedule"), *s.Schedule, err.Error()))
	} else if !ptr.Deref(s.Suspend, false) && schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, location)).IsZero() {
		errs = append(errs, field.Invalid(path.Child("schedule"), *s.Schedule, "never comes: none of its months has such a day; "+
			"for Jobs that only the annotation "+AnnotationRunNow+" creates, set suspend to true"))
	}
	return errs
}

func (s *MyCronJobSpec) validatePolicies(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	concurrency := []ConcurrencyPolicy{AllowConcurrent, ForbidConcurrent, ReplaceConcurrent}
	if !slices.Contains(concurrency, s.ConcurrencyPolicy) {
		errs = append(errs, field.NotSupported(path.Child("concurrencyPolicy"), s.ConcurrencyPolicy, concurrency))
	}
	missed := []MissedRunPolicy{LatestMissed, SkipMissed, AllMissed}
	if !slices.Contains(missed, s.MissedRunPolicy) {
		errs = append(errs, field.NotSupported(path.Child("missedRunPolicy"), s.MissedRunPolicy, missed))
	}
	if s.MaxActive != nil && s.ConcurrencyPolicy != AllowConcurrent {
		errs = append(errs, field.Invalid(path.Child("maxActive"), *s.MaxActive,
			"goes with concurrencyPolicy Allow: under Forbid and Replace, one Job runs at a time"))
	}
	if s.ConcurrencyPolicy == ReplaceConcurrent && s.MissedRunPolicy == AllMissed {
		errs = append(errs, field.Invalid(path.Child("missedRunPolicy"), s.MissedRunPolicy,
			"does not go with concurrencyPolicy Replace: every Job that is caught up would replace the one before it"))
	}
	return errs
}
