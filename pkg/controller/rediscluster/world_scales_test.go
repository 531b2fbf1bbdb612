// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
)

func size(n int32) func(*v1.RedisCluster) {
	return func(rdc *v1.RedisCluster) { rdc.Spec.Size = ptr.To(n) }
}

func storage(rdc *v1.RedisCluster) { rdc.Spec.Storage = &v1.Storage{Size: quantity("1Gi")} }

// TestScales scales out and in under load, with a life of the controller for all, and with
// one for each write. Nothing that was acknowledged may be lost.
func TestScales(t *testing.T) {
	t.Parallel()
	for sentence, lives := range map[string]func() func(int) bool{
		"in one life":                     nil,
		"though every life has one write": oneWrite,
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "scales", storage, calm)
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
			t.Logf("%d lives, %d writes, events: %q", w.deaths+1, len(w.all), w.takeEvents())
		})
	}
}

// TestRolls replaces every Pod under load.
func TestRolls(t *testing.T) {
	t.Parallel()
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
			t.Logf("%d lives, %d writes, events: %q", w.deaths+1, len(w.all), w.takeEvents())
		})
	}
}

// TestAFailoverEndsLate makes a replica take over just after Redis has ended its own pause of the master, after 5 s: the other masters vote
// only then. The replica looks once a second whether its 5 s are over, so that it still wins. Without the operator's pause, the old master
// accepts writes in between, which are lost.
func TestAFailoverEndsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "late", config("cluster-node-timeout", "30000"))
	w.ready("the cluster to be formed")
	o := w.seen()
	master := o.slotOwners()[0]
	replica := o.replicasOf(master)[0]
	node := w.node(replica.name)
	defer node.Close()
	if err := node.SetDirective(t.Context(), "hz", "1"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(150 * time.Millisecond) // Redis reads hz within 100 ms. From then on, the replica looks each second: also just before 5 s.
	for _, voter := range o.slotOwners()[1:] {
		server := w.servers[voter.pod.UID]
		server.Signal(syscall.SIGSTOP)
		time.AfterFunc(5300*time.Millisecond, func() { server.Signal(syscall.SIGCONT) })
	}
	key := 0
	for !o.slots[master.id].Has(redisnode.KeySlot(name(key))) {
		key++
	}
	direct := redis.NewClient(&redis.Options{Addr: w.servers[master.pod.UID].Address(), ReadTimeout: time.Minute, MaxRetries: -1})
	defer direct.Close()
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	write := func(n int64) error { return direct.Set(writing, name(key), n, 0).Err() }
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(chan int64)
	go func() {
		n := int64(1)
		for write(n+1) == nil { // The last answer is MOVED.
			n++
		}
		acknowledged <- n
	}()
	p := do([]command{{verb: failover, on: replica, how: redisnode.Graceful}}, "a test")
	if _, err := w.controller.act(t.Context(), o, *p); err != nil {
		t.Logf("The machine is busy, and the votes came too late: %v", err)
		stop()
	}
	want := <-acknowledged
	client := w.clusterClient()
	defer client.Close()
	if got, err := client.Get(t.Context(), name(key)).Int64(); err != nil || got < want {
		t.Errorf("the key is %d (%v), and %d was acknowledged", got, err, want)
	} else {
		t.Logf("%d writes were acknowledged", want)
	}
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
