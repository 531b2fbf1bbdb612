// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/trace"
)

// whySchema names the format of -o json and -o yaml. Under this name, fields are only added, and their meanings do not change.
const whySchema = "glassback.dev/why/v1"

// whyAnswer is the answer that why prints.
type whyAnswer struct {
	Schema   string    `json:"schema"`
	Operator string    `json:"operator"` // the name of the replica
	Time     time.Time `json:"time"`     // by the replica's clock

	inspect.Object
	Exists bool `json:"exists"`
	// Controllers are the controllers that sync the kind. StandsBy is set if this replica leads none of them.
	Controllers []string `json:"controllers"`
	StandsBy    bool     `json:"standsBy,omitempty"`

	// Syncs are the last syncs, oldest first. Changes are the last changes of an object that no controller syncs.
	Syncs   []*whySync  `json:"syncs"`
	Changes []*whyCause `json:"changes,omitempty"`

	// Forgotten and Gaps are from inspect.Life.
	Forgotten bool `json:"forgotten,omitempty"`
	Gaps      bool `json:"gaps,omitempty"`
}

// whySync is one sync.
type whySync struct {
	Time       time.Time      `json:"time"`
	Controller string         `json:"controller"`
	Object     inspect.Object `json:"object"`

	Causes     []*whyCause `json:"causes,omitempty"`
	MoreCauses int         `json:"moreCauses,omitempty"`
	// Above is set if the causes of this sync are further up in the answer. Cut is set if they are omitted.
	Above bool `json:"above,omitempty"`
	Cut   bool `json:"cut,omitempty"`

	Running  bool       `json:"running,omitempty"`
	Duration float64    `json:"duration,omitempty"` // seconds
	Writes   []whyWrite `json:"writes,omitempty"`
	Error    string     `json:"error,omitempty"`
	Again    *time.Time `json:"again,omitempty"` // the time that it requested for its next run
	// Repeats is the number of similar syncs before this one that are not recorded: each had a timer as its only cause, wrote nothing and
	// had no error.
	Repeats int `json:"repeats,omitempty"`
}

// whyWrite is one object that a sync has written.
type whyWrite struct {
	Did             string         `json:"did"` // such as "create jobs.batch"
	Object          inspect.Object `json:"object"`
	ResourceVersion string         `json:"resourceVersion,omitempty"`
}

// The origins of a change.
const (
	bySync    = "sync"    // a sync of this process of the operator
	byEarlier = "earlier" // a process of the operator that ran before this one
	byOthers  = "others"  // another client
)

// verbSync is the verb of an update whose old and new objects have the same resourceVersion. The informer gives it to a handler after a
// relist, or in a resync.
const verbSync = string(cache.Sync)

// whyCause is a cause of a sync.
type whyCause struct {
	Time            time.Time        `json:"time"`
	Verb            string           `json:"verb"` // as in trace.Cause
	Object          *inspect.Object  `json:"object,omitempty"`
	ResourceVersion string           `json:"resourceVersion,omitempty"`
	Changes         []inspect.Change `json:"changes,omitempty"`
	// Listed is set if the change came with a LIST: the object existed before, or no watch was open at the time of the change.
	Listed bool `json:"listed,omitempty"`
	// Missed is set if the watch missed the deletion and a relist revealed it. ResourceVersion is that of the last known state.
	Missed bool `json:"missed,omitempty"`

	// By is the author of the change, or "" if it is not known. Did is the write of a sync.
	By  string `json:"by,omitempty"`
	Did string `json:"did,omitempty"`
	// Manager is the field manager of the client that made the change, and Written the time of its write, in whole seconds. Both are
	// absent for a write of a sync, and if the object does not name one client.
	Manager string     `json:"manager,omitempty"`
	Written *time.Time `json:"written,omitempty"`
	// Sync is the sync that made the change, or that requested the run, or the first of Failures consecutive failed syncs. Error is the
	// error of the last of these.
	Sync     *whySync `json:"sync,omitempty"`
	Failures int      `json:"failures,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// These bound the answer: the length of a chain, the number of causes, and the number of requested objects.
const (
	whyDepth  = 5
	maxCauses = 300
	maxLives  = 100
)

// lifeReader returns the life of an object, or nil if it has none.
type lifeReader func(inspect.Object) (*inspect.Life, error)

// chains follows causes back in time. It remembers the requested objects and the syncs in the answer.
type chains struct {
	lifeOf lifeReader
	start  time.Time // of the records of this process
	asked  map[inspect.Object]*inspect.Life
	shown  map[syncID]bool
	causes int
	err    error // the first error: there are no requests after it
}

type syncID struct {
	object inspect.Object
	seq    uint64
}

// answerWhy returns the last syncs of an object. root is the life of this object.
func answerWhy(overview *inspect.Overview, root *inspect.Life, last int, lifeOf lifeReader) (*whyAnswer, error) {
	answer := &whyAnswer{
		Schema: whySchema, Operator: overview.Instance, Time: overview.Time, Object: root.Object, Exists: root.Exists,
		Controllers: []string{}, StandsBy: true, Syncs: []*whySync{}, Forgotten: root.Forgotten, Gaps: root.Gaps,
	}
	for _, controller := range overview.Controllers {
		if controller.Kind == root.Kind {
			answer.Controllers = append(answer.Controllers, controller.ID)
			answer.StandsBy = answer.StandsBy && controller.Workers == 0
		}
	}
	answer.StandsBy = answer.StandsBy && len(answer.Controllers) > 0
	c := &chains{lifeOf: lifeOf, start: overview.Started, asked: map[inspect.Object]*inspect.Life{root.Object: root}, shown: map[syncID]bool{}}
	syncs := syncsOf(root)
	for _, s := range newest(syncs, last) {
		answer.Syncs = append(answer.Syncs, c.sync(s, 0))
	}
	if len(syncs) == 0 {
		answer.Changes = c.changes(root, last)
	}
	return answer, c.err
}

func newest[T any](all []T, most int) []T { return all[max(0, len(all)-most):] }

// changes returns the last changes of an object.
func (c *chains) changes(life *inspect.Life, last int) []*whyCause {
	var all []*inspect.Event
	for n := range life.Events {
		if e := &life.Events[n]; e.Stage == trace.Index.String() && e.Object == life.Object {
			all = append(all, e)
		}
	}
	var changes []*whyCause
	for _, e := range newest(all, last) {
		changes = append(changes, c.change(inspect.Cause{
			Time: e.Time, Verb: e.Verb, Object: e.Object, ResourceVersion: e.ResourceVersion,
		}, e.Seq, 0))
	}
	return changes
}

// sync returns a sync. Only its first occurrence in the answer has its causes.
func (c *chains) sync(s *pastSync, depth int) *whySync {
	result := s.whySync
	id := syncID{result.Object, s.seq}
	switch {
	case c.shown[id]:
		result.Above = true
	case depth > whyDepth:
		result.Cut = true
	default:
		c.shown[id] = true
		result.MoreCauses = s.more
		for _, cause := range s.causes {
			if c.causes++; c.causes > maxCauses {
				result.MoreCauses++
				continue
			}
			result.Causes = append(result.Causes, c.cause(cause, s, depth))
		}
	}
	return &result
}

// cause returns one cause of s.
func (c *chains) cause(cause inspect.Cause, s *pastSync, depth int) *whyCause {
	switch cause.Verb {
	case trace.VerbAfter:
		return c.timer(cause, s)
	case trace.VerbRetry:
		return c.retry(cause, s, depth)
	}
	if cause.Name == "" {
		return &whyCause{Time: cause.Time, Verb: cause.Verb}
	}
	return c.change(cause, s.seq, depth)
}

// timer finds the sync that asked to run again at the time of s. It leaves out the causes of that sync.
func (c *chains) timer(cause inspect.Cause, s *pastSync) *whyCause {
	result := &whyCause{Time: cause.Time, Verb: cause.Verb}
	if s.Repeats > 0 { // One of the repeated syncs asked for s.
		return result
	}
	best := time.Duration(math.MaxInt64)
	for _, before := range c.before(s) {
		if before.Again == nil {
			continue
		}
		if off := s.Time.Sub(*before.Again).Abs(); off <= best { // Of several equal times, the last sync counts.
			best = off
			asked := before.whySync
			asked.Cut = true
			result.Sync = &asked
		}
	}
	return result
}

// retry finds the consecutive failed syncs before s, and the causes of the first of them.
func (c *chains) retry(cause inspect.Cause, s *pastSync, depth int) *whyCause {
	result := &whyCause{Time: cause.Time, Verb: cause.Verb}
	var first *pastSync
	for _, before := range slices.Backward(c.before(s)) {
		if before.Error == "" {
			break
		}
		result.Error = cmp.Or(result.Error, before.Error)
		result.Failures++
		first = before
		if !slices.ContainsFunc(before.causes, func(c inspect.Cause) bool { return c.Verb == trace.VerbRetry }) {
			break
		}
	}
	if first != nil {
		result.Sync = c.sync(first, depth+1)
	}
	return result
}

// before returns the syncs of the same object by the same controller before s.
func (c *chains) before(s *pastSync) []*pastSync {
	var all []*pastSync
	for _, other := range syncsOf(c.life(s.Object)) {
		if other.Controller == s.Controller && other.seq < s.seq {
			all = append(all, other)
		}
	}
	return all
}

// change returns a change of an object before event number seq.
func (c *chains) change(cause inspect.Cause, seq uint64, depth int) *whyCause {
	object := cause.Object
	result := &whyCause{Time: cause.Time, Verb: cause.Verb, Object: &object, ResourceVersion: cause.ResourceVersion}
	if cause.Verb == verbSync { // The change that led to this version was an earlier cause.
		return result
	}
	life := c.life(object)
	seen := arrival(life, result)
	if seen != nil {
		result.Changes = seen.Changes
		result.Listed = seen.Verb == "Replaced"
		result.Missed = seen.Missed
	}
	if len(result.Changes) == 0 {
		for _, field := range cause.Fields {
			result.Changes = append(result.Changes, inspect.Change{Path: field})
		}
	}
	write := writeOf(life, result, seq)
	if write == nil {
		// The first recorded event of the object may come after the write.
		if seen != nil && (!life.Forgotten || life.Events[0].ResourceVersion != seen.ResourceVersion) {
			c.author(result, newWriter(life, seen))
		}
		return result
	}
	result.By, result.Did = bySync, write.Verb
	if s := during(syncsOf(c.life(*write.For)), write); s != nil {
		result.Sync = c.sync(s, depth+1)
	}
	return result
}

// author sets the author of a change that no recorded write has made. Writer may be nil.
func (c *chains) author(change *whyCause, writer *inspect.Writer) {
	change.By = byOthers
	if writer == nil {
		return
	}
	change.Manager, change.Written = writer.Manager, &writer.Time
	// A change from before the start of this process is Listed or Added. The API server's times are whole seconds.
	first := change.Listed || change.Verb == "Added"
	if first && writer.Manager == glassback.Name && c.start.Sub(writer.Time) > time.Second {
		change.By = byEarlier
	}
}

// newWriter returns the last writer in the managedFields of a version, or nil if another client made the version. A deletion, and a client
// that only removes fields, add nothing to managedFields.
func newWriter(life *inspect.Life, version *inspect.Event) *inspect.Writer {
	writer := version.Writer
	for n := range life.Events {
		e := &life.Events[n]
		if e == version {
			break
		}
		if e.Stage == version.Stage && e.Object == version.Object && e.Writer != nil && writer != nil && *e.Writer == *writer {
			return nil
		}
	}
	if slices.ContainsFunc(version.Changes, func(c inspect.Change) bool { return c.Path == "metadata.deletionTimestamp" }) {
		return nil
	}
	return writer
}

// life returns the life of an object. It is empty if the object has none.
func (c *chains) life(o inspect.Object) *inspect.Life {
	if known := c.asked[o]; known != nil {
		return known
	}
	var life *inspect.Life
	if c.err == nil && len(c.asked) < maxLives {
		life, c.err = c.lifeOf(o)
	}
	if life == nil {
		life = &inspect.Life{Object: o}
	}
	c.asked[o] = life
	return life
}

// arrival returns the event at which a change reached an index, or nil if it is not recorded. A missed deletion has the version of the
// last known state, which has an event of its own.
func arrival(life *inspect.Life, change *whyCause) *inspect.Event {
	for n := range life.Events {
		e := &life.Events[n]
		if e.Stage == trace.Index.String() && e.Object == life.Object && e.ResourceVersion == change.ResourceVersion &&
			(e.Verb == "Deleted") == (change.Verb == "Deleted") {
			return e
		}
	}
	return nil
}

// writeOf returns the write of this operator that made a change, or nil if none is recorded.
func writeOf(life *inspect.Life, change *whyCause, seq uint64) *inspect.Event {
	// A delete and an eviction are recorded with the version before the deletion.
	deletion := change.Verb == "Deleted" ||
		slices.ContainsFunc(change.Changes, func(c inspect.Change) bool { return c.Path == "metadata.deletionTimestamp" })
	var deleted *inspect.Event
	for n := range life.Events {
		e := &life.Events[n]
		switch isWrite := e.Stage == trace.Write.String() && e.Object == life.Object && e.For != nil && e.Error == ""; {
		case isWrite && (strings.HasPrefix(e.Verb, "delete ") || strings.HasPrefix(e.Verb, "evict ")):
			if deletion && e.Seq < seq {
				deleted = e
			}
		case isWrite && e.ResourceVersion == change.ResourceVersion && change.Verb != "Deleted":
			return e // If the watch missed the deletion, the object has the version of its last known state.
		case e.Stage == trace.Index.String() && e.Verb == "Added" && e.Object == life.Object && e.Seq < seq:
			deleted = nil // The delete was of another object with the same name.
		}
	}
	return deleted
}

// pastSync is a recorded sync.
type pastSync struct {
	whySync

	seq, end uint64 // numbers of its first and last event; end is 0 while it runs
	causes   []inspect.Cause
	more     int
}

// syncsOf returns the syncs of an object, oldest first.
func syncsOf(life *inspect.Life) []*pastSync {
	var all []*pastSync
	running := map[string]*pastSync{} // by controller
	for n := range life.Events {
		e := &life.Events[n]
		if e.For == nil || *e.For != life.Object {
			continue
		}
		switch now := running[e.Source]; {
		case e.Stage == trace.Sync.String():
			now = &pastSync{
				whySync: whySync{Time: e.Time, Controller: e.Source, Object: life.Object, Running: true},
				seq:     e.Seq, causes: e.Causes, more: e.MoreCauses,
			}
			running[e.Source] = now
			all = append(all, now)
		case now == nil: // Its first event is not recorded any more.
		case e.Stage == trace.Write.String():
			now.Writes = append(now.Writes, whyWrite{e.Verb, e.Object, e.ResourceVersion})
		case e.Stage == trace.Done.String():
			now.finish(e)
			delete(running, e.Source)
		}
	}
	return all
}

func (s *pastSync) finish(done *inspect.Event) {
	s.Running, s.Duration, s.Error, s.Repeats, s.end = false, done.Duration, done.Error, done.Repeats, done.Seq
	if done.After > 0 {
		again := done.Time.Add(time.Duration(done.After * float64(time.Second)))
		s.Again = &again
	}
}

// during returns the sync of a write, or nil if it is not recorded.
func during(syncs []*pastSync, write *inspect.Event) *pastSync {
	for _, s := range slices.Backward(syncs) {
		if s.Controller == write.Source && s.seq < write.Seq {
			if s.end != 0 && s.end < write.Seq {
				return nil
			}
			return s
		}
	}
	return nil
}
