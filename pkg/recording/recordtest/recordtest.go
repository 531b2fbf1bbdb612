// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordtest calls decide again on the recorded observations of the syncs in tests, and checks the types of the observations. It is
// for tests.
package recordtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording"
)

var (
	corpus = flag.String("decisions.corpus", "", "write some decisions of each sort to this file")
	every  = flag.String("decisions.every", "", "write all decisions to this file")
)

// Context returns a context whose syncs are checked. decide must return the plan of the sync for the recorded form of what the sync
// observed. The recorded form must not lose anything when it is read. A check takes longer than a sync, and tests repeat decisions. So of
// each sort of decision, Context checks the first ones of a test, and then one in ten. It checks all with GLASSBACK_SEEDS,
// -decisions.corpus or -decisions.every.
func Context(ctx context.Context, t testing.TB, kind recording.Kind) context.Context {
	return recording.WithSink(ctx, sampler{checker{t, kind}})
}

// Check checks one decision, as Context does.
func Check[O recording.Observed, P recording.Plan[O]](t testing.TB, kind recording.Kind, observed O, plan P) {
	t.Helper()
	checker{t, kind}.Decided(observed.Record(), plan.Record(observed))
}

type checker struct {
	testing.TB

	kind recording.Kind
}

// sampler checks some decisions.
type sampler struct{ checker }

// checkedOfSort is the number of decisions of a sort that are all checked. After these, one in ten is checked.
const checkedOfSort = 3

var decisions struct {
	mu     sync.Mutex
	bySort map[string]int // by the name of the test and the sort
}

func (s sampler) Decided(observed, plan any) {
	decisions.mu.Lock()
	if decisions.bySort == nil {
		decisions.bySort = map[string]int{}
	}
	sort := s.Name() + s.sort(fields.Encode(plan))
	n := decisions.bySort[sort]
	decisions.bySort[sort]++
	decisions.mu.Unlock()
	if n < checkedOfSort || n%10 == 0 || *corpus != "" || *every != "" || os.Getenv("GLASSBACK_SEEDS") != "" {
		s.checker.Decided(observed, plan)
	}
}

// sort returns the policy and the names of the fields of a plan.
func (c checker) sort(plan json.RawMessage) string {
	var decided map[string]json.RawMessage
	if err := json.Unmarshal(plan, &decided); err != nil {
		c.Fatal(err)
	}
	return fmt.Sprintf("%s %q", decided["policy"], slices.Sorted(maps.Keys(decided)))
}

// Covers fails unless a recorded struct has a field for each field of a struct that decide reads or returns. except are the fields that
// have another name, or that follow from others. A struct that is recorded itself must have exported fields with names in JSON.
func Covers(t testing.TB, value, recorded any, except ...string) {
	t.Helper()
	has := map[string]bool{}
	for field := range reflect.TypeOf(recorded).Fields() {
		has[strings.ToLower(field.Name)] = field.IsExported() && field.Tag.Get("json") != ""
	}
	for field := range reflect.TypeOf(value).Fields() {
		if !has[strings.ToLower(field.Name)] && !slices.Contains(except, field.Name) {
			t.Errorf("%T.%s is not recorded: add it to %T", value, field.Name, recorded)
		}
	}
}

// Plain fails unless the types of these values hold plain values alone, so that they can be written to a file: no function, no channel, no
// interface and no fraction. It also fails if they hold a value of the type of one of secrets.
func Plain(t testing.TB, secrets []any, values ...any) {
	t.Helper()
	seen := map[reflect.Type]bool{}
	var walk func(path string, is reflect.Type)
	walk = func(path string, is reflect.Type) {
		if seen[is] {
			return
		}
		seen[is] = true
		if slices.ContainsFunc(secrets, func(secret any) bool { return is == reflect.TypeOf(secret) }) {
			t.Errorf("%s is the secret %s", path, is)
		}
		switch is.Kind() {
		case reflect.Float32, reflect.Float64: // See fields.Encode.
			t.Errorf("%s is recorded as null: use an integer", path)
		case reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
			t.Errorf("%s is the %s %s", path, is.Kind(), is)
		case reflect.Map:
			walk(path+" (key)", is.Key())
			walk(path, is.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(path, is.Elem())
		case reflect.Struct:
			for field := range is.Fields() {
				walk(path+"."+field.Name, field.Type)
			}
		}
	}
	for _, value := range values {
		walk(reflect.TypeOf(value).String(), reflect.TypeOf(value))
	}
	if len(seen) < 20 {
		t.Errorf("%d types were found, want those of the objects of the API too", len(seen))
	}
}

// Named fails unless each policy of a list has the name of its function. A policy is a struct of both.
func Named(t testing.TB, policies any) {
	t.Helper()
	for i, name := range namesOf(policies) {
		function := runtime.FuncForPC(reflect.ValueOf(policies).Index(i).Field(1).Pointer()).Name()
		if !strings.HasSuffix(function, "."+name) {
			t.Errorf("the policy %s is the function %s", name, function)
		}
	}
}

// InCorpus fails unless each policy of a list decided at least once in the corpus, which is in the directory dir.
func InCorpus(t testing.TB, dir string, kind recording.Kind, policies any) {
	t.Helper()
	if *corpus != "" {
		t.Skip("this run writes the corpus")
	}
	decided := map[string]int{}
	path := filepath.Join(dir, "glassback-"+strings.ToLower(kind.Name)+".jsonl.gz")
	err := recording.Read(path, func(_ *recording.Header, _ int, r *recording.Record) error {
		var plan struct{ Policy string }
		err := json.Unmarshal(r.Plan, &plan)
		decided[plan.Policy]++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range namesOf(policies) {
		if decided[name] == 0 {
			t.Errorf("%s has no decision of the policy %s: a test must decide by it, and then record the corpus again (docs/replay.md)", path, name)
		}
	}
}

// Text returns the lines of a recording, with its header.
func Text(t testing.TB, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	must.Succeed(t, err)
	defer file.Close()
	packed, err := gzip.NewReader(file)
	must.Succeed(t, err)
	text, err := io.ReadAll(packed)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return text
}

// namesOf returns the names of the policies of a list.
func namesOf(policies any) []string {
	var names []string
	list := reflect.ValueOf(policies)
	for i := range list.Len() {
		names = append(names, list.Index(i).Field(0).String())
	}
	return names
}

func (checker) Wants() bool { return true }

func (c checker) Decided(observed, plan any) {
	text, want := fields.Encode(observed), fields.Encode(plan)
	read, err := c.kind.Read(text)
	if err != nil {
		c.Errorf("what was observed cannot be read: %v\n%s", err, text)
		return
	}
	if again := fields.EncodeAgain(read); !bytes.Equal(again, text) {
		c.Errorf("what was observed changes when it is read:\n%s\n%s", text, again)
	}
	if got := c.kind.DecideOn(read); !bytes.Equal(got, want) {
		c.Errorf("The decision on\n%s\nis not that of the sync:\n%s\n%s", text, got, want)
	}
	if *corpus != "" || *every != "" {
		c.record(text, want)
	}
}

// record writes a decision to the files that the flags name.
func (c checker) record(observed, plan json.RawMessage) {
	var object struct {
		Now    time.Time `json:"now"`
		Object struct {
			Metadata struct{ Namespace, Name string } `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(observed, &object); err != nil {
		c.Fatal(err)
	}
	r := recording.Record{
		Time: object.Now, Controller: strings.ToLower(c.kind.Name), Kind: c.kind.Name, Namespace: object.Object.Metadata.Namespace,
		Name: object.Object.Metadata.Name, Observed: observed, Plan: plan,
	}
	if *corpus != "" {
		c.sample(r)
	}
	if *every != "" {
		all.add(c, &r)
	}
}

// samplesOfSort is how many decisions of each sort the corpus has.
const samplesOfSort = 3

var samples struct {
	mu      sync.Mutex
	bySort  map[string]int
	records []recording.Record
}

// sample adds a decision to the corpus, unless it has enough of the sort.
func (c checker) sample(r recording.Record) {
	samples.mu.Lock()
	defer samples.mu.Unlock()
	sort := c.sort(r.Plan)
	if samples.bySort == nil {
		samples.bySort = map[string]int{}
	}
	if samples.bySort[sort]++; samples.bySort[sort] > samplesOfSort {
		return
	}
	samples.records = append(samples.records, r)
	f := file{path: *corpus, level: gzip.BestCompression}
	for i := range samples.records {
		f.write(c, &samples.records[i])
	}
	f.close(c)
}

// all is the file of all decisions.
var all = everything{tests: map[testing.TB]bool{}}

type everything struct {
	mu    sync.Mutex
	file  file
	tests map[testing.TB]bool // the tests that close the file at their end
}

// add writes a record. At the end of each test, the file can be read.
func (e *everything) add(c checker, r *recording.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.file.path, e.file.level = *every, gzip.BestSpeed
	e.file.write(c, r)
	if e.tests[c.TB] {
		return
	}
	e.tests[c.TB] = true
	c.Cleanup(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.tests, c.TB)
		e.file.close(c)
	})
}

// file is a recording of one kind.
type file struct {
	path   string
	level  int // of the compression
	begun  bool
	packer *gzip.Writer // of the open member; nil if there is none
	out    *os.File
}

// write writes a record, and the header before the first one.
func (f *file) write(c checker, r *recording.Record) {
	if !f.begun {
		if err := os.WriteFile(f.path, nil, 0o644); err != nil {
			c.Fatal(err)
		}
	}
	if f.packer == nil {
		out, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			c.Fatal(err)
		}
		f.out = out
		f.packer, _ = gzip.NewWriterLevel(out, f.level) // The level is valid.
	}
	lines := json.NewEncoder(f.packer)
	lines.SetEscapeHTML(false)
	if !f.begun {
		f.begun = true
		f.encode(c, lines, recording.Header{
			Schema: recording.Schema, Version: "tests", Instance: "tests", Time: r.Time, Fields: recording.FieldsOf([]recording.Kind{c.kind}),
		})
	}
	f.encode(c, lines, r)
}

func (*file) encode(c checker, lines *json.Encoder, line any) {
	if err := lines.Encode(line); err != nil {
		c.Fatal(err)
	}
}

// close completes the file. A later record begins another gzip member.
func (f *file) close(c checker) {
	if f.packer == nil {
		return
	}
	if err := errors.Join(f.packer.Close(), f.out.Close()); err != nil {
		c.Fatal(err)
	}
	f.packer = nil
}
