// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
)

// grace is the additional time in which a check must return its reason after its time is over.
const grace = 250 * time.Millisecond

// maxText is the largest number of characters of a reason or a remedy: they may contain the answer of a server.
const maxText = 600

// interrupted is the reason of a check that did not run, because the context had ended.
const interrupted = "interrupted"

// Runner runs checks.
type Runner struct {
	// Limit is how long each check may take.
	Limit time.Duration
	// Slow is the remedy for a check that takes longer.
	Slow string

	printer *printer // nil for none
}

// Run runs the checks of all sections, one after the other. It returns soon after ctx has ended. It does not wait for a check that does not
// return when its context ends.
func (r Runner) Run(ctx context.Context, sections []Section) Report {
	if r.printer == nil {
		r.printer = &printer{out: io.Discard}
	}
	var report Report
	lacking := map[string]Outcome{} // the checks that did not pass, by ID
	for _, s := range sections {
		r.printer.begin(s)
		done := SectionReport{ID: s.ID, Title: s.Title, Checks: []Outcome{}}
		run := func(checks []Check) {
			for _, c := range checks {
				c.Needs = slices.Concat(s.Needs, c.Needs)
				o := r.run(ctx, c, lacking)
				done.Checks = append(done.Checks, o)
				r.printer.done(o)
			}
		}
		run(s.Checks)
		if s.More != nil {
			run(s.More())
		}
		report.Sections = append(report.Sections, done)
	}
	report.Interrupted = ctx.Err() != nil
	r.printer.end(report)
	return report
}

// run runs one check, or skips it if a check that it needs is in lacking. If the check does not pass, run adds it to lacking.
func (r Runner) run(ctx context.Context, c Check, lacking map[string]Outcome) Outcome {
	o := Outcome{ID: c.ID, Title: line(c.Title)}
	for _, id := range c.Needs {
		if why, ok := lacking[id]; ok {
			o.Result, o.Because = skip(because(why)), cmp.Or(why.Because, why.ID)
			lacking[c.ID] = o
			return o
		}
	}
	if ctx.Err() != nil {
		o.Result = skip(interrupted)
		return o
	}
	o.Result = r.ask(ctx, c)
	o.Reason, o.Remedy = line(o.Reason), line(o.Remedy)
	if o.State == Failed || o.State == Skipped {
		lacking[c.ID] = o
	}
	return o
}

// because returns the reason to skip a check that needs o, which did not pass. If o was skipped itself, both have the same reason.
func because(o Outcome) string {
	if o.State == Skipped {
		return o.Reason
	}
	return "not asked, since this failed: " + o.Title
}

func (r Runner) ask(ctx context.Context, c Check) Result {
	limited, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	answer := make(chan Result, 1)
	go func() { answer <- guarded(limited, c.Run) }()
	var result Result
	select {
	case result = <-answer:
	case <-limited.Done():
		select {
		case result = <-answer:
		case <-time.After(grace):
			result = fail(fmt.Sprintf("there was no answer within %s", r.Limit), r.Slow)
		}
	}
	if ctx.Err() != nil {
		return skip(interrupted)
	}
	return result
}

// guarded turns a panic of run into a failure, so that the following checks run.
func guarded(ctx context.Context, run func(context.Context) Result) (result Result) {
	defer func() {
		if r := recover(); r != nil {
			result = fail(fmt.Sprintf("the check itself is broken: %v", r), "please report it")
		}
	}()
	return run(ctx)
}

// line returns text in one line, without characters that change a terminal.
func line(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText-1]) + "…"
	}
	return text
}
