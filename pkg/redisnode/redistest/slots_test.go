// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"math/rand/v2"
	"testing"

	"github.com/glassback/glassback/pkg/redisnode"
)

func TestParseSlots(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
		count      int
	}{
		"none":                             {},
		"one slot":                         {"0", "0", 1},
		"all slots":                        {"0-16383", "0-16383", redisnode.SlotCount},
		"ranges and slots":                 {"0-5460,6000", "0-5460,6000", 5462},
		"neighbours are one range":         {"0-5,6,7-9", "0-9", 10},
		"overlaps are one range":           {"0-5,3-9,4", "0-9", 10},
		"the order is no matter":           {"9,0-5", "0-5,9", 7},
		"a range of one slot is that slot": {"7-7", "7", 1},
	} {
		t.Run(name, func(t *testing.T) {
			slots, err := ParseSlots(test.text)
			if err != nil || slots.String() != test.want || slots.Len() != test.count {
				t.Errorf("ParseSlots(%q) = %q with %d slots, %v", test.text, slots, slots.Len(), err)
			}
		})
	}
	for _, text := range []string{"16384", "-1", "5-", "-", "5-4", "0-16384", "a", "1,,2", "1,", " 1", "+1", "1-2-3", "99999999999999999999"} {
		t.Run("malformed "+text, func(t *testing.T) {
			if slots, err := ParseSlots(text); err == nil {
				t.Errorf("ParseSlots(%q) = %q", text, slots)
			}
		})
	}
}

func TestParseSlotsReadsWhatStringWrites(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var numbers []int
		for range random.IntN(20) {
			first := random.IntN(redisnode.SlotCount)
			for n := range random.IntN(5) {
				numbers = append(numbers, first+n)
			}
		}
		slots := redisnode.NewSlots(numbers...)
		if parsed, err := ParseSlots(slots.String()); err != nil || !parsed.Equal(slots) {
			t.Fatalf("%q is parsed as %q, %v", slots, parsed, err)
		}
	}
}
