// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

const (
	maxScheduleLength = 120
	maxSeconds        = 365 * 24 * 60 * 60
)

// Validate returns the errors of m without which it has a timetable, or nil: the time between two slots, the time zone that this binary
// knows, and a schedule that has a slot. Only the schema has the other rules. The argument is the object that m replaces: it is not used,
// because no field of a MyCronJob is immutable.
func (m *MyCronJob) Validate(_ *MyCronJob) field.ErrorList {
	s, path := &m.Spec, field.NewPath("spec")
	if s.Schedule == nil {
		return glassback.ValidateRange(path.Child("intervalSeconds"), s.IntervalSeconds, 1, maxSeconds)
	}
	var errs field.ErrorList
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
