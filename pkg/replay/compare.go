// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/recording"
)

// Result is the output of -o json and -o yaml. Under the same schema name, the meaning of a field never changes, and fields are only added.
type Result struct {
	Schema  string `json:"schema"`
	Version string `json:"version"` // of this program
	// Recorded are the versions of the operators that made the recordings.
	Recorded []string `json:"recorded"`
	// From and To are the times of the first and of the last sync. Syncs counts all of them, also those that ended before a decision.
	From  time.Time `json:"from,omitzero"`
	To    time.Time `json:"to,omitzero"`
	Syncs int       `json:"syncs"`
	// Dropped counts the syncs that the operators did not record, since their disks were too slow.
	Dropped uint64  `json:"dropped"`
	Counts  []Count `json:"counts"`
	// Different are the decisions whose plans differ.
	Different []Decision `json:"different"`
	// NotComparable are the decisions whose plans differ, or cannot be made, where the recording lacks Missing.
	NotComparable []Decision `json:"notComparable"`

	counts map[[2]string]*Count
}

const schemaName = "glassback.dev/replay/v1"

// Count counts the decisions of one policy, as the recording names it.
type Count struct {
	Kind          string `json:"kind"`
	Policy        string `json:"policy,omitempty"` // empty for kinds without policies, and if no policy decided
	Same          int    `json:"same"`
	Different     int    `json:"different"`
	NotComparable int    `json:"notComparable"`
}

// Place says where a record is.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Decision is one decision whose plan differs, or cannot be compared.
type Decision struct {
	Place

	Time      time.Time         `json:"time"`
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Causes    []recording.Cause `json:"causes,omitempty"`
	Observed  json.RawMessage   `json:"observed"`
	// Recorded is the plan of the operator, and Replayed that of this program. Fields are those that differ.
	Recorded json.RawMessage `json:"recorded"`
	Replayed json.RawMessage `json:"replayed,omitempty"`
	Fields   []fields.Field  `json:"fields,omitempty"`
	// Missing are the fields that this program reads, and that the recording's version did not record.
	Missing []string `json:"missing,omitempty"`
	// Error says why this program makes no plan.
	Error string `json:"error,omitempty"`
}

func newResult(version string) *Result {
	return &Result{
		Schema: schemaName, Version: version, Recorded: []string{}, Counts: []Count{}, Different: []Decision{}, NotComparable: []Decision{},
		counts: map[[2]string]*Count{},
	}
}

// add adds a record. It returns an error if its plan is no JSON object.
func (r *Result) add(header *recording.Header, place Place, record *recording.Record) error {
	if !slices.Contains(r.Recorded, header.Version) {
		r.Recorded = append(r.Recorded, header.Version)
	}
	if !record.IsSync() {
		r.Dropped += record.Dropped
		return nil
	}
	r.Syncs++
	if r.From.IsZero() || record.Time.Before(r.From) {
		r.From = record.Time
	}
	if record.Time.After(r.To) {
		r.To = record.Time
	}
	if len(record.Observed) == 0 {
		return nil
	}
	var named struct{ Policy string }
	if err := json.Unmarshal(record.Plan, &named); err != nil {
		return fmt.Errorf("the plan of %s %s/%s: %w", record.Kind, record.Namespace, record.Name, err)
	}
	count := r.count(record.Kind, named.Policy)
	d := Decision{
		Place: place, Time: record.Time, Kind: record.Kind, Namespace: record.Namespace, Name: record.Name, Causes: record.Causes,
		Observed: record.Observed, Recorded: record.Plan,
	}
	kind := kindOf(record.Kind)
	if kind == nil {
		d.Error = "this program has no such kind"
		count.NotComparable++
		r.NotComparable = append(r.NotComparable, d)
		return nil
	}
	recorded, own := header.Fields[record.Kind], fieldsOf()[record.Kind]
	plan, err := decide(kind, record)
	switch d.Replayed = plan; {
	case err != nil:
		d.Error = err.Error()
	case bytes.Equal(plan, record.Plan):
		count.Same++
		return nil
	default:
		if d.Fields, err = differences(record.Plan, plan, recorded.Plan, own.Plan); err != nil {
			return err
		}
		if len(d.Fields) == 0 {
			count.Same++
			return nil
		}
	}
	if d.Missing = without(own.Observed, recorded.Observed); len(d.Missing) > 0 {
		count.NotComparable++
		r.NotComparable = append(r.NotComparable, d)
		return nil
	}
	count.Different++
	r.Different = append(r.Different, d)
	return nil
}

func (r *Result) count(kind, policy string) *Count {
	key := [2]string{kind, policy}
	if r.counts[key] == nil {
		r.counts[key] = &Count{Kind: kind, Policy: policy}
	}
	return r.counts[key]
}

// sort sets Counts, and sorts all results for the output.
func (r *Result) sort() {
	for _, count := range r.counts {
		r.Counts = append(r.Counts, *count)
	}
	slices.SortFunc(r.Counts, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Policy, b.Policy)) })
	byTime := func(a, b Decision) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	}
	slices.SortStableFunc(r.Different, byTime)
	slices.SortStableFunc(r.NotComparable, byTime)
}

// differences returns the fields in which two plans differ, among those that both programs have.
func differences(recorded, replayed json.RawMessage, recordedFields, ownFields []string) ([]fields.Field, error) {
	changed, err := fields.Diff(recorded, replayed)
	unknown := slices.Concat(without(recordedFields, ownFields), without(ownFields, recordedFields))
	return slices.DeleteFunc(changed, func(f fields.Field) bool {
		path := withoutItems(f.Path)
		return slices.ContainsFunc(unknown, func(field string) bool { return path == field || strings.HasPrefix(path, field+".") })
	}), err
}

// withoutItems returns a path without the names of list items and keys.
func withoutItems(path string) string {
	for {
		before, rest, found := strings.Cut(path, "[")
		_, after, closed := strings.Cut(rest, "]")
		if !found || !closed {
			return path
		}
		path = before + after
	}
}

// without returns the elements of all that are not in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}
