// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

func size(n int32) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) { rdc.Spec.Size = ptr.To(n) }
}

func storage(rdc *v1.RedisCluster) { rdc.Spec.Storage = &v1.Storage{Size: quantity("1Gi")} }

// TestScales scales out and in under load, with a life of the controller for all, and with
// one for each write. Nothing that was acknowledged may be lost.
func TestScales(t *testing.T) {
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "scales", storage)
			w.ready("the cluster to be formed")
			load := w.load(t)
			for _, n := range []int32{8, 6} {
				if lives != nil {
					w.lives = lives()
				}
				w.change(size(n))
				w.ready("the new size")
			}
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			if n := len(w.claims()); n != 6 {
				t.Errorf("%d claims are left", n)
			}
			t.Logf("%d lives, %d writes, events: %q", w.deaths+1, len(w.all), w.happened())
		})
	}
}

// TestRolls replaces every Pod under load.
func TestRolls(t *testing.T) {
	for sentence, test := range map[string]struct {
		change func(*v1.RedisCluster)
		lives  func() func(int) bool
	}{
		"with volumes":    {change: storage},
		"without volumes": {change: func(*v1.RedisCluster) {}},
		"with volumes, though every life has one write":    {change: storage, lives: oneWrite},
		"without volumes, though every life has one write": {change: func(*v1.RedisCluster) {}, lives: oneWrite},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "rolls", test.change)
			w.ready("the cluster to be formed")
			before := w.pods()
			load := w.load(t)
			if test.lives != nil {
				w.lives = test.lives()
			}
			w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Config["databases"] = "32" })
			w.ready("the new Pods")
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost what was acknowledged", lost)
			}
			for i, p := range w.pods() {
				if p.UID == before[i].UID {
					t.Errorf("%s was not replaced", p.Name)
				}
			}
			t.Logf("%d lives, %d writes, events: %q", w.deaths+1, len(w.all), w.happened())
		})
	}
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
