// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
)

// libraries gives members libraries, such as "f=1".
func libraries(library string, ordinals ...int) alter {
	name, digest, _ := strings.Cut(library, "=")
	return viewed(func(v *redisnode.View) {
		if v.Libraries == nil {
			v.Libraries = map[string]string{}
		}
		v.Libraries[name], v.Unwritten = digest, false
	}, ordinals...)
}

// wrote has something have been written to members.
func wrote(ordinals ...int) alter {
	return viewed(func(v *redisnode.View) { v.Unwritten = false }, ordinals...)
}

// differs has masters have had different functions for this long.
func differs(lasts time.Duration) alter { return func(o *observed) { o.functionsDifferFor = lasts } }

func TestDecideFunctions(t *testing.T) {
	wider := func() *observed { return sixAnd(master(""), replica(6)) }
	extra := func() *observed { return sixAnd(master("")) }
	moved := moves("4096 are left, now from demo-0 to demo-6", "move slots demo-0 demo-6 0-63")
	differ := "Waiting for all masters to have the same functions, before demo-6 gets slots: demo-0 and demo-%d do not have the same library f"
	decisions{
		"a new master gets the functions of the others first": {
			seen: with(wider(), libraries("f=1", 0, 1, 2)),
			want: does("demo-6 gets the functions of demo-0", "copy functions demo-6 demo-0"),
		},
		"and then slots": {seen: with(wider(), libraries("f=1", 0, 1, 2, 6)), want: moved},
		"one whose functions were deleted gets none": {seen: with(wider(), libraries("f=1", 0, 1, 2), wrote(6)), want: moved},
		"one that has keys, since it is about to get slots, too": {
			seen: with(wider(), libraries("f=1", 0, 1, 2), viewed(func(v *redisnode.View) { v.Keys = 1 }, 6)), want: moved,
		},
		"one that has others keeps them":             {seen: with(wider(), libraries("f=1", 0, 1, 2), libraries("g=1", 6)), want: moved},
		"no master has any: there is nothing to get": {seen: with(wider()), want: moved},
		"the masters differ: nothing is written, and no slot moved": {
			seen: with(wider(), libraries("f=1", 0, 1)), want: waits(fmt.Sprintf(differ, 2)),
		},
		"also if the first one has none": {seen: with(wider(), libraries("f=1", 1, 2)), want: waits(fmt.Sprintf(differ, 1))},
		"also if it is another library of the same name": {
			seen: with(wider(), libraries("f=1", 0, 1), libraries("f=2", 2)), want: waits(fmt.Sprintf(differ, 2)),
		},
		"they differ, and there is no new master: nothing waits": {seen: with(six(), libraries("f=1", 0)), want: settledIs},
		"a master with slots gets none": {
			seen: with(wider(), libraries("f=1", 0, 1, 2), has(0, "1-5460"), has(6, "0")),
			want: moves("4095 are left", "move slots demo-0 demo-6 1-64"),
		},
		"one that leaves with the only copy of a library is kept": {
			seen: with(extra(), sized(6), libraries("g=1", 6)),
			want: stuckBy(reasonHeldBack, "demo-6 has no slots, but the function library g, which no other master has: it is not deleted"),
		},
		"with a copy it is removed": {
			seen: with(extra(), sized(6), libraries("g=1", 1, 6)),
			want: does("Removing demo-6", append(every("forget demo-%d id-6", 0, 1, 2, 3, 4, 5), "delete Pod demo-6")...),
		},
		"one that has the only copy is not made a replica": {seen: with(extra(), libraries("g=1", 6)), want: settledIs},
		"with a copy it is": {seen: with(extra(), libraries("g=1", 1, 6)), want: does("Giving masters to 1", "replicate demo-6 demo-0")},
		"one that has the only copy is not replaced without a volume": {
			seen: with(extra(), libraries("g=1", 6), podIs(old, 6)),
			want: stuckBy(reasonHeldBack, "demo-6 is to be replaced, but has no slots, the function library g"),
		},
		"but with one": {seen: with(extra(), stored, libraries("g=1", 6), podIs(old, 6)), want: does("Replacing demo-6", "evict Pod demo-6")},
		"slots whose loss was accepted go to a master with functions": {
			seen: with(six(), renewed(0, 3), forgotten("id-0", 1, 2, 4, 5), accepting(lossToken("0-5460")), libraries("f=1", 1, 2)),
			want: does("demo-2 gets the slots 0-5460", "add slots demo-2 0-5460").losing("0-5460"),
		},
	}.run(t)
}
