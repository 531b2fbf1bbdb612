// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

func without(*v1.RedisCluster) {}

// master returns the name of a Pod whose node has slots.
func (w *world) master() string {
	w.t.Helper()
	shards := w.rdc().Status.Shards
	if len(shards) == 0 {
		w.t.Fatal("there are no shards")
	}
	return shards[0].Master
}

// TestMasterIsDeleted deletes a master's Pod under load. The server stops gracefully, so that its replica has all writes.
func TestMasterIsDeleted(t *testing.T) {
	t.Parallel()
	for sentence, change := range map[string]func(*v1.RedisCluster){"with volumes": storage, "without volumes": without} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, "heals", change)
			w.ready("the cluster to be formed")
			load := w.load(t)
			began := time.Now()
			w.deletePods(w.master())
			w.notReady()
			w.ready("the Pod to be back")
			t.Logf("ready again after %s", time.Since(began))
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost acknowledged writes", lost)
			}
			t.Logf("events: %q", w.takeEvents())
		})
	}
}

// notReady syncs until Ready is False.
func (w *world) notReady() {
	w.t.Helper()
	w.until("Ready to be False", func() bool { return w.condition(glassback.ConditionReady).Status == metav1.ConditionFalse })
}

// TestAllAreDeleted deletes all Pods at once. The new Pods have other IPs. With volumes, no data is lost.
func TestAllAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals", storage)
	w.ready("the cluster to be formed")
	load := w.load(t)
	time.Sleep(time.Second)
	load.end()
	ids := w.ids()
	began := time.Now()
	w.deletePods(w.names()...)
	w.notReady()
	w.ready("the Pods to be back")
	t.Logf("ready again after %s", time.Since(began))
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
	for pod, id := range w.ids() {
		if ids[pod] != id {
			t.Errorf("%s has the ID %s, want its old ID %s", pod, id, ids[pod])
		}
	}
	t.Logf("events: %q", w.takeEvents())
}

// TestAllAreDeletedWithoutVolumes: without volumes, all data is lost. The condition DataLoss reports the loss, and the controller does
// nothing until the user accepts it.
func TestAllAreDeletedWithoutVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals")
	w.ready("the cluster to be formed")
	w.deletePods(w.names()...)
	w.until("the loss to be reported", func() bool { return w.condition(v1.ConditionDataLoss).Status == metav1.ConditionTrue })
	w.checkOnlyStatusWrites(t)
	w.accept("wrong")
	w.checkOnlyStatusWrites(t)
	w.accept(w.token())
	w.ready("the cluster to be formed again")
	if loss := w.condition(v1.ConditionDataLoss); loss.Status != metav1.ConditionFalse {
		t.Errorf("DataLoss is %+v", loss)
	}
	t.Logf("events: %q", w.takeEvents())
}

// TestShardIsLost deletes a master with its replica. The other shards keep their data.
func TestShardIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals")
	w.ready("the cluster to be formed")
	load := w.load(t)
	time.Sleep(time.Second)
	load.end()
	shard := w.rdc().Status.Shards[0]
	w.deletePods(append(shard.Replicas, shard.Master)...)
	w.until("the loss to be reported", func() bool { return w.condition(v1.ConditionDataLoss).Status == metav1.ConditionTrue })
	if message := w.condition(v1.ConditionDataLoss).Message; !strings.Contains(message, shard.Slots) {
		t.Errorf("message %q, want the slots %s", message, shard.Slots)
	}
	w.checkOnlyStatusWrites(t)
	w.accept(w.token())
	w.ready("the cluster to be complete again")
	keys := 0
	for key := range load.acknowledged {
		if load.acknowledged[key].Load() > 0 {
			keys++
		}
	}
	if lost := load.lost(); lost == 0 || lost > keys*2/5 {
		t.Errorf("%d of %d keys are lost, want the keys of one shard of three", lost, keys)
	}
}

// checkOnlyStatusWrites syncs for a second, and checks that the controller writes only the status.
func (w *world) checkOnlyStatusWrites(t *testing.T) {
	t.Helper()
	before := len(w.all)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		w.sync()
	}
	for _, write := range w.all[before:] {
		if write != "update redisclusters" {
			t.Errorf("the controller wrote: %s", write)
		}
	}
}

func (w *world) accept(token string) {
	w.change(func(rdc *v1.RedisCluster) {
		metav1.SetMetaDataAnnotation(&rdc.ObjectMeta, AnnotationAcceptDataLoss, token)
	})
}

// token returns the token that the condition DataLoss asks for.
func (w *world) token() string {
	_, after, _ := strings.Cut(w.condition(v1.ConditionDataLoss).Message, AnnotationAcceptDataLoss+"=")
	token, _, _ := strings.Cut(after, " ")
	return token
}

func (w *world) names() []string {
	var names []string
	for _, p := range w.pods() {
		names = append(names, p.Name)
	}
	return names
}

func (w *world) ids() map[string]string {
	ids := map[string]string{}
	for _, n := range w.rdc().Status.Nodes {
		ids[n.Pod] = n.ID
	}
	return ids
}

// TestContainerIsKilled kills a master's process. The process starts again before the other nodes report it as failed. Only data that the
// process has not passed to the kernel could be lost: an acknowledged write is not.
func TestContainerIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals")
	w.ready("the cluster to be formed")
	load := w.load(t)
	time.Sleep(500 * time.Millisecond)
	pod := w.pod(w.master())
	w.servers[pod.UID].Kill()
	w.kubelet() // This starts the server again, at the same address.
	w.notReady()
	w.ready("the node to be back")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
}

// TestMastersAreLost deletes the Pods of two masters of three. Their replicas cannot win an election, and the operator tells them to take
// over.
func TestMastersAreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals")
	w.ready("the cluster to be formed")
	load := w.load(t)
	time.Sleep(500 * time.Millisecond)
	load.end()
	time.Sleep(500 * time.Millisecond) // The replicas receive the last writes in this time.
	shards := w.rdc().Status.Shards
	w.deletePods(shards[0].Master, shards[1].Master)
	w.notReady()
	w.ready("replicas to have taken over")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys are lost", lost)
	}
	t.Logf("events: %q", w.takeEvents())
}

// TestTwoClustersAreNeverMerged restarts two clusters. Each of them gets the IPs that the other one had.
func TestTwoClustersAreNeverMerged(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t, "a", storage), newWorld(t, "b", storage)
	a.password, b.password = "of a", "of b"
	for _, w := range []*world{a, b} {
		w.secret()
		w.change(func(rdc *v1.RedisCluster) {
			rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "password", Key: "password"}
		})
		w.ready("the cluster to be formed")
	}
	loadA, loadB := a.load(t), b.load(t)
	time.Sleep(500 * time.Millisecond)
	loadA.end()
	loadB.end()
	ipsA, ipsB := a.ips(), b.ips()
	for _, w := range []*world{a, b} { // All servers stop before the first one starts.
		for uid, server := range w.servers {
			server.Stop()
			delete(w.servers, uid)
		}
	}
	a.nextIP, b.nextIP = ipsB, ipsA
	a.byPerson(func() { a.forgetPods() })
	b.byPerson(func() { b.forgetPods() })
	for range 100 { // The clusters sync in turns, as in one operator.
		a.sync()
		b.sync()
		time.Sleep(20 * time.Millisecond)
	}
	for _, w := range []*world{a, b} {
		w.ready("the cluster to be complete again")
	}
	if loadA.lost() > 0 || loadB.lost() > 0 {
		t.Error("acknowledged writes are lost")
	}
}

// TestReplicaAsksAtTheOldAddress: a replica gets its master's new address from a third node. Redis then updates the table, but the replica
// still asks for the data at the old address.
func TestReplicaAsksAtTheOldAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals", storage)
	w.ready("the cluster to be formed")
	shards := w.rdc().Status.Shards
	master, replica, witness := shards[0].Master, shards[0].Replicas[0], shards[1].Master
	id := w.view(master).ID
	entry := func(pod string) *redisnode.Entry {
		table := w.view(pod).Table
		return &table[slices.IndexFunc(table, func(e redisnode.Entry) bool { return e.ID == id })]
	}
	eventually := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited for %s", what)
			}
		}
	}
	old := entry(replica).IP
	for _, name := range []string{master, replica} {
		w.move(name)
	}
	eventually("the witness to report the master as failed", func() bool { return entry(witness).Failed })
	w.stopped[master] = true // The replica starts first, and also reports its master as failed.
	w.kubelet()
	eventually("the replica to report its master as failed", func() bool { return entry(replica).MaybeFailed || entry(replica).Failed })
	delete(w.stopped, master)
	w.kubelet()
	eventually("the replica to have the new address in its table", func() bool { return entry(replica).IP != old })
	if asks := w.view(replica).MasterIP; asks != old {
		t.Errorf("before the operator acts, the replica asks at %s, want the old address %s: this version of Redis has fixed this", asks, old)
	}
	w.notReady()
	w.ready("the replica to be connected again")
}

// move stops the server of a Pod. The next server of the Pod has another IP.
func (w *world) move(name string) {
	p := w.pod(name).DeepCopy()
	w.servers[p.UID].Stop()
	delete(w.servers, p.UID)
	p.Status.PodIP = ""
	if err := w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), p, "default"); err != nil {
		w.t.Fatal(err)
	}
}

// collect deletes the objects that a deleted RedisCluster owned, as the garbage collector does.
func (w *world) collect(rdc *v1.RedisCluster) {
	w.forgetPods()
	for _, resource := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("configmaps"),
		policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
	} {
		for _, name := range []string{w.name, configurationName(rdc)} {
			if err := w.kube.Tracker().Delete(resource, "default", name); err != nil && !apierrors.IsNotFound(err) {
				w.t.Fatal(err)
			}
		}
	}
}

// forgetPods deletes all Pods. Their servers must have stopped before.
func (w *world) forgetPods() {
	for _, name := range w.names() {
		if err := w.kube.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) ips() []string {
	var ips []string
	for _, p := range w.pods() {
		ips = append(ips, p.Status.PodIP)
	}
	return ips
}

// secret creates the Secret with the password.
func (w *world) secret() {
	w.byPerson(func() {
		if _, err := w.kube.CoreV1().Secrets("default").Create(context.Background(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "password"}, Data: map[string][]byte{"password": []byte(w.password + "\n")},
		}, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	})
}

// TestUnknownNodeIsReported joins a node to the cluster that belongs to no Pod, as a user could by hand.
func TestUnknownNodeIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals")
	w.ready("the cluster to be formed")
	stranger := redistest.Start(t, redistest.Config{})
	node := w.node(w.names()[0])
	defer node.Close()
	if err := node.Meet(t.Context(), stranger.IP, stranger.Port, stranger.Port+redistest.BusOffset); err != nil {
		t.Fatal(err)
	}
	w.until("the unknown node to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonStranger })
	w.checkOnlyStatusWrites(t)
	if message := w.condition(glassback.ConditionDegraded).Message; !strings.Contains(message, stranger.IP) {
		t.Errorf("message %q, want the IP %s", message, stranger.IP)
	}
	stranger.Kill()
	w.ready("the unknown node to be forgotten")
}

// TestPasswordIsMissingOrRefused: first the Secret does not exist, and then it has another password than the servers.
func TestPasswordIsMissingOrRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals", func(rdc *v1.RedisCluster) { rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "password"} })
	w.password = "the servers have this"
	w.until("the missing Secret to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonNoPassword })
	right := w.password
	w.password = "wrong-and-secret"
	w.secret()
	w.password = right
	w.until("the refused password to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonPassword })
	w.checkOnlyStatusWrites(t)
	for _, text := range append(w.takeEvents(), w.describe()) {
		if strings.Contains(text, "wrong-and-secret") || strings.Contains(text, right) {
			t.Errorf("this text has a password: %s", text)
		}
	}
	w.byPerson(func() {
		_, err := w.kube.CoreV1().Secrets("default").Update(context.Background(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: "default"}, Data: map[string][]byte{"password": []byte(right)},
		}, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	})
	w.ready("the cluster to be formed")
}

// TestPasswordIsChanged changes the Secret of running nodes, which keep the old password. Open connections still work. The probes use the
// new password and fail, so that the Pods are not ready.
func TestPasswordIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals", func(rdc *v1.RedisCluster) { rdc.Spec.AuthSecretRef = &v1.SecretKeyReference{Name: "password"} })
	w.password = "the servers have this"
	w.secret()
	w.ready("the cluster to be formed")
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	w.byPerson(func() {
		changed := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: "default"},
			Data:       map[string][]byte{"password": []byte("another")},
		}
		if _, err := w.kube.CoreV1().Secrets("default").Update(context.Background(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, p := range w.pods() {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute)),
			}}
			if err := w.kube.Tracker().Update(pods, p, "default"); err != nil {
				t.Fatal(err)
			}
		}
	})
	w.until("the Pods to be reported", func() bool { return w.condition(glassback.ConditionReady).Reason == reasonNotReady })
	w.until("the refused password to be reported", func() bool { return w.condition(glassback.ConditionReady).Reason == reasonPassword })
	w.checkOnlyStatusWrites(t)
}

// TestDiskIsFull fills the disk of a master, and then makes space.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals")
	w.limits["heals-0"] = 1 << 20
	w.ready("the cluster to be formed")
	load := w.load(t)
	client := w.clusterClient()
	defer client.Close()
	for key := range 96 { // This is 6 MiB, a third of it on heals-0. The load alone may be too slow.
		client.Set(t.Context(), fmt.Sprintf("filler:%d", key), make([]byte, 64<<10), 0) // This fails when the disk is full.
	}
	w.until("the full disk to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonNotWritten })
	w.checkOnlyStatusWrites(t)
	load.end()
	w.servers[w.pod("heals-0").UID].LiftFileLimit()
	w.ready("the disk to have space again")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
}

// TestPodDoesNotAnswer kills a node, and starts it again after a while.
func TestPodDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals")
	w.ready("the cluster to be formed")
	w.stopped[w.names()[5]] = true
	w.servers[w.pod(w.names()[5]).UID].Kill()
	w.until("the Pod to be reported", func() bool { return w.condition(glassback.ConditionDegraded).Reason == reasonSilent })
	w.checkOnlyStatusWrites(t)
	w.stopped = map[string]bool{}
	w.ready("the node to be back")
}

// TestSettledIsQuiet counts writes and reads of syncs of a settled cluster: a sync writes nothing and asks each node once.
func TestSettledIsQuiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "quiet")
	w.ready("the cluster to be formed")
	w.sync()
	before, asked, config := len(w.all), w.asked.Load(), w.askedConfig.Load()
	for range 10 {
		if _, after, err := w.sync(); err != nil || after != poll {
			t.Errorf("a sync of a settled cluster requeues after %s, want %s (error %v)", after, poll, err)
		}
	}
	if n := len(w.all) - before; n > 0 {
		t.Errorf("the controller wrote: %q", w.all[before:])
	}
	if n := w.asked.Load() - asked; n != 60 {
		t.Errorf("10 syncs asked 6 nodes %d times, want once each", n)
	}
	if n := w.askedConfig.Load() - config; n != 0 {
		t.Errorf("10 syncs asked nodes for directives %d times", n)
	}
}

// TestAFailedRollIsReverted changes the spec so that no Pod can start, and then changes it back.
func TestAFailedRollIsReverted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "heals", storage)
	w.ready("the cluster to be formed")
	load := w.load(t)
	for _, name := range w.names() {
		w.stopped[name] = true // Pods created from now on do not start.
	}
	image := w.rdc().Spec.Image
	w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Image = "redis:none" })
	w.until("the first Pod to be replaced", func() bool {
		return countFunc(w.pods(), func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == "redis:none" }) == 1
	})
	w.checkOnlyStatusWrites(t)
	w.stopped = map[string]bool{}
	w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Image = image })
	w.ready("the Pod to be replaced again")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
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

// TestWithoutReplicas rolls a cluster of masters only, without volumes. The operator moves the slots of each master away before it replaces
// the master. The new node gets the functions of the others.
func TestWithoutReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alone", func(rdc *v1.RedisCluster) { rdc.Spec.ReplicasPerMaster = ptr.To[int32](0) })
	w.ready("the cluster to be formed")
	load, calls := w.load(t), w.call(t)
	w.change(func(rdc *v1.RedisCluster) { rdc.Spec.Config["databases"] = "32" })
	w.ready("the new Pods")
	calls.check()
	w.haveFunctions()
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
}

// TestMovedKeysSurvive deletes a new master without a volume while it gets its first slots. Only its replica has the keys that the master
// has received.
func TestMovedKeysSurvive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "moves")
	w.ready("the cluster to be formed")
	load := w.load(t)
	load.everyKey() // Each batch of slots then has some keys.
	load.end()
	// The controller dies after it has moved some keys of the first batch. The old master still owns all slots.
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
	deadline := time.Now().Add(20 * time.Second)
	for {
		replica := w.view("moves-7")
		if replica.Keys != 0 && replica.Keys >= w.view("moves-6").Keys && replica.LinkUp {
			break
		}
		if time.Sleep(10 * time.Millisecond); time.Now().After(deadline) {
			t.Fatalf("the replica does not have the keys: %s, last writes %q", w.describe(), w.all[max(0, len(w.all)-20):])
		}
	}
	w.deletePods("moves-6")
	w.ready("the new size")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
	if events := strings.Join(w.takeEvents(), "\n"); !strings.Contains(events, "moves-7 takes over from its master") {
		t.Errorf("the replica was not told to take over: %s", events)
	}
}

// TestClaimIsDeleted deletes the claim of a master. The operator moves the data away from its node, and replaces the node.
func TestClaimIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "claims", storage)
	w.ready("the cluster to be formed")
	load := w.load(t)
	master, before := w.master(), map[string]types.UID{}
	for _, c := range w.claims() {
		before[c.Name] = c.UID
	}
	w.byPerson(func() {
		claims := w.kube.CoreV1().PersistentVolumeClaims("default")
		if err := claims.Delete(context.Background(), "data-"+master, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	w.notReady()
	w.ready("the node to be replaced")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
	for _, c := range w.claims() {
		if replaced := before[c.Name] != c.UID; replaced != (c.Name == "data-"+master) {
			t.Errorf("claim %s was replaced: %t", c.Name, replaced)
		}
	}
}

// TestDeletedAndCreatedAgain deletes a RedisCluster and creates one with the same name. The claims stay, and the new cluster has the data.
func TestDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "again", storage)
	w.ready("the cluster to be formed")
	load := w.load(t)
	time.Sleep(time.Second)
	load.end()
	w.byPerson(func() {
		rdc := w.rdc()
		if err := w.client.RedisV1().RedisClusters("default").Delete(context.Background(), w.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for {
			w.collect(rdc)
			_, err := w.controller.clusters.RedisClusters("default").Get(w.name)
			if apierrors.IsNotFound(err) && len(w.controller.pods.List()) == 0 &&
				len(w.config.Services.Informer().GetStore().List()) == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		again := &v1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Name: rdc.Name, Namespace: rdc.Namespace, UID: "again-2", Generation: 1}, Spec: rdc.Spec,
		}
		if err := w.client.Tracker().Add(again); err != nil {
			t.Fatal(err)
		}
	})
	w.ready("the data to be found again")
	if lost := load.lost(); lost > 0 {
		t.Errorf("%d keys lost acknowledged writes", lost)
	}
}

// TestSourceOfAMoveIsLost deletes the owner of migrating slots during the move. Its replica takes over, and the operator moves the
// remaining keys.
func TestSourceOfAMoveIsLost(t *testing.T) {
	t.Parallel()
	for sentence, change := range map[string]func(*v1.RedisCluster){"with volumes": storage, "without volumes": without} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "gives", change)
			w.ready("the cluster to be formed")
			load := w.load(t)
			load.everyKey() // Each batch of slots then has some keys.
			load.end()
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
			time.Sleep(500 * time.Millisecond) // The replica receives the deletion of the moved keys in this time.
			w.deletePods("gives-0")
			w.ready("the new size")
			if lost := load.lost(); lost > 0 {
				t.Errorf("%d keys lost acknowledged writes", lost)
			}
			t.Logf("events: %q", w.takeEvents())
		})
	}
}
