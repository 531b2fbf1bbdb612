/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package check

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// marks are what lines begin with.
var marks = map[State]string{OK: "√", Warning: "‼", Failed: "×", Skipped: "-"}

// colours are escape sequences of terminals.
var colours = map[State]string{OK: "\x1b[32m", Warning: "\x1b[33m", Failed: "\x1b[31m", Skipped: "\x1b[2m"}

const colourEnd = "\x1b[0m"

// Text prints a run for people to read, as it goes on.
type Text struct {
	Out io.Writer
	// Colour is for terminals.
	Colour bool

	title   string    // of the section, if it is not printed yet
	printed bool      // whether anything is
	skipped []Outcome // for the same reason, one after the other, and not printed yet
	unasked []string  // titles of sections of which nothing was asked
}

// Begin begins a section. Its title is printed with the first check that was asked.
func (t *Text) Begin(s Section) {
	t.leave()
	t.title = s.Title
}

// leave ends a section.
func (t *Text) leave() {
	if t.title != "" && len(t.skipped) > 0 && t.skipped[0].Because != "" {
		t.unasked, t.skipped = append(t.unasked, t.title), nil
		return
	}
	t.flush()
}

// Done prints the lines of a check. Of many that are skipped for one reason, it makes one.
func (t *Text) Done(o Outcome) {
	if len(t.skipped) > 0 && (o.State != Skipped || o.Reason != t.skipped[0].Reason) {
		t.flush()
	}
	if o.State == Skipped {
		t.skipped = append(t.skipped, o)
		return
	}
	t.print(o)
}

// End prints what came of all.
func (t *Text) End(r Report) {
	t.leave()
	if len(t.unasked) > 0 {
		fmt.Fprintf(t.Out, "\n%s not asked: %s\n", t.mark(Skipped), strings.Join(t.unasked, ", "))
	}
	summary := fmt.Sprintf("%d ok", len(r.Outcomes(OK)))
	if n := len(r.Outcomes(Skipped)); n > 0 {
		summary += fmt.Sprintf(", %d skipped", n)
	}
	switch n := len(r.Outcomes(Warning)); n {
	case 0:
	case 1:
		summary = "1 warning, " + summary
	default:
		summary = fmt.Sprintf("%d warnings, %s", n, summary)
	}
	if n := len(r.Outcomes(Failed)); n > 0 {
		summary = fmt.Sprintf("%d failed, %s", n, summary)
	}
	if r.Interrupted {
		summary = "interrupted: " + summary
	}
	fmt.Fprintf(t.Out, "\nAll in all %s %s\n", t.mark(r.State()), summary)
}

// flush prints what is skipped.
func (t *Text) flush() {
	if len(t.skipped) > 0 {
		o := t.skipped[0]
		if more := len(t.skipped) - 1; more > 0 {
			o.Title += fmt.Sprintf(", and %d more", more)
		}
		t.print(o)
	}
	t.skipped = nil
}

func (t *Text) print(o Outcome) {
	if t.title != "" {
		if t.printed {
			fmt.Fprintln(t.Out)
		}
		fmt.Fprintf(t.Out, "%s\n%s\n", t.title, strings.Repeat("-", utf8.RuneCountInString(t.title)))
		t.title = ""
	}
	t.printed = true
	title := o.Title
	if o.State == OK && o.Reason != "" {
		title += ": " + o.Reason
	}
	fmt.Fprintf(t.Out, "%s %s\n", t.mark(o.State), title)
	if o.State != OK && o.Reason != "" {
		fmt.Fprintf(t.Out, "    %s\n", o.Reason)
	}
	if o.Remedy != "" {
		fmt.Fprintf(t.Out, "    → %s\n", o.Remedy)
	}
}

func (t *Text) mark(state State) string {
	if t.Colour {
		return colours[state] + marks[state] + colourEnd
	}
	return marks[state]
}
