// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// story is what happens to a RedisCluster after it was formed, while clients write. None of their acknowledged writes may be lost.
type story struct {
	spec    changes
	mortal  bool           // whether it is told a second time, with one write for each life of the controller
	quiet   bool           // whether no client writes
	before  func(w *world) // the cluster is formed; may be nil
	happens func(w *world)
}

type changes []func(*v1.RedisCluster)

// stories are named by short sentences.
type stories map[string]story

func (all stories) tell(t *testing.T) {
	t.Helper()
	t.Parallel()
	for sentence, s := range all {
		t.Run(sentence, s.tell)
	}
}

func (s story) tell(t *testing.T) {
	t.Helper()
	t.Parallel()
	if !s.mortal {
		s.tellWith(t, nil)
		return
	}
	for sentence, lives := range map[string]func(int) bool{"in one life": nil, "though every life has one write": oneWrite()} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			s.tellWith(t, lives)
		})
	}
}

func (s story) tellWith(t *testing.T, lives func(int) bool) {
	t.Helper()
	w := newWorld(t, worldName, s.spec...)
	if s.before != nil {
		s.before(w)
	}
	w.ready("the cluster to be formed")
	w.lives = lives
	if !s.quiet {
		w.writeKeys()
	}
	s.happens(w)
	if w.writer != nil {
		w.kept()
	}
	events := w.takeEvents()
	t.Logf("%d lives, %d writes, events: %q", w.deaths+1, len(w.all), events)
	if text := strings.Join(events, " ") + w.describe(); strings.Contains(text, "PRIVATE") || strings.Contains(text, "-password") {
		t.Errorf("a key or a password is in %s", text)
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldName)
	w.ready("the cluster to be formed")
	t.Logf("writes: %q", w.all)
}

func TestFormsThoughEveryLifeEndsWithItsSecondWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldName)
	w.lives = oneWrite()
	w.ready("the cluster to be formed")
	t.Logf("%d lives, writes: %q", w.deaths+1, w.all)
}

// TestSettledIsQuiet counts writes and reads of syncs of a settled cluster: a sync writes nothing and asks each node at most once.
func TestSettledIsQuiet(t *testing.T) {
	story{quiet: true, happens: func(w *world) {
		w.until("the cluster to be settled", func() bool {
			before := len(w.all)
			_, after, err := w.sync()
			return after == poll && err == nil && len(w.all) == before
		})
		before, asked, config := len(w.all), w.asked.Load(), w.askedConfig.Load()
		const syncs = 10
		for range syncs {
			w.sync()
		}
		if n := len(w.all) - before; n > 0 {
			t.Errorf("the controller wrote: %q", w.all[before:])
		}
		if n := w.asked.Load() - asked; n > 6*syncs {
			t.Errorf("%d syncs asked 6 nodes %d times, want once each", syncs, n)
		}
		if n := w.askedConfig.Load() - config; n != 0 {
			t.Errorf("%d syncs asked nodes for directives %d times", syncs, n)
		}
	}}.tell(t)
}

// TestScales scales out and in. Nothing that was acknowledged may be lost.
func TestScales(t *testing.T) {
	story{spec: changes{storage}, mortal: true, happens: func(w *world) {
		for _, n := range []int32{8, 6} {
			if w.lives != nil {
				w.lives = oneWrite()
			}
			w.change(size(n))
			w.ready("the new size")
		}
		if n := len(w.claims()); n != 6 {
			w.t.Errorf("%d claims are left", n)
		}
	}}.tell(t)
}

// TestRolls replaces every Pod.
func TestRolls(t *testing.T) {
	roll := func(w *world) {
		before := w.uids()
		w.change(config("tcp-backlog", "256"))
		w.ready("the new Pods")
		w.haveValue("tcp-backlog", "256")
		w.expectPods(true, before)
	}
	stories{
		"with volumes":    {spec: changes{storage}, mortal: true, happens: roll},
		"without volumes": {mortal: true, happens: roll},
		"without replicas, the slots of a master move away before, and functions come to the new node": {
			spec: changes{func(rdc *v1.RedisCluster) { rdc.Spec.ReplicasPerMaster = ptr.To[int32](0) }},
			happens: func(w *world) {
				calls := w.call()
				roll(w)
				calls.check()
				w.haveFunctions()
			},
		},
	}.tell(t)
}

// countFunc returns the number of elements for which is returns true.
func countFunc[T any](all []T, is func(T) bool) int {
	n := 0
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

// TestAFailoverEndsLate makes a replica take over just after Redis has ended its own pause of the master, after 5 s: the other masters vote
// only then. The replica looks once a second whether its 5 s are over, so that it still wins. Without the operator's pause, the old master
// accepts writes in between, which are lost.
func TestAFailoverEndsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldName, config("cluster-node-timeout", "30000"))
	w.ready("the cluster to be formed")
	o := w.seen()
	master := o.slotOwners()[0]
	replica := o.replicasOf(master)[0]
	node := w.node(replica.Name)
	defer node.Close()
	must.Succeed(t, node.SetDirective(t.Context(), "hz", "1"))
	time.Sleep(150 * time.Millisecond) // Redis reads hz within 100 ms. From then on, the replica looks each second: also just before 5 s.
	for _, voter := range o.slotOwners()[1:] {
		server := w.servers[voter.Pod.UID]
		server.Signal(syscall.SIGSTOP)
		time.AfterFunc(5300*time.Millisecond, func() { server.Signal(syscall.SIGCONT) })
	}
	key := 0
	for !o.slots[master.ID].Has(redisnode.KeySlot(name(key))) {
		key++
	}
	direct := w.nodeClient(master.Pod, redisnode.Login{})
	defer direct.Close()
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	write := func(n int64) error { return direct.Set(writing, name(key), n, 0).Err() }
	must.Succeed(t, write(1))
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
	}
}

// TestSlotsGoToAndFro has the same slots moved to another master and back as fast as it goes. What a node was told then meets what it
// hears, and of two that claim a slot the later must win: otherwise it has no owner, and its keys are gone.
func TestSlotsGoToAndFro(t *testing.T) {
	story{happens: func(w *world) {
		moves := 0
		w.eventually("500 moves", func() bool {
			o := w.seen()
			if n := o.assigned().Len(); n != redisnode.SlotCount {
				w.t.Fatalf("after %d moves, %d slots have a master: %s", moves, n, w.describe())
			}
			from, others := o.owner(0), o.slotOwners()
			to := others[moves%len(others)]
			if to == from {
				to = others[(moves+1)%len(others)]
			}
			if from == nil || !from.answers() || !to.answers() {
				return false // In a sync, waitForAgreement waits for them.
			}
			next := finishMoves(o)
			if next == nil {
				next = handOver(from, to, redisnode.SlotRange(0, minSlotsPerMove-1), "to and fro")
			}
			if len(next.Commands) > 0 {
				_, err := w.controller.act(w.t.Context(), o, *next)
				must.Succeed(w.t, err)
				moves++
			}
			return moves == 500
		})
	}}.tell(t)
}

// replicated waits until each replica has what its master has.
func (w *world) replicated() {
	w.t.Helper()
	for _, shard := range w.rdc().Status.Shards {
		offset := w.view(shard.Master).Offset
		for _, replica := range shard.Replicas {
			w.eventually(replica+" to have all writes", func() bool { return w.view(replica).Offset >= offset })
		}
	}
}

// TestHeals has nodes, Pods, volumes and the RedisCluster itself be lost, with and without their data.
func TestHeals(t *testing.T) {
	masterIsDeleted := func(w *world) {
		w.deletePods(w.podWith(v1.RoleMaster)) // Its server stops gracefully, so that its replica has all writes.
		w.notReady()
		w.ready("the Pod to be back")
	}
	stories{
		"a master with a volume":    {spec: changes{hasty, storage}, happens: masterIsDeleted},
		"a master without a volume": {spec: changes{hasty}, happens: masterIsDeleted},
		"all Pods, and the new ones have other IPs": {
			spec: changes{storage},
			happens: func(w *world) {
				w.writer.end()
				ids := w.ids()
				w.deletePods(w.names()...)
				w.notReady()
				w.ready("the Pods to be back")
				if now := w.ids(); !maps.Equal(now, ids) {
					w.t.Errorf("the nodes are %v, and were %v", now, ids)
				}
			},
		},
		// Only data that the process has not passed to the kernel could be lost: an acknowledged write is not.
		"the process of a master, which starts again before it is missed": {happens: func(w *world) {
			master := w.podWith(v1.RoleMaster)
			w.servers[w.pod(master).UID].Kill()
			// The operator may never see it: the cluster is Ready meanwhile.
			w.until("the node to be back", func() bool {
				node := w.node(master)
				defer node.Close()
				view, err := node.View(w.t.Context())
				return err == nil && view.StateOK
			})
			w.ready("the node to be back")
		}},
		"the space on the disk of a master": {
			before: func(w *world) { w.limits["world-0"] = 1 << 20 },
			happens: func(w *world) {
				client := w.clusterClient()
				defer client.Close()
				for key := range 96 { // This is 6 MiB, a third of it on world-0.
					client.Set(w.t.Context(), fmt.Sprintf("filler:%d", key), make([]byte, 64<<10), 0) // This fails when the disk is full.
				}
				w.degraded(reasonNotWritten)
				w.writer.end()
				w.servers[w.pod("world-0").UID].LiftFileLimit()
				w.ready("the disk to have space again")
			},
		},
		"the claim of a master: its data moves away before the node is replaced": {
			spec: changes{storage},
			happens: func(w *world) {
				deleted, before := "data-"+w.podWith(v1.RoleMaster), w.claims()
				w.byPerson(func() {
					must.Succeed(w.t, w.kube.CoreV1().PersistentVolumeClaims("default").Delete(w.t.Context(), deleted, metav1.DeleteOptions{}))
				})
				w.notReady()
				w.ready("the node to be replaced")
				for i, c := range w.claims() {
					if replaced := before[i].UID != c.UID; replaced != (c.Name == deleted) {
						w.t.Errorf("claim %s was replaced: %t", c.Name, replaced)
					}
				}
			},
		},
		"the RedisCluster, and another one with its name has the data": {
			spec: changes{storage},
			happens: func(w *world) {
				w.writer.end()
				w.byPerson(w.createAgain)
				w.ready("the data to be found again")
			},
		},
		"the node that gives slots away": {
			spec:    changes{hasty},
			happens: func(w *world) { w.loseDuringMove("world-0", func() { w.replicated() }) },
		},
		"the node that gives slots away, with a volume": {
			spec:    changes{hasty, storage},
			happens: func(w *world) { w.loseDuringMove("world-0", func() { w.replicated() }) },
		},
		"the node that gets its first slots: only its replica has the moved keys": {
			spec: changes{hasty},
			happens: func(w *world) {
				w.loseDuringMove("world-6", func() {
					w.eventually("the replica to have the keys", func() bool {
						replica := w.view("world-7")
						return replica.Keys != 0 && replica.Keys >= w.view("world-6").Keys && replica.LinkUp
					})
				})
				if events := strings.Join(w.takeEvents(), "\n"); !strings.Contains(events, "world-7 takes over from its master") {
					w.t.Errorf("the replica was not told to take over: %s", events)
				}
			},
		},
	}.tell(t)
}

// loseDuringMove deletes a Pod while the first slots move to a new master: after some keys of them have moved, the old master still
// owns all.
func (w *world) loseDuringMove(name string, before func()) {
	w.t.Helper()
	w.writer.end()
	migrated := 0
	w.lives = func(int) bool {
		if w.last == "MIGRATE" {
			migrated++
		}
		return migrated < 3
	}
	w.change(size(8))
	w.until("keys to be moved", func() bool { return w.deaths > 0 })
	w.lives = nil
	before()
	w.deletePods(name)
	w.ready("the new size")
}

// createAgain deletes the RedisCluster, and creates one with the same name. The garbage collector deletes what it owned, but the claims
// stay.
func (w *world) createAgain() {
	rdc := w.rdc()
	must.Succeed(w.t, w.client.RedisV1().RedisClusters("default").Delete(w.t.Context(), w.name, metav1.DeleteOptions{}))
	w.forgetPods()
	core := corev1.SchemeGroupVersion
	for resource, name := range map[schema.GroupVersionResource]string{
		core.WithResource("services"): w.name, core.WithResource("configmaps"): manifest.ConfigurationName(rdc),
		policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"): w.name,
	} {
		must.Succeed(w.t, w.kube.Tracker().Delete(resource, "default", name))
	}
	w.eventually("the caches to show that all is gone", func() bool {
		_, err := w.controller.clusters.RedisClusters("default").Get(w.name)
		return apierrors.IsNotFound(err) && len(w.controller.pods.List())+len(w.config.Services.Informer().GetStore().List()) == 0
	})
	must.Succeed(w.t, w.client.Tracker().Add(&v1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: rdc.Name, Namespace: rdc.Namespace, UID: "again", Generation: 1}, Spec: rdc.Spec,
	}))
}

// forgetPods deletes all Pods, without their servers.
func (w *world) forgetPods() {
	for _, name := range w.names() {
		must.Succeed(w.t, w.kube.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
	}
}

func (w *world) ids() map[string]string {
	ids := map[string]string{}
	for _, n := range w.rdc().Status.Nodes {
		ids[n.Pod] = n.ID
	}
	return ids
}

// TestShardIsLost deletes masters with their replicas, without volumes. The condition DataLoss reports the loss, and the controller does
// nothing until the user accepts it. The other shards keep their data.
func TestShardIsLost(t *testing.T) {
	loses := func(shards int) story {
		return story{spec: changes{hasty}, happens: func(w *world) {
			w.writer.end()
			var pods []string
			var slots redisnode.Slots
			for _, shard := range w.rdc().Status.Shards[:shards] {
				pods = append(pods, append(shard.Replicas, shard.Master)...)
				its, err := redistest.ParseSlots(shard.Slots)
				must.Succeed(w.t, err)
				slots = slots.Union(its)
			}
			w.deletePods(pods...)
			w.until("the loss to be reported", func() bool { return w.condition(v1.ConditionDataLoss).Status == metav1.ConditionTrue })
			if message := w.condition(v1.ConditionDataLoss).Message; !strings.Contains(message, slots.String()) {
				w.t.Errorf("message %q, want the slots %s", message, slots)
			}
			w.checkOnlyStatusWrites()
			w.accept("wrong")
			w.checkOnlyStatusWrites()
			_, token, _ := strings.Cut(w.condition(v1.ConditionDataLoss).Message, AnnotationAcceptDataLoss+"=")
			token, _, _ = strings.Cut(token, " ")
			w.accept(token)
			w.ready("the cluster to be complete again")
			if loss := w.condition(v1.ConditionDataLoss); loss.Status != metav1.ConditionFalse {
				w.t.Errorf("DataLoss is %+v", loss)
			}
			lost := w.writer.lost()
			for key := range writerKeys {
				if want := slots.Has(redisnode.KeySlot(name(key))); slices.Contains(lost, name(key)) != want {
					w.t.Errorf("%s is lost: %t, want %t", name(key), !want, want)
				}
			}
			w.writer = nil
		}}
	}
	stories{"one of three": loses(1), "all": loses(3)}.tell(t)
}

func (w *world) accept(token string) {
	w.change(func(rdc *v1.RedisCluster) {
		metav1.SetMetaDataAnnotation(&rdc.ObjectMeta, AnnotationAcceptDataLoss, token)
	})
}

// TestMastersAreLost deletes the Pods of two masters of three. Their replicas cannot win an election, and the operator tells them to take
// over.
func TestMastersAreLost(t *testing.T) {
	story{spec: changes{hasty}, happens: func(w *world) {
		w.writer.end()
		w.replicated()
		shards := w.rdc().Status.Shards
		w.deletePods(shards[0].Master, shards[1].Master)
		w.notReady()
		w.ready("replicas to have taken over")
	}}.tell(t)
}

// TestTwoClustersAreNeverMerged restarts two clusters. Each of them gets the IPs that the other one had.
func TestTwoClustersAreNeverMerged(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t, "a", storage, withPassword), newWorld(t, "b", storage, withPassword)
	ips := map[*world][]string{}
	for _, w := range []*world{a, b} {
		w.password = "of " + w.name
		w.setPassword("password", w.password)
		w.ready("the cluster to be formed")
		w.writeKeys()
		w.writer.end()
		for _, p := range w.pods() {
			ips[w] = append(ips[w], p.Status.PodIP)
		}
	}
	for _, w := range []*world{a, b} { // All servers stop before the first one starts.
		for uid, server := range w.servers {
			server.Stop()
			delete(w.servers, uid)
		}
		w.byPerson(w.forgetPods)
	}
	a.nextIP, b.nextIP = ips[b], ips[a]
	for range 100 { // The clusters sync in turns, as in one operator.
		a.sync()
		b.sync()
		time.Sleep(20 * time.Millisecond)
	}
	for _, w := range []*world{a, b} {
		w.ready("the cluster to be complete again")
		w.kept()
	}
}

// TestFunctionsOutliveMasters has a master be added while a function is called. See also TestRolls.
func TestFunctionsOutliveMasters(t *testing.T) {
	after := func(change func(*v1.RedisCluster)) func(w *world) {
		return func(w *world) {
			calls := w.call()
			w.lives = w.diesAround("FUNCTION RESTORE")
			w.change(change)
			w.ready("the change to be made")
			calls.check()
			if w.deaths != 2 {
				w.t.Errorf("the controller died %d times, want before the first copy and after it", w.deaths)
			}
			if n := countFunc(w.all, func(write string) bool { return write == "FUNCTION RESTORE" }); n != 1 {
				w.t.Errorf("functions were copied %d times, want to the one new master once", n)
			}
			w.haveFunctions()
		}
	}
	stories{
		"a master is added": {quiet: true, happens: after(size(8))},
		"replicas become masters": {
			spec: changes{func(rdc *v1.RedisCluster) {
				rdc.Spec.Size, rdc.Spec.ReplicasPerMaster = ptr.To[int32](9), ptr.To[int32](2)
			}},
			quiet: true, happens: after(func(rdc *v1.RedisCluster) { rdc.Spec.ReplicasPerMaster = ptr.To[int32](1) }),
		},
	}.tell(t)
}

// onOneMaster does something on one master that has slots, as a person.
func (w *world) onOneMaster(do func(context.Context, *redis.Client) error) {
	w.t.Helper()
	first := sync.Once{}
	w.onMasters(func(ctx context.Context, c *redis.Client) (err error) {
		first.Do(func() { err = do(ctx, c) })
		return err
	})
}

// haveLibraries checks how many libraries the nodes of some Pods have.
func (w *world) haveLibraries(n int, pods ...string) {
	w.t.Helper()
	for _, pod := range pods {
		if got := w.view(pod).Libraries; len(got) != n {
			w.t.Errorf("%s has the libraries %q, want %d", pod, got, n)
		}
	}
}

// TestDeletedFunctionsStayDeleted deletes a library on one master after the other while a new one waits for its slots.
func TestDeletedFunctionsStayDeleted(t *testing.T) {
	story{quiet: true, happens: func(w *world) {
		w.loadFunctions(library)
		w.onOneMaster(func(ctx context.Context, c *redis.Client) error { return c.FunctionDelete(ctx, "notes").Err() })
		w.change(size(8))
		w.until("the difference to be noticed", func() bool {
			op := w.rdc().Status.Operation
			return op != nil && strings.Contains(op.Step, "Waiting for all masters to have the same functions, before world-6 gets slots")
		})
		w.checkOnlyStatusWrites()
		w.haveLibraries(0, "world-6")
		w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionFlush(ctx).Err() })
		w.ready("the new size")
		w.haveLibraries(0, w.names()...)
	}}.tell(t)
}

// TestALibraryDeletedDuringACopyStaysDeleted deletes a library after the code was read, or after the masters were compared.
func TestALibraryDeletedDuringACopyStaysDeleted(t *testing.T) {
	deleted := func(when func(w *world, then func())) story {
		return story{quiet: true, happens: func(w *world) {
			w.loadFunctions(library)
			w.loadFunctions(strings.ReplaceAll(library, "note", "other"))
			deleted := false
			when(w, func() {
				if !deleted {
					deleted = true
					w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionDelete(ctx, "notes").Err() })
				}
			})
			w.change(size(8))
			w.until("functions to be copied", func() bool { return deleted && len(w.view("world-6").Libraries) > 0 })
			if got := w.view("world-6").Libraries; len(got) != 1 || got["others"] == "" {
				w.t.Fatalf("the new master has the libraries %q, want others alone", got)
			}
			w.ready("the new size")
			w.haveFunctions()
		}}
	}
	stories{
		"after FUNCTION DUMP": deleted(func(w *world, then func()) { w.dumped = then }),
		"before FUNCTION RESTORE": deleted(func(w *world, then func()) {
			w.lives = func(int) bool {
				if w.last == "FUNCTION RESTORE" {
					then()
				}
				return true
			}
		}),
	}.tell(t)
}

// TestAMasterThatLosesItsFunctionsDuringACopyDeletesNone has one master lose all libraries, as a restart without a volume does.
func TestAMasterThatLosesItsFunctionsDuringACopyDeletesNone(t *testing.T) {
	story{quiet: true, happens: func(w *world) {
		w.loadFunctions(library)
		lost := false
		w.lives = func(int) bool {
			if w.last == "FUNCTION RESTORE" && !lost {
				lost = true
				w.onOneMaster(func(ctx context.Context, c *redis.Client) error { return c.FunctionFlush(ctx).Err() })
			}
			return true
		}
		w.change(size(8))
		w.until("functions to be copied", func() bool { return lost })
		w.haveLibraries(1, "world-6")
	}}.tell(t)
}

// TestFunctionsOfOtherCodeAreNotCopied has a master with a library of which the code alone is another one, which no View shows.
func TestFunctionsOfOtherCodeAreNotCopied(t *testing.T) {
	story{quiet: true, happens: func(w *world) {
		w.loadFunctions(library)
		other := strings.Replace(library, "args[1]", "'other'", 1)
		w.onOneMaster(func(ctx context.Context, c *redis.Client) error { return c.FunctionLoadReplace(ctx, other).Err() })
		w.change(size(8))
		w.until("the difference to be reported", func() bool {
			return strings.Contains(w.condition(glassback.ConditionDegraded).Message, "do not have the same code of the library notes")
		})
		w.haveLibraries(0, "world-6")
		w.onMasters(func(ctx context.Context, c *redis.Client) error { return c.FunctionLoadReplace(ctx, library).Err() })
		w.ready("the new size")
		w.haveLibraries(1, "world-6")
	}}.tell(t)
}

// TestDirectivesAreSet changes directives that Redis can set while it runs. No Pod is replaced.
func TestDirectivesAreSet(t *testing.T) {
	story{mortal: true, happens: func(w *world) {
		before := w.uids()
		for _, step := range []struct {
			what   string
			change func(*v1.RedisCluster)
			want   map[string]string
		}{
			{"a new directive", config("maxmemory", "64mb"), map[string]string{"maxmemory": "67108864"}},
			{"another value", config("maxmemory", "65mb"), map[string]string{"maxmemory": "68157440"}},
			{"a directive of redis.conf", config("cluster-node-timeout", "16000"), map[string]string{"cluster-node-timeout": "16000"}},
			{"a preference of the operator", config("save", "3600 1"), map[string]string{"save": "3600 1"}},
			{"a value that Redis writes in its own way", config("notify-keyspace-events", "KEA"),
				map[string]string{"notify-keyspace-events": "AKE"}},
			{"the value of redis.conf", config("cluster-node-timeout", "15000"), map[string]string{"cluster-node-timeout": "15000"}},
			{"fewer directives", func(rdc *v1.RedisCluster) {
				delete(rdc.Spec.Config, "maxmemory")
				delete(rdc.Spec.Config, "save")
			}, map[string]string{"maxmemory": "0", "save": "", "notify-keyspace-events": "AKE"}},
		} {
			w.change(step.change)
			w.ready(step.what)
			for directive, want := range step.want {
				w.haveValue(directive, want)
			}
		}
		w.servers[w.pod("world-1").UID].Kill()
		w.kubelet() // It starts again with its redis.conf of before.
		w.until("the directive to be set again", func() bool { return w.value("world-1", "notify-keyspace-events") == "AKE" })
		w.ready("the cluster after a restart")
		w.expectPods(false, before)
	}}.tell(t)
}

// TestDirectivesAreRejected has values that Redis does not take. No Pod is replaced, and a new one starts, with those that it does take.
func TestDirectivesAreRejected(t *testing.T) {
	rejected := func(name, value, reason string) story {
		return story{quiet: true, happens: func(w *world) {
			w.change(func(rdc *v1.RedisCluster) {
				rdc.Spec.Config["maxmemory"] = "64mb"
				rdc.Spec.Config["tls-protocols"] = "TLSv1.2 TLSv1.3" // redis.conf takes several words only as one, in quotes.
			})
			w.ready("the directives")
			before := w.uids()
			reported := func() {
				w.t.Helper()
				w.degraded(reasonDirective)
				if c := w.condition(glassback.ConditionReady); c.Status != "False" || c.Reason != reasonDirective ||
					!strings.Contains(c.Message, name+": "+reason) || strings.Contains(c.Message, "secret") {
					w.t.Errorf("Ready is %+v", c)
				}
				w.haveValue("maxmemory", "67108864")
				w.expectPods(false, before)
			}
			w.change(config(name, value))
			reported()
			w.newOperator()
			writes := len(w.all)
			w.until("the new operator to try", func() bool {
				return slices.Contains(w.all[writes:], "CONFIG SET "+name) && w.all[len(w.all)-1] == "update redisclusters" &&
					slices.Contains(w.all[writes:], "delete configmaps")
			})
			reported()
			w.deletePods("world-5")
			w.until("the Pod to be there again", func() bool {
				p := w.pod("world-5")
				return p != nil && p.Status.Phase == corev1.PodRunning && w.view("world-5").LinkUp
			})
			before = w.uids()
			reported()
			w.change(func(rdc *v1.RedisCluster) {
				delete(rdc.Spec.Config, name)
				rdc.Spec.Config["maxmemory"] = "64mb"
			})
			w.ready("the spec to be corrected")
			w.haveValue("maxmemory", "67108864")
		}}
	}
	stories{
		"a wrong value":  rejected("maxmemory", "lots-and-secret", "argument must be a memory value"),
		"an unknown one": rejected("maxmemroy", "1", "Unknown option"),
	}.tell(t)
}

var (
	nobody = aUser("default", "off", "")
	anyone = aUser("default", openRules, "")
	theApp = aUser("app", "~* +@all", "app")
)

// TestUsersAreAddedAndRemoved adds users to a running cluster without any, closes it for others, changes a password, and takes all of
// it back. See also TestUsersFromTheBeginning.
func TestUsersAreAddedAndRemoved(t *testing.T) {
	anyLogin, app := redisnode.Login{}, redisnode.Login{User: "app", Password: "first-password"}
	newer := redisnode.Login{User: "app", Password: "second-password"}
	stories{
		"of an open cluster": {mortal: true, happens: func(w *world) {
			before := w.uids()
			w.setPassword("app", app.Password)
			w.change(withUsers(anyone, theApp))
			w.ready("the users")
			w.expectPods(true, before)
			w.expectLogin(app, true)
			w.expectLogin(anyLogin, true)
			w.kept()

			before, w.as = w.uids(), app
			w.writeKeys()
			w.change(withUsers(nobody, theApp))
			w.ready("the cluster to be closed")
			w.expectLogin(anyLogin, false)
			w.expectLogin(app, true)

			w.setPassword("app", newer.Password)
			w.later(secretEvery)
			w.reach("the new password", func() string { return w.accepts(newer, true) })
			w.expectLogin(app, true)
			w.sync()
			w.later(time.Minute)
			w.reach("the old password to be invalid", func() string { return w.accepts(app, false) })
			w.expectLogin(newer, true)
			w.ready("the new password alone")

			// A container that restarts has its users before the operator notices.
			w.servers[w.pod("world-1").UID].Kill()
			w.kubelet()
			w.eventually("world-1 to have its data", func() bool { return !w.view("world-1").Loading })
			if err := w.tryLogin(w.pod("world-1"), newer); err != nil {
				w.t.Errorf("after a restart: %v", err)
			}
			if err := w.tryLogin(w.pod("world-1"), anyLogin); err == nil {
				w.t.Error("after a restart, anyone can log in")
			}
			w.ready("the cluster after the restart")
			w.expectPods(false, before)

			w.as = newer // The writer has an open connection since the first one.
			w.change(withUsers())
			w.ready("no users")
			w.as = anyLogin
			w.expectLogin(anyLogin, true)
			if slices.ContainsFunc(w.pods(), manifest.HasAccount) {
				w.t.Error("a Pod still has the operator's user")
			}
		}},
		"of one with a password": {
			spec: changes{storage, withPassword},
			before: func(w *world) {
				w.password = "the servers have this"
				w.setPassword("password", w.password)
			},
			happens: func(w *world) {
				w.change(withUsers(aUser("default", "~* &* +@all", "password")))
				w.ready("the users")
				w.expectLogin(anyLogin, false)
				w.change(withPassword)
				w.ready("the password alone")
				w.expectLogin(anyLogin, false)
			},
		},
	}.tell(t)
}

// connections returns the connections of a user with all nodes, or the links between nodes, by their IDs.
func (w *world) connections(user string) string {
	w.t.Helper()
	var all []string
	for _, p := range w.pods() {
		client := w.nodeClient(p, w.login(p))
		list, err := client.ClientList(w.t.Context()).Result()
		must.Succeed(w.t, errors.Join(err, client.Close()))
		for line := range strings.Lines(list) {
			id, _, _ := strings.Cut(line, " ")
			if link := strings.Contains(line, " flags=S") && user == "links"; link || strings.Contains(line, " user="+user+" ") {
				all = append(all, p.Name+" "+id)
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestUsersThatAreOff opens connections as two users, switches one off and removes the other. Their connections end, and no link between
// nodes does.
func TestUsersThatAreOff(t *testing.T) {
	full := "~* &* +@all"
	story{
		spec:   changes{withUsers(anyone, aUser("app", full, "app"), aUser("job", full, "app"))},
		before: func(w *world) { w.setPassword("app", "app-password") }, quiet: true,
		happens: func(w *world) {
			for _, login := range []redisnode.Login{{}, {User: "app", Password: "app-password"}, {User: "job", Password: "app-password"}} {
				client := w.nodeClient(w.pod("world-1"), login)
				w.t.Cleanup(func() { client.Close() })
				_, err := client.Subscribe(w.t.Context(), "news").Receive(w.t.Context())
				must.Succeed(w.t, err)
			}
			links := w.connections("links")
			if links == "" || w.connections("app") == "" || w.connections("job") == "" {
				w.t.Fatalf("the links are %q, the connections of app %q, of job %q", links, w.connections("app"), w.connections("job"))
			}
			w.change(withUsers(nobody, aUser("app", full+" off", "app")))
			w.ready("one user off, and one gone")
			for _, user := range []string{"default", "app", "job"} {
				if left := w.connections(user); left != "" {
					w.t.Errorf("%s has the connections %s", user, left)
				}
			}
			if after := w.connections("links"); after != links {
				w.t.Errorf("the links were %s, and are %s", links, after)
			}
			w.checkOnlyStatusWrites()
		},
	}.tell(t)
}

// TestACrashBeforeUsersAreSaved ends the life of the operator before it saves the users of a node. The next one saves them: else, a
// container that restarts would have the users of before.
func TestACrashBeforeUsersAreSaved(t *testing.T) {
	story{spec: changes{withUsers(anyone)}, quiet: true, happens: func(w *world) {
		w.lives = func(int) bool { return w.last != "ACL SAVE" || w.deaths > 0 }
		w.change(withUsers(nobody))
		w.ready("the cluster to be closed")
		for _, p := range w.pods() {
			text, err := os.ReadFile(w.usersFile(p))
			if err != nil || strings.Contains(string(text), "nopass") {
				w.t.Errorf("%s begins with the users %q, error %v; want the user default off", p.Name, text, err)
			}
		}
		if w.deaths == 0 {
			w.t.Error("no life ended")
		}
	}}.tell(t)
}

// TestUsersFromTheBeginning forms a cluster with users and changes them, also to what Redis refuses; then it scales.
func TestUsersFromTheBeginning(t *testing.T) {
	app := redisnode.Login{User: "app", Password: "first-password"}
	story{
		spec: changes{withUsers(nobody, theApp)}, quiet: true,
		before: func(w *world) {
			w.until("the Secret to be missed", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonNoPassword })
			w.setPassword("app", app.Password)
			w.later(secretEvery)
			w.as = app
		},
		happens: func(w *world) {
			account := manifest.AccountRef(w.rdc())
			password := w.passwordOf(&account)
			if len(password) < 20 {
				w.t.Errorf("the operator's password has %d characters", len(password))
			}
			w.newOperator() // It finds nothing to do.
			w.checkOnlyStatusWrites()

			// A user of another client is deleted, and a change by it undone.
			node := w.node("world-2")
			for name, rules := range map[string][]string{
				"stranger": {"on", "nopass", "+@all"}, "app": {"-@all"}, v1.UserOperator: {">theirs", "(~theirs +get)"},
			} {
				must.Succeed(w.t, node.SetUser(w.t.Context(), name, rules))
			}
			w.until("the stranger to be gone", func() bool {
				users, err := node.Users(w.t.Context())
				_, there := users["stranger"]
				own := users[v1.UserOperator]
				return err == nil && !there && strings.Contains(users["app"].Rules, "+@all") && len(own.Hashes) == 1 &&
					!strings.Contains(own.Rules, "theirs")
			})
			node.Close()

			w.change(withUsers(nobody, theApp, aUser("bad", "off +no-such-command", "")))
			w.degraded(reasonUser)
			if message := w.condition(glassback.ConditionReady).Message; !strings.Contains(message, "user bad: modifier '+no-such-command'") {
				w.t.Errorf("Ready is %q", message)
			}
			w.writeKeys()
			w.change(withUsers(nobody, theApp))
			w.change(size(8))
			w.ready("two more nodes")
			w.expectLogin(app, true)
			w.expectLogin(redisnode.Login{}, false)

			// The operator knows the password of a Secret that a person deletes. Another one does not.
			w.deleteSecret(account.Name)
			w.later(secretEvery)
			w.until("the Secret to be there again", func() bool { return w.secret(account.Name) != nil })
			if w.passwordOf(&account) != password {
				w.t.Error("the Secret has another password")
			}
			w.ready("the cluster with the Secret")
			w.deleteSecret(account.Name)
			w.newOperator()
			w.degraded(reasonNoAccount)
			w.setPassword(account.Name, password+"\n")
			w.later(secretEvery)
			w.ready("the Secret that a person made")
		},
	}.tell(t)
}

// TestTLSComesAndGoes adds TLS to a running cluster, requires it, renews the certificate, and takes all of it back.
func TestTLSComesAndGoes(t *testing.T) {
	story{mortal: true, happens: func(w *world) {
		ca, before := redistest.NewAuthority(t), w.uids()
		w.change(withTLSMode(v1.TLSPreferred))
		w.until("the Secret to be missed", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonNoCertificate })
		w.setSecret("redis-tls", ca.Issue(t))
		w.later(secretEvery)
		w.ready("TLS")
		w.expectTLS(true, true, true)
		w.expectPods(true, before)
		w.kept()

		before, w.overTLS = w.uids(), true
		w.writeKeys()
		w.change(withTLSMode(v1.TLSRequired))
		w.ready("TLS alone")
		w.expectTLS(false, true, true)

		w.slow = true
		w.setSecret("redis-tls", ca.Issue(t))
		w.later(secretEvery)
		for range 5 {
			w.sync()
		}
		w.slow = false
		served := parseCertificate(w.rdc(), w.secret("redis-tls"), time.Now()).Fingerprint
		w.until("the renewed certificate to be served", func() bool { return w.rdc().Status.TLS.Fingerprint == served })
		for _, name := range w.names() {
			if got := w.view(name).TLS.Certificate; got != served {
				w.t.Errorf("%s serves %s, want %s", name, got, served)
			}
		}

		w.servers[w.pod("world-1").UID].Kill() // It comes back with TLS alone.
		w.ready("the cluster after a restart")
		w.expectTLS(false, true, true)

		w.change(withTLSMode(v1.TLSPreferred))
		w.ready("TLS and plain again")
		w.expectTLS(true, true, true)
		w.tellsPorts(func(*corev1.Pod) int { return redistest.DefaultPort })
		w.expectPods(false, before)
		w.kept()

		w.overTLS = false
		w.writeKeys()
		w.change(withTLSMode(""))
		w.ready("no TLS")
		if slices.ContainsFunc(w.pods(), manifest.HasTLS) || w.rdc().Status.TLS != nil {
			w.t.Errorf("a Pod has still a certificate, or the status: %+v", w.rdc().Status.TLS)
		}
	}}.tell(t)
}

// TestASwitchIsEnded ends the life of the operator before some of the writes of a switch, and then stays away for longer than the timeout
// of the nodes. Nodes may have lost each other then. The next life ends the switch, and no write is lost.
func TestASwitchIsEnded(t *testing.T) {
	ended := func(at int, divided bool) story {
		return story{
			spec:   changes{hasty, withTLSMode(v1.TLSPreferred)},
			before: func(w *world) { w.setSecret("redis-tls", redistest.NewAuthority(t).Issue(t)) },
			happens: func(w *world) {
				w.kept()
				w.overTLS = true
				w.writeKeys()
				w.change(withTLSMode("")) // It switches before a Pod is replaced.
				done := 0
				w.lives = func(int) bool { // Nodes are written to in parallel: after the first write that fails, none succeeds.
					if w.deaths > 0 || !slices.Contains([]string{"patch pods", "SWITCH TLS", "CONFIG SET " + noFailover}, w.last) {
						return true
					}
					done++
					return done <= at
				}
				w.until("the operator to die", func() bool { return w.deaths > 0 })
				if divided {
					time.Sleep(5 * time.Second) // longer than the timeout of the nodes
				}
				w.until("the switch", func() bool {
					return !slices.ContainsFunc(w.pods(), func(p *corev1.Pod) bool {
						return manifest.HasTLS(p) && (p.Annotations[manifest.AnnotationTLS] != "" || w.busIsSecure(p))
					})
				})
				w.ready("no TLS")
				w.overTLS = false
			},
		}
	}
	stories{
		"before all annotations are written": ended(3, false),
		"before all failovers are forbidden": ended(8, false),
		"before the third node switches":     ended(14, true),
		"before the last node switches":      ended(17, true),
	}.tell(t)
}

// TestAccessOutlivesChanges restarts, replaces, adds and removes nodes of a cluster with access from outside.
func TestAccessOutlivesChanges(t *testing.T) {
	story{
		spec: changes{external(v1.ExternalNodePort), storage}, mortal: true,
		happens: func(w *world) {
			for _, role := range []v1.Role{v1.RoleReplica, v1.RoleMaster} {
				w.servers[w.pod(w.podWith(role)).UID].Stop()
				w.opened("the cluster after the restart of a " + string(role))
			}
			w.deletePods(w.podWith(v1.RoleReplica))
			w.opened("another Pod")
			for _, n := range []int32{8, 6} {
				w.change(size(n))
				w.opened(fmt.Sprint(n, " nodes"))
			}
			w.until("the Services of the nodes that left to be deleted", func() bool { return len(w.services()) == 6 })
		},
	}.tell(t)
}

// TestAccessComesAndGoes opens a cluster for clients outside of it, and adds TLS. It closes and opens the cluster with TLS alone, takes TLS
// back, and closes the cluster.
func TestAccessComesAndGoes(t *testing.T) {
	plainPort := func(w *world) func(*corev1.Pod) int {
		return func(p *corev1.Pod) int { return w.portOutside(p, false) }
	}
	story{
		mortal: true,
		before: func(w *world) { w.setSecret("redis-tls", redistest.NewAuthority(t).Issue(t)) },
		happens: func(w *world) {
			before := w.uids()
			w.change(external(v1.ExternalNodePort))
			w.opened("the access from outside")
			_, err := w.kube.CoreV1().Services("default").Get(w.t.Context(), "world-clients", metav1.GetOptions{})
			must.Succeed(w.t, err)
			w.expectPods(false, before)
			w.change(withTLSMode(v1.TLSPreferred))
			w.opened("TLS with access from outside")
			w.expectTLS(true, true, true)
			w.tellsPorts(plainPort(w))
			w.kept()

			w.overTLS = true
			w.writesOutside()
			w.writeKeys()
			w.change(withTLSMode(v1.TLSRequired))
			w.opened("TLS alone")
			w.expectTLS(false, true, true)
			before = w.uids()
			w.change(noAccess)
			w.closed()
			w.change(external(v1.ExternalNodePort))
			w.opened("TLS alone, from outside")
			w.expectPods(false, before)
			w.change(withTLSMode(v1.TLSPreferred))
			w.ready("TLS and plain")
			w.tellsPorts(plainPort(w))
			w.kept()

			w.overTLS = false
			w.writeKeys()
			w.change(withTLSMode(""))
			w.opened("no TLS")
			w.until("the Services to have no port for TLS", func() bool {
				return !slices.ContainsFunc(w.services(), func(s corev1.Service) bool { return manifest.ExternalPorts(&s).TLS != 0 })
			})
			w.change(noAccess)
			w.closed()
		},
	}.tell(t)
}

// TestAnUnreachableAddressIsGivenUp blocks the port of the bus, which the operator does not try: the nodes return to the IPs of their Pods.
func TestAnUnreachableAddressIsGivenUp(t *testing.T) {
	of := func(role v1.Role) story {
		return story{spec: changes{hasty}, happens: func(w *world) {
			blocked := w.podWith(role)
			w.blocked[blocked+" "+manifest.PortBus] = true
			w.change(external(v1.ExternalNodePort))
			w.until("the address to be given up", func() bool {
				c := w.condition(glassback.ConditionDegraded)
				return c.Reason == reasonUnreachable && strings.Contains(c.Message, blocked) &&
					w.pod(blocked).Annotations[manifest.AnnotationUnreachable] != ""
			})
			w.until("the node to return", func() bool {
				return slices.ContainsFunc(w.rdc().Status.Nodes, func(n v1.Node) bool { return n.Pod == blocked && n.Address == "" })
			})
			w.reach("the nodes to reach each other", w.unreached)

			delete(w.blocked, blocked+" "+manifest.PortBus)
			pod := w.pod(blocked).DeepCopy()
			delete(pod.Annotations, manifest.AnnotationUnreachable)
			update(w.t, w.kube, "pods", pod)
			w.opened("the access from outside")
		}}
	}
	stories{"of a replica": of(v1.RoleReplica), "of a master": of(v1.RoleMaster)}.tell(t)
}

// TestHostnames lets the nodes of a cluster tell hostnames to clients, restarts and adds nodes, changes the names, and takes them back.
func TestHostnames(t *testing.T) {
	story{spec: changes{storage}, mortal: true, happens: func(w *world) {
		before := w.uids()
		stop := w.watchEndpoints()
		w.change(hostnames("{pod}" + domain))
		w.until("the wait for addresses", func() bool {
			return strings.Contains(w.condition(glassback.ConditionProgressing).Message, "Waiting for the address of the Service world-0")
		})
		w.named("hostnames", domain)
		w.expectPods(false, before)
		for _, n := range []int32{8, 6} {
			w.change(size(n))
			w.named(fmt.Sprint(n, " nodes"), domain)
		}
		w.until("the Services of the nodes that left to be deleted", func() bool { return len(w.services()) == 6 })
		w.change(hostnames("{pod}.other" + domain))
		w.named("other hostnames", ".other"+domain)
		w.deletePods(w.podWith(v1.RoleReplica)) // A Pod that is created now starts with its name.
		w.named("another Pod", ".other"+domain)
		before = w.uids()
		stop()
		for _, role := range []v1.Role{v1.RoleReplica, v1.RoleMaster} { // They were created without a hostname.
			w.servers[w.pod(w.podWith(role)).UID].Stop()
			w.named("hostnames after the restart of a "+string(role), ".other"+domain)
		}

		stop = w.watchEndpoints()
		w.change(external(v1.ExternalLoadBalancer))
		w.opened("the IPs of load balancers")
		w.change(hostnames("{pod}" + domain))
		w.named("hostnames again", domain)
		w.change(noAccess)
		w.closed()
		stop()
		w.until("no node to have a name", func() bool {
			return !slices.ContainsFunc(w.names(), func(name string) bool {
				return slices.ContainsFunc(w.view(name).Table, func(e redisnode.Entry) bool { return e.Hostname != "" })
			})
		})
		w.expectPods(false, before)
	}}.tell(t)
}

// TestPodsStartWithHostnames replaces Pods of a cluster that was created with hostnames: no node is without its name for a moment.
func TestPodsStartWithHostnames(t *testing.T) {
	story{
		spec:   changes{storage, hostnames("{pod}" + domain)},
		before: func(w *world) { w.named("the cluster to be formed", domain) },
		happens: func(w *world) {
			stop := w.watchEndpoints()
			w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:8" })
			w.named("the Pods to be replaced", domain)
			w.deletePods(w.podWith(v1.RoleMaster))
			w.named("another Pod", domain)
			stop()
		},
	}.tell(t)
}
