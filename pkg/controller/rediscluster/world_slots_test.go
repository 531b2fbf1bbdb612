// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/glassback/glassback/pkg/redisnode"
)

// TestSlotsGoToAndFro has the same slots moved to another master and back as fast as it
// goes, under load. What a node was told then meets what it hears, and of two that claim a
// slot the later must win: otherwise it has no owner, and its keys are gone.
func TestSlotsGoToAndFro(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "to-and-fro")
	w.ready("the cluster to be formed")
	load := w.load(t)
	for moves := 0; moves < 500; {
		o := w.seen()
		if n := o.assigned().Len(); n != redisnode.SlotCount {
			t.Fatalf("after %d moves, %d slots have a master: %s", moves, n, w.describe())
		}
		from, others := o.owner(0), o.slotOwners()
		to := others[moves%len(others)]
		if to == from {
			to = others[(moves+1)%len(others)]
		}
		if from == nil || !from.answers() || !to.answers() {
			time.Sleep(time.Millisecond) // In a sync, waitForAgreement waits for them.
			continue
		}
		next := finishMoves(o)
		if next == nil {
			next = handOver(from, to, redisnode.SlotRange(0, minSlotsPerMove-1), "to and fro")
		}
		if len(next.commands) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		if _, err := w.controller.act(t.Context(), o, *next); err != nil {
			t.Fatal(err)
		}
		moves++
	}
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost what was acknowledged", lost)
	}
}

// seen is what the controller sees now.
func (w *world) seen() *observed {
	w.t.Helper()
	rdc, err := w.controller.fetch(cache.NewObjectName("default", w.name))
	if err != nil {
		w.t.Fatal(err)
	}
	o, err := w.controller.observe(w.t.Context(), rdc)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}
