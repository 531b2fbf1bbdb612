/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"testing"
	"time"
)

// TestSessionLinks has a replica lose its link, and be restarted.
func TestSessionLinks(t *testing.T) {
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
		o := see(six(), step.is)
		now = now.Add(step.after)
		o.now = now
		s.links(o)
		if got := o.members[3].unlinked; got != step.want {
			t.Errorf("%s: without a link for %s, want %s", step.what, got, step.want)
		}
	}
	s.links(see(cluster(master("0-16383"))))
	if _, ok := s.linked["id-3"]; ok {
		t.Error("a node that is gone is remembered")
	}
}
