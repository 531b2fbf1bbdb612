// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
)

const (
	// maxMoveTime is the maximum time for which a sync moves slots. Then the next sync observes the cluster again.
	maxMoveTime = 2 * time.Second
	// maxKeysAtOnce and maxBytesAtOnce limit what one MIGRATE sends, unless one key is larger: neither node serves a client meanwhile.
	maxKeysAtOnce  = 32
	maxBytesAtOnce = 1 << 20
	// maxKeySize is the size of the largest key that is sent. For a larger one, the nodes might not answer for so long that the kubelet
	// restarts them: see livenessProbe. Redis itself takes no key whose dump has more than 512 MiB (proto-max-bulk-len).
	maxKeySize = 512 << 20
	// sendRate is how many bytes of a key a slow machine dumps, sends and restores in a second. migrateTimeout is how long Redis waits
	// for the other node in addition to that.
	sendRate       = 16 << 20
	migrateTimeout = 5 * time.Second
	// settleTime is how long nodes take to answer messages of the cluster bus after they have sent or restored a large key. settleTries is
	// how often the operator asks whether they have.
	settleTime  = time.Second
	settleTries = 10
	// maxHearingTime is how long the operator waits until the old owner of slots has learned of the new owner. The old owner
	// mostly learns at once. hearingPoll is how often the operator asks the old owner.
	maxHearingTime = time.Second
	hearingPoll    = 2 * time.Millisecond
)

// The commands for slots that move.
var (
	// From on to peer.
	moveSlots = &verb{text: "move slots", do: executor.moveSlots}
	// on marks slots as migrating to peer.
	openSlots = &verb{text: "open slots", do: func(e executor, ctx context.Context, c command) error {
		return e.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotMigrating, c.peer.ID)
	}}
	// on removes the marks of slots.
	closeSlots = &verb{text: "close slots", do: func(e executor, ctx context.Context, c command) error {
		return e.node(c.on).SetSlots(ctx, c.slots, redisnode.SlotStable, "")
	}}
	// on marks slots as migrating to the node that has keys of them.
	resumeMove = &verb{text: "resume move", do: executor.resumeMove}
)

// moveSlots moves slots and their keys while clients use them: the old owner redirects clients to the new owner for each key
// that has moved. If the move is not finished, a later sync finds its marks and continues the move.
// https://redis.io/docs/latest/commands/cluster-setslot/
func (e executor) moveSlots(ctx context.Context, c command) error {
	from, to, slots := c.on, c.peer, c.slots
	begun, moves := e.clock.Now(), e.session.moves
	source, target := e.node(from), e.node(to)
	if err := mark(ctx, target, slots, redisnode.SlotImporting, to.self().Importing, from.ID); err != nil {
		return err
	}
	if err := mark(ctx, source, slots, redisnode.SlotMigrating, from.self().Migrating, to.ID); err != nil {
		return err
	}
	for {
		keys, err := source.Keys(ctx, slots, maxKeysAtOnce)
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, slot := range slices.Sorted(maps.Keys(keys)) {
			sizes, err := source.Sizes(ctx, keys[slot])
			if err != nil {
				return err
			}
			for _, b := range batches(keys[slot], sizes) {
				if err := e.migrate(ctx, from, to, b); err != nil {
					moves[slot] = moves[slot].again(withoutPort(err), b.largest, e.clock.Now())
					return fmt.Errorf("slot %d: %w", slot, err)
				}
				if e.clock.Since(begun) > maxMoveTime {
					return nil // The marks remain.
				}
			}
		}
	}
	maps.DeleteFunc(moves, func(slot int, _ failedMove) bool { return slots.Has(slot) })
	if err := target.SetSlots(ctx, slots, redisnode.SlotNode, to.ID); err != nil {
		return err
	}
	return e.waitUntilHeard(ctx, source, slots)
}

// batch is keys of one slot that one MIGRATE sends.
type batch struct {
	keys           []string
	bytes, largest int64
}

// batches returns keys, with their sizes, as batches of at most maxBytesAtOnce. A larger key is a batch of its own.
func batches(keys []string, sizes []int64) []batch {
	var all []batch
	for i, key := range keys {
		if last := len(all) - 1; last < 0 || all[last].bytes+sizes[i] > maxBytesAtOnce {
			all = append(all, batch{})
		}
		b := &all[len(all)-1]
		b.keys, b.bytes, b.largest = append(b.keys, key), b.bytes+sizes[i], max(b.largest, sizes[i])
	}
	return all
}

// migrate sends keys of one slot. While a large key is sent, the other nodes hear nothing of the two, and would elect a replica of theirs
// after a cluster-node-timeout. So they wait longer meanwhile: see resetNodeTimeout.
func (e executor) migrate(ctx context.Context, from, to *member, b batch) error {
	if b.bytes > maxKeySize {
		return fmt.Errorf("a key takes %s of memory, and at most %s can be moved: split it, or delete it (redis-cli --memkeys finds it)",
			mebibytes(b.bytes), mebibytes(maxKeySize))
	}
	current := e.session
	sending := time.Duration(b.bytes) * time.Second / sendRate
	timeout, login := migrateTimeout+sending, current.loginTo(to.Pod)
	send := func() error { return e.node(from).Migrate(ctx, to.ip(), to.port(), login, timeout, b.keys) }
	if sending < e.o.nodeTimeout()/4 {
		return send()
	}
	current.timeout = timeoutRaised
	err := e.setNodeTimeout(ctx, e.o.nodeTimeout()+3*timeout)
	if err == nil {
		err = send()
	}
	for range settleTries {
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err()) // The nodes may not answer yet.
		case <-time.After(settleTime):
		}
		_, fromErr := e.view(ctx, from)
		_, toErr := e.view(ctx, to)
		if fromErr == nil && toErr == nil {
			return errors.Join(err, e.resetNodeTimeout(ctx))
		}
	}
	return err
}

// directiveNodeTimeout is how long nodes wait for a silent node before they suspect it to have failed.
const directiveNodeTimeout = "cluster-node-timeout"

// nodeTimeout is what a session knows of directiveNodeTimeout.
type nodeTimeout int

const (
	timeoutUnknown nodeTimeout = iota // an earlier operator may have raised it, if slots have marks
	timeoutRaised
	timeoutNormal
)

// setNodeTimeout sets directiveNodeTimeout of all nodes that answer. It is no error if a node refuses the usual one: it has that already.
func (e executor) setNodeTimeout(ctx context.Context, timeout time.Duration) error {
	value, usual := strconv.FormatInt(timeout.Milliseconds(), 10), timeout == e.o.nodeTimeout()
	return inParallel(e.o.answering(), func(m *member) error {
		err := e.node(m).SetDirective(ctx, directiveNodeTimeout, value)
		if usual && refusedDirective(err) != nil {
			err = nil
		}
		return err
	})
}

// resetNodeTimeout undoes setNodeTimeout.
func (e executor) resetNodeTimeout(ctx context.Context) error {
	if err := e.setNodeTimeout(ctx, e.o.nodeTimeout()); err != nil {
		return err
	}
	e.session.timeout = timeoutNormal
	return nil
}

// endLongTimeout calls resetNodeTimeout if the nodes may still have a longer timeout, and both ends of each move answer again. Nothing else
// has to be done first: a node that fails meanwhile is replaced so much later.
func (e executor) endLongTimeout(ctx context.Context) error {
	moving := false
	for _, m := range e.o.answering() {
		self := m.self()
		for _, id := range slices.AppendSeq(slices.Collect(maps.Values(self.Migrating)), maps.Values(self.Importing)) {
			if other := e.o.byID[id]; other != nil && !other.answers() {
				return nil
			}
			moving = true
		}
	}
	if known := e.session.timeout; known == timeoutRaised || (known == timeoutUnknown && moving) {
		return e.resetNodeTimeout(ctx)
	}
	return nil
}

// isMarked returns whether a member has a mark for one of the slots.
func isMarked(m *member, slots redisnode.Slots) bool {
	self := m.self()
	return slices.ContainsFunc(slices.AppendSeq(slices.Collect(maps.Keys(self.Migrating)), maps.Keys(self.Importing)), slots.Has)
}

// mebibytes returns a size for a message.
func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// resumeMove resumes moves whose target is lost. A former replica of the target, now a master, may have keys of the slots.
// resumeMove marks these slots as migrating to that master. If no other master has such keys, it removes the marks.
func (e executor) resumeMove(ctx context.Context, c command) error {
	from, slots := c.on, c.slots
	for _, m := range e.o.answering() {
		if m == from || !m.View.Master || from.entry(m.ID) == nil {
			continue
		}
		keys, err := e.node(m).Keys(ctx, slots, 1)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			found := redisnode.NewSlots(slices.Collect(maps.Keys(keys))...)
			return e.node(from).SetSlots(ctx, found, redisnode.SlotMigrating, m.ID)
		}
	}
	return e.node(from).SetSlots(ctx, slots, redisnode.SlotStable, "")
}

// waitUntilHeard waits until the new owner has told the old owner that it has the slots. Then it removes the marks of the
// old owner. The operator does not tell the old owner itself: it would do so slot by slot. Then the old owner would conclude
// that the new owner has given up the other slots, and would believe any claim for them, however old. Meanwhile the old
// owner has no keys of the slots, and redirects clients to the new owner.
func (e executor) waitUntilHeard(ctx context.Context, source Node, slots redisnode.Slots) error {
	for begun := e.clock.Now(); e.clock.Since(begun) < maxHearingTime; {
		view, err := source.View(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(view.Table, func(entry redisnode.Entry) bool { return entry.Myself && entry.Slots.Intersect(slots).Len() > 0 }) {
			return source.SetSlots(ctx, slots, redisnode.SlotStable, "")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(hearingPoll):
		}
	}
	return nil // A later sync removes the marks: see finishMoves.
}

// mark marks those slots that are not marked yet.
func mark(ctx context.Context, node Node, slots redisnode.Slots, how redisnode.SlotState, marks map[int]string, id string) error {
	var marked []int
	for slot, with := range marks {
		if with == id {
			marked = append(marked, slot)
		}
	}
	slots = slots.Without(redisnode.NewSlots(marked...))
	if slots.Len() == 0 {
		return nil
	}
	return node.SetSlots(ctx, slots, how, id)
}
