// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"time"
	// The names of time zones, so that spec.timeZone does not depend on the machine.
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

// Location returns the time zone of the schedule: UTC if timeZone is not set. It returns
// an error for a name that is not in the IANA database.
func (s *MyCronJobSpec) Location() (*time.Location, error) {
	if s.TimeZone == nil {
		return time.UTC, nil
	}
	name := *s.TimeZone
	if timeZoneRegexp.MatchString(name) && !slices.Contains(machineZones, strings.ToLower(name)) {
		if location, err := time.LoadLocation(name); err == nil {
			return location, nil
		}
	}
	return nil, errors.New("must be the name of an IANA time zone, like \"Europe/Berlin\"")
}

var timeZoneRegexp = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+/-]{0,63}$`)

// machineZones are the names, in lower case, for which time.LoadLocation may return the
// zone of the machine.
var machineZones = []string{"local", "localtime"}

// schedulePattern is the pattern in the schema's rule of spec.schedule. It matches what
// the parser accepts, except TZ=, @every, steps of more than two digits, and white space
// around the expression.
var schedulePattern = func() string {
	list := func(value string) string {
		item := `([*?]|` + value + `(-` + value + `)?)(/[1-9][0-9]?)?`
		return item + `(,` + item + `)*`
	}
	minute := list(`[0-5]?[0-9]`)
	hour := list(`([01]?[0-9]|2[0-3])`)
	day := list(`(0?[1-9]|[12][0-9]|3[01])`)
	month := list(`(0?[1-9]|1[0-2]|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))`)
	weekday := list(`([0-6]|(?i:sun|mon|tue|wed|thu|fri|sat))`)
	return `^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|` +
		`(` + minute + ` +)?` + strings.Join([]string{minute, hour, day, month, weekday}, ` +`) + `)$`
}()

var (
	scheduleRegexp = regexp.MustCompile(schedulePattern)
	scheduleParser = cron.NewParser(
		cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
)

// ParseSchedule parses a cron expression of five or six fields, or a word like
// @daily. Its errors say what to write instead.
//
// The slots are the seconds at which the wall clock matches the expression, in the
// location of the argument of Next. A local time that is skipped has no slot, and a
// local time that occurs twice has two.
func ParseSchedule(expression string) (cron.Schedule, error) {
	switch {
	case len(expression) > maxScheduleLength:
		return nil, fmt.Errorf("must have no more than %d characters", maxScheduleLength)
	case strings.HasPrefix(expression, "@every"):
		// Its slots would depend on the last start of the operator.
		return nil, errors.New("@every is not supported: set intervalSeconds instead")
	case strings.Contains(expression, "TZ="):
		return nil, errors.New("set timeZone instead of TZ= or CRON_TZ=")
	case !scheduleRegexp.MatchString(expression):
		return nil, errors.New("must be a cron expression of five fields (minute 0-59, hour 0-23, day of month 1-31, " +
			"month 1-12 or jan-dec, day of week 0-6 or sun-sat) or six (second 0-59 first), like \"*/10 * * * *\"")
	}
	parsed, err := scheduleParser.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("must be a cron expression: %w", err)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("must be a cron expression: parsed as %T", parsed)
	}
	return wallClock{fields}, nil
}

// wallClock is a schedule with its own Next. Next of the parser's package is wrong where
// clocks do not change from 2 to 3 o'clock. For example, on the day on which Cairo skips
// midnight, it never returns noon; a slot of the day before is on that day instead.
type wallClock struct{ *cron.SpecSchedule }

// Next returns the first second after t that the schedule matches, or the zero time if
// there is none within nine years: there may be eight years between two 29 February.
func (s wallClock) Next(t time.Time) time.Time {
	next := t.Truncate(time.Second).Add(time.Second)
	for limit := t.AddDate(9, 0, 0); next.Before(limit); {
		// The local time, as a time in UTC: there, every day has 24 hours.
		_, offset := next.Zone()
		clock := next.UTC().Add(time.Duration(offset) * time.Second)
		year, month, day := clock.Date()
		hour, minute, second := clock.Clock()
		switch {
		case s.Month&(1<<month) == 0:
			month, day, hour, minute, second = time.Month(after(int(month), s.Month, 13)), 1, 0, 0, 0
		case !s.matchesDay(clock):
			day, hour, minute, second = day+1, 0, 0, 0
		case s.Hour&(1<<hour) == 0:
			hour, minute, second = after(hour, s.Hour, 24), 0, 0
		case s.Minute&(1<<minute) == 0:
			minute, second = after(minute, s.Minute, 60), 0
		case s.Second&(1<<second) == 0:
			second = after(second, s.Second, 60)
		default:
			return next
		}
		jump := time.Date(year, month, day, hour, minute, second, 0, time.UTC).Sub(clock)
		next = next.Add(min(jump, untilSet(next)))
	}
	return time.Time{}
}

// untilSet returns how long the offset of t's location stays unchanged, or a shorter time.
func untilSet(t time.Time) time.Duration {
	_, set := t.ZoneBounds()
	switch {
	case set.IsZero():
		return math.MaxInt64
	case !set.After(t):
		// Go 1.26 assumes 365 days in every year: on the last day of a leap year, the
		// bound is in the past.
		return time.Hour
	default:
		return set.Sub(t)
	}
}

// after returns the smallest number above value in the set, or end.
func after(value int, set uint64, end int) int {
	if above := (set &^ star) >> (value + 1); above != 0 {
		return value + 1 + bits.TrailingZeros64(above)
	}
	return end
}

// star is the bit that the parser sets for * and ?.
const star = 1 << 63

// matchesDay follows cron: if both days are restricted, one of them is enough.
func (s wallClock) matchesDay(clock time.Time) bool {
	inMonth := s.Dom&(1<<clock.Day()) != 0
	inWeek := s.Dow&(1<<clock.Weekday()) != 0
	if s.Dom&star != 0 || s.Dow&star != 0 {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}
