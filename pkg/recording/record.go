// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/trace"
)

// Schema is the name of the format. Under this name the meaning of a field does not change, and fields are only added.
const Schema = "glassback.dev/recording/v1"

// Header is the first line of a file.
type Header struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"` // of the operator
	Commit   string `json:"commit"`
	Instance string `json:"instance"`
	// Time is when the file was begun, and Started when the operator began the first one.
	Time    time.Time `json:"time"`
	Started time.Time `json:"started,omitzero"`
	// Fields are what the operator records of each kind.
	Fields map[string]Fields `json:"fields"`
}

// Fields are the paths of all fields that a record can have, without those within objects of the API.
type Fields struct {
	Observed []string `json:"observed"`
	Plan     []string `json:"plan"`
}

// Record is a line of a file: one sync, or one of the lines that IsSync describes.
type Record struct {
	// Time is when the sync began.
	Time time.Time `json:"time"`
	// Dropped counts the syncs, and DroppedStages the stages, before this line that were not recorded, since the writer was too slow. The
	// line has nothing else.
	Dropped       uint64 `json:"dropped,omitempty"`
	DroppedStages uint64 `json:"droppedStages,omitempty"`
	// Stage is what an object passed before a sync. The line has nothing else.
	Stage *Stage `json:"stage,omitempty"`
	// Overview is the state of all informers and workqueues, as the page shows it. The line has nothing else.
	Overview json.RawMessage `json:"overview,omitempty"`

	Controller string  `json:"controller,omitempty"`
	Kind       string  `json:"kind,omitempty"`
	Namespace  string  `json:"namespace,omitempty"`
	Name       string  `json:"name,omitempty"`
	Causes     []Cause `json:"causes,omitempty"`
	// MoreCauses counts further causes, which were not kept.
	MoreCauses int `json:"moreCauses,omitempty"`

	// Observed is what decide got, and Plan what it returned. Both are empty for a sync that ended before decide.
	Observed json.RawMessage `json:"observed,omitempty"`
	Plan     json.RawMessage `json:"plan,omitempty"`

	// Writes are the requests of the sync that changed an object.
	Writes []Write `json:"writes,omitempty"`
	// Took is how long the sync took, and After the time after which it asked to run again.
	Took  metav1.Duration `json:"took,omitzero"`
	After metav1.Duration `json:"after,omitzero"`
	Error string          `json:"error,omitempty"`
}

// IsSync reports whether the line is a sync. Other lines say what was dropped, or are for the page of glassback inspect.
func (r *Record) IsSync() bool { return r.Kind != "" }

// Object names an object.
type Object struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Cause is one reason of a sync: see trace.Cause.
type Cause struct {
	Object

	Time            time.Time `json:"time"`
	Verb            string    `json:"verb"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Fields          []string  `json:"fields,omitempty"`
}

// Write is one write of a sync: see trace.Event.
type Write struct {
	Object

	Time            time.Time `json:"time"`
	Verb            string    `json:"verb"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Error           string    `json:"error,omitempty"`
}

func causesOf(causes []trace.Cause) []Cause {
	var all []Cause
	for _, c := range causes {
		all = append(all, Cause{Object(c.Object), c.Time.UTC(), c.Verb, c.ResourceVersion, c.Fields})
	}
	return all
}

// Kind lets a program decide again on what was recorded of one kind.
type Kind struct {
	Name string
	// Observed and Plan have the types that Observed.Record and Plan.Record return.
	Observed, Plan any
	// DecideOn returns the plan for what Read returned, by the code of this program, as it would be recorded.
	DecideOn func(observed any) (plan json.RawMessage)
}

// NewKind returns the Kind whose decide takes an O that restore makes of a recorded R.
func NewKind[R, W any, O Observed, P Plan[O]](name string, _ W, restore func(*R) O, decide func(O) P) Kind {
	var observed R
	var plan W
	return Kind{Name: name, Observed: observed, Plan: plan, DecideOn: func(recorded any) json.RawMessage {
		o := restore(recorded.(*R))
		return EncodeAgain(decide(o).Record(o))
	}}
}

// Read returns a pointer to a recorded Observed. It returns an error if the text is not such a value.
func (k Kind) Read(text []byte) (observed any, err error) {
	observed = reflect.New(reflect.TypeOf(k.Observed)).Interface()
	return observed, json.Unmarshal(text, observed)
}

// Decide returns the plan for a recorded Observed, as DecideOn does. It returns an error if the text is not such a value.
func (k Kind) Decide(text []byte) (plan json.RawMessage, err error) {
	observed, err := k.Read(text)
	if err != nil {
		return nil, err
	}
	return k.DecideOn(observed), nil
}

// Fields returns the fields of a record of this kind.
func (k Kind) Fields() Fields { return Fields{pathsOf(k.Observed), pathsOf(k.Plan)} }

// FieldsOf returns the fields of the records of some kinds.
func FieldsOf(kinds []Kind) map[string]Fields {
	all := map[string]Fields{}
	for _, k := range kinds {
		all[k.Name] = k.Fields()
	}
	return all
}

func pathsOf(value any) []string {
	var all []string
	addPaths("", reflect.TypeOf(value), &all)
	slices.Sort(all)
	return slices.Compact(all)
}

// addPaths adds the paths of the fields below path. The types of the API have versions of their own: a field that a recording's version of
// them did not have was not in the object.
func addPaths(path string, t reflect.Type, all *[]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if path != "" {
		*all = append(*all, path)
	}
	if isAPI(t.PkgPath()) || t.Kind() != reflect.Struct {
		return
	}
	for _, f := range formOf(t).fields {
		below := path
		if !f.inline {
			below = join(path, f.name)
		}
		addPaths(below, t.Field(f.index).Type, all)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Wall returns t as it is in a record. A time of this process also has a reading of the monotonic clock, by which decide computes how much
// later than t now is. A record has none: so its t is before its now by that difference, also if the clock was set in between.
func Wall(now, t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return now.Round(0).Add(t.Sub(now)).UTC()
}
