/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	// The names in spec.timeZone are looked up here, whatever the machine has.
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxNameLength leaves room for "-" and the ten digits of a Unix second in the
// 63 characters of a Job's name.
const maxNameLength = 63 - 1 - 10

const maxSeconds = 365 * 24 * 60 * 60

// Validate returns what is wrong with m, or nil. old is the object that m
// replaces, nil when m is new; no field of a MyCronJob is immutable.
//
// It states the same rules as the schema, and a few that a schema cannot: a
// schedule that the parser refuses all the same, and one that never comes.
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
	restart := s.JobTemplate.Spec.Template.Spec.RestartPolicy
	if restart != corev1.RestartPolicyOnFailure && restart != corev1.RestartPolicyNever {
		errs = append(errs, field.NotSupported(path.Child("jobTemplate", "spec", "template", "spec", "restartPolicy"),
			restart, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	}
	errs = append(errs, s.validateTimes(path)...)
	errs = append(errs, s.validatePolicies(path)...)
	inRange := func(name string, value *int32, low, high int32) {
		if value != nil && (*value < low || *value > high) {
			errs = append(errs, field.Invalid(path.Child(name), *value, fmt.Sprintf("must be from %d to %d", low, high)))
		}
	}
	inRange("intervalSeconds", s.IntervalSeconds, 1, maxSeconds)
	inRange("successfulJobsHistoryLimit", s.SuccessfulJobsHistoryLimit, 0, 10000)
	inRange("failedJobsHistoryLimit", s.FailedJobsHistoryLimit, 0, 10000)
	inRange("jitterSeconds", s.JitterSeconds, 0, 24*60*60)
	if d := s.StartingDeadlineSeconds; d != nil && (*d < 1 || *d > maxSeconds) {
		errs = append(errs, field.Invalid(path.Child("startingDeadlineSeconds"), *d, fmt.Sprintf("must be from 1 to %d", maxSeconds)))
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
	} else if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, location)).IsZero() {
		// The parser looks five years ahead: 29 February is found, 30 February is not.
		errs = append(errs, field.Invalid(path.Child("schedule"), *s.Schedule, "never comes"))
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
	if s.ConcurrencyPolicy == ReplaceConcurrent && s.MissedRunPolicy == AllMissed {
		errs = append(errs, field.Invalid(path.Child("missedRunPolicy"), s.MissedRunPolicy,
			"does not go with concurrencyPolicy Replace: every Job that is caught up would replace the one before it"))
	}
	return errs
}

// Location returns the time zone in which the schedule is read, UTC if none is
// set. It fails for a name that is not in the IANA database.
func (s *MyCronJobSpec) Location() (*time.Location, error) {
	if s.TimeZone == nil {
		return time.UTC, nil
	}
	name := *s.TimeZone
	// time.LoadLocation would take these for the machine's own zone.
	if name != "" && !strings.EqualFold(name, "local") {
		if location, err := time.LoadLocation(name); err == nil {
			return location, nil
		}
	}
	return nil, fmt.Errorf("must be the name of an IANA time zone, like %q", "Europe/Berlin")
}

// schedulePattern is the rule on spec.schedule in the schema, letter by letter.
var schedulePattern = regexp.MustCompile(`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|(([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?)* +)?([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?)* +([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?(,([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?)* +([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?(,([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?)* +([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]*)?(,([*?]|(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))(-(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))?)(/[1-9][0-9]*)?)* +([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]*)?(,([*?]|([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))(-([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat)))?)(/[1-9][0-9]*)?)*)$`)

var scheduleParser = cron.NewParser(
	cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// ParseSchedule parses a cron expression of five or six fields, or a word like
// @daily. Its errors say what to write instead.
func ParseSchedule(expression string) (cron.Schedule, error) {
	switch {
	case strings.HasPrefix(expression, "@every"):
		// Its slots would count from whenever the operator last started.
		return nil, fmt.Errorf("@every is not supported: set intervalSeconds instead")
	case strings.Contains(expression, "TZ="):
		return nil, fmt.Errorf("set timeZone instead of TZ= or CRON_TZ=")
	case !schedulePattern.MatchString(expression):
		return nil, fmt.Errorf("must be a cron expression of five fields " +
			"(minute hour day-of-month month day-of-week) or six (second first), like \"*/10 * * * *\"")
	}
	schedule, err := scheduleParser.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression: %w", err)
	}
	return schedule, nil
}
