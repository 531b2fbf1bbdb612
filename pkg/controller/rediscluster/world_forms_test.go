// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import "testing"

func TestForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "forms", calm)
	w.ready("the cluster to be formed")
	t.Logf("writes: %q", w.all)
	t.Logf("events: %q", w.takeEvents())
}

func TestFormsThoughEveryLifeEndsWithItsSecondWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "forms", calm)
	w.lives = oneWrite()
	w.ready("the cluster to be formed")
	t.Logf("%d lives, writes: %q", w.deaths+1, w.all)
}
