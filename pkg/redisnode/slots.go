// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// SlotCount is the number of slots of every Redis Cluster:
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
const SlotCount = 16384

// KeySlot returns the slot of a key: of the text between the first "{" and the next "}", or of the whole key without such a text.
func KeySlot(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			key = tag
		}
	}
	crc := uint16(0) // CRC-16/XMODEM
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return int(crc) % SlotCount
}

var crcTable = func() (table [256]uint16) {
	const polynomial = 0x1021
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*polynomial
		}
		table[i] = crc
	}
	return table
}()

// Range is the slots from First to Last, both included.
type Range struct{ First, Last int }

// Slots is a set of slots. Its ranges are sorted, do not overlap, and are not adjacent. So equal sets are equal slices. The empty set is
// nil. No function changes its arguments of type Slots.
type Slots []Range

// NewSlots returns the set of the given slots. It leaves out numbers below 0 and from SlotCount.
func NewSlots(slots ...int) Slots {
	ranges := make(Slots, 0, len(slots))
	for _, slot := range slots {
		ranges = append(ranges, SlotRange(slot, slot)...)
	}
	return normal(ranges)
}

// AllSlots returns all slots of a Redis Cluster.
func AllSlots() Slots { return Slots{{0, SlotCount - 1}} }

// SlotRange returns the slots from first to last, both included. It leaves out numbers below 0 and from SlotCount.
func SlotRange(first, last int) Slots {
	first, last = max(first, 0), min(last, SlotCount-1)
	if first > last {
		return nil
	}
	return Slots{{first, last}}
}

// parseRange parses a slot, such as "5", or a range, such as "5-9".
func parseRange(text string) (Range, error) {
	from, to, isRange := strings.Cut(text, "-")
	first, ok := parseSlot(from)
	last := first
	if ok && isRange {
		last, ok = parseSlot(to)
	}
	if !ok || first > last {
		return Range{}, fmt.Errorf("%q is neither a slot nor a range of slots", brief(text))
	}
	return Range{first, last}, nil
}

func parseSlot(text string) (int, bool) {
	slot, err := strconv.ParseUint(text, 10, 16)
	return int(slot), err == nil && slot < SlotCount
}

// normal sorts the ranges and joins adjacent ones. It works in place.
func normal(ranges Slots) Slots {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	joined := ranges[:0]
	for _, r := range ranges {
		if last := len(joined) - 1; last >= 0 && r.First <= joined[last].Last+1 {
			joined[last].Last = max(joined[last].Last, r.Last)
		} else {
			joined = append(joined, r)
		}
	}
	if len(joined) == 0 {
		return nil
	}
	return joined
}

// String returns the ranges in order, such as "0-5460,6000", and "" for none.
func (s Slots) String() string {
	var text []byte
	for i, r := range s {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(r.First), 10)
		if r.Last > r.First {
			text = append(text, '-')
			text = strconv.AppendInt(text, int64(r.Last), 10)
		}
	}
	return string(text)
}

// Len returns the number of slots in s.
func (s Slots) Len() int {
	count := 0
	for _, r := range s {
		count += r.Last - r.First + 1
	}
	return count
}

// Has reports whether slot is in s.
func (s Slots) Has(slot int) bool {
	_, found := slices.BinarySearchFunc(s, slot, func(r Range, slot int) int {
		switch {
		case r.Last < slot:
			return -1
		case r.First > slot:
			return 1
		}
		return 0
	})
	return found
}

// All yields the slots of s, the lowest first.
func (s Slots) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range s {
			for slot := r.First; slot <= r.Last; slot++ {
				if !yield(slot) {
					return
				}
			}
		}
	}
}

// First returns the n lowest slots of s, or all slots if s has fewer.
func (s Slots) First(n int) Slots {
	var first Slots
	for _, r := range s {
		if n <= 0 {
			break
		}
		r.Last = min(r.Last, r.First+n-1)
		n -= r.Last - r.First + 1
		first = append(first, r)
	}
	return first
}

// Union returns the slots that are in s, in o, or in both.
func (s Slots) Union(o Slots) Slots {
	return normal(slices.Concat(s, o))
}

// Intersect returns the slots that are in both s and o.
func (s Slots) Intersect(o Slots) Slots {
	var both Slots
	for len(s) > 0 && len(o) > 0 {
		if first, last := max(s[0].First, o[0].First), min(s[0].Last, o[0].Last); first <= last {
			both = append(both, Range{first, last})
		}
		if s[0].Last < o[0].Last {
			s = s[1:]
		} else {
			o = o[1:]
		}
	}
	return both
}

// Without returns the slots of s that are not in o.
func (s Slots) Without(o Slots) Slots {
	return s.Intersect(o.others())
}

// others returns all slots that are not in s.
func (s Slots) others() Slots {
	var others Slots
	next := 0
	for _, r := range s {
		if next < r.First {
			others = append(others, Range{next, r.First - 1})
		}
		next = r.Last + 1
	}
	if next < SlotCount {
		others = append(others, Range{next, SlotCount - 1})
	}
	return others
}

// Equal reports whether s and o are the same set.
func (s Slots) Equal(o Slots) bool {
	return slices.Equal(s, o)
}
