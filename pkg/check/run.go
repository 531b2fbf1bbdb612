/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// grace is how long a check whose time is over may take to say what it was waiting for.
const grace = 250 * time.Millisecond

// longest is how many characters a reason or a remedy has at most: servers can say much.
const longest = 600

// interrupted is the reason of what was not asked any more.
const interrupted = "interrupted"

// Observer is told of a run while it goes on.
type Observer interface {
	// Begin is called before the checks of a section.
	Begin(Section)
	// Done is called after each check.
	Done(Outcome)
	// End is called at the end of a run.
	End(Report)
}

// Runner runs checks.
type Runner struct {
	// Limit is how long each check may take.
	Limit time.Duration
	// Slow is the remedy for one that has taken longer.
	Slow string
	// Observer may be nil.
	Observer Observer
}

// Run runs the checks of all sections, one after the other. It returns soon after ctx has
// ended. A check that does not return when its context ends is left behind.
func (r Runner) Run(ctx context.Context, sections []Section) Report {
	var report Report
	lacking := map[string]Outcome{} // what did not pass, by ID
	for _, s := range sections {
		if r.Observer != nil {
			r.Observer.Begin(s)
		}
		done := SectionReport{ID: s.ID, Title: s.Title, Checks: []Outcome{}}
		run := func(checks []Check) {
			for _, c := range checks {
				c.Needs = slices.Concat(s.Needs, c.Needs)
				o := r.run(ctx, c, lacking)
				if done.Checks = append(done.Checks, o); r.Observer != nil {
					r.Observer.Done(o)
				}
			}
		}
		run(s.Checks)
		if s.More != nil {
			run(s.More())
		}
		report.Sections = append(report.Sections, done)
	}
	report.Interrupted = ctx.Err() != nil
	if r.Observer != nil {
		r.Observer.End(report)
	}
	return report
}

// run runs one check, unless something that it needs is in lacking, to which it may add.
func (r Runner) run(ctx context.Context, c Check, lacking map[string]Outcome) Outcome {
	o := Outcome{ID: c.ID, Title: line(c.Title)}
	for _, id := range c.Needs {
		if why, ok := lacking[id]; ok {
			o.Result, o.Because = Skip(because(why)), cmp.Or(why.Because, why.ID)
			lacking[c.ID] = o
			return o
		}
	}
	if ctx.Err() != nil {
		o.Result = Skip(interrupted)
		return o
	}
	o.Result = r.ask(ctx, c)
	o.Reason, o.Remedy = line(o.Reason), line(o.Remedy)
	if o.State == Failed || o.State == Skipped {
		lacking[c.ID] = o
	}
	return o
}

// because is the reason of a check that needs one that has not passed. What that one was
// skipped for is the reason of all behind it.
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
			result = Fail(fmt.Sprintf("there was no answer within %s", r.Limit), r.Slow)
		}
	}
	if ctx.Err() != nil {
		return Skip(interrupted)
	}
	return result
}

// guarded makes a failure of a panic: the checks after it are still asked.
func guarded(ctx context.Context, run func(context.Context) Result) (result Result) {
	defer func() {
		if r := recover(); r != nil {
			result = Fail(fmt.Sprintf("the check itself is broken: %v", r), "please report it")
		}
	}()
	return run(ctx)
}

// line makes one line of a text, with nothing in it that a terminal would obey.
func line(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest-1]) + "…"
	}
	return text
}
