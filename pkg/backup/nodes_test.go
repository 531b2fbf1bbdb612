// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// seen returns nodes with these slots, and a replica of each: r0 of m0.
func seen(t *testing.T, slots ...string) []node {
	t.Helper()
	var nodes []node
	for i, text := range slots {
		ranges, err := redistest.ParseSlots(text)
		check(t, err)
		master := redisnode.Entry{
			ID: fmt.Sprint("m", i), IP: fmt.Sprint("10.0.0.", i), Port: 6379, Master: true, Slots: ranges, Epoch: int64(i),
		}
		replica := redisnode.Entry{ID: fmt.Sprint("r", i), IP: fmt.Sprint("10.0.1.", i), Port: 6379, MasterID: master.ID}
		for _, e := range []redisnode.Entry{master, replica} {
			own := e
			own.Myself = true
			nodes = append(nodes, node{entry: e, view: &redisnode.View{
				ID: e.ID, Version: "7.0.15", RunID: "run of " + e.ID, StateOK: e.Master, Master: e.Master, LinkUp: !e.Master, Offset: 10 * maxLag,
				Table: []redisnode.Entry{own},
			}})
		}
	}
	return nodes
}

func TestArrange(t *testing.T) {
	silent := errors.New("i/o timeout")
	for name, test := range map[string]struct {
		slots []string
		alter func(nodes []node) // m0, r0, m1, r1
		want  string             // the error; "" for none
		open  string
		first string // the sources of the first shard
	}{
		"all is well": {[]string{"0-99", "100-16383"}, func([]node) {}, "", "", "r0 m0"},
		"shards are ordered by slots": {
			[]string{"100-16383", "0-99"}, func([]node) {}, "", "", "r1 m1",
		},
		"a replica that lags": {[]string{"0-99", "100-16383"}, func(n []node) { n[1].view.Offset -= maxLag + 1 }, "", "", "m0"},
		"a replica that almost does": {
			[]string{"0-99", "100-16383"}, func(n []node) { n[1].view.Offset -= maxLag }, "", "", "r0 m0",
		},
		"a replica without a link": {[]string{"0-99", "100-16383"}, func(n []node) { n[1].view.LinkUp = false }, "", "", "m0"},
		"a replica that is silent": {[]string{"0-99", "100-16383"}, func(n []node) { n[1].view, n[1].err = nil, silent }, "", "", "m0"},
		"a replica that was replaced": {
			[]string{"0-99", "100-16383"}, func(n []node) { n[1].view.ID = "other" }, "", "", "m0",
		},
		"two replicas": {
			[]string{"0-99", "100-16383"}, func(n []node) {
				n[3].view.Table[0].MasterID, n[3].view.Offset = "m0", n[3].view.Offset+1
			}, "", "", "r1 r0 m0",
		},
		"a master without slots": {[]string{"0-16383", ""}, func([]node) {}, "", "", "r0 m0"},
		"a silent node that had slots": {
			[]string{"0-16383", ""}, func(n []node) { n[2].view, n[2].err = nil, silent }, "", "", "r0 m0",
		},
		"slots that move": {
			[]string{"0-99", "100-16383"}, func(n []node) {
				n[0].view.Table[0].Migrating, n[2].view.Table[0].Importing = map[int]string{5: "m1"}, map[int]string{7: "m0"}
			}, "", "5,7", "r0 m0",
		},
		"a silent master": {
			[]string{"0-99", "100-16383"}, func(n []node) { n[0].view, n[0].err = nil, silent },
			"the master of slots 0-99 at 10.0.0.0:6379: i/o timeout", "", "",
		},
		"a replaced master": {
			[]string{"0-99", "100-16383"}, func(n []node) { n[0].view.ID = "other" }, "another node is at its address", "", "",
		},
		"a master that is alone": {
			[]string{"0-99", "100-16383"}, func(n []node) { n[2].view.StateOK = false }, "10.0.0.1:6379 takes no requests", "", "",
		},
		"two owners": {[]string{"0-100", "100-16383"}, func([]node) {}, "slots 100 have two masters", "", ""},
		"no owner":   {[]string{"0-98", "100-16382"}, func([]node) {}, "slots 99,16383 have no master", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := seen(t, test.slots...)
			test.alter(nodes)
			top, err := arrange(nodes)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if err != nil {
				if _, passes := errors.AsType[unsteady](err); !passes {
					t.Errorf("%v is final", err)
				}
				return
			}
			var sources []string
			for _, s := range append(top.shards[0].usable(), top.shards[0].master) {
				sources = append(sources, s.view.ID)
			}
			if strings.Join(sources, " ") != test.first || top.open.String() != test.open {
				t.Errorf("the sources are %q, the open slots %s, want %q and %s", sources, top.open, test.first, test.open)
			}
		})
	}
}

func TestSame(t *testing.T) {
	arranged := func(alter func([]node), slots ...string) *topology {
		nodes := seen(t, slots...)
		alter(nodes)
		top, err := arrange(nodes)
		check(t, err)
		return top
	}
	nothing := func([]node) {}
	first := arranged(nothing, "0-99", "100-16383")
	for name, test := range map[string]struct {
		other *topology
		want  bool
	}{
		"the same":           {arranged(func(n []node) { n[1].view.LinkUp = false }, "0-99", "100-16383"), true},
		"other slots":        {arranged(nothing, "0-100", "101-16383"), false},
		"fewer masters":      {arranged(nothing, "0-16383", ""), false},
		"a failover":         {arranged(func(n []node) { n[0].view.ID, n[0].entry.ID = "r0", "r0" }, "0-99", "100-16383"), false},
		"there and back":     {arranged(func(n []node) { n[0].view.Table[0].Epoch = 9 }, "0-99", "100-16383"), false},
		"slots change hands": {arranged(nothing, "100-16383", "0-99"), false},
	} {
		if got := first.same(test.other); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWait(t *testing.T) {
	p := patience{limit: 100 * time.Millisecond, pause: time.Millisecond}
	final, passing := errors.New("final"), changing("passing")
	calls := 0
	if err := p.wait(t.Context(), func() error { calls++; return []error{passing, passing, nil}[calls-1] }); err != nil || calls != 3 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	if err := p.wait(t.Context(), func() error { return final }); !errors.Is(err, final) {
		t.Errorf("error %v", err)
	}
	if err := p.wait(t.Context(), func() error { return passing }); !errors.Is(err, passing) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	p.limit = time.Hour
	if err := p.wait(ctx, func() error { return passing }); !errors.Is(err, context.Canceled) || !errors.Is(err, passing) {
		t.Errorf("error %v", err)
	}
}

func TestNewer(t *testing.T) {
	for _, test := range [][3]string{
		{"", "7.0.15", "7.0.15"}, {"7.0.15", "", "7.0.15"}, {"7.0.9", "7.0.15", "7.0.15"}, {"7.2.0", "7.0.15", "7.2.0"},
		{"7.0.0", "7.0.0", "7.0.0"},
	} {
		if got := newer(test[0], test[1]); got != test[2] {
			t.Errorf("of %q and %q, the newer is %q", test[0], test[1], got)
		}
	}
}

// TestChanged: only the keys of masters that are other processes now may be lost.
func TestChanged(t *testing.T) {
	arranged := func(alter func([]node), slots ...string) *topology {
		nodes := seen(t, slots...)
		alter(nodes)
		top, err := arrange(nodes)
		check(t, err)
		return top
	}
	nothing := func([]node) {}
	restarted := func(n []node) { n[0].view.RunID = "new" }
	before := arranged(nothing, "0-99", "100-16383")
	for name, test := range map[string]struct {
		after *topology
		want  string
	}{
		"nothing":    {before, ""},
		"a restart":  {arranged(restarted, "0-99", "100-16383"), "0-99"},
		"a failover": {arranged(func(n []node) { n[0].view.ID, n[0].entry.ID = "r0", "r0" }, "0-99", "100-16383"), "0-99"},
		"there and back": {
			arranged(func(n []node) { n[0].view.History, n[0].view.Table[0].Epoch = "new", 9 }, "0-99", "100-16383"), "0-99",
		},
		"the first replica":        {arranged(func(n []node) { n[0].view.History = "new" }, "0-99", "100-16383"), ""},
		"slots that were moved":    {arranged(func(n []node) { n[0].view.Table[0].Epoch = 9 }, "0-199", "200-16383"), ""},
		"a restart, then a move":   {arranged(restarted, "0-49", "50-16383"), "0-99"},
		"a move, then a restart":   {arranged(restarted, "0-199", "200-16383"), "0-199"},
		"a master that is emptied": {arranged(nothing, "", "0-16383"), "0-99"},
	} {
		if got := before.changed(test.after).String(); got != test.want {
			t.Errorf("%s: slots %q, want %q", name, got, test.want)
		}
	}
}
