// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// screen shows the demo. On a terminal it redraws a table of the examples in place, below the other lines. Elsewhere it prints a line for
// every change.
type screen struct {
	out   io.Writer
	size  func() (width, height int) // of the terminal; nil if out is not a terminal
	drawn int                        // lines of the table on the terminal
	last  map[string]string
}

func newScreen(out *os.File) *screen {
	s := &screen{out: out, last: map[string]string{}}
	fd := int(out.Fd())
	if term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		s.size = func() (int, int) {
			width, height, err := term.GetSize(fd)
			if err != nil || width < 20 || height < 10 {
				return 80, 24
			}
			return width, height
		}
	}
	return s
}

// say prints a line that stays.
func (s *screen) say(format string, args ...any) {
	s.drawn = 0
	fmt.Fprintf(s.out, format+"\n", args...)
}

// show shows the states of the examples.
func (s *screen) show(f *follower) {
	if s.size == nil {
		s.showChanges(f)
		return
	}
	width, height := s.size()
	var frame bytes.Buffer
	if s.drawn > 0 {
		fmt.Fprintf(&frame, "\033[%dA\r", s.drawn)
	}
	lines := fit(table(f), remarks(f), height)
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

// fit returns the lines that fit on a terminal: all lines of below, and as many lines of above as there is room for.
func fit(above, below []string, height int) []string {
	room := max(1, height-1-len(below)) // The cursor is in the line after the last.
	if len(above) > room {
		cut := len(above) - room + 1
		above = append(above[:room-1:room-1], fmt.Sprintf("… %d lines more in a taller window", cut))
	}
	return append(above, below...)
}

// table renders the examples as kubectl get does, with a heading for each kind.
func table(f *follower) []string {
	var b bytes.Buffer
	for _, k := range kinds {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		headed := false
		for _, e := range f.examples {
			if e.kind != k {
				continue
			}
			headings, cells := []string{strings.ToUpper(k.Kind), "AFTER"}, []string{e.name, e.seconds()}
			for _, c := range e.cells {
				headings, cells = append(headings, c.heading), append(cells, cmp.Or(c.text, "-"))
			}
			if e.gone {
				cells = append(cells[:2], "Deleted")
			}
			if !headed && len(e.cells) > 0 {
				headed = true
				fmt.Fprintln(w, strings.Join(headings, "\t"))
			}
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		_ = w.Flush() // A write to memory cannot fail.
		if headed {
			fmt.Fprintln(&b)
		}
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// remarks returns the lines below the table.
func remarks(f *follower) []string {
	var lines []string
	if f.trouble != "" {
		lines = append(lines, "", "The API server does not answer: "+f.trouble)
	}
	if f.verdict != "" {
		lines = append(lines, "", f.verdict)
	}
	return append(lines, f.hints...)
}

// showChanges prints a line for each change since its last call.
func (s *screen) showChanges(f *follower) {
	for _, e := range f.examples {
		ready := conditionOf(e.object, glassback.ConditionReady)
		now := strings.TrimSpace(fmt.Sprintf("Ready=%s %s", cmp.Or(ready.Status, "-"), ready.Reason))
		if e.took > 0 {
			now += ", after " + e.seconds()
		}
		if e.gone {
			now = "Deleted"
		}
		s.changed(e.String(), now)
	}
	if f.trouble != "" || s.last["API server"] != "" {
		s.changed("API server", cmp.Or(f.trouble, "answers again"))
	}
	if f.verdict != "" {
		s.changed("", strings.Join(append([]string{f.verdict}, f.hints...), "\n"))
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
