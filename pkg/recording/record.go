// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"encoding/json"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/fields"
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
	// Time is when the operator began this file, and Started when it began its first file.
	Time    time.Time `json:"time"`
	Started time.Time `json:"started,omitzero"`
	// Fields has the recorded fields of each kind. The key is the name of the kind.
	Fields map[string]Fields `json:"fields"`
}

// Fields has the paths of all fields that a record of one kind can have. It has no path into an object of the API.
type Fields struct {
	Observed []string `json:"observed"`
	Plan     []string `json:"plan"`
}

// Record is a line of a file after the Header. It has one sync, or the counts of dropped records, or one stage, or one overview.
type Record struct {
	// Time is when the sync began.
	Time time.Time `json:"time"`
	// Dropped and DroppedStages count the syncs and stages before this line that were not recorded because the writer was too slow or failed.
	// A line with them has no other field but Time.
	Dropped       uint64 `json:"dropped,omitempty"`
	DroppedStages uint64 `json:"droppedStages,omitempty"`
	// Stage is one stage that an object passed before a sync. A line with it has no other field but Time.
	Stage *Stage `json:"stage,omitempty"`
	// Overview is the state of all informers and workqueues, as the page shows it. A line with it has no other field but Time.
	Overview json.RawMessage `json:"overview,omitempty"`

	Controller string  `json:"controller,omitempty"`
	Kind       string  `json:"kind,omitempty"`
	Namespace  string  `json:"namespace,omitempty"`
	Name       string  `json:"name,omitempty"`
	Causes     []Cause `json:"causes,omitempty"`
	// MoreCauses is the number of further causes, which are not in Causes.
	MoreCauses int `json:"moreCauses,omitempty"`

	// Observed is the argument of decide, and Plan its result. Both are empty if the sync ended before decide.
	Observed json.RawMessage `json:"observed,omitempty"`
	Plan     json.RawMessage `json:"plan,omitempty"`

	// Writes are the requests of the sync that changed an object.
	Writes []Write `json:"writes,omitempty"`
	// Took is the duration of the sync. After is the delay after which the sync asked to be requeued.
	Took  metav1.Duration `json:"took,omitzero"`
	After metav1.Duration `json:"after,omitzero"`
	Error string          `json:"error,omitempty"`
}

// IsSync reports whether the line has a sync. Other lines have counts of dropped records, or what the page of glassback inspect shows.
func (r *Record) IsSync() bool { return r.Kind != "" }

// Object names an object.
type Object struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Cause is one cause of a sync: see trace.Cause.
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
	var recorded []Cause
	for _, c := range causes {
		recorded = append(recorded, Cause{Object(c.Object), c.Time.UTC(), c.Verb, c.ResourceVersion, c.Fields})
	}
	return recorded
}

// Kind holds the function decide of one kind, so that a program can call it again with a recorded Observed.
type Kind struct {
	Name string
	// Observed and Plan are zero values of the types in a record: those that the methods Record of Observed and of Plan return.
	Observed, Plan any
	// DecideOn calls the decide of this program with a value from Read. It returns the plan as an operator would record it.
	DecideOn func(observed any) (plan json.RawMessage)
}

// NewKind returns the Kind with a name. restore turns a recorded Observed into the argument of decide. The plan only gives the type of
// recorded plans.
func NewKind[RecordedO, RecordedP any, O Observed, P Plan[O]](
	name string, plan RecordedP, restore func(*RecordedO) O, decide func(O) P,
) Kind {
	var observed RecordedO
	return Kind{Name: name, Observed: observed, Plan: plan, DecideOn: func(recorded any) json.RawMessage {
		o := restore(recorded.(*RecordedO))
		return fields.EncodeAgain(decide(o).Record(o))
	}}
}

// Read returns a pointer to a recorded Observed. It returns an error if the text is not the JSON of one.
func (k Kind) Read(text []byte) (observed any, err error) {
	observed = reflect.New(reflect.TypeOf(k.Observed)).Interface()
	return observed, json.Unmarshal(text, observed)
}

// Decide returns the plan for a recorded Observed, as DecideOn does. It returns an error if the text is not the JSON of one.
func (k Kind) Decide(text []byte) (plan json.RawMessage, err error) {
	observed, err := k.Read(text)
	if err != nil {
		return nil, err
	}
	return k.DecideOn(observed), nil
}

// FieldsOf returns the Fields of each kind, by its name.
func FieldsOf(kinds []Kind) map[string]Fields {
	byKind := map[string]Fields{}
	for _, k := range kinds {
		byKind[k.Name] = Fields{fields.PathsOf(k.Observed), fields.PathsOf(k.Plan)}
	}
	return byKind
}

// Wall returns the time t for a record. A record has times of the wall clock only, but decide computes now minus t with the monotonic clock
// of this process. So Wall returns a t for which the wall clock gives the same difference, even if it was set between t and now.
func Wall(now, t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return now.Round(0).Add(t.Sub(now)).UTC()
}
