// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/trace"
)

// maxShownChanges is the largest number of printed fields of a change; -o json has all.
const maxShownChanges = 8

// whyText prints an answer as text: each sync, and its causes below it with more indentation.
type whyText struct {
	out    io.Writer
	colour bool
	now    time.Time // of the operator
}

// Escape sequences of terminals.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	normal = "\x1b[0m"
)

func (t *whyText) answer(a *whyAnswer) {
	name := a.Object.String()
	switch {
	case len(a.Syncs) > 0:
		t.coloured(bold, 0, "%s: %s", name, counted(len(a.Syncs), "its last sync", "its last %d syncs, the newest last"))
	case len(a.Controllers) == 0:
		t.coloured(bold, 0, "%s is watched, and not synced: %s", name,
			counted(len(a.Changes), "its last change", "its last %d changes, the newest last"))
	case a.StandsBy:
		t.coloured(bold, 0, "%s: nothing is synced by %s, which stands by: ask the operator that leads", name, a.Operator)
	default:
		t.coloured(bold, 0, "%s: no sync of it is remembered by %s", name, a.Operator)
	}
	if !a.Exists {
		t.line(0, "It is not there any more.")
	}
	for _, s := range a.Syncs {
		t.line(0, "")
		t.sync(s)
	}
	for _, c := range a.Changes {
		t.line(0, "")
		t.coloured(bold, 0, "%s", t.time(c.Time))
		t.change(1, "", c)
	}
	if a.Gaps {
		t.line(0, "")
		t.line(0, "There was too much to record all changes: some causes are not known.")
	}
}

// counted returns a number with its noun in the singular or plural.
func counted(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}

// sync prints one sync.
func (t *whyText) sync(s *whySync) {
	took := "runs since then"
	if !s.Running {
		took = "took " + seconds(s.Duration).String()
	}
	t.coloured(bold, 0, "%s  %s, %s", t.time(s.Time), s.Controller, took)
	t.causes(1, s)
	if s.Repeats > 0 {
		t.line(1, "as did %s", counted(s.Repeats, "one before it, which is left out", "%d before it, which are left out"))
	}
	for _, w := range s.Writes {
		t.line(1, "it wrote %s (%s, resourceVersion %s)", w.Object, w.Did, w.ResourceVersion)
	}
	if s.Error != "" {
		t.coloured(red, 1, "it failed: %s", s.Error)
	}
	if s.Again != nil && s.Error == "" { // After an error it runs again sooner, after a backoff.
		t.line(1, "it asked to run again at %s", t.time(*s.Again))
	}
}

// causes prints the causes of a sync.
func (t *whyText) causes(depth int, s *whySync) {
	for _, c := range s.Causes {
		switch c.Verb {
		case trace.VerbAfter:
			t.timer(depth, c)
		case trace.VerbRetry:
			t.retry(depth, c)
		default:
			t.change(depth, "because ", c)
		}
	}
	if s.MoreCauses > 0 {
		t.line(depth, "and because of %d more, which were not kept", s.MoreCauses)
	}
}

func (t *whyText) timer(depth int, c *whyCause) {
	if c.Sync == nil {
		t.line(depth, "because an earlier sync had asked to run again")
		return
	}
	t.line(depth, "because the sync at %s had asked to run again at %s", t.time(c.Sync.Time), t.time(*c.Sync.Again))
}

func (t *whyText) retry(depth int, c *whyCause) {
	if c.Sync == nil {
		t.line(depth, "because an earlier sync had failed")
		return
	}
	if c.Failures == 1 {
		t.line(depth, "because the sync at %s had failed%s: %s", t.time(c.Sync.Time), above(c.Sync), c.Error)
	} else {
		t.line(depth, "because it had failed %d times, since the sync at %s%s, the last time with: %s",
			c.Failures, t.time(c.Sync.Time), above(c.Sync), c.Error)
	}
	t.nested(depth+1, c.Sync)
}

// nested prints the causes of a sync that is printed already.
func (t *whyText) nested(depth int, s *whySync) {
	if s.Cut {
		t.line(depth, "…")
		return
	}
	t.causes(depth, s)
}

// above returns the note that the causes of a sync are further up.
func above(s *whySync) string {
	if s.Above {
		return ", which is above"
	}
	return ""
}

// change prints a change, and what made it.
func (t *whyText) change(depth int, because string, c *whyCause) {
	if c.Object == nil {
		t.line(depth, "%s%s", because, verbText(c))
		return
	}
	at := ""
	switch {
	case c.Missed:
		at = " (last known resourceVersion " + c.ResourceVersion + ")"
	case c.ResourceVersion != "":
		at = " (resourceVersion " + c.ResourceVersion + ")"
	}
	t.line(depth, "%s%s %s%s%s", because, c.Object, verbText(c), at, t.author(c))
	for n, change := range c.Changes {
		if n == maxShownChanges {
			t.line(depth+1, "and %d more fields", len(c.Changes)-n)
			break
		}
		t.line(depth+1, "%s", change)
	}
	switch {
	case c.By == byEarlier:
		t.line(depth+1, "last written by an earlier process of the operator at %s", t.second(*c.Written))
	case c.By != bySync:
	case c.Sync == nil:
		t.line(depth+1, "by a sync of this operator: %s", c.Did)
	default:
		t.line(depth+1, "by the sync of %s at %s%s: %s", c.Sync.Object, t.time(c.Sync.Time), above(c.Sync), c.Did)
		t.nested(depth+2, c.Sync)
	}
}

// author returns the author of a change that neither a recorded sync nor an earlier process made.
func (t *whyText) author(c *whyCause) string {
	switch {
	case c.By != byOthers || c.Listed || c.Missed:
		return ""
	case c.Manager == glassback.Name:
		return ", by the operator, but by no sync of this process"
	}
	return ", by another client"
}

// verbText returns the verb of a cause in words.
func verbText(c *whyCause) string {
	switch {
	case c.Verb == verbSync:
		return "was unchanged in a relist or a resync"
	case c.Missed:
		return "was found missing in a relist"
	case c.Listed:
		return "was in the list with which the watch began"
	case c.Verb == trace.VerbStart:
		return "it is there from the start"
	}
	return "was " + strings.ToLower(c.Verb)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}

// time renders a time as in the lines of trace, with the date if that is not today's.
func (t *whyText) time(at time.Time) string {
	now := t.now.In(at.Location())
	if at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return at.Format("2006-01-02 15:04:05.000000")
	}
	return at.Format("15:04:05.000000")
}

// second renders a time that is known to the second.
func (t *whyText) second(at time.Time) string {
	return strings.TrimSuffix(t.time(at.Truncate(time.Second)), ".000000")
}

// line prints one line, indented by depth.
func (t *whyText) line(depth int, format string, args ...any) { t.coloured("", depth, format, args...) }

// coloured prints one line, in a colour if colours are on. Printable makes texts of other clients harmless for a terminal.
func (t *whyText) coloured(colour string, depth int, format string, args ...any) {
	text := strings.Repeat("  ", depth) + command.Printable(fmt.Sprintf(format, args...))
	if t.colour && colour != "" {
		text = colour + text + normal
	}
	fmt.Fprintln(t.out, text)
}
