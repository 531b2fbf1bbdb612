// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/dump"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
)

// decision is what a test wants of a plan.
type decision struct {
	upkeep   []string
	commands []string
	step     string // a part of the step; "": there is none, or any with commands
	reason   string // of the one problem; "": there is none
	wait     time.Duration
	lost     string // the slots of the loss
}

func (d decision) compare(t *testing.T, p plan) {
	t.Helper()
	if got := inWords(p.Upkeep); !slices.Equal(got, d.upkeep) {
		t.Errorf("upkeep %q, want %q", got, d.upkeep)
	}
	if got := inWords(p.Commands); !slices.Equal(got, d.commands) {
		t.Errorf("commands %q, want %q", got, d.commands)
	}
	if !strings.Contains(p.Step, d.step) || (p.Step == "") != (d.step == "" && len(d.commands) == 0) {
		t.Errorf("step %q, want one with %q", p.Step, d.step)
	}
	reason := ""
	if len(p.Problems) > 0 {
		reason = p.Problems[0].Reason
	}
	if reason != d.reason || len(p.Problems) > 1 {
		t.Errorf("problems %q, want one because of %q", p.Problems, d.reason)
	}
	if d.wait == 0 && len(d.commands) > 0 {
		d.wait = brief
	}
	if p.Wait.Duration != d.wait && (d.wait != shortly || p.Wait.Duration <= 0 || p.Wait.Duration > brief) {
		t.Errorf("looks again after %s, want %s", p.Wait.Duration, d.wait)
	}
	lost := ""
	if p.Loss != nil {
		lost = p.Loss.slots.String()
	}
	if lost != d.lost {
		t.Errorf("loss of %q, want of %q", lost, d.lost)
	}
}

func inWords(commands []command) []string {
	var words []string
	for _, c := range commands {
		words = append(words, c.String())
	}
	return words
}

// shortly is a wait for what takes nodes a moment.
const shortly time.Duration = -1

// waits is the decision to wait for a second, or stuck with a reason.
func waits(step string) decision { return decision{step: step, wait: check} }

func stuckBy(reason, step string) decision { return decision{step: step, reason: reason, wait: check} }

// reports is the decision to do nothing because of a problem, and lasts that to wait for what takes long.
func reports(reason, step string) decision { return decision{step: step, reason: reason, wait: poll} }

func lasts(step string) decision { return decision{step: step, wait: poll} }

// waitsBriefly is the decision to wait until nodes have heard of each other.
func waitsBriefly(step string) decision { return decision{step: step, wait: brief} }

func does(step string, commands ...string) decision { return decision{step: step, commands: commands} }

// moves is the decision to move slots, and to look again shortly.
func moves(step string, commands ...string) decision {
	return decision{step: step, commands: commands, wait: shortly}
}

// sends and shifts are such decisions, whatever the step says.
func sends(commands ...string) decision { return decision{commands: commands} }

func shifts(commands ...string) decision { return decision{commands: commands, wait: shortly} }

// making is a decision by which Pods or volumes are made, too.
func (d decision) making(upkeep ...string) decision {
	d.upkeep = upkeep
	return d
}

// losing is a decision about lost slots.
func (d decision) losing(slots string) decision {
	d.lost = slots
	return d
}

// settledIs is the decision when nothing is to be done.
var settledIs = decision{wait: poll}

// cases is a table of what is seen, and what is decided.
type cases []struct {
	sentence string
	seen     *observed
	want     decision
}

func (table cases) run(t *testing.T) {
	for _, test := range table {
		t.Run(test.sentence, func(t *testing.T) {
			p := decide(test.seen)
			test.want.compare(t, p)
			recordtest.Check(t, Decisions, test.seen, p)
		})
	}
}

// every is words with a number for each of the ordinals.
func every(words string, ordinals ...int) []string {
	var all []string
	for _, i := range ordinals {
		all = append(all, fmt.Sprintf(words, i))
	}
	return all
}

func clearStatus(o *observed) { o.Object.Status = v1.RedisClusterStatus{} }

// takenBy makes a Pod of another owner have the name of a member.
func takenBy(ordinal int) alter {
	return func(o *observed) {
		noPod(ordinal)(o)
		o.Members[ordinal].Taken = true
		o.Problems = append(o.Problems, problem{reasonConflict, "Pod demo-3 exists already"})
	}
}

func TestDecideChildren(t *testing.T) {
	larger := spec(func(s *v1.RedisClusterSpec) { s.Storage.Size = resource.MustParse("2Gi") })
	smaller := spec(func(s *v1.RedisClusterSpec) { s.Storage.Size = resource.MustParse("1Mi") })
	taken := reports(reasonConflict, "exists already")
	grow := every("grow claim of demo-%d", all...)
	cases{
		{"settled: nothing is to be done", with(six()), settledIs},
		{"a new cluster gets its Pods", with(six(), unformed, clearStatus, noPod(all...)),
			waits("for demo-0").making(every("create Pod demo-%d", all...)...)},
		{"its volume is made first", with(six(), stored, noPod(4), func(o *observed) { o.Members[4].Claim = nil }),
			sends(every("forget demo-%d id-4", 0, 1, 2, 3, 5)...).making("create claim of demo-4", "create Pod demo-4")},
		{"a Pod that is gone is made again, on its volume", with(six(), stored, noPod(4)),
			waits("demo-4: there is no Pod").making("create Pod demo-4")},
		{"a Pod that has ended is deleted, to be made again", with(six(), podIs(finished, 4), silenced(1, 4)),
			waits("demo-4").making("delete Pod demo-4")},
		{"a Pod that has ended and is being deleted is waited for", with(six(), podIs(finished, 4), podIs(beingDeleted, 4), silenced(1, 4)),
			waits("demo-4")},
		{"volumes grow when the spec asks for more", with(six(), stored, larger), waitsBriefly("Growing 6 volumes to 2Gi").making(grow...)},
		{"beside all else", with(six(), stored, larger, podIs(old, 3)), sends("evict Pod demo-3").making(grow...)},
		{"also one whose disk is full", with(six(), stored, larger, fullDisk(0)),
			waits("demo-0, which cannot write to its disk").making(grow...)},
		{"also one that does not run", with(six(), stored, larger, podIs(crashing, 3), silenced(time.Hour, 3)), waits("demo-3").making(grow...)},
		{"but none that has never been bound", with(six(), stored, larger, unbound(0)),
			waitsBriefly("Growing 5 volumes").making(grow[1:]...)},
		{"nor just after a refusal", with(six(), stored, larger, func(o *observed) {
			o.GrowthRefused, o.GrowthRefusedAt = &problem{reasonFailing, "no"}, o.Now.Add(-time.Second)
		}), settledIs},
		{"volumes do not shrink", with(six(), stored, smaller), settledIs},
		{"no Pod is made on a volume that is being deleted", with(six(), stored, noPod(3), terminating(3)), waits("demo-3: there is no Pod")},
		{"a name that is taken holds up what nodes are to do", with(six(), takenBy(3), renewed(4)), taken},
		{"a name that is taken does not hold up the other Pods", with(six(), takenBy(3), noPod(4)), taken.making("create Pod demo-4")},
		{"without a password nothing is done",
			with(six(), silenced(1, all...), func(o *observed) { o.Problems = []problem{{reasonNoPassword, "Secret x does not exist"}} }),
			reports(reasonNoPassword, "does not exist")},
	}.run(t)
}

func TestDecideStrangers(t *testing.T) {
	ghost, heldUp := known("ghost", true, "", 4), stuckBy(reasonStranger, "ghost")
	cases{
		{"a living node without a Pod that one node knows", with(six(), ghost), stuckBy(reasonStranger, "Node ghost at 10.9.9.9:6379")},
		{"also if only one of those that know it is connected", with(six(), known("ghost", false, "", 0, 1), known("ghost", true, "", 2)),
			heldUp},
		{"nothing is given up then", with(six(), renewed(0, 3), ghost, accepting(lossToken("0-5460"))), heldUp},
		{"Pods are made nevertheless", with(six(), stored, noPod(3), ghost), heldUp.making("create Pod demo-3")},
		{"at first it may be the node of a Pod that was there", since(minPatience-1, with(six(), ghost)), waits("to miss ghost at 10.9.9.9")},
		{"a lost node without a Pod is forgotten by the nodes that know it", with(six(), known("ghost", false, "", 0, 4)),
			sends(every("forget demo-%d ghost", 0, 4)...)},
	}.run(t)
}

func lossToken(slots string) string {
	return newLoss(six().Object, slotsOf(slots), seenAt).token
}

// TestAStrayReplicaDoesNotTakeOver has a master be lost whose replica may have copied the data of another node.
func TestAStrayReplicaDoesNotTakeOver(t *testing.T) {
	stray := func(v *redisnode.View) { v.LinkUp, v.Stray, v.Offset = false, true, 9000 }
	cases{
		{"a lost master's only replica is stray", with(six(), renewed(0), viewed(stray, 3)),
			stuckBy(reasonDataLoss, "The slots 0-5460 (5461 of 16384) have lost what they held").losing("0-5460")},
		{"another replica is not", with(sixAnd(replica(0), replica(1), replica(2)), renewed(0), viewed(stray, 3)),
			sends("failover demo-6 FORCE")},
	}.run(t)
}

func TestDecideLosses(t *testing.T) {
	token := accepting(lossToken("0-5460"))
	forgetting := sends(every("forget demo-%d id-0", 1, 2, 4, 5)...).losing("0-5460")
	lost := stuckBy(reasonDataLoss, "The slots 0-5460 (5461 of 16384) have lost what they held").losing("0-5460")
	some := stuckBy(reasonDataLoss, "The slots 5001-5460 (460 of 16384) have lost what they held").losing("5001-5460")
	demo3TakesOver := sends("failover demo-3 FORCE")
	withKeys := func(o *observed) { o.Formed = false }
	cases{
		{"a master's Pod is gone: another is elected", since(time.Second, with(six(), renewed(0))), waits("be elected for the slots 0-5460")},
		{"no replica was elected: one is told to take over", with(six(), renewed(0)), sends("failover demo-3 FORCE")},
		{"it gets one command, and the time", with(six(), renewed(0), asked(3)), waits("for demo-3 to take over")},
		{"it reaches most masters: they can agree", with(six(), renewed(0), silenced(1, 1)), demo3TakesOver},
		{"it reaches half of them: no master is asked", with(six(), renewed(0), missed(1, 3)), sends("failover demo-3 TAKEOVER")},
		{"a replica that never got its data does not take over",
			with(six(), renewed(0), viewed(func(v *redisnode.View) { v.Keys, v.Offset = 0, 0 }, 3)), lost},
		{"the others do not accept a takeover: another replica asks no master either", with(six(), renewed(0, 1), claimed(0, 3)),
			sends("failover demo-4 TAKEOVER")},
		{"the others do not accept a takeover: they forget the lost master, and nothing is lost", with(six(), renewed(0), claimed(0, 3)),
			sends(every("forget demo-%d id-0", 1, 2, 3, 4, 5)...)},
		{"the replica with the most of the data takes over",
			with(sixAnd(replica(0), replica(1), replica(2)), renewed(0), viewed(func(v *redisnode.View) { v.Offset = 2000 }, 6)),
			sends("failover demo-6 FORCE")},
		{"one that was not linked at last waits for one that is silent",
			with(triples(), renewed(0), unlinked(2*time.Hour, 17, 3), silenced(5*time.Second, 6)),
			waits("for demo-6, which may have more of what the slots 0-5460 held than demo-3")},
		{"one that was linked at last does not",
			with(triples(), renewed(0), unlinked(time.Hour+minPatience, 1000, 3), silenced(5*time.Second, 6)), demo3TakesOver},
		{"one that was restarted since has no offset, but may have all of the data",
			with(triples(), renewed(0), unlinked(2*time.Hour, 17, 3), unlinked(-1, 0, 6)), sends("failover demo-6 FORCE")},
		{"since when the master is lost is not known: a person decides between one that was restarted and one that was not",
			unwitnessed(with(triples(), renewed(0), unlinked(time.Hour, 1000, 3), unlinked(-1, 0, 6))),
			stuckBy(reasonHeldBack, "demo-3 or demo-6 has more of what their master held")},
		{"one that was linked at last for sure takes over",
			unwitnessed(with(triples(), renewed(0), unlinked(2*minPatience, 1000, 3), unlinked(-1, 0, 6))), demo3TakesOver},
		{"the offset decides between two that were not restarted",
			unwitnessed(with(triples(), renewed(0), unlinked(time.Hour, 1000, 3), unlinked(time.Hour, 900, 6))), demo3TakesOver},
		{"nothing is known of any that was restarted", unwitnessed(with(six(), renewed(0), unlinked(-1, 0, 3))), demo3TakesOver},
		{"the others are not waited for if all are stale",
			with(triples(), renewed(0), unlinked(2*time.Hour, 17, 3), unlinked(3*time.Hour, 16, 6)), demo3TakesOver},
		{"the slots of another master do not wait", with(triples(), renewed(0, 1), unlinked(2*time.Hour, 17, 3), silenced(5*time.Second, 6)),
			sends("failover demo-4 TAKEOVER")},
		{"one that sees no other master waits for one that may have been elected there", with(triples(), renewed(0), alone(3)),
			waits("for demo-6, which may have more of what the slots 0-5460 held than demo-3")},
		{"it does not wait if no other replica is missing", with(six(), renewed(0), alone(3)), sends("failover demo-3 TAKEOVER")},
		{"a volume whose Pod is not made yet may have the slots", with(six(), stored, clearStatus, noPod(0), linkDown(3)),
			waits("for demo-0, which may have the slots 0-5460: there is no Pod").making("create Pod demo-0")},
		{"that of a Pod that leaves, too", with(sixAnd(replica(0)), stored, clearStatus, sized(6), renewed(0), noPod(6)),
			waits("for demo-6, which may have the slots 0-5460: there is no Pod").making("create Pod demo-6")},
		{"a claim that never had a volume has nothing", with(six(), stored, clearStatus, noPod(0), unbound(0)),
			demo3TakesOver.making("create Pod demo-0")},
		{"unless a machine has its Pod: the caches are behind", with(six(), stored, namelessly(0), unbound(0)),
			waits("for demo-0, which may have the slots 0-5460")},
		{"a replica whose Pod is silent has the data: it is waited for", with(six(), stored, renewed(0), silenced(time.Hour, 3)),
			waits("for demo-3, which has what the slots 0-5460 hold")},
		{"a replica whose Pod is gone has it on its volume", with(six(), stored, renewed(0), noPod(3), noPodYet(3)),
			waits("for demo-3, which has what the slots 0-5460 hold")},
		{"master and replica are gone: their slots are lost", with(six(), renewed(0, 3)), lost},
		{"also if no node owns them any more", with(six(), renewed(0, 3), forgotten("id-0", 1, 2, 4, 5), forgotten("id-3", 1, 2, 4, 5)), lost},
		{"some slots of a master were lost", with(six(), has(0, "0-5000")), some},
		{"some are lost though it is not known that it was formed", with(six(), has(0, "0-5000"), withKeys), some},
		{"nothing is lost while a member is silent, which may have the data", with(six(), renewed(0, 3), silenced(time.Hour, 4)),
			waits("for demo-4: the slots 0-5460 have no master")},
		{"nothing is lost while no member answers", with(six(), silenced(time.Hour, all...)), waits("for demo-0: connection refused")},
		{"the value of another loss accepts nothing", with(six(), renewed(0, 3), accepting(lossToken("0-5459"))), lost},
		{"accepted: those who had them are forgotten", with(six(), renewed(0, 3), token), forgetting},
		{"accepted: nothing is done before all answer", with(six(), renewed(0, 3), silenced(1, 5), token), waits("for demo-5")},
		{"accepted: one member gets them, all at once", with(six(), renewed(0, 3), forgotten("id-0", 1, 2, 4, 5), token),
			sends("add slots demo-0 0-5460").losing("0-5460")},
	}.run(t)
}

// fullDisk makes a node one that cannot write its append-only file.
func fullDisk(ordinal int) alter {
	return viewed(func(v *redisnode.View) { v.WriteError = "aof_last_write_status is err" }, ordinal)
}

// formerMaster makes demo-0 a master whose machine is lost, and whose slots its replica has.
func formerMaster(o *observed) {
	takenOver(0, 3)(o)
	failedByAll(o, idOf(0))
	silenced(time.Hour, 0)(o)
	podIs(unscheduled, 0)(o)
}

// neverLinked makes a replica one that has not been linked to its master since it started.
func neverLinked(ordinal int) alter {
	return func(o *observed) {
		unlinked(-1, 0, ordinal)(o)
		unreadyForLong(ordinal)(o)
	}
}

// triples is a cluster of three masters with two replicas each.
func triples() *observed {
	o := sixAnd(replica(0), replica(1), replica(2))
	replicas(2)(o)
	return o
}

// alone has one member answer, which reaches no other: the others have the rest of the network.
func alone(ordinal int) alter {
	return func(o *observed) {
		for i, m := range o.Members {
			if i == ordinal || m.View == nil || strings.HasPrefix(m.View.ID, "new-") {
				continue
			}
			silenced(time.Hour, i)(o)
			e := saidBy(o, ordinal, idOf(i))
			e.Connected, e.Failed = false, true
		}
	}
}

// noPodYet has the name of a Pod that is gone still be taken by what it leaves.
func noPodYet(ordinal int) alter {
	return func(o *observed) { o.Members[ordinal].Taken = true }
}

// orphaned has a replica have a master that is gone.
func orphaned(ordinal int) alter {
	return func(o *observed) {
		each(o, idOf(ordinal), func(e *redisnode.Entry) { e.MasterID = "ghost" })
		saidBy(o, ordinal, idOf(ordinal)).MasterID = "ghost"
	}
}

// namelessly makes the node of a silent Pod unknown: it has another address, and
// was never noted.
func namelessly(ordinal int) alter {
	return func(o *observed) {
		silenced(time.Second, ordinal)(o)
		o.Object.Status.Nodes = nil
		o.Members[ordinal].Pod.Status.PodIP = "10.1.8.8"
		failedByAll(o, idOf(ordinal))
	}
}

func TestDecideGoneAndBroken(t *testing.T) {
	cases{
		{"the node of a replica that lost its Pod is forgotten", with(six(), renewed(3)),
			sends(every("forget demo-%d id-3", 0, 1, 2, 4, 5)...)},
		{"who is the replica of a node does not forget it", with(six(), known("ghost", false, "", all...), orphaned(3)),
			sends(every("forget demo-%d ghost", 0, 1, 2, 4, 5)...)},
		{"no node is forgotten that may be the node of a silent Pod", with(six(), stored, namelessly(3)), waits("for demo-3")},
		{"nor of a volume whose Pod is not made yet", with(six(), stored, clearStatus, noPod(3)),
			waits("for demo-3: there is no Pod").making("create Pod demo-3")},
		{"a Pod that runs is left alone, however silent", with(six(), allOld, silenced(time.Hour, 3)), waits("for demo-3")},
		{"a Pod of this revision that does not run, too", with(six(), stored, podIs(unstarted, 3), silenced(time.Hour, 3)),
			waits("for demo-3")},
		{"one of another revision is replaced", with(six(), stored, podIs(both(old, unstarted), 3), silenced(silencePatience, 3)),
			sends("delete Pod demo-3")},
		{"not at once", with(six(), stored, podIs(both(old, unstarted), 3), silenced(silencePatience-1, 3)), waits("for demo-3")},
		{"one whose container does not start is, too", with(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 3)),
			sends("delete Pod demo-3")},
		{"but not by one that the API server rejects", with(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 3), rejecting),
			waits("for demo-3")},
		{"one whose additional container does not start is not: its node may be loading",
			with(six(), podIs(both(old, sidecarsCrashing), 3), silenced(time.Hour, 3)), waits("for demo-3")},
		{"unless it is being deleted", with(six(), stored, podIs(both(old, unstarted, beingDeleted), 3), silenced(time.Hour, 3)),
			waits("for demo-3")},
		{"one with slots and a volume is, too", with(six(), stored, podIs(both(old, crashing), 0), silenced(time.Hour, 0)),
			sends("delete Pod demo-0")},
		{"one with slots and no volume is not", with(six(), podIs(both(old, crashing), 0), silenced(time.Hour, 0)),
			stuckBy(reasonHeldBack, "demo-0 does not run, and may have the only copy of the slots 0-5460")},
		{"nor a replica, if its master is silent too", with(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 0, 3)),
			stuckBy(reasonHeldBack, "demo-3 does not run, and may have the only copy of the slots 0-5460")},
		{"nor if no node tells who has slots", with(six(), podIs(both(old, crashing), all...), silenced(time.Hour, all...)),
			stuckBy(reasonHeldBack, "demo-0 does not run")},
		{"a replica that cannot get the data of its master is replaced", with(six(), stored, podIs(both(old, unready), 3), neverLinked(3)),
			sends("delete Pod demo-3")},
		{"also one that could before", with(six(), stored, podIs(old, 3), unlinked(time.Hour, 1000, 3)), sends("evict Pod demo-3")},
		{"not at once", with(six(), stored, podIs(old, 3), unlinked(time.Second, 1000, 3)), waits("for demo-3 to be up to date")},
		{"nor one of this revision", with(six(), stored, neverLinked(3)), waits("for demo-3 to be up to date")},
		{"nor one of two: the network may be the cause", with(six(), stored, podIs(old, 3, 4), neverLinked(3), neverLinked(4)),
			waits("for demo-3 to be up to date")},
		{"nor one whose master is silent", with(six(), stored, podIs(old, 3), neverLinked(3), silenced(time.Second, 0)), waits("for demo-0")},
		{"Pods that never started are replaced by what can",
			with(cluster(newcomer(), newcomer(), newcomer()), unformed, podIs(both(old, unstarted), 0, 1, 2), silenced(time.Hour, 0, 1, 2)),
			sends("delete Pod demo-0")},
	}.run(t)
}

func TestDecideIntroduce(t *testing.T) {
	many := make([]int, maxMeets)
	for i := range many {
		many[i] = i + 1
	}
	cases{
		{"those that are about to know it are not",
			with(cluster(slices.Repeat([]part{newcomer()}, 6)...), unformed, greeted(1, 0), greeted(4, 0)),
			sends(every("meet demo-%d demo-0", 2, 3, 5)...)},
		{"a new node with a low ordinal does so too", with(six(), renewed(1), takenOver(1, 4), forgotten("id-1", 0, 2, 3, 4, 5)),
			sends("meet demo-1 demo-0")},
		{"to all, also while some are silent", with(six(), elsewhere(3, 0, 5), silenced(1, 1)),
			sends("meet demo-0 demo-3", "meet demo-5 demo-3")},
		{"a node that knows a node without a Pod is not introduced", with(six(), stored, namelessly(4), renewed(3)),
			waits("for demo-0 to forget")},
		{"no node is introduced to one that does", with(sixAnd(newcomer()), stored, namelessly(4), forgotten("id-4", 1, 2, 3, 5)),
			waits("for demo-0 to forget id-4")},
		{"two that do not know each other both have a slot: they are left alone",
			with(sixAnd(part{slots: slotsOf("5000-6000"), masterOf: -1, lone: true})),
			stuckBy(reasonDivided, "demo-0 and demo-6 do not know each other, and both have the slots 5000-6000")},
		{"no more than so many at once", with(cluster(slices.Repeat([]part{newcomer()}, maxMeets+10)...), unformed),
			sends(every("meet demo-%d demo-0", many...)...)},
	}.run(t)
}

func TestDecideFormAndAdopt(t *testing.T) {
	empties := func() *observed { return cluster(slices.Repeat([]part{master("")}, 6)...) }
	shares := []string{"add slots demo-0 0-5460", "add slots demo-1 5461-10921", "add slots demo-2 10922-16383"}
	three := sixOf()[:3:3]
	cases{
		{"nodes that know each other get the slots", with(empties(), unformed), sends(shares...)},
		{"a part of a part was done: the rest is", with(empties(), unformed, has(1, "5461-6000")),
			sends(shares[0], "add slots demo-1 6001-10921", shares[2])},
		{"masters are on different machines", with(empties(), unformed, on("a", 0, 1, 2), on("b", 3, 4)),
			sends("add slots demo-0 0-5460", "add slots demo-3 5461-10921", "add slots demo-5 10922-16383")},
		{"a Pod is missing: nothing is given out", with(empties(), unformed, silenced(1, 5)), waits("for demo-5")},
		{"one does not know another: nothing is given out", with(empties(), unformed, forgotten("id-3", 4), greeted(4, 3)),
			waitsBriefly("demo-4 does not know demo-3")},
		{"those without slots become replicas", with(cluster(append(three, master(""), master(""), master(""))...)),
			sends("replicate demo-3 demo-0", "replicate demo-4 demo-1", "replicate demo-5 demo-2")},
		{"a silent master gets none", with(cluster(append(three, replica(0), replica(1), master(""))...), silenced(1, 2)),
			sends("replicate demo-5 demo-0")},
		{"a replica that asks at an old address of its master is told again", with(six(), asks("10.9.9.9", 3)),
			sends("replicate demo-3 demo-0")},
		{"... also if the master does not answer the operator", with(six(), asks("10.9.9.9", 3), silenced(time.Minute, 0)),
			sends("replicate demo-3 demo-0")},
		{"one that asks at the address that its master has is not", with(six(), asks("10.1.0.0", 3)), waits("for demo-3 to be up to date")},
		{"one whose link is up is not, whatever it says",
			with(six(), asks("10.9.9.9", 3), viewed(func(v *redisnode.View) { v.LinkUp = true }, 3)), settledIs},
		{"one that does not know its master's address yet hears of it first", with(six(), asks("10.9.9.9", 3), elsewhere(0, 3)),
			sends("meet demo-3 demo-0")},
		{"one that has just been made waits to be known", with(six(), renewed(3), forgotten("id-3", 0, 1, 2, 4, 5), greeted(3, 0)),
			waitsBriefly("does not know")},
		{"a node that another one is meeting again waits until the handshake ends", with(six(), greeted(0, 3)),
			waitsBriefly("demo-0 is in a handshake with demo-3")},
		{"who may be needed as a master waits until all are there", with(sixAnd(newcomer(), newcomer()), orphaned(5), silenced(1, 6, 7)),
			waits("for demo-6")},
		{"a replica of a leaving master that has no slots gets another",
			with(cluster(append(three, replica(0), replica(1), replica(6), master(""))...), sized(6)), sends("replicate demo-5 demo-2")},
	}.run(t)
}

func TestDecideAgreeAndOpen(t *testing.T) {
	replaced := cluster(master("0-5460"), replica(4), master("10923-16383"), replica(0), master("5461-10922"), replica(2))
	slotGone := func(o *observed) { saidBy(o, 0, "id-0").Migrating = map[int]string{7: "gone"} }
	cases{
		{"a master is silent: it is waited for", with(six(), silenced(1, 1)),
			waits("for demo-1, which has the slots 5461-10922: connection refused")},
		{"one does not reach another", with(six(), missed(3, 4)), waitsBriefly("demo-4 does not reach demo-3")},
		{"one has not heard which slots another has", with(six(), claims(1, "5461-10900"), claims(2, "10901-16383")),
			waitsBriefly("demo-0 has not heard which slots demo-1 has")},
		{"one has not heard that another is a replica", with(six(), func(o *observed) { saidBy(o, 0, "id-4").Master = true }),
			waitsBriefly("demo-0 has not heard which role demo-4 has")},
		{"what those say who are to be removed does not count", with(sixAnd(master("")), sized(6), forgotten("id-6", 0, 1)),
			sends(append(every("forget demo-%d id-6", 2, 3, 4, 5), "delete Pod demo-6")...)},
		{"a move continues, some slots at a time", with(six(), moving("0-200", 0, 1, true)), shifts("move slots demo-0 demo-1 0-63")},
		{"a move continues that the taker alone knows of", with(six(), expecting("7,9", 1, 0)), shifts("move slots demo-0 demo-1 7,9")},
		{"a slot that did not move waits; others continue", with(six(), moving("7-9", 0, 1, true), notMoved(8, 4*time.Second)),
			shifts("move slots demo-0 demo-1 7,9")},
		{"it is the last one", with(six(), moving("8", 0, 1, true), notMoved(8, 4*time.Second)),
			decision{step: "Waiting before the slot 8 is moved again", wait: time.Second}},
		{"it has waited long enough", with(six(), moving("7-8", 0, 1, true), notMoved(8, 5*time.Second)), shifts("move slots demo-0 demo-1 7-8")},
		{"a move continues that is not needed any more", with(six(), moving("5461", 1, 2, true)), shifts("move slots demo-1 demo-2 5461")},
		{"slots are not given before the taker can keep them", with(six(), moving("7", 0, 1, true), epoch(0, 9)),
			decision{step: "Waiting for demo-1 to learn the config epoch of demo-0", wait: shortly}},
		{"who has heard of the epoch can keep them", with(six(), moving("7", 0, 1, true), epoch(0, 9), behind(9, 1)),
			shifts("move slots demo-0 demo-1 7")},
		{"who has the latest epoch of all, which is not that later", with(six(), moving("7", 0, 1, true), epoch(0, 2), behind(2, 1)),
			decision{step: "Waiting for demo-1", wait: shortly}},
		{"the mark of a taker that has the slot is removed", with(six(), expecting("5461", 1, 0)), sends("close slots demo-1 5461")},
		{"the mark of a giver that has given is removed", with(six(), moving("5461-5463", 0, 1, false)), sends("close slots demo-0 5461-5463")},
		{"but not before it has heard", with(six(), has(1, "5460-10922"), moving("5460", 0, 1, false)),
			waitsBriefly("for demo-0 to learn which node owns the slot 5460 now")},
		{"the taker is gone: the mark is removed", with(six(), slotGone), sends("resume move demo-0 7")},
		{"a node is silent, which may have its keys", with(six(), slotGone, silenced(time.Second, 4)),
			waits("for demo-4, which may have keys")},
		{"the taker was replaced by its replica: that gets them", with(replaced, moving("7", 0, 1, false)),
			shifts("move slots demo-0 demo-4 7")},
		{"the taker has become a replica of the giver", with(six(), moving("7", 0, 3, false)), sends("close slots demo-0 7")},
		{"the taker is no master any more: its mark is removed", with(six(), expecting("7", 3, 0)), sends("close slots demo-3 7")},
	}.run(t)
}

func TestDecideBalance(t *testing.T) {
	wider := append(sixOf(), master(""), replica(6))
	narrower := []part{
		master("0-4095"), master("4096-8191"), master("8192-12287"), replica(0), replica(1), replica(2), master("12288-16383"), replica(6),
	}
	inherited := []part{master("0-5460"), master("5461-10922"), replica(0), replica(1), replica(6), replica(6), master("10923-16383")}
	forgets := every("forget demo-%d id-6", 0, 1, 2, 3, 4, 5, 7, 8)
	cases{
		{"fewer slots at a time if the master that gives them has many keys",
			with(cluster(wider...), viewed(func(v *redisnode.View) { v.Keys = 102_400 }, 0)), shifts("move slots demo-0 demo-6 0-26")},
		{"the others go on with it", with(cluster(wider...), has(0, "1365-5460"), has(6, "0-1364")),
			shifts("move slots demo-1 demo-6 5461-5524")},
		{"it is not removed before it has given all", with(cluster(narrower...), sized(6), has(6, "16000-16383"), has(0, "0-4095,12288-15999")),
			shifts("move slots demo-6 demo-1 16000-16063")},
		{"its replica takes over if there are too few", with(cluster(inherited...), sized(6)), sends("failover demo-4")},
		{"it gets the time for that", with(cluster(inherited...), sized(6), asked(4)), waitsBriefly("for demo-4 to take over from demo-6")},
		{"a user deletes a master's volume: it leaves", with(six(), stored, terminating(0)), sends("failover demo-3")},
		{"more masters of the same Pods: one is made anew, with its volume", with(triples(), stored, replicas(1)),
			sends(append([]string{"evict Pod demo-6", "delete claim of demo-6"}, forgets...)...)},
		{"nor while another replica of its master is behind", with(triples(), stored, replicas(1), linkDown(3)),
			waits("for demo-3 to be up to date")},
		{"nor while its master cannot keep what is written",
			with(triples(), replicas(1), viewed(func(v *redisnode.View) { v.WriteError = "aof_last_write_status is err" }, 0)),
			waits("for demo-0, which cannot write to its disk")},
		{"fewer masters of the same Pods: one gives its slots away", with(cluster(narrower...), replicas(2)),
			shifts("move slots demo-2 demo-0 8192-8255")},
	}.run(t)
}

func TestDecideWholeAndRemove(t *testing.T) {
	left := func() *observed { return sixAnd(replica(0)) }
	full := viewed(func(v *redisnode.View) { v.Keys = 3 }, 6)
	notOK := func(v *redisnode.View) { v.StateOK = false }
	removed := sends(append(every("forget demo-%d id-6", all...), "delete Pod demo-6")...)
	cases{
		{"also if another is to be replaced", with(six(), podIs(old, 3), silenced(1, 4)), waits("for demo-4: connection refused")},
		{"one by whom the cluster is down is waited for", with(six(), podIs(old, 3), viewed(notOK, 1)),
			waits("for demo-1, which reports that the cluster cannot be used")},
		{"a replica that is behind is waited for", with(six(), podIs(old, 3), linkDown(4)), waits("for demo-4 to be up to date")},
		{"a replica that is behind is, if it is to be removed", with(left(), sized(6), linkDown(4)), waits("for demo-4 to be up to date")},
		{"a member that is to be removed is not waited for", with(left(), sized(6), silenced(1, 6)), removed},
		{"nor whether it is behind", with(left(), sized(6), linkDown(6), viewed(notOK, 6)), removed},
		{"replicas are removed before their masters", with(sixAnd(master(""), replica(6), master("")), sized(6)),
			sends(append(every("forget demo-%d id-7", 0, 1, 2, 3, 4, 5, 6, 8), "delete Pod demo-7")...)},
		{"one after the other", with(left(), sized(6), podIs(beingDeleted, 6), silenced(1, 6)), waits("for demo-6 to be gone")},
		{"one that has no slots, but keys, is kept", with(sixAnd(master("")), sized(6), full),
			stuckBy(reasonHeldBack, "demo-6 has no slots, but 3 keys")},
		{"the volume of one that leaves is deleted, and first", with(left(), stored, sized(6)),
			sends(append(every("forget demo-%d id-6", all...), "delete claim of demo-6", "delete Pod demo-6")...)},
		{"a silent one that leaves, with slots, is waited for",
			with(sixAnd(master("16001-16383")), has(2, "10923-16000"), sized(6), silenced(time.Hour, 6)),
			waits("for demo-6, which has the slots 16001-16383")},
		{"a silent one whose node is unknown", with(left(), stored, sized(6), namelessly(6)),
			waits("for demo-6, which may have keys: connection refused")},
		{"unless it cannot have anything yet",
			with(left(), stored, sized(6), namelessly(6), unbound(6), podIs(unscheduled, 6), forgotten("id-6", all...)),
			sends("delete claim of demo-6", "delete Pod demo-6")},
		{"a user deletes the volume of a lost master whose replica has taken over", with(six(), stored, formerMaster, terminating(0)),
			sends(append(every("forget demo-%d id-0", 1, 2, 3, 4, 5), "delete claim of demo-0", "delete Pod demo-0")...)},
		{"it is waited for while its volume stays", with(six(), stored, formerMaster), waits("for demo-0")},
		{"and while it may have keys of a slot that moves", with(six(), stored, formerMaster, terminating(0), moving("6000", 1, 0, false)),
			waits("for demo-0, which may have keys")},
		{"a user deletes a replica's volume: its Pod goes too", with(six(), stored, terminating(5)),
			sends(append(every("forget demo-%d id-5", 0, 1, 2, 3, 4), "delete claim of demo-5", "delete Pod demo-5")...)},
	}.run(t)
}

func TestDecideSpreadRollReady(t *testing.T) {
	three := sixOf()[:3:3]
	uneven := append(three, replica(0), replica(0), replica(2))
	swapped := []part{replica(3), master("5461-10922"), master("10923-16383"), master("0-5460"), replica(1), replica(2)}
	drained := []part{master(""), master("0-8191"), master("8192-16383")}
	cases{
		{"a replica goes from who has two to who has none", with(cluster(uneven...)), sends("replicate demo-3 demo-1")},
		{"one that is on another machine", with(cluster(uneven...), on("machine-1", 3)), sends("replicate demo-4 demo-1")},
		{"one more is not too many", with(sixAnd(replica(0))), settledIs},

		{"another revision: replicas are replaced first", with(six(), allOld), sends("evict Pod demo-3")},
		{"one at a time", with(six(), allOld, podIs(beingDeleted, 3), silenced(1, 3)), waits("for demo-3")},
		{"the one after it, when that is up to date", with(six(), podIs(old, 0, 1, 2, 4, 5)), sends("evict Pod demo-4")},
		{"not before it is", with(six(), podIs(old, 0, 1, 2, 4, 5), linkDown(3)), waits("for demo-3 to be up to date")},
		{"a master after its replica has taken over", with(six(), podIs(old, 0, 1, 2)), sends("failover demo-3")},
		{"which gets the time for it", with(six(), podIs(old, 0, 1, 2), asked(3)), waitsBriefly("for demo-3 to take over from demo-0")},
		{"and then as a replica", with(cluster(swapped...), podIs(old, 0, 1, 2)), sends("evict Pod demo-0")},
		{"a master with a volume and no replica is replaced", with(cluster(three...), stored, replicas(0), podIs(old, 0, 1)),
			sends("evict Pod demo-0")},
		{"one without is emptied", with(cluster(three...), replicas(0), podIs(old, 0)), shifts("move slots demo-0 demo-1 0-63")},
		{"and replaced when it is", with(cluster(drained...), replicas(0), podIs(old, 0)),
			sends("forget demo-1 id-0", "forget demo-2 id-0", "delete Pod demo-0")},
		{"one that has no slots, but keys, and no volume is not",
			with(sixAnd(master("")), podIs(old, 6), viewed(func(v *redisnode.View) { v.Keys = 3 }, 6)),
			stuckBy(reasonHeldBack, "demo-6 is to be replaced, but has no slots, 3 keys, and no volume")},
		{"one with a volume is", with(sixAnd(master("")), stored, podIs(old, 6), viewed(func(v *redisnode.View) { v.Keys = 3 }, 6)),
			sends("evict Pod demo-6")},
		{"a Pod that is not ready is deleted: no budget counts on it", with(six(), allOld, podIs(unready, 3)), sends("delete Pod demo-3")},
		{"it waits its turn at first", with(six(), allOld, podIs(unready, 4)), sends("evict Pod demo-3")},
		{"one that has not been ready for long is the first", with(six(), allOld, podIs(unready, 4), unreadyForLong(4)),
			sends("delete Pod demo-4")},
		{"a master that has not been ready for long is, after its failover", with(six(), allOld, podIs(unready, 1), unreadyForLong(1)),
			sends("failover demo-4")},
		{"no Pod is replaced by one that the API server rejects", with(six(), allOld, rejecting), waits("for another spec: demo-0 stays")},
		{"nor emptied for that", with(cluster(three...), sized(3), replicas(0), allOld, rejecting), waits("for another spec: demo-0 stays")},
		{"an operation ends when all Pods are ready", with(six(), under(opRoll), podIs(unready, 3)), waits("for the Pod demo-3 to be ready")},
		{"another container than redis may not be ready", with(six(), under(opRoll), podIs(both(unready, sidecarsCrashing), 3)), settledIs},
		{"a probe that fails begins none", with(six(), podIs(unready, 3)), settledIs},
	}.run(t)
}

// TestDecideKeepsTheOnlyCopy asks policies alone for what the ones before them prevent.
func TestDecideKeepsTheOnlyCopy(t *testing.T) {
	o := with(cluster(master("0-16383"), replica(0)), podIs(old, 0), linkDown(1))
	stuckBy(reasonHeldBack, "demo-0 is to be replaced, but has the only copy of the slots 0-16383").compare(t, *rollPods(o))
	if p := rollPods(with(six(), allOld, podIs(beingDeleted, all...))); p != nil {
		t.Errorf("%q of Pods that are being deleted", p.Step)
	}
}

// scene is one of many states of a cluster, most of which no cluster was ever in.
type scene struct {
	*observed
	history []string // what happened
}

// happening is an alter of a scene, in words.
type happening struct {
	words string
	make  func(*rand.Rand, int) alter // of a cluster of so many
}

func sceneOf(r *rand.Rand) scene {
	var parts []part
	masters, each := 1+r.Intn(4), r.Intn(3)
	for i := range masters {
		slots := redisnode.SlotRange(i*redisnode.SlotCount/masters, (i+1)*redisnode.SlotCount/masters-1)
		parts = append(parts, part{slots: slots, masterOf: -1})
	}
	for i := range masters * each {
		parts = append(parts, replica(i%masters))
	}
	for range r.Intn(3) {
		parts = append(parts, []part{master(""), newcomer(), {slots: slotsOf("7"), masterOf: -1, lone: true}}[r.Intn(3)])
	}
	s := scene{observed: cluster(parts...)}
	var alters []alter
	add := func(words string, a alter) {
		s.history = append(s.history, words)
		alters = append(alters, a)
	}
	if r.Intn(2) == 0 {
		add("stored", stored)
	}
	if r.Intn(3) == 0 {
		add("functions on all masters", func(o *observed) {
			for i, m := range o.Members {
				if m.View.Master && m.View.Keys > 0 {
					libraries("f=1", i)(o)
				}
			}
		})
	}
	wanted := max(0, each-r.Intn(2))
	add(fmt.Sprintf("%d replicas", wanted), replicas(int32(wanted)))
	all := happenings()
	if r.Intn(2) == 0 { // Together, these seldom happen by chance.
		all = slices.DeleteFunc(all, func(h happening) bool { return !slices.Contains(aboutCopies, h.words) })
	}
	for range r.Intn(6) {
		h := all[r.Intn(len(all))]
		add(h.words, h.make(r, len(parts)))
	}
	for _, a := range alters {
		attempt(s.observed, a)
	}
	with(s.observed)
	switch r.Intn(4) {
	case 0:
		since(time.Second, s.observed)
	case 1:
		s.history = append(s.history, "the operator was started since")
		unwitnessed(s.observed)
	}
	return s
}

// aboutCopies are the happenings after which some copies of the data are better than others.
var aboutCopies = []string{
	"silent", "silent for a moment", "no Pod", "renewed", "nameless", "link down", "stale", "restarted", "never bound", "old",
	"crashing", "never noted", "unlike replicas",
}

// unlikeReplicas has a master be gone with its data, and something else happen to each of its replicas.
func unlikeReplicas(r *rand.Rand, n int) alter {
	master, fates := r.Intn(n), r.Perm(5)
	if r.Intn(2) == 0 {
		fates = r.Perm(3) // All of them answer, and none is linked.
	}
	return func(o *observed) {
		for i, m := range o.Members {
			if m.View == nil || m.View.Master || saidBy(o, i, m.View.ID).MasterID != idOf(master) {
				continue
			}
			switch fates[i%len(fates)] {
			case 0:
				unlinked(2*time.Hour, 17, i)(o)
			case 1:
				unlinked(-1, 0, i)(o)
			case 2:
				unlinked(time.Hour+time.Second, 900, i)(o)
			case 3:
				silenced(time.Second, i)(o)
			}
		}
		renewed(master)(o)
	}
}

// attempt does nothing if what is to happen to a member cannot, as a silent one says nothing.
func attempt(o *observed, a alter) {
	defer func() { _ = recover() }()
	a(o)
}

func happenings() []happening {
	one := func(words string, f func(int) alter) happening {
		return happening{words, func(r *rand.Rand, n int) alter { return f(r.Intn(n)) }}
	}
	two := func(words string, f func(a, b int) alter) happening {
		return happening{words, func(r *rand.Rand, n int) alter { return f(r.Intn(n), r.Intn(n)) }}
	}
	plain := func(words string, a alter) happening {
		return happening{words, func(*rand.Rand, int) alter { return a }}
	}
	return append(accessHappenings(), []happening{
		one("silent", func(i int) alter { return silenced(time.Hour, i) }),
		one("silent for a moment", func(i int) alter { return silenced(time.Second, i) }),
		one("no Pod", func(i int) alter { return noPod(i) }),
		one("renewed", func(i int) alter { return renewed(i) }),
		one("nameless", namelessly),
		one("dead stranger", func(i int) alter { return known("ghost", false, "", i) }),
		one("dead stranger with slots", func(i int) alter { return known("ghost", false, "0-9", i) }),
		one("living stranger", func(i int) alter { return known("ghost", true, "", i) }),
		one("link down", func(i int) alter { return linkDown(i) }),
		one("stale", func(i int) alter { return unlinked(2*time.Hour, 17, i) }),
		one("restarted", func(i int) alter { return unlinked(-1, 0, i) }),
		one("keys without slots", func(i int) alter { return viewed(func(v *redisnode.View) { v.Keys = 3 }, i) }),
		one("never bound", func(i int) alter {
			return func(o *observed) {
				renewed(i)(o)
				noPod(i)(o)
				unbound(i)(o)
			}
		}),
		one("functions", func(i int) alter { return libraries("f=1", i) }),
		one("written", func(i int) alter { return wrote(i) }),
		{"unlike replicas", unlikeReplicas}, {"unlike replicas", unlikeReplicas},
		one("old", func(i int) alter { return podIs(old, i) }),
		one("unready", func(i int) alter { return podIs(unready, i) }),
		one("finished", func(i int) alter { return podIs(finished, i) }),
		one("being deleted", func(i int) alter { return podIs(beingDeleted, i) }),
		one("crashing", func(i int) alter { return podIs(crashing, i) }),
		one("terminating", func(i int) alter { return terminating(i) }),
		one("asked", asked),
		one("epoch", func(i int) alter { return epoch(i, 60) }),
		one("without slots", func(i int) alter { return has(i, "") }),
		one("slots of another", func(i int) alter { return claims(i, "5-15") }),
		one("smaller", func(i int) alter { return sized(int32(i + 1)) }),
		two("taken over", takenOver),
		two("elsewhere", func(a, b int) alter { return elsewhere(a, b) }),
		two("forgotten", func(a, b int) alter { return forgotten(idOf(a), b) }),
		two("greeted", greeted),
		two("missed", missed),
		two("moving", func(a, b int) alter { return moving("3-30", a, b, true) }),
		two("half moving", func(a, b int) alter { return moving("3-30", a, b, false) }),
		two("expecting", func(a, b int) alter { return expecting("3-30", a, b) }),
		plain("all old", allOld),
		plain("unformed", unformed),
		plain("never noted", clearStatus),
		plain("more replicas", replicas(2)),
		plain("no replicas", replicas(0)),
		plain("accepted", func(o *observed) {
			trial := *o
			trial.Members = slices.Clone(o.Members)
			for i, m := range o.Members {
				trial.Members[i] = new(*m)
			}
			with(&trial)
			if p := replaceLostMasters(&trial); p != nil && p.Loss != nil {
				accepting(p.Loss.token)(o)
			}
		}),
	}...)
}

// TestDecideIsSafe has decide look at thousands of states, and never does anything that may lose
// anything. GLASSBACK_SEEDS=n has it look at n states.
func TestDecideIsSafe(t *testing.T) {
	const seed = 20260109
	did := map[string]int{}
	for i := range fakeapi.Seeds(t, 4000, 1000) {
		func() {
			s := sceneOf(rand.New(rand.NewSource(seed + int64(i))))
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("seed %d, %q: %v", i, s.history, p)
				}
			}()
			p := decide(s.observed)
			for _, c := range slices.Concat(p.Upkeep, p.Commands) {
				did[c.verb.text]++
			}
			if message := s.harm(p); message != "" {
				t.Errorf("seed %d, %q: %s: %s, by %q", i, s.history, message, p.Step, inWords(slices.Concat(p.Upkeep, p.Commands)))
			}
		}()
	}
	for _, v := range []*verb{
		createPod, deletePod, evictPod, deleteClaim, meet, forget, addSlots, replicate, failover,
		moveSlots, closeSlots, openSlots, copyFunctions,
	} {
		if did[v.text] == 0 {
			t.Errorf("no state has led to %q: this test says nothing about it (a new happening changes what each seed does)", v.text)
		}
	}
	t.Logf("%v", did)
}

// harm says what is wrong with a plan; "" if nothing is.
func (s scene) harm(p plan) string {
	if p.Wait.Duration <= 0 {
		return "never looks again"
	}
	deleted := map[*member]bool{}
	for _, c := range slices.Concat(p.Upkeep, p.Commands) {
		if message := cmp.Or(s.harmOf(c), s.harmToCopies(p, c)); message != "" {
			return c.String() + " " + message
		}
		if (c.verb == deletePod || c.verb == evictPod) && c.on.Pod.Status.Phase != corev1.PodFailed {
			deleted[c.on] = true
		}
	}
	if len(deleted) > 1 {
		return fmt.Sprintf("deletes %d Pods at once", len(deleted))
	}
	for _, n := range s.unknownNodes() {
		if !s.unreachable(n.ID) && len(p.Commands) > 0 {
			return "acts though " + n.ID + " belongs to no Pod, and lives"
		}
	}
	for _, c := range p.Upkeep {
		if !slices.Contains([]*verb{createPod, createClaim, deletePod, deleteService}, c.verb) {
			return c.String() + " is no upkeep"
		}
	}
	return ""
}

func (s scene) harmOf(c command) string {
	for _, m := range []*member{c.on, c.peer} {
		if m != nil && !slices.Contains(s.Members, m) {
			return "is for no member"
		}
	}
	switch c.verb {
	case createPod, createClaim, growClaim:
		return ""
	case announce, labelPod, giveUpAddress, deleteService:
		return s.harmOfAddress(c)
	case deletePod, evictPod, deleteClaim:
		return s.harmOfDeletion(c)
	case meet, forget, addSlots, replicate, failover, moveSlots, closeSlots, openSlots, resumeMove, copyFunctions:
	default:
		return "is no command"
	}
	if !c.on.answers() || (c.peer != nil && !c.peer.answers()) {
		return "is for a member that does not answer"
	}
	switch c.verb {
	case meet:
		for _, m := range []*member{c.on, c.peer} {
			for id := range m.entries {
				// A replica cannot forget a master that is lost before it knows another one.
				lost := m.self().MasterID == id && s.slots[id].Len() == 0 && s.unreachable(id)
				if s.byID[id] == nil && !lost {
					return "merges " + id
				}
			}
		}
	case forget:
		if s.slots[c.id].Len() > 0 && (s.byID[c.id] != nil || !s.lossAccepted()) {
			return "forgets who has slots"
		}
	case addSlots:
		if taken := c.slots.Intersect(s.assigned()); taken.Len() > 0 || (s.Formed && !s.lossAccepted()) {
			return "assigns slots that have an owner"
		}
	case replicate:
		if s.slots[c.on.ID].Len() > 0 || c.on == c.peer || !c.peer.View.Master {
			return "empties who has slots"
		}
	case moveSlots:
		if c.slots.Without(s.slots[c.on.ID]).Len() > 0 || c.on == c.peer || !c.peer.View.Master {
			return "gives what it has not"
		}
	}
	return ""
}

// harmOfDeletion knows better than decide who has slots: also a Pod that is silent, and whose node was not identified, is the node that
// it was.
func (s scene) harmOfDeletion(c command) string {
	slots := s.slots[c.on.ID]
	if p := c.on.Pod; p != nil && string(p.UID) == "uid-"+p.Name {
		slots = slots.Union(s.slots[idOf(c.on.Ordinal)])
	}
	finished := c.on.Pod != nil && c.on.Pod.Status.Phase == corev1.PodFailed
	switch {
	case c.on.Pod == nil && c.verb != deleteClaim:
		return "is not there"
	case slots.Len() == 0 || (finished && c.verb != deleteClaim):
		return ""
	case c.verb == deleteClaim || s.Object.Spec.Storage == nil || !c.on.Outdated:
		return "deletes who has the slots " + slots.String()
	case c.on.answers() && len(s.replicasOf(c.on)) > 0:
		return "deletes a master that has a replica"
	}
	return ""
}

// lossAccepted returns whether any annotation is there: it was made of the loss.
func (s scene) lossAccepted() bool {
	_, ok := s.Object.Annotations[AnnotationAcceptDataLoss]
	return ok
}

// TestDecideChangesNothing compares what was observed before and after a decision and its status. A dump takes long.
func TestDecideChangesNothing(t *testing.T) {
	for i := range 30 {
		s := sceneOf(rand.New(rand.NewSource(int64(i))))
		before := dump.ForHash(s.observed)
		p := decide(s.observed)
		statusOf(s.observed, p, child.Outcomes{})
		if dump.ForHash(s.observed) != before {
			t.Errorf("seed %d, %q: the policy %s or the status changed what was observed", i, s.history, p.Policy)
		}
	}
}

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
func differs(lasts time.Duration) alter {
	return func(o *observed) { o.FunctionsDifferFor = duration(lasts) }
}

func TestDecideFunctions(t *testing.T) {
	wider := func() *observed { return sixAnd(master(""), replica(6)) }
	extra := func() *observed { return sixAnd(master("")) }
	moved := moves("4096 are left, now from demo-0 to demo-6", "move slots demo-0 demo-6 0-63")
	differ := "Waiting for all masters to have the same functions, before demo-6 gets slots: demo-0 and demo-%d do not have the same library f"
	cases{
		{"a new master gets the functions of the others first",
			with(wider(), libraries("f=1", 0, 1, 2)),
			does("demo-6 gets the functions of demo-0", "copy functions demo-6 demo-0")},
		{"and then slots", with(wider(), libraries("f=1", 0, 1, 2, 6)), moved},
		{"one whose functions were deleted gets none", with(wider(), libraries("f=1", 0, 1, 2), wrote(6)), moved},
		{"one that has keys, since it is about to get slots, too",
			with(wider(), libraries("f=1", 0, 1, 2), viewed(func(v *redisnode.View) { v.Keys = 1 }, 6)), moved},
		{"one that has others keeps them", with(wider(), libraries("f=1", 0, 1, 2), libraries("g=1", 6)), moved},
		{"no master has any: there is nothing to get", with(wider()), moved},
		{"the masters differ: nothing is written, and no slot moved", with(wider(), libraries("f=1", 0, 1)), waits(fmt.Sprintf(differ, 2))},
		{"also if the first one has none", with(wider(), libraries("f=1", 1, 2)), waits(fmt.Sprintf(differ, 1))},
		{"also if it is another library of the same name",
			with(wider(), libraries("f=1", 0, 1), libraries("f=2", 2)), waits(fmt.Sprintf(differ, 2))},
		{"they differ, and there is no new master: nothing waits", with(six(), libraries("f=1", 0)), settledIs},
		{"a master with slots gets none",
			with(wider(), libraries("f=1", 0, 1, 2), has(0, "1-5460"), has(6, "0")),
			moves("4095 are left", "move slots demo-0 demo-6 1-64")},
		{"one that leaves with the only copy of a library is kept",
			with(extra(), sized(6), libraries("g=1", 6)),
			stuckBy(reasonHeldBack, "demo-6 has no slots, but the function library g, which no other master has: it is not deleted")},
		{"with a copy it is removed",
			with(extra(), sized(6), libraries("g=1", 1, 6)),
			does("Removing demo-6", append(every("forget demo-%d id-6", 0, 1, 2, 3, 4, 5), "delete Pod demo-6")...)},
		{"one that has the only copy is not made a replica", with(extra(), libraries("g=1", 6)), settledIs},
		{"with a copy it is", with(extra(), libraries("g=1", 1, 6)), does("Giving masters to 1", "replicate demo-6 demo-0")},
		{"one that has the only copy is not replaced without a volume",
			with(extra(), libraries("g=1", 6), podIs(old, 6)),
			stuckBy(reasonHeldBack, "demo-6 is to be replaced, but has no slots, the function library g")},
		{"but with one", with(extra(), stored, libraries("g=1", 6), podIs(old, 6)), does("Replacing demo-6", "evict Pod demo-6")},
		{"slots whose loss was accepted go to a master with functions",
			with(six(), renewed(0, 3), forgotten("id-0", 1, 2, 4, 5), accepting(lossToken("0-5460")), libraries("f=1", 1, 2)),
			does("demo-2 gets the slots 0-5460", "add slots demo-2 0-5460").losing("0-5460")},
	}.run(t)
}

// namesOf are the ordinals of members, in their order.
func namesOf(members []*member) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = strings.TrimPrefix(m.Name, "demo-")
	}
	return strings.Join(names, " ")
}

func TestTopologyMasters(t *testing.T) {
	empties := slices.Repeat([]part{master("")}, 6)
	left := []part{master("0-5460"), master("5461-10922"), replica(0), replica(1), replica(6), replica(6), master("10923-16383")}
	for name, test := range map[string]struct {
		seen *observed
		want string
	}{
		"those that are stay": {with(six()), "0 1 2"},
		"of too many, those with the most slots": {
			with(cluster(master("0-1"), master("2-8000"), master("8001-16000"), master("16001-16383"), replica(0), replica(1))), "1 2 3"},
		"a silent master stays one":             {with(six(), silenced(1, 1)), "0 1 2"},
		"with nothing yet, the first":           {with(cluster(empties...)), "0 1 2"},
		"on as many machines as there are":      {with(cluster(empties...), on("a", 0, 1, 2, 3), on("b", 4), on("c", 5)), "0 4 5"},
		"new ones where there is no master":     {with(sixAnd(master(""), master("")), on("machine-0", 6)), "0 1 2 7"},
		"new ones if there is no other machine": {with(sixAnd(master(""), master("")), on("machine-0", 6, 7)), "0 1 2 6"},
		"none that leaves":                      {with(sixAnd(master(""), master("")), sized(7)), "0 1 2"},
		"none that is silent":                   {with(sixAnd(master(""), master("")), silenced(1, 6)), "0 1 2 7"},
		"of one that leaves, its replica":       {with(cluster(left...), sized(6)), "0 1 4"},
		"of its replicas, the one with the most of its data": {
			with(cluster(left...), sized(6), viewed(func(v *redisnode.View) { v.Offset = 2000 }, 5)), "0 1 5"},
		"but rather one of this revision":                      {with(cluster(left...), sized(6), podIs(old, 4)), "0 1 5"},
		"but none that is not connected":                       {with(cluster(left...), sized(6), linkDown(4, 5)), "0 1"},
		"no replica of one that stays: it would lose its data": {with(triples(), replicas(1)), "0 1 2"},
	} {
		if got := namesOf(test.seen.intendedMasters()); got != test.want {
			t.Errorf("%s: masters %s, want %s", name, got, test.want)
		}
	}
}

// give moves slots as nodes do, and has all hear of it.
func give(o *observed, next *transfer) {
	from, to := o.slots[next.from.ID].Without(next.slots), o.slots[next.to.ID].Union(next.slots)
	for _, m := range o.Members {
		for i := range m.View.Table {
			switch e := &m.View.Table[i]; e.ID {
			case next.from.ID:
				e.Slots = from
			case next.to.ID:
				e.Slots = to
			}
		}
	}
	o.merge()
}

// balanced moves slots until nothing is left to move, and returns how many were.
func balanced(t *testing.T, o *observed) int {
	t.Helper()
	moved, masters := 0, namesOf(o.intendedMasters())
	for next := o.nextTransfer(o.intendedMasters()); next != nil; next = o.nextTransfer(o.intendedMasters()) {
		if moved += next.slots.Len(); moved > redisnode.SlotCount {
			t.Fatal("more slots were moved than there are")
		}
		if next.slots.Len() > maxSlotsPerMove || next.slots.Without(o.slots[next.from.ID]).Len() > 0 || next.left < next.slots.Len() {
			t.Fatalf("%s of %s, with %d left", next.slots, next.from.Name, next.left)
		}
		give(o, next)
		if got := namesOf(o.intendedMasters()); got != masters {
			t.Fatalf("masters %s while slots are moved, and %s at first", got, masters)
		}
	}
	return moved
}

// TestTopologyNextTransfer moves slots in many clusters until nothing is left to move.
func TestTopologyNextTransfer(t *testing.T) {
	r := rand.New(rand.NewSource(20260109))
	for _, count := range []int{1, 2, 3, 5, 7, 12} {
		for _, asked := range []int{1, 2, 3, 5, 7, 12} {
			if asked > count {
				continue
			}
			t.Run(fmt.Sprintf("from %d to %d", count, asked), func(t *testing.T) {
				parts := slices.Repeat([]part{master("")}, count)
				had := 1 + r.Intn(count)
				for slot := 0; slot < redisnode.SlotCount; {
					last := min(slot+r.Intn(2000), redisnode.SlotCount-1)
					p := &parts[r.Intn(had)]
					p.slots = p.slots.Union(redisnode.SlotRange(slot, last))
					slot = last + 1
				}
				o := with(cluster(parts...), replicas(0), sized(int32(asked)))
				surplus := 0
				for _, n := range o.surplus(o.intendedMasters()) {
					surplus += max(n, 0)
				}
				if moved := balanced(t, o); moved != surplus {
					t.Errorf("%d slots were moved, and %d were too many somewhere", moved, surplus)
				}
				least, most := redisnode.SlotCount, 0
				total := 0
				for _, m := range o.intendedMasters() {
					n := o.slots[m.ID].Len()
					least, most, total = min(least, n), max(most, n), total+n
				}
				if most-least > 1 || total != redisnode.SlotCount || o.assigned().Len() != total || len(o.intendedMasters()) != asked {
					t.Errorf("%d masters have %d slots, from %d to %d each", len(o.intendedMasters()), total, least, most)
				}
			})
		}
	}
}

func TestTopologySlotsPerMove(t *testing.T) {
	for name, test := range map[string]struct {
		keys  int64
		slots string
		want  int
	}{
		"there are no keys":                {0, "0-5460", maxSlotsPerMove},
		"most slots are empty":             {2000, "0-5460", maxSlotsPerMove},
		"a slot has about 20 keys":         {109_220, "0-5460", 25},
		"a slot has about a thousand keys": {5_461_000, "0-5460", minSlotsPerMove},
		"it has one slot":                  {1024, "7", minSlotsPerMove},
	} {
		seen := with(cluster(master(test.slots)), viewed(func(v *redisnode.View) { v.Keys = test.keys }, 0))
		if got := seen.slotsPerMove(seen.Members[0]); got != test.want {
			t.Errorf("%s: %d slots at once, want %d", name, got, test.want)
		}
	}
}

// TestTopologyAdopter gives a master to each of many replicas, on many machines.
func TestTopologyAdopter(t *testing.T) {
	for name, test := range map[string]struct {
		masters, replicas, machines int
	}{
		"one each, on a machine each": {3, 3, 6},
		"one each, on two machines":   {4, 4, 2},
		"two each, on three machines": {3, 6, 3},
		"some have one more":          {3, 4, 4},
		"many":                        {20, 40, 5},
	} {
		t.Run(name, func(t *testing.T) {
			parts := make([]part, 0, test.masters+test.replicas)
			for i := range test.masters {
				slots := redisnode.SlotRange(i*redisnode.SlotCount/test.masters, (i+1)*redisnode.SlotCount/test.masters-1)
				parts = append(parts, part{slots: slots, masterOf: -1})
			}
			parts = append(parts, slices.Repeat([]part{master("")}, test.replicas)...)
			o := cluster(parts...)
			for i := range parts {
				on(fmt.Sprint(i%test.machines), i)(o)
			}
			with(o, replicas(int32(test.replicas/test.masters)))
			p := assignReplicas(o)
			if p == nil || len(p.Commands) != test.replicas {
				t.Fatalf("%+v, want a master for each of %d", p, test.replicas)
			}
			counts, together := map[*member]int{}, 0
			for _, c := range p.Commands {
				counts[c.peer]++
				if c.on.machine() == c.peer.machine() {
					together++
				}
			}
			least, most := test.replicas, 0
			for _, m := range o.intendedMasters() {
				least, most = min(least, counts[m]), max(most, counts[m])
			}
			if most-least > 1 || together > 0 {
				t.Errorf("from %d to %d replicas for each master, %d of them on its machine", least, most, together)
			}
		})
	}
}
