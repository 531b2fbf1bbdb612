// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// marks are the symbols that lines begin with.
var marks = map[State]string{OK: "√", Warning: "‼", Failed: "×", Skipped: "-"}

// colours are escape sequences of terminals.
var colours = map[State]string{OK: "\x1b[32m", Warning: "\x1b[33m", Failed: "\x1b[31m", Skipped: "\x1b[2m"}

const colourEnd = "\x1b[0m"

// printer prints a run as text, line by line.
type printer struct {
	out    io.Writer
	colour bool // for terminals

	title   string    // of the section, until it is printed
	printed bool      // whether anything was printed
	skipped []Outcome // consecutive ones with the same reason, until they are printed
	unasked []string  // titles of sections in which no check ran
}

// begin begins a section. Its title is printed with the first check that ran.
func (p *printer) begin(s Section) {
	p.leave()
	p.title = s.Title
}

// leave ends a section.
func (p *printer) leave() {
	if p.title != "" && len(p.skipped) > 0 && p.skipped[0].Because != "" {
		p.unasked, p.skipped = append(p.unasked, p.title), nil
		return
	}
	p.flush()
}

// done prints the lines of a check. Checks that are skipped for the same reason share one line.
func (p *printer) done(o Outcome) {
	if len(p.skipped) > 0 && (o.State != Skipped || o.Reason != p.skipped[0].Reason) {
		p.flush()
	}
	if o.State == Skipped {
		p.skipped = append(p.skipped, o)
		return
	}
	p.print(o)
}

// end prints the summary.
func (p *printer) end(r Report) {
	p.leave()
	if len(p.unasked) > 0 {
		fmt.Fprintf(p.out, "\n%s not asked: %s\n", p.mark(Skipped), strings.Join(p.unasked, ", "))
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
	fmt.Fprintf(p.out, "\nAll in all %s %s\n", p.mark(r.State()), summary)
}

// flush prints the skipped checks.
func (p *printer) flush() {
	if len(p.skipped) > 0 {
		o := p.skipped[0]
		if more := len(p.skipped) - 1; more > 0 {
			o.Title += fmt.Sprintf(", and %d more", more)
		}
		p.print(o)
	}
	p.skipped = nil
}

func (p *printer) print(o Outcome) {
	if p.title != "" {
		if p.printed {
			fmt.Fprintln(p.out)
		}
		fmt.Fprintf(p.out, "%s\n%s\n", p.title, strings.Repeat("-", utf8.RuneCountInString(p.title)))
		p.title = ""
	}
	p.printed = true
	title := o.Title
	if o.State == OK && o.Reason != "" {
		title += ": " + o.Reason
	}
	fmt.Fprintf(p.out, "%s %s\n", p.mark(o.State), title)
	if o.State != OK && o.Reason != "" {
		fmt.Fprintf(p.out, "    %s\n", o.Reason)
	}
	if o.Remedy != "" {
		fmt.Fprintf(p.out, "    → %s\n", o.Remedy)
	}
}

func (p *printer) mark(state State) string {
	if p.colour {
		return colours[state] + marks[state] + colourEnd
	}
	return marks[state]
}
