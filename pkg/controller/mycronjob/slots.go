// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package mycronjob

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// slot is a Unix second at which a Job is due; 0 is no slot.
type slot int64

func (s slot) time() time.Time       { return time.Unix(int64(s), 0) }
func (s slot) metaTime() metav1.Time { return metav1.NewTime(s.time()) }

// slotAt returns the latest second that is not after t.
func slotAt(t time.Time) slot { return slot(t.Unix()) }

// maxDue limits how many due slots one sync handles. If more are due, the sync counts the first maxDue as missed, and the
// next sync continues after them.
const maxDue = 100_000

// timetable computes the slots of one MyCronJob.
type timetable struct {
	// words is the schedule as in status.schedule: "every 5s", or a cron expression and its time zone. From words,
	// newTimetable computes the slots of a schedule that an edit has replaced.
	words string
	// interval is the number of seconds from one slot to the next; 0 if schedule and location are set instead.
	interval slot
	schedule cron.Schedule
	location *time.Location
	// offset is the time from a slot to the start of this object's Job.
	offset time.Duration
}

// words returns the schedule of a spec as in status.schedule.
func words(spec *v1.MyCronJobSpec) string {
	if spec.Schedule == nil {
		return fmt.Sprintf("every %ds", spec.Interval())
	}
	return *spec.Schedule + " " + ptr.Deref(spec.TimeZone, "UTC")
}

// newTimetable returns the timetable of mcj that words describes. It returns an error if words is no schedule, or names
// an unknown time zone. It reads the time zone database. decide is a pure function as long as the database is constant.
func newTimetable(mcj *v1.MyCronJob, words string) (timetable, error) {
	t := timetable{words: words, offset: jitter(mcj)}
	if _, err := fmt.Sscanf(words, "every %ds", &t.interval); err == nil && t.interval > 0 {
		return t, nil
	}
	end := max(strings.LastIndexByte(words, ' '), 0)
	var err error
	if t.schedule, err = v1.ParseSchedule(words[:end]); err == nil {
		t.location, err = time.LoadLocation(words[end+1:])
	}
	if err != nil {
		return timetable{}, fmt.Errorf("read schedule %q: %w", words, err)
	}
	return t, nil
}

// after returns the first slot after s; 0 if there is none.
func (t timetable) after(s slot) slot {
	if t.interval > 0 {
		return (s/t.interval + 1) * t.interval
	}
	next := t.schedule.Next(s.time().In(t.location))
	if next.IsZero() {
		return 0
	}
	return slotAt(next)
}

// jitter returns the delay of this object's Jobs, below spec.jitterSeconds. It is the same for all slots, so that the Jobs
// are evenly spaced.
func jitter(mcj *v1.MyCronJob) time.Duration {
	millis := uint64(ptr.Deref(mcj.Spec.JitterSeconds, 0)) * 1000
	if millis == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(mcj.UID)) // hash.Hash documents that Write never fails
	return time.Duration(h.Sum64()%millis) * time.Millisecond
}

// due returns the slots after from that are due now, in order and at most maxDue. more says that more slots are due.
func (t timetable) due(from slot, now time.Time) (slots []slot, more bool) {
	until := slotAt(now.Add(-t.offset))
	for s := t.after(from); s != 0 && s <= until; s = t.after(s) {
		if len(slots) == maxDue {
			return slots, true
		}
		slots = append(slots, s)
	}
	return slots, false
}

// start returns the time at which the Job of slot s should start.
func (t timetable) start(s slot) time.Time { return s.time().Add(t.offset) }

// untilNext returns the time from now to the first start after both now and slot from; 0 if there is none.
func (t timetable) untilNext(from slot, now time.Time) time.Duration {
	next := t.after(max(from, slotAt(now.Add(-t.offset))))
	if next == 0 {
		return 0
	}
	return t.start(next).Sub(now)
}
