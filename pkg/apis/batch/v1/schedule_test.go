// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/glassback/glassback/pkg/must"
)

// zones change their clocks in all the ways there are: at 2 o'clock, at midnight
// forward and back, by half an hour, over Fridays, and by a whole day.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Asia/Beirut", "America/Havana", "America/Santiago",
	"America/Asuncion", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza", "Asia/Kolkata", "America/Nuuk", "Pacific/Apia",
	"Africa/Monrovia"}

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	must.Succeed(t, err)
	return zone
}

func at(t testing.TB, value string, zone *time.Location) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, value)
	must.Succeed(t, err)
	return parsed.In(zone)
}

func TestParseScheduleSaysWhatToWriteInstead(t *testing.T) {
	for expression, want := range map[string]string{
		"* * * *":                    "must be a cron expression of five fields",
		"@every 5s":                  "set intervalSeconds instead",
		"TZ=Europe/Berlin 0 6 * * *": "set timeZone instead",
		"30-10 * * * *":              "beginning of range (30) beyond end of range (10)",
		strings.Repeat("0", 121):     "must have no more than 120 characters",
	} {
		if _, err := ParseSchedule(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", expression, err, want)
		}
	}
}

func TestNext(t *testing.T) {
	for name, test := range map[string]struct {
		expression, zone, from string
		want                   []string
	}{
		"it comes at the next matching second": {"*/20 * * * * *", "UTC", "2026-01-01T00:00:00.5Z",
			[]string{"2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01:00Z"}},
		"it comes at the zone's time of day": {"30 6 * * mon-fri", "Europe/Berlin", "2026-03-27T06:00:00+01:00",
			[]string{"2026-03-27T06:30:00+01:00", "2026-03-30T06:30:00+02:00"}},
		"the last second of a year":              {"59 59 23 31 12 *", "UTC", "2026-12-31T23:59:59Z", []string{"2027-12-31T23:59:59Z"}},
		"29 February stays away for eight years": {"0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		"30 February never comes":                {"0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", []string{""}},
		"of two restricted days one is enough": {
			"0 0 13 * fri", "UTC", "2026-02-01T00:00:00Z", []string{"2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"},
		},
		"a time that clocks skip has no slot": {
			"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00", []string{"2026-03-30T02:30:00+02:00"},
		},
		"a time that clocks show twice has two": {
			"30 2 25 10 *", "Europe/Berlin", "2026-10-25T00:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2027-10-25T02:30:00+02:00"},
		},
		"a summer after a leap year comes whole": {
			"* * * 7 0", "Africa/Cairo", "2056-12-30T00:00:00+02:00", []string{"2057-07-01T00:00:00+03:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			schedule, err := ParseSchedule(test.expression)
			must.Succeed(t, err)
			zone := location(t, test.zone)
			next := at(t, test.from, zone)
			for _, want := range test.want {
				next = schedule.Next(next)
				if want == "" {
					if !next.IsZero() {
						t.Errorf("got %v, want none", next)
					}
				} else if !next.Equal(at(t, want, zone)) || next.Location() != zone {
					t.Fatalf("got %v, want %v", next, at(t, want, zone))
				}
			}
		})
	}
}

// wantSlots fails the test unless Next finds just those minutes after from, within
// so many hours, at which a clock in from's location shows what the schedule says.
func wantSlots(t *testing.T, expression string, from time.Time, hours int) {
	t.Helper()
	schedule, err := ParseSchedule(expression)
	must.Succeed(t, err)
	var got, want []time.Time
	until := from.Add(time.Duration(hours) * time.Hour)
	for next := schedule.Next(from); !next.IsZero() && !next.After(until); next = schedule.Next(next) {
		if len(got) > 0 && !next.After(got[len(got)-1]) {
			t.Fatalf("%s: %v comes after %v", expression, next, got[len(got)-1])
		}
		got = append(got, next)
	}
	for minute := from.Truncate(time.Minute).Add(time.Minute); !minute.After(until); minute = minute.Add(time.Minute) {
		if shows(schedule, minute) {
			want = append(want, minute)
		}
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Fatalf("%s from %v: got %v, want %v", expression, from, got, want)
	}
}

// shows returns whether a clock that shows now matches the schedule.
func shows(schedule cron.Schedule, now time.Time) bool {
	s := schedule.(wallClock)
	has := func(bits uint64, value int) bool { return bits>>value&1 == 1 }
	day, weekday := has(s.Dom, now.Day()), has(s.Dow, int(now.Weekday()))
	if any := has(s.Dom, 63) || has(s.Dow, 63); any && !(day && weekday) || !any && !day && !weekday {
		return false
	}
	return has(s.Second, now.Second()) && has(s.Minute, now.Minute()) && has(s.Hour, now.Hour()) && has(s.Month, int(now.Month()))
}

func TestNextFindsEverySlotWhereClocksChange(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	field := func(low, high int) string {
		switch random.IntN(4) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+random.IntN(high))
		default:
			from := low + random.IntN(high-low+1)
			return fmt.Sprintf("%d-%d", from, from+random.IntN(high-from+1))
		}
	}
	for _, name := range zones {
		zone := location(t, name)
		change := time.Date(2009, 1, 1, 0, 0, 0, 0, zone)
		for range 24 {
			if _, end := change.ZoneBounds(); end.IsZero() || end.Year() > 2040 {
				break
			} else {
				change = end
			}
			// Days that are near, so that there are slots.
			near := change.AddDate(0, 0, random.IntN(3)-1)
			expression := strings.Join([]string{field(0, 59), field(0, 23), field(1, 31), "*", field(0, 6)}, " ")
			if random.IntN(2) == 0 {
				expression = fmt.Sprintf("%d %d %d %d *", random.IntN(60), random.IntN(24), near.Day(), near.Month())
			}
			wantSlots(t, expression, change.Add(-30*time.Hour-time.Duration(random.IntN(3600))*time.Second).In(zone), 60)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	for i, seed := range []string{
		"*/5 * * * *", "0 30 6 * * mon-fri", "0,15,30-45/5 8-18/2 1-7,31 */2 0-6", "59 59 23 31 12 6", "0 0 29 2 *", "0 0 30 2 *", "0 0 31 4,6 ?",
		"@hourly", "@weekly", "@every 5s", "TZ=UTC * * * * *", "TZ=", "CRON_TZ=Europe/Berlin", "*/99999999999999999999 * * * *", "1-2-3 * * * *",
		"* * * * * * *", "", " ", "\x00", "9-5 * * * *", "45 1 * * *", "0 12 24 4 *", strings.Repeat("0,", 56) + "0 * * * *",
	} {
		f.Add(seed, uint32(1776900000+i*86400*11), uint8(i))
	}
	locations := make([]*time.Location, 0, len(zones))
	for _, name := range zones {
		locations = append(locations, location(f, name))
	}
	f.Fuzz(func(t *testing.T, expression string, second uint32, zone uint8) {
		schedule, err := ParseSchedule(expression)
		if err != nil {
			if err.Error() == "" {
				t.Error("the error says nothing")
			}
			return
		}
		now := time.Unix(int64(second), 0).In(locations[int(zone)%len(locations)])
		for range 10 {
			next := schedule.Next(now)
			if next.IsZero() {
				break
			}
			if !next.After(now) || next.Location() != now.Location() || !shows(schedule, next) {
				t.Fatalf("%q: after %v comes %v", expression, now, next)
			}
			for s := now.Add(time.Second); s.Before(next) && s.Before(now.Add(10*time.Minute)); s = s.Add(time.Second) {
				if shows(schedule, s) {
					t.Fatalf("%q: after %v comes %v, and %v is left out", expression, now, next, s)
				}
			}
			for s := next.Add(-10 * time.Minute); s.Before(next); s = s.Add(time.Second) {
				if s.After(now) && shows(schedule, s) {
					t.Fatalf("%q: after %v comes %v, and %v is left out", expression, now, next, s)
				}
			}
			now = next
		}
	})
}
