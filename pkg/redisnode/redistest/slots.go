// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/glassback/glassback/pkg/redisnode"
)

// ParseSlots reads what Slots.String writes, such as "0-5460,6000". The ranges may be in any order, and may overlap.
func ParseSlots(text string) (redisnode.Slots, error) {
	if text == "" {
		return nil, nil
	}
	var slots redisnode.Slots
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 14) // 14 bits: SlotCount is 1<<14, so every number that parses is a slot.
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(to, 10, 14)
		}
		if err != nil || first > last {
			return nil, fmt.Errorf("%q is neither a slot nor a range of slots", part)
		}
		slots = slots.Union(redisnode.SlotRange(int(first), int(last)))
	}
	return slots, nil
}
