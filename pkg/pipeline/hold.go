/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package pipeline

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/trace"
)

// Gears that can be held by hand are for learning: what piles up before one, and how is it
// caught up with afterwards? Nothing is lost by it. Each releases itself after a while.

// HoldLimit is how long a gear is held at most, and keptLimit how many calls of the reflector a
// queue that is held keeps: then it is released, however long it has been held.
const (
	HoldLimit = 5 * time.Minute
	keptLimit = 100_000
)

// Hold says that a gear is held.
type Hold struct {
	Since, Until time.Time
	// Kept is how many deltas have piled up, of all objects together.
	Kept int
}

// Kept is one delta that is on its way into a queue that is held.
type Kept struct {
	Object          trace.Object
	Verb            cache.DeltaType
	ResourceVersion string
	Since           time.Time
}

// errHeld is what requests fail with while the wire is held.
var errHeld = errors.New("the wire is held by hand")

// HoldQueue keeps the reflector's deltas from the queue, of either kind, until ReleaseQueue, or for
// HoldLimit: the index and the handlers stay as they are. It does nothing if it is held already, or does not run.
func (i *Informer) HoldQueue() {
	if w := i.running(); w != nil {
		w.dam.close(i.ReleaseQueue)
	}
}

// ReleaseQueue puts into the queue what was kept from it, in its order.
func (i *Informer) ReleaseQueue() {
	if w := i.running(); w != nil {
		w.dam.open(w.pass)
	}
}

// QueueHeld tells whether the queue is held; nil if it is not. kept are the first deltas that
// have piled up, most at most.
func (i *Informer) QueueHeld(most int) (hold *Hold, kept []Kept) {
	w := i.running()
	if w == nil {
		return nil, nil
	}
	return w.dam.look(&i.tracer, most)
}

func (i *Informer) running() *wire {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.wire
}

// HoldWire breaks the WATCH, and has every LIST and WATCH fail until ReleaseWire, or for
// HoldLimit. It does nothing if it is held already.
func (i *Informer) HoldWire() { i.source.hold(i.ReleaseWire) }

// ReleaseWire lets the reflector reach the API server again. It tries when its backoff is over.
func (i *Informer) ReleaseWire() { i.source.release() }

// WireHeld tells whether the wire is held; nil if it is not.
func (i *Informer) WireHeld() *Hold { return i.source.heldSince() }

// DropWatch breaks the WATCH that is open, after dropDelay, and the reflector opens another from its
// last resourceVersion. A WATCH that delivers its initial list meanwhile begins anew.
//
// If expired, it breaks the WATCH at once, and the next one fails with 410 Gone: the reflector reads
// everything again.
func (i *Informer) DropWatch(expired bool) { i.source.drop(expired) }

// dam is what the reflector hands over meets first. It lets all of it pass, unless it is closed.
type dam struct {
	closed atomic.Bool

	mu      sync.Mutex
	since   time.Time
	kept    []keptCall
	release *time.Timer
}

type keptCall struct {
	handed

	at time.Time
}

// keeps reports whether it keeps h: then that is handed on when it opens. It is called for
// everything that comes off the wire, and closed hardly ever.
func (d *dam) keeps(h handed) bool {
	if !d.closed.Load() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed.Load() {
		return false // All that was kept has been passed on: h follows.
	}
	d.kept = append(d.kept, keptCall{h, time.Now()})
	if len(d.kept) == keptLimit {
		d.release.Reset(0)
	}
	return true
}

func (d *dam) close(open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return
	}
	d.since = time.Now()
	d.release = time.AfterFunc(HoldLimit, open)
	d.closed.Store(true)
}

// open passes on what was kept. What arrives meanwhile waits for its turn, in keeps.
func (d *dam) open(pass func(handed) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed.Load() {
		return
	}
	d.release.Stop()
	for _, call := range d.kept {
		if err := pass(call.handed); err != nil {
			utilruntime.HandleErrorWithContext(context.Background(), err, "Put what was held into the queue")
		}
	}
	d.kept = nil
	d.closed.Store(false)
}

// abandon forgets what was kept: the informer has stopped.
func (d *dam) abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		d.release.Stop()
		d.kept = nil
		d.closed.Store(false)
	}
}

func (d *dam) look(t *tracer, most int) (*Hold, []Kept) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed.Load() {
		return nil, nil
	}
	hold := &Hold{Since: d.since, Until: d.since.Add(HoldLimit)}
	var kept []Kept
	for _, call := range d.kept {
		objects := call.all
		if call.obj != nil {
			objects = []any{call.obj}
		}
		hold.Kept += len(objects)
		for _, obj := range objects[:min(len(objects), most-len(kept))] {
			kept = append(kept, t.kept(call, obj))
		}
	}
	return hold, kept
}

func (t *tracer) kept(call keptCall, obj any) Kept {
	kept := Kept{Object: trace.Object{Kind: t.kind}, Verb: call.verb, Since: call.at}
	if object, ok := accessor(obj); ok {
		kept.Object.Namespace, kept.Object.Name = object.GetNamespace(), object.GetName()
		kept.ResourceVersion = object.GetResourceVersion()
	}
	return kept
}

// The source's side of it: see Informer.HoldWire.

func (s *source) hold(release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		return
	}
	now := s.clock.Now()
	s.held, s.free = &Hold{Since: now, Until: now.Add(HoldLimit)}, time.AfterFunc(HoldLimit, release)
	go breakOff(s.open)
}

func (s *source) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		s.free.Stop()
		s.held = nil
	}
}

func (s *source) heldSince() *Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// dropDelay is how long a WATCH stays open after it is dropped. client-go does not resume a
// WATCH that ended within a second and without an event: it reads everything again. This one
// is older then.
const dropDelay = time.Second

func (s *source) drop(expired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = s.expired || expired
	open := s.open
	if expired {
		go breakOff(open)
		return
	}
	time.AfterFunc(dropDelay, func() { breakOff(open) })
}

// breakOff ends a WATCH, if one is open, as a connection that is lost does. That may take a
// while: whoever wants to know how the source is does not wait for it.
func breakOff(w *openWatch) {
	if w != nil {
		w.Interface.Stop()
	}
}

// obstacle is what keeps a request from the API server, if that was asked for.
func (s *source) obstacle(watch bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.held != nil:
		return errHeld
	case watch && s.expired:
		s.expired = false
		return apierrors.NewResourceExpired("the resourceVersion is called too old by hand")
	}
	return nil
}
