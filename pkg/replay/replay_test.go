// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording"
)

// TestCorpus decides again on all recordings in testdata. A change of a decision is no failure: make decisions prints it, for the review.
func TestCorpus(t *testing.T) {
	files, err := recording.Files([]string{"testdata"})
	must.Succeed(t, err)
	result, err := replay(t.Context(), files)
	must.Succeed(t, err)
	decisions := map[string]int{}
	for _, c := range result.Counts {
		decisions[c.Kind] += c.Same + c.Different + c.NotComparable
	}
	for _, k := range kinds.Decisions() {
		if decisions[k.Name] == 0 {
			t.Errorf("the corpus has no decision of the kind %s", k.Name)
		}
	}
	for _, d := range append(result.Different, result.NotComparable...) {
		if d.Error != "" {
			t.Errorf("%s, line %d: %s", d.File, d.Line, d.Error)
		}
	}
	t.Logf("decisions of each kind: %v; different: %d, not comparable: %d", decisions, len(result.Different), len(result.NotComparable))
}

// write writes a recording of one ApiExampleA, whose header and plan are edited.
func write(t *testing.T, edit func(header *recording.Header, plan map[string]any)) string {
	t.Helper()
	kind := kindOf("ApiExampleA")
	observed := []byte(`{"now":"2022-01-09T13:50:00Z","object":{"metadata":{"name":"a","namespace":"default"},"spec":{"first_name":"Jimmy"}}}`)
	text, err := kind.Decide(observed)
	must.Succeed(t, err)
	header := recording.Header{Schema: recording.Schema, Version: "v0.1.0", Fields: recording.FieldsOf(kinds.Decisions())}
	var plan map[string]any
	must.Succeed(t, json.Unmarshal(text, &plan))
	edit(&header, plan)
	if text, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "glassback-a.jsonl.gz"))
	must.Succeed(t, err)
	packer := gzip.NewWriter(file)
	lines := json.NewEncoder(packer)
	for _, line := range []any{
		header, recording.Record{Dropped: 3},
		recording.Record{Kind: "ApiExampleA", Namespace: "default", Name: "a",
			Causes:   []recording.Cause{{Verb: "Added", Object: recording.Object{Kind: "ApiExampleA", Name: "a"}}},
			Observed: observed, Plan: text},
		recording.Record{Kind: "ApiExampleA", Namespace: "default", Name: "a", Error: "no decision"},
	} {
		must.Succeed(t, lines.Encode(line))
	}
	must.Succeed(t, packer.Close())
	must.Succeed(t, file.Close())
	return file.Name()
}

func TestReplay(t *testing.T) {
	older := func(fields recording.Fields, without string) recording.Fields {
		drop := func(list []string) (kept []string) {
			for _, field := range list {
				if field != without {
					kept = append(kept, field)
				}
			}
			return kept
		}
		return recording.Fields{Observed: drop(fields.Observed), Plan: drop(fields.Plan)}
	}
	for sentence, test := range map[string]struct {
		edit func(header *recording.Header, plan map[string]any)
		code int
		want string // the counts
		also []string
	}{
		"the same version": {func(*recording.Header, map[string]any) {}, command.OK, "1 0 0",
			[]string{"Syncs: 2,", "since the disk was too slow: 3"}},
		"another plan": {func(_ *recording.Header, plan map[string]any) { plan["greeting"] = "sha256:another" }, differs, "0 1 0",
			[]string{"ApiExampleA default/a differs at ", "because    Added ApiExampleA a", "greeting: sha256:another → sha256:",
				"    observed   {", "    recorded   {"}},
		"the recording lacks a field that decide reads": {func(header *recording.Header, plan map[string]any) {
			plan["greeting"] = "sha256:another"
			header.Fields["ApiExampleA"] = older(header.Fields["ApiExampleA"], "object")
		}, command.OK, "0 0 1", []string{"not comparable", "The recording does not have: object"}},
		"the recording lacks a field of the plan": {func(header *recording.Header, plan map[string]any) {
			delete(plan, "greeting")
			header.Fields["ApiExampleA"] = older(header.Fields["ApiExampleA"], "greeting")
		}, command.OK, "1 0 0", nil},
		"the recording has a field that this version lacks": {func(header *recording.Header, plan map[string]any) {
			plan["removed"] = []map[string]any{{"a": 1}}
			fields := header.Fields["ApiExampleA"]
			fields.Plan = append(fields.Plan, "removed", "removed.a")
			header.Fields["ApiExampleA"] = fields
		}, command.OK, "1 0 0", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			file := write(t, test.edit)
			var text, errs, document strings.Builder
			if code := command.Execute(t.Context(), New(), []string{file}, &text, &errs); code != test.code || errs.Len() > 0 {
				t.Errorf("exit code %d, %s", code, errs.String())
			}
			for _, also := range test.also {
				if !strings.Contains(text.String(), also) {
					t.Errorf("the text has no %q:\n%s", also, text.String())
				}
			}
			command.Execute(t.Context(), New(), []string{filepath.Dir(file), "-o", "json"}, &document, &errs)
			var result Result
			if err := json.Unmarshal([]byte(document.String()), &result); err != nil || len(result.Counts) != 1 {
				t.Fatalf("error %v, %s", err, document.String())
			}
			c := result.Counts[0]
			if got := fmt.Sprint(c.Same, c.Different, c.NotComparable); got != test.want || result.Schema != schemaName || result.Dropped != 3 {
				t.Errorf("counts %s, want %s; %s", got, test.want, document.String())
			}
		})
	}
}

func TestTheCommandLine(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "foreign")
	must.Succeed(t, os.WriteFile(foreign, []byte("text"), 0o600))
	same := write(t, func(*recording.Header, map[string]any) {})
	text, err := os.ReadFile(same)
	must.Succeed(t, err)
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, text[:len(text)-8], 0o600); err != nil { // It has all lines, and no end.
		t.Fatal(err)
	}
	for sentence, test := range map[string]struct {
		args []string
		code int
		want string // in the output
	}{
		"help":                          {[]string{"--help"}, 0, "Replay decides again"},
		"no file":                       {nil, 1, "glassback: name a recording"},
		"an unknown form of the output": {[]string{"-o", "xml", same}, 1, "must be one of text, json, yaml: see replay --help"},
		"a file that is none":           {[]string{foreign}, 1, "glassback: " + foreign + " is not a recording of glassback --record"},
		"the other files are read":      {[]string{foreign, same}, 1, "ApiExampleA   -        1"},
		"a truncated file: the counts":  {[]string{cut}, 1, "ApiExampleA   -        1"},
		"a truncated file: the message": {[]string{cut}, 1, "glassback: " + cut + " is truncated after line 4: 2 syncs were read, until "},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out strings.Builder
			if code := command.Execute(t.Context(), New(), test.args, &out, &out); code != test.code || !strings.Contains(out.String(), test.want) {
				t.Errorf("exit code %d, %q", code, out.String())
			}
		})
	}
}
