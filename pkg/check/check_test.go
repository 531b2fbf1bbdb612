// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func says(r Result) func(context.Context) Result { return func(context.Context) Result { return r } }

func states(r Report) string {
	var all []string
	for _, o := range r.Outcomes() {
		all = append(all, o.ID+" "+string(o.State))
	}
	return strings.Join(all, ", ")
}

func TestWhatIsNotAskedAndWhy(t *testing.T) {
	never := func(context.Context) Result { panic("it must not be asked") }
	for name, test := range map[string]struct {
		sections []Section
		want     string
		reason   string // of the last
		because  string
		state    State
	}{
		"all is well": {
			[]Section{{Checks: []Check{{ID: "a", Run: says(pass(""))}, {ID: "b", Needs: []string{"a"}, Run: says(pass("x"))}}}},
			"a ok, b ok", "x", "", OK,
		},
		"a check runs although one that it needs has a warning": {
			[]Section{{Checks: []Check{{ID: "a", Run: says(warn("w", "r"))}, {ID: "b", Needs: []string{"a"}, Run: says(pass(""))}}}},
			"a warning, b ok", "", "", Warning,
		},
		"a failure keeps those who need it": {
			[]Section{{Checks: []Check{
				{ID: "a", Title: "A", Run: says(fail("f", "r"))}, {ID: "b", Run: says(pass(""))}, {ID: "c", Needs: []string{"b", "a"}, Run: never},
			}}},
			"a failed, b ok, c skipped", "not asked, since this failed: A", "a", Failed,
		},
		"and those who need these, for the same reason": {
			[]Section{
				{Checks: []Check{
					{ID: "a", Title: "A", Run: says(fail("f", "r"))},
					{ID: "b", Needs: []string{"a"}, Run: never},
					{ID: "c", Needs: []string{"b"}, Run: never},
				}},
			},
			"a failed, b skipped, c skipped", "not asked, since this failed: A", "a", Failed,
		},
		"what does not apply does not to those who need it": {
			[]Section{{Checks: []Check{{ID: "a", Run: says(skip("there is none"))}, {ID: "b", Needs: []string{"a"}, Run: never}}}},
			"a skipped, b skipped", "there is none", "a", OK,
		},
		"a section may need something as a whole, with what comes later": {
			[]Section{
				{Checks: []Check{{ID: "a", Title: "A", Run: says(fail("f", ""))}}},
				{Needs: []string{"a"}, Checks: []Check{{ID: "b", Run: never}}, More: func() []Check { return []Check{{ID: "c", Run: never}} }},
			},
			"a failed, b skipped, c skipped", "not asked, since this failed: A", "a", Failed,
		},
		"a check that panics has failed, and the next one is asked": {
			[]Section{{Checks: []Check{{ID: "a", Run: func(context.Context) Result { panic("oh") }}, {ID: "b", Run: says(pass(""))}}}},
			"a failed, b ok", "", "", Failed,
		},
		"a reason is one line that no terminal obeys": {
			[]Section{{Checks: []Check{{ID: "a", Run: says(warn("one\n\ttwo \x1b[31mred\u202e", ""))}}}},
			"a warning", "one two [31mred", "", Warning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := Runner{Limit: time.Second}.Run(t.Context(), test.sections)
			if got := states(report); got != test.want || report.State() != test.state {
				t.Errorf("got %s, all in all %s, want %s, %s", got, report.State(), test.want, test.state)
			}
			all := report.Outcomes()
			if last := all[len(all)-1]; last.Reason != test.reason || last.Because != test.because {
				t.Errorf("the last says %q because of %q, want %q, %q", last.Reason, last.Because, test.reason, test.because)
			}
		})
	}
}

func TestNoCheckHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		defer close(stuck) // A check that is left behind ends with its test.
		start := time.Now()
		report := Runner{Limit: 3 * time.Second, Slow: "look"}.Run(t.Context(), []Section{{Checks: []Check{
			{ID: "deaf", Run: func(context.Context) Result { <-stuck; return pass("") }},
			{ID: "patient", Run: func(ctx context.Context) Result { <-ctx.Done(); return fail("it waited for x", "r") }},
			{ID: "quick", Run: says(pass(""))},
		}}})
		all := report.Outcomes()
		if got := states(report); got != "deaf failed, patient failed, quick ok" {
			t.Errorf("got %s", got)
		}
		if all[0].Reason != "there was no answer within 3s" || all[0].Remedy != "look" || all[1].Reason != "it waited for x" {
			t.Errorf("got %+v", all)
		}
		if took := time.Since(start); took != 6*time.Second+grace {
			t.Errorf("it took %s", took)
		}
	})
}

func TestTheEndOfTheContextEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		report := Runner{Limit: time.Hour}.Run(ctx, []Section{
			{Checks: []Check{
				{ID: "a", Run: says(pass(""))},
				{ID: "b", Run: func(ctx context.Context) Result { <-ctx.Done(); return fail(ctx.Err().Error(), "") }},
			}},
			{Checks: []Check{{ID: "c", Run: says(pass(""))}}},
		})
		if got := states(report); got != "a ok, b skipped, c skipped" || !report.Interrupted || report.State() != Failed {
			t.Errorf("got %s, %+v", got, report)
		}
		if took := time.Since(start); took > 5*time.Second+grace {
			t.Errorf("it took %s", took)
		}
	})
}

func TestTextIsForPeople(t *testing.T) {
	sections := []Section{
		{ID: "one", Title: "One", Checks: []Check{
			{ID: "a", Title: "it answers", Run: says(pass("v1"))},
			{ID: "b", Title: "it is well", Run: says(pass(""))},
			{ID: "c", Title: "it is young", Run: says(warn("it is old", "renew it"))},
			{ID: "d", Title: "it is there", Run: says(fail("it is not", "make it"))},
			{ID: "e", Title: "it is red", Needs: []string{"d"}},
			{ID: "f", Title: "it is round", Needs: []string{"d"}},
			{ID: "g", Title: "it has a name", Run: says(skip("it needs none"))},
		}},
		{ID: "two", Title: "Two", Needs: []string{"d"}, Checks: []Check{{ID: "h"}, {ID: "i"}}},
		{ID: "three", Title: "Three", Checks: []Check{{ID: "j", Title: "it is last", Run: says(skip("it is not"))}}},
		{ID: "four", Title: "Four", Needs: []string{"d"}, Checks: []Check{{ID: "k"}}},
		{ID: "five", Title: "Five"},
	}
	want := `One
---
√ it answers: v1
√ it is well
‼ it is young
    it is old
    → renew it
× it is there
    it is not
    → make it
- it is red, and 1 more
    not asked, since this failed: it is there
- it has a name
    it needs none

Three
-----
- it is last
    it is not

- not asked: Two, Four

All in all × 1 failed, 1 warning, 2 ok, 7 skipped
`
	var out bytes.Buffer
	Runner{Limit: time.Second, printer: &printer{out: &out}}.Run(t.Context(), sections)
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	out.Reset()
	Runner{Limit: time.Second, printer: &printer{out: &out, colour: true}}.Run(t.Context(), sections)
	plain := out.String()
	for _, colour := range colours {
		plain = strings.ReplaceAll(plain, colour, "")
	}
	if plain = strings.ReplaceAll(plain, colourEnd, ""); plain != want || plain == out.String() {
		t.Errorf("with colours it is:\n%q", out.String())
	}
}

func TestAReportIsJSON(t *testing.T) {
	report := Runner{Limit: time.Second}.Run(t.Context(), []Section{{ID: "one", Title: "One", Checks: []Check{
		{ID: "a", Title: "A", Run: says(fail("f", "r"))}, {ID: "b", Title: "B", Needs: []string{"a"}},
	}}, {ID: "two", Title: "Two"}})
	got, err := json.Marshal(report)
	want := `{"sections":[{"id":"one","title":"One","checks":[{"id":"a","title":"A","state":"failed","reason":"f","remedy":"r"},` +
		`{"id":"b","title":"B","state":"skipped","reason":"not asked, since this failed: A","because":"a"}]},` +
		`{"id":"two","title":"Two","checks":[]}],"interrupted":false}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
