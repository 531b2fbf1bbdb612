// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/pkg/command"
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
		"a check runs although one that it needs has a warning": {
			[]Section{{Checks: []Check{{ID: "a", Run: says(warn("w", "r"))}, {ID: "b", Needs: []string{"a"}, Run: says(pass(""))}}}},
			"a warning, b ok", "", "", Warning,
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
			report := Runner{Limit: time.Minute}.Run(t.Context(), test.sections)
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
	Runner{Limit: time.Minute, printer: &printer{out: &out}}.Run(t.Context(), sections)
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	out.Reset()
	Runner{Limit: time.Minute, printer: &printer{out: &out, colour: true}}.Run(t.Context(), sections)
	plain := out.String()
	for _, colour := range colours {
		plain = strings.ReplaceAll(plain, colour, "")
	}
	if plain = strings.ReplaceAll(plain, colourEnd, ""); plain != want || plain == out.String() {
		t.Errorf("with colours it is:\n%q", out.String())
	}
}

func TestTheFlagsOfCheck(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"none": {nil, ""},
		"all of them": {[]string{
			"--pre", "-o", "json", "--timeout=3s", "-n", "a,b", "--controllers=-mycronjob,*", "--operator-namespace=x",
			"--leader-elect-resource-name=y", "--leader-elect-resource-namespace=z", "--webhooks=false", "--ecs-endpoint=http://127.0.0.1:1",
		}, ""},
		"an output that there is none of":  {[]string{"-o", "wide"}, `flag: must be one of text, json, yaml`},
		"no time":                          {[]string{"--timeout=0"}, "--timeout must be from 1s to 10m, not 0s"},
		"what the operator refuses":        {[]string{"--namespace=A"}, `--namespace "A" is not the name of a namespace`},
		"a flag of the operator's logging": {[]string{"-v=2"}, "unknown shorthand flag"},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			err := errors.Join(c.ParseFlags(test.args), c.PreRunE(c, nil))
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestTheDocumentOfCheck(t *testing.T) {
	outOfTheCloud(t)
	var out, errs strings.Builder
	code := command.Execute(t.Context(), New(), []string{"-o", "json", "--kubeconfig", filepath.Join(t.TempDir(), "none")}, &out, &errs)
	var document struct {
		Schema, Version, State string
		Pre, Interrupted       bool
		Counts                 map[string]int
		Sections               []struct {
			ID, Title string
			Checks    []struct{ ID, Title, State, Reason, Remedy, Because string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &document); err != nil || code != command.Failed || errs.Len() > 0 {
		t.Fatalf("exit code %d, %v, stderr %q:\n%s", code, err, errs.String(), out.String())
	}
	first := document.Sections[0].Checks[0]
	if document.Schema != "glassback.dev/check/v1" || document.State != "failed" || document.Counts["failed"] != 1 ||
		document.Counts["ok"] != 0 ||
		first.ID != "cluster/configuration" || first.State != "failed" || document.Sections[1].Checks[0].Because != "cluster/configuration" {
		t.Errorf("got %+v", document)
	}
}
