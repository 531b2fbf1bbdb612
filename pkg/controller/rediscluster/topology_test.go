// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/redisnode"
)

// namesOf are the ordinals of members, in their order.
func namesOf(members []*member) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = strings.TrimPrefix(m.name, "demo-")
	}
	return strings.Join(names, " ")
}

func TestTopologyMasters(t *testing.T) {
	empties := slices.Repeat([]part{master("")}, 6)
	left := []part{master("0-5460"), master("5461-10922"), replica(0), replica(1), replica(6), replica(6), master("10923-16383")}
	for name, test := range map[string]struct {
		seen *observed
		want string
	}{
		"those that are stay": {with(six()), "0 1 2"},
		"also if they have other ordinals": {
			with(cluster(replica(3), replica(4), replica(5), master("0-5460"), master("5461-10922"), master("10923-16383"))), "3 4 5"},
		"of too many, those with the most slots": {
			with(cluster(master("0-1"), master("2-8000"), master("8001-16000"), master("16001-16383"), replica(0), replica(1))), "1 2 3"},
		"of as many, the first": {
			with(cluster(master("0-99"), master("100-199"), master("200-299"), master("300-399")), replicas(1)), "0 1"},
		"a silent master stays one":             {with(six(), silenced(1, 1)), "0 1 2"},
		"with nothing yet, the first":           {with(cluster(empties...)), "0 1 2"},
		"on as many machines as there are":      {with(cluster(empties...), on("a", 0, 1, 2, 3), on("b", 4), on("c", 5)), "0 4 5"},
		"and then by their ordinals":            {with(cluster(empties...), on("a", 0, 1, 2), on("b", 3, 4, 5)), "0 1 3"},
		"new ones where there is no master":     {with(sixAnd(master(""), master("")), on("machine-0", 6)), "0 1 2 7"},
		"new ones if there is no other machine": {with(sixAnd(master(""), master("")), on("machine-0", 6, 7)), "0 1 2 6"},
		"none that leaves":                      {with(sixAnd(master(""), master("")), sized(7)), "0 1 2"},
		"none that is silent":                   {with(sixAnd(master(""), master("")), silenced(1, 6)), "0 1 2 7"},
		"of one that leaves, its replica":       {with(cluster(left...), sized(6)), "0 1 4"},
		"of its replicas, the one with the most of its data": {
			with(cluster(left...), sized(6), viewed(func(v *redisnode.View) { v.Offset = 2000 }, 5)), "0 1 5"},
		"but rather one of this revision":                      {with(cluster(left...), sized(6), podIs(old, 4)), "0 1 5"},
		"but none that is not connected":                       {with(cluster(left...), sized(6), linkDown(4, 5)), "0 1"},
		"no replica of one that stays: it would lose its data": {with(triples(), replicas(1)), "0 1 2"},
		"fewer than there are":                                 {with(triples(), replicas(2)), "0 1 2"},
	} {
		if got := namesOf(test.seen.intendedMasters()); got != test.want {
			t.Errorf("%s: masters %s, want %s", name, got, test.want)
		}
	}
}

// give moves slots as nodes do, and has all hear of it.
func give(o *observed, next *transfer) {
	from, to := o.slots[next.from.id].Without(next.slots), o.slots[next.to.id].Union(next.slots)
	for _, m := range o.members {
		for i := range m.view.Table {
			switch e := &m.view.Table[i]; e.ID {
			case next.from.id:
				e.Slots = from
			case next.to.id:
				e.Slots = to
			}
		}
	}
	o.merge()
}

// balanced moves slots until nothing is left to move, and returns how many were.
func balanced(t *testing.T, o *observed) int {
	t.Helper()
	moved, masters := 0, namesOf(o.intendedMasters())
	for next := o.nextTransfer(o.intendedMasters()); next != nil; next = o.nextTransfer(o.intendedMasters()) {
		if moved += next.slots.Len(); moved > redisnode.SlotCount {
			t.Fatal("more slots were moved than there are")
		}
		if next.slots.Len() > maxSlotsPerMove || next.slots.Without(o.slots[next.from.id]).Len() > 0 || next.left < next.slots.Len() {
			t.Fatalf("%s of %s, with %d left", next.slots, next.from.name, next.left)
		}
		give(o, next)
		if got := namesOf(o.intendedMasters()); got != masters {
			t.Fatalf("masters %s while slots are moved, and %s at first", got, masters)
		}
	}
	return moved
}

// TestTopologyNextTransfer moves slots in many clusters until nothing is left to move.
func TestTopologyNextTransfer(t *testing.T) {
	r := rand.New(rand.NewSource(20260109))
	for _, count := range []int{1, 2, 3, 5, 7, 12} {
		for _, asked := range []int{1, 2, 3, 5, 7, 12} {
			if asked > count {
				continue
			}
			t.Run(fmt.Sprintf("from %d to %d", count, asked), func(t *testing.T) {
				parts := slices.Repeat([]part{master("")}, count)
				had := 1 + r.Intn(count)
				for slot := 0; slot < redisnode.SlotCount; {
					last := min(slot+r.Intn(2000), redisnode.SlotCount-1)
					p := &parts[r.Intn(had)]
					p.slots = p.slots.Union(redisnode.SlotRange(slot, last))
					slot = last + 1
				}
				o := with(cluster(parts...), replicas(0), sized(int32(asked)))
				surplus := 0
				for _, n := range o.surplus(o.intendedMasters()) {
					surplus += max(n, 0)
				}
				if moved := balanced(t, o); moved != surplus {
					t.Errorf("%d slots were moved, and %d were too many somewhere", moved, surplus)
				}
				least, most := redisnode.SlotCount, 0
				total := 0
				for _, m := range o.intendedMasters() {
					n := o.slots[m.id].Len()
					least, most, total = min(least, n), max(most, n), total+n
				}
				if most-least > 1 || total != redisnode.SlotCount || o.assigned().Len() != total || len(o.intendedMasters()) != asked {
					t.Errorf("%d masters have %d slots, from %d to %d each", len(o.intendedMasters()), total, least, most)
				}
			})
		}
	}
}

func TestTopologyNextTransferIsNone(t *testing.T) {
	for name, seen := range map[string]*observed{
		"all have as many as the others, or one more": with(six()),
		"there is no master":                          with(cluster(newcomer(), newcomer()), silenced(1, 0, 1)),
		"no master has any":                           with(cluster(master(""), master(""), master(""))),
	} {
		if next := seen.nextTransfer(seen.intendedMasters()); next != nil {
			t.Errorf("%s: %+v, want nothing", name, next)
		}
	}
}

func TestTopologySlotsPerMove(t *testing.T) {
	for name, test := range map[string]struct {
		keys  int64
		slots string
		want  int
	}{
		"there are no keys":                {0, "0-5460", maxSlotsPerMove},
		"most slots are empty":             {2000, "0-5460", maxSlotsPerMove},
		"a slot has about 20 keys":         {109_220, "0-5460", 25},
		"a slot has about a thousand keys": {5_461_000, "0-5460", minSlotsPerMove},
		"it has one slot":                  {1024, "7", minSlotsPerMove},
	} {
		seen := with(cluster(master(test.slots)), viewed(func(v *redisnode.View) { v.Keys = test.keys }, 0))
		if got := seen.slotsPerMove(seen.members[0]); got != test.want {
			t.Errorf("%s: %d slots at once, want %d", name, got, test.want)
		}
	}
}

// TestTopologyAdopter gives a master to each of many replicas, on many machines.
func TestTopologyAdopter(t *testing.T) {
	for name, test := range map[string]struct {
		masters, replicas, machines int
	}{
		"one each, on a machine each": {3, 3, 6},
		"one each, on two machines":   {4, 4, 2},
		"two each, on three machines": {3, 6, 3},
		"some have one more":          {3, 4, 4},
		"many":                        {20, 40, 5},
	} {
		t.Run(name, func(t *testing.T) {
			parts := make([]part, 0, test.masters+test.replicas)
			for i := range test.masters {
				slots := redisnode.SlotRange(i*redisnode.SlotCount/test.masters, (i+1)*redisnode.SlotCount/test.masters-1)
				parts = append(parts, part{slots: slots, masterOf: -1})
			}
			parts = append(parts, slices.Repeat([]part{master("")}, test.replicas)...)
			o := cluster(parts...)
			for i := range parts {
				on(fmt.Sprint(i%test.machines), i)(o)
			}
			with(o, replicas(int32(test.replicas/test.masters)))
			p := assignReplicas(o)
			if p == nil || len(p.commands) != test.replicas {
				t.Fatalf("%+v, want a master for each of %d", p, test.replicas)
			}
			counts, together := map[*member]int{}, 0
			for _, c := range p.commands {
				counts[c.peer]++
				if c.on.machine() == c.peer.machine() {
					together++
				}
			}
			least, most := test.replicas, 0
			for _, m := range o.intendedMasters() {
				least, most = min(least, counts[m]), max(most, counts[m])
			}
			if most-least > 1 || together > 0 {
				t.Errorf("from %d to %d replicas for each master, %d of them on its machine", least, most, together)
			}
		})
	}
}
