// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"testing"
	"time"
)

// TestSessionRecordsReachable has a master be lost while the operator looks, and while it does not.
func TestSessionRecordsReachable(t *testing.T) {
	lost := noPod(0)
	type step struct {
		after time.Duration
		is    []alter
	}
	for name, test := range map[string]struct {
		steps     []step
		missed    time.Duration
		witnessed bool
	}{
		"seen alive, and then lost":       {[]step{{0, nil}, {time.Second, []alter{lost}}, {time.Minute, []alter{lost}}}, time.Minute, true},
		"lost before it was looked at":    {[]step{{0, []alter{lost}}, {time.Minute, []alter{lost}}}, time.Minute, false},
		"lost while it was not looked at": {[]step{{0, nil}, {time.Hour, []alter{lost}}, {time.Minute, []alter{lost}}}, time.Minute, false},
		"lost while no member answered": {
			[]step{{0, nil}, {time.Hour, []alter{silenced(1, 0, 1, 2, 3, 4, 5)}}, {time.Second, []alter{lost}}}, 1, false,
		},
		"members were silent for a moment": {
			[]step{{0, nil}, {time.Second, []alter{silenced(1, 0, 1, 2, 3, 4, 5)}}, {time.Second, []alter{lost}}}, 1, true,
		},
		"lost, alive once more, and then not": {[]step{{0, []alter{lost}}, {time.Hour, nil}, {time.Second, []alter{lost}}}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := &session{reached: map[string]time.Time{}, since: map[string]time.Time{}}, seenAt
			var last *observed
			for _, step := range test.steps {
				last = with(six(), step.is...)
				now = now.Add(step.after)
				last.now = now
				s.beginFacts()
				s.recordReachable(last)
				s.endFacts()
			}
			if n := last.nodes["id-0"]; n.unreachableFor != test.missed || n.lossSeen != test.witnessed {
				t.Errorf("missed for %s, witnessed: %t; want %s, %t", n.unreachableFor, n.lossSeen, test.missed, test.witnessed)
			}
			s.recordReachable(with(cluster(master("0-16383"))))
			if len(s.reached) != 1 {
				t.Errorf("nodes that are gone are remembered: %v", s.reached)
			}
		})
	}
}

// TestSessionRecordsLinks has a replica lose its link, and be restarted.
func TestSessionRecordsLinks(t *testing.T) {
	s, now := &session{linked: map[string]link{}}, seenAt
	for _, step := range []struct {
		what  string
		after time.Duration
		is    alter
		want  time.Duration
	}{
		{"never seen with a link", 0, unlinked(-1, 0, 3), -1},
		{"never seen with a link, by its own account", 0, unlinked(time.Hour, 17, 3), time.Hour},
		{"linked", time.Minute, func(*observed) {}, 0},
		{"it knows itself", 10 * time.Second, unlinked(4*time.Second, 900, 3), 4 * time.Second},
		{"restarted", 10 * time.Second, unlinked(-1, 0, 3), 20 * time.Second},
		{"silent", 10 * time.Second, silenced(time.Second, 3), 0},
		{"restarted once more", 10 * time.Second, unlinked(-1, 0, 3), 40 * time.Second},
		{"of another master", 10 * time.Second, func(o *observed) {
			unlinked(-1, 0, 3)(o)
			orphaned(3)(o)
		}, -1},
	} {
		o := with(six(), step.is)
		now = now.Add(step.after)
		o.now = now
		s.recordLinks(o)
		if got := o.members[3].unlinkedFor; got != step.want {
			t.Errorf("%s: without a link for %s, want %s", step.what, got, step.want)
		}
	}
	s.recordLinks(with(cluster(master("0-16383"))))
	if _, ok := s.linked["id-3"]; ok {
		t.Error("a node that is gone is remembered")
	}
}
