/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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

// slot is a Unix second at which a Job is due. 0 is none.
type slot int64

func (s slot) time() time.Time       { return time.Unix(int64(s), 0) }
func (s slot) metaTime() metav1.Time { return metav1.NewTime(s.time()) }

// slotAt returns the latest second that is not after t.
func slotAt(t time.Time) slot { return slot(t.Unix()) }

// maxDue bounds how many slots one sync looks at. With more than that due, the
// first of them are counted as missed, and the next sync goes on from there.
const maxDue = 100_000

// timetable says when the slots of one MyCronJob come.
type timetable struct {
	// words are the schedule as status.schedule tells it, "every 5s" or a cron
	// expression and its time zone. They say all of it, so that the timetable that
	// an object had before an edit can be made from its status.
	words string
	// after returns the first slot after s, 0 if there is none.
	after func(s slot) slot
	// offset is how long after its slot this object's Jobs start.
	offset time.Duration
}

// words returns the schedule of a spec in words.
func words(spec *v1.MyCronJobSpec) string {
	if spec.Schedule == nil {
		return fmt.Sprintf("every %ds", spec.Interval())
	}
	return *spec.Schedule + " " + ptr.Deref(spec.TimeZone, "UTC")
}

// newTimetable returns the timetable that words tell, for the Jobs of mcj.
func newTimetable(mcj *v1.MyCronJob, words string) (timetable, error) {
	t := timetable{words: words, offset: jitter(mcj)}
	var interval slot
	if _, err := fmt.Sscanf(words, "every %ds", &interval); err == nil && interval > 0 {
		t.after = func(s slot) slot { return (s/interval + 1) * interval }
		return t, nil
	}
	end := max(strings.LastIndexByte(words, ' '), 0)
	schedule, err := v1.ParseSchedule(words[:end])
	if err != nil {
		return t, fmt.Errorf("read schedule %q: %w", words, err)
	}
	location, err := time.LoadLocation(words[end+1:])
	if err != nil {
		return t, fmt.Errorf("read schedule %q: %w", words, err)
	}
	t.after = func(s slot) slot { return nextIn(schedule, location, s) }
	return t, nil
}

func nextIn(schedule cron.Schedule, location *time.Location, s slot) slot {
	next := schedule.Next(s.time().In(location))
	if next.IsZero() {
		return 0
	}
	return slotAt(next)
}

// jitter returns this object's share of spec.jitterSeconds: the same for all of
// its slots, so that its Jobs stay evenly apart.
func jitter(mcj *v1.MyCronJob) time.Duration {
	millis := uint64(ptr.Deref(mcj.Spec.JitterSeconds, 0)) * 1000
	if millis == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(mcj.UID)) // never fails, says hash.Hash
	return time.Duration(h.Sum64()%millis) * time.Millisecond
}

// due returns the slots after from whose Jobs should have started by now, in
// their order: the first maxDue of them, and whether there are more.
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

// start is when the Job of slot s should start.
func (t timetable) start(s slot) time.Time { return s.time().Add(t.offset) }

// untilNext returns how long it is from now until the first start after both now
// and slot from; 0 if there is none.
func (t timetable) untilNext(from slot, now time.Time) time.Duration {
	next := t.after(max(from, slotAt(now.Add(-t.offset))))
	if next == 0 {
		return 0
	}
	return t.start(next).Sub(now)
}
