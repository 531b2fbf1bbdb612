package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// shownJobs is how many of the seed's latest Jobs the table shows.
const shownJobs = 5

// screen shows the demo. On a terminal, what becomes of the examples is a table that is redrawn in place, below all that was said; elsewhere
// it is a line for every change.
type screen struct {
	out   io.Writer
	width func() int // of the terminal; nil if out is none
	drawn int        // lines of the table on the terminal
	last  map[string]string
}

func newScreen(out *os.File) *screen {
	s := &screen{out: out, last: map[string]string{}}
	fd := int(out.Fd())
	if term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		s.width = func() int {
			width, _, err := term.GetSize(fd)
			if err != nil || width < 20 {
				return 80
			}
			return width
		}
	}
	return s
}

// say prints a line that stays.
func (s *screen) say(format string, args ...any) {
	s.drawn = 0
	fmt.Fprintf(s.out, format+"\n", args...)
}

// show shows how the examples are.
func (s *screen) show(f *follower) {
	if s.width == nil {
		s.showChanges(f)
		return
	}
	width := s.width()
	var frame bytes.Buffer
	if s.drawn > 0 {
		fmt.Fprintf(&frame, "\033[%dA\r", s.drawn)
	}
	lines := table(f)
	for _, line := range lines {
		if runes := []rune(line); len(runes) >= width {
			line = string(runes[:width-2]) + "…"
		}
		frame.WriteString(line + "\033[K\n")
	}
	frame.WriteString("\033[J")
	s.drawn = len(lines)
	_, _ = s.out.Write(frame.Bytes())
}

// table renders all that is known of the examples.
func table(f *follower) []string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "EXAMPLE\tREADY\tREASON\tSCHEDULE\tJOBS\tDONE\tLAST JOB")
	for _, e := range f.examples {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", e.name(), cmp.Or(string(e.ready.Status), "-"), cmp.Or(e.ready.Reason, "-"),
			cmp.Or(e.schedule, "-"), len(e.jobs), e.completed(), lastJob(e))
	}
	_ = w.Flush() // It writes to memory.
	for _, e := range f.examples {
		if e.object.GetName() != seed || len(e.jobs) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\nThe latest Jobs of %s\n", seed)
		w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
		for _, j := range e.jobs[max(0, len(e.jobs)-shownJobs):] {
			fmt.Fprintf(w, "  %s\tdue %s\tmade %d ms later\t%s\n", j.name, clock(j.slot), j.late.Milliseconds(), ending(j))
		}
		_ = w.Flush()
	}
	if f.trouble != "" {
		fmt.Fprintf(&b, "\nThe API server does not answer: %s\n", f.trouble)
	}
	if f.verdict != "" {
		fmt.Fprintf(&b, "\n%s\n%s\n", f.verdict, f.hint)
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func lastJob(e *example) string {
	if len(e.jobs) == 0 {
		return "-"
	}
	last := e.jobs[len(e.jobs)-1]
	return "due " + clock(last.slot) + ", " + ending(last)
}

func ending(j job) string {
	switch {
	case j.ended.IsZero():
		return "running"
	case j.failed:
		return "failed " + clock(j.ended)
	}
	return "completed " + clock(j.ended)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "at once"
	}
	return t.Format(time.TimeOnly)
}

// showChanges prints a line for all that has changed since it was called last.
func (s *screen) showChanges(f *follower) {
	for _, e := range f.examples {
		if e.ready.Type != "" || e.settled {
			s.changed(e.name(), fmt.Sprintf("Ready=%s %s, schedule: %s", cmp.Or(string(e.ready.Status), "-"), e.ready.Reason, cmp.Or(e.schedule, "-")))
		}
		for _, j := range e.jobs {
			s.changed("job/"+j.name, fmt.Sprintf("due %s, made %d ms later, %s", clock(j.slot), j.late.Milliseconds(), ending(j)))
		}
	}
	if f.trouble != "" || s.last["API server"] != "" {
		s.changed("API server", cmp.Or(f.trouble, "answers again"))
	}
	if f.verdict != "" {
		s.changed("", strings.TrimSpace(f.verdict+" "+f.hint))
	}
}

func (s *screen) changed(what, now string) {
	if s.last[what] == now {
		return
	}
	s.last[what] = now
	if what != "" {
		now = what + ": " + now
	}
	s.say("%s  %s", time.Now().Format(time.TimeOnly), now)
}
