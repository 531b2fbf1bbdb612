// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/dump"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/recording/recordtest"
	"github.com/glassback/glassback/pkg/redisnode"
)

// decision is what a test wants of a plan.
type decision struct {
	upkeep   []string
	commands []string
	step     string // a part of the step; "": there is none
	reason   string // of the one problem; "": there is none
	wait     time.Duration
	lost     string // the slots of the loss
}

func (d decision) compare(t *testing.T, p plan) {
	t.Helper()
	if got := inWords(p.upkeep); !slices.Equal(got, d.upkeep) {
		t.Errorf("upkeep %q, want %q", got, d.upkeep)
	}
	if got := inWords(p.commands); !slices.Equal(got, d.commands) {
		t.Errorf("commands %q, want %q", got, d.commands)
	}
	if !strings.Contains(p.step, d.step) || (d.step == "") != (p.step == "") {
		t.Errorf("step %q, want one with %q", p.step, d.step)
	}
	reason := ""
	if len(p.problems) > 0 {
		reason = p.problems[0].Reason
	}
	if reason != d.reason || len(p.problems) > 1 {
		t.Errorf("problems %q, want one because of %q", p.problems, d.reason)
	}
	if d.wait == 0 && len(d.commands) > 0 {
		d.wait = brief
	}
	if p.wait != d.wait && (d.wait != shortly || p.wait <= 0 || p.wait > brief) {
		t.Errorf("looks again after %s, want %s", p.wait, d.wait)
	}
	lost := ""
	if p.loss != nil {
		lost = p.loss.slots.String()
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

// waitsBriefly is the decision to wait until nodes have heard of each other.
func waitsBriefly(step string) decision { return decision{step: step, wait: brief} }

func does(step string, commands ...string) decision { return decision{step: step, commands: commands} }

// moves is the decision to move slots, and to look again shortly.
func moves(step string, commands ...string) decision {
	return decision{step: step, commands: commands, wait: shortly}
}

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

// decisions is a table of what is seen, and what is decided.
type decisions map[string]struct {
	seen *observed
	want decision
}

func (table decisions) run(t *testing.T) {
	for name, test := range table {
		t.Run(name, func(t *testing.T) {
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

func clearStatus(o *observed) { o.rdc.Status = v1.RedisClusterStatus{} }

// takenBy makes a Pod of another owner have the name of a member.
func takenBy(ordinal int) alter {
	return func(o *observed) {
		noPod(ordinal)(o)
		o.members[ordinal].taken = true
		o.problems = append(o.problems, problem{reasonConflict, "Pod demo-3 exists already"})
	}
}

func TestDecideChildren(t *testing.T) {
	larger := spec(func(s *v1.RedisClusterSpec) { s.Storage.Size = resource.MustParse("2Gi") })
	smaller := spec(func(s *v1.RedisClusterSpec) { s.Storage.Size = resource.MustParse("1Mi") })
	noClaims := func(o *observed) {
		for _, m := range o.members {
			m.claim = nil
		}
	}
	all := noPod(0, 1, 2, 3, 4, 5)
	taken := decision{step: "exists already", reason: reasonConflict, wait: poll}
	decisions{
		"settled: nothing is to be done": {seen: with(six()), want: settledIs},
		"settled with volumes, the same": {seen: with(six(), stored), want: settledIs},
		"a new cluster gets its Pods": {
			seen: with(six(), unformed, clearStatus, all),
			want: waits("Waiting for demo-0").making(every("create Pod demo-%d", 0, 1, 2, 3, 4, 5)...),
		},
		"a new cluster with volumes gets these first": {
			seen: with(six(), stored, unformed, clearStatus, all, noClaims, sized(6)),
			want: waits("Waiting for demo-0").making("create claim of demo-0", "create Pod demo-0", "create claim of demo-1", "create Pod demo-1",
				"create claim of demo-2", "create Pod demo-2", "create claim of demo-3", "create Pod demo-3",
				"create claim of demo-4", "create Pod demo-4", "create claim of demo-5", "create Pod demo-5"),
		},
		"a Pod that is gone is made again, on its volume": {
			seen: with(six(), stored, noPod(4)), want: waits("demo-4: there is no Pod").making("create Pod demo-4"),
		},
		"a Pod that has ended is deleted, to be made again": {
			seen: with(six(), podIs(finished, 4), silenced(1, 4)), want: waits("demo-4").making("delete Pod demo-4"),
		},
		"the others are helped meanwhile": {
			seen: with(six(), stored, noPod(4), elsewhere(3, 0)),
			want: does("Introducing", "meet demo-0 demo-3").making("create Pod demo-4"),
		},
		"a Pod that has ended and is being deleted is waited for": {
			seen: with(six(), podIs(finished, 4), podIs(beingDeleted, 4), silenced(1, 4)), want: waits("demo-4"),
		},
		"volumes grow when the spec asks for more": {
			seen: with(six(), stored, larger),
			want: does("Growing 6 volumes to 2Gi", every("grow claim of demo-%d", 0, 1, 2, 3, 4, 5)...),
		},
		"after all else":        {seen: with(six(), stored, larger, podIs(old, 3)), want: does("Replacing demo-3", "evict Pod demo-3")},
		"volumes do not shrink": {seen: with(six(), stored, smaller), want: settledIs},
		"no Pod is made on a volume that is being deleted": {
			seen: with(six(), stored, noPod(3), terminating(3)), want: waits("demo-3: there is no Pod"),
		},
		"a name that is taken is a problem, and nothing is done": {seen: with(six(), takenBy(3)), want: taken},
		"a name that is taken holds up what nodes are to do":     {seen: with(six(), takenBy(3), renewed(4)), want: taken},
		"a name that is taken does not hold up the other Pods": {
			seen: with(six(), takenBy(3), noPod(4)), want: taken.making("create Pod demo-4"),
		},
		"without a password nothing is done": {
			seen: with(six(), silenced(1, 0, 1, 2, 3, 4, 5),
				func(o *observed) { o.problems = []problem{{reasonNoPassword, "Secret x does not exist"}} }),
			want: decision{step: "does not exist", reason: reasonNoPassword, wait: poll},
		},
	}.run(t)
}

func TestDecideStrangers(t *testing.T) {
	ghost, heldUp := known("ghost", true, "", 4), stuckBy(reasonStranger, "ghost")
	decisions{
		"a living node without a Pod stops everything": {
			seen: with(six(), known("ghost", true, "", 0, 1)), want: stuckBy(reasonStranger, "Node ghost at 10.9.9.9:6379"),
		},
		"also if one node alone knows it": {seen: with(six(), ghost), want: heldUp},
		"also if only one of those that know it is connected": {
			seen: with(six(), known("ghost", false, "", 0, 1), known("ghost", true, "", 2)), want: heldUp,
		},
		"also if it has slots":                    {seen: with(six(), known("ghost", true, "0-100", 0)), want: heldUp},
		"a replica is not told to take over then": {seen: with(six(), renewed(0), ghost), want: heldUp},
		"no Pod is replaced then":                 {seen: with(six(), allOld, ghost), want: heldUp},
		"no node is introduced then":              {seen: with(six(), elsewhere(3, 0), ghost), want: heldUp},
		"nothing is given up then":                {seen: with(six(), renewed(0, 3), ghost, accepting(lossToken("0-5460"))), want: heldUp},
		"Pods are made nevertheless":              {seen: with(six(), stored, noPod(3), ghost), want: heldUp.making("create Pod demo-3")},
		"at first it may be the node of a Pod that was there": {
			seen: since(minPatience-1, with(six(), ghost)), want: waits("to miss ghost at 10.9.9.9"),
		},
		"a lost node without a Pod is forgotten by the nodes that know it": {
			seen: with(six(), known("ghost", false, "", 0, 4)), want: does("Forgetting nodes", every("forget demo-%d ghost", 0, 4)...),
		},
	}.run(t)
}

func lossToken(slots string) string {
	return newLoss(six().rdc, slotsOf(slots), seenAt).token
}

// TestAStrayReplicaDoesNotTakeOver has a master be lost whose replica may have copied the data of another node.
func TestAStrayReplicaDoesNotTakeOver(t *testing.T) {
	stray := func(v *redisnode.View) { v.LinkUp, v.Stray, v.Offset = false, true, 9000 }
	decisions{
		"a lost master's only replica is stray": {
			seen: with(six(), renewed(0), viewed(stray, 3)),
			want: stuckBy(reasonDataLoss, "The slots 0-5460 (5461 of 16384) have lost what they held").losing("0-5460"),
		},
		"another replica is not": {
			seen: with(sixAnd(replica(0), replica(1), replica(2)), renewed(0), viewed(stray, 3)),
			want: does("demo-6 takes over", "failover demo-6 FORCE"),
		},
	}.run(t)
}

func TestDecideLosses(t *testing.T) {
	token := accepting(lossToken("0-5460"))
	forgetting := does("whose loss was accepted", every("forget demo-%d id-0", 1, 2, 4, 5)...).losing("0-5460")
	lost := stuckBy(reasonDataLoss, "The slots 0-5460 (5461 of 16384) have lost what they held").losing("0-5460")
	some := stuckBy(reasonDataLoss, "The slots 5001-5460 (460 of 16384) have lost what they held").losing("5001-5460")
	demo3TakesOver := does("demo-3 takes over", "failover demo-3 FORCE")
	withKeys := func(o *observed) { o.formed = false }
	decisions{
		"a master's Pod is gone: another is elected": {
			seen: since(time.Second, with(six(), renewed(0))), want: waits("be elected for the slots 0-5460"),
		},
		"no replica was elected: one is told to take over": {
			seen: with(six(), renewed(0)), want: does("demo-3 takes over the slots 0-5460", "failover demo-3 FORCE"),
		},
		"it gets one command, and the time":       {seen: with(six(), renewed(0), asked(3)), want: waits("Waiting for demo-3 to take over")},
		"it reaches most masters: they can agree": {seen: with(six(), renewed(0), silenced(1, 1)), want: demo3TakesOver},
		"it reaches half of them: no master is asked": {
			seen: with(six(), renewed(0), missed(1, 3)), want: does("demo-3 takes over", "failover demo-3 TAKEOVER"),
		},
		"a replica that never got its data does not take over": {
			seen: with(six(), renewed(0), viewed(func(v *redisnode.View) { v.Keys, v.Offset = 0, 0 }, 3)), want: lost,
		},
		"most masters are gone: no master is asked": {
			seen: with(six(), renewed(0, 1)), want: does("demo-3 takes over", "failover demo-3 TAKEOVER"),
		},
		"the others do not accept a takeover: another replica asks no master either": {
			seen: with(six(), renewed(0, 1), claimed(0, 3)),
			want: does("demo-4 takes over the slots 5461-10922", "failover demo-4 TAKEOVER"),
		},
		"the others do not accept a takeover: they forget the lost master, and nothing is lost": {
			seen: with(six(), renewed(0), claimed(0, 3)), want: does("Forgetting", every("forget demo-%d id-0", 1, 2, 3, 4, 5)...),
		},
		"the replica with the most of the data takes over": {
			seen: with(sixAnd(replica(0), replica(1), replica(2)), renewed(0), viewed(func(v *redisnode.View) { v.Offset = 2000 }, 6)),
			want: does("demo-6 takes over", "failover demo-6 FORCE"),
		},
		"one that was not linked at last waits for one that is silent": {
			seen: with(triples(), renewed(0), unlinked(2*time.Hour, 17, 3), silenced(5*time.Second, 6)),
			want: waits("Waiting for demo-6, which may have more of what the slots 0-5460 held than demo-3"),
		},
		"one that does not know when it was linked, too": {
			seen: with(triples(), renewed(0), unlinked(-1, 0, 3), silenced(5*time.Second, 6)),
			want: waits("Waiting for demo-6, which may have more"),
		},
		"one that was linked at last does not": {
			seen: with(triples(), renewed(0), unlinked(time.Hour+minPatience, 1000, 3), silenced(5*time.Second, 6)), want: demo3TakesOver,
		},
		"one that was restarted since has no offset, but may have all of the data": {
			seen: with(triples(), renewed(0), unlinked(2*time.Hour, 17, 3), unlinked(-1, 0, 6)),
			want: does("demo-6 takes over", "failover demo-6 FORCE"),
		},
		"of those that were linked at last, the one with the most of the data": {
			seen: with(triples(), renewed(0), unlinked(time.Hour, 1000, 3), unlinked(time.Hour+time.Second, 900, 6)), want: demo3TakesOver,
		},
		"since when the master is lost is not known: a person decides between one that was restarted and one that was not": {
			seen: unwitnessed(with(triples(), renewed(0), unlinked(time.Hour, 1000, 3), unlinked(-1, 0, 6))),
			want: stuckBy(reasonHeldBack, "demo-3 or demo-6 has more of what their master held"),
		},
		"one that was linked at last for sure takes over": {
			seen: unwitnessed(with(triples(), renewed(0), unlinked(2*minPatience, 1000, 3), unlinked(-1, 0, 6))), want: demo3TakesOver,
		},
		"the offset decides between two that were not restarted": {
			seen: unwitnessed(with(triples(), renewed(0), unlinked(time.Hour, 1000, 3), unlinked(time.Hour, 900, 6))), want: demo3TakesOver,
		},
		"nothing is known of any that was restarted": {
			seen: unwitnessed(with(six(), renewed(0), unlinked(-1, 0, 3))), want: demo3TakesOver,
		},
		"the others are not waited for if all are stale": {
			seen: with(triples(), renewed(0), unlinked(2*time.Hour, 17, 3), unlinked(3*time.Hour, 16, 6)), want: demo3TakesOver,
		},
		"the slots of another master do not wait": {
			seen: with(triples(), renewed(0, 1), unlinked(2*time.Hour, 17, 3), silenced(5*time.Second, 6)),
			want: does("demo-4 takes over the slots 5461-10922", "failover demo-4 TAKEOVER"),
		},
		"one that sees no other master waits for one that may have been elected there": {
			seen: with(triples(), renewed(0), alone(3)),
			want: waits("Waiting for demo-6, which may have more of what the slots 0-5460 held than demo-3"),
		},
		"it does not wait if no other replica is missing": {
			seen: with(six(), renewed(0), alone(3)), want: does("demo-3 takes over", "failover demo-3 TAKEOVER"),
		},
		"a volume whose Pod is not made yet may have the slots": {
			seen: with(six(), stored, clearStatus, noPod(0), linkDown(3)),
			want: waits("Waiting for demo-0, which may have the slots 0-5460: there is no Pod").making("create Pod demo-0"),
		},
		"that of a Pod that leaves, too": {
			seen: with(sixAnd(replica(0)), stored, clearStatus, sized(6), renewed(0), noPod(6)),
			want: waits("Waiting for demo-6, which may have the slots 0-5460: there is no Pod").making("create Pod demo-6"),
		},
		"a claim that never had a volume has nothing": {
			seen: with(six(), stored, clearStatus, noPod(0), unbound(0)), want: demo3TakesOver.making("create Pod demo-0"),
		},
		"unless a machine has its Pod: the caches are behind": {
			seen: with(six(), stored, namelessly(0), unbound(0)),
			want: waits("Waiting for demo-0, which may have the slots 0-5460"),
		},
		"a replica whose Pod is silent has the data: it is waited for": {
			seen: with(six(), stored, renewed(0), silenced(time.Hour, 3)),
			want: waits("Waiting for demo-3, which has what the slots 0-5460 hold"),
		},
		"a replica whose Pod is gone has it on its volume": {
			seen: with(six(), stored, renewed(0), noPod(3), noPodYet(3)),
			want: waits("Waiting for demo-3, which has what the slots 0-5460 hold"),
		},
		"master and replica are gone: their slots are lost": {seen: with(six(), renewed(0, 3)), want: lost},
		"also if no node owns them any more": {
			seen: with(six(), renewed(0, 3), forgotten("id-0", 1, 2, 4, 5), forgotten("id-3", 1, 2, 4, 5)), want: lost,
		},
		"some slots of a master were lost":                        {seen: with(six(), has(0, "0-5000")), want: some},
		"some are lost though it is not known that it was formed": {seen: with(six(), has(0, "0-5000"), withKeys), want: some},
		"nothing is lost while a member is silent, which may have the data": {
			seen: with(six(), renewed(0, 3), silenced(time.Hour, 4)), want: waits("Waiting for demo-4: the slots 0-5460 have no master"),
		},
		"nothing is lost while no member answers": {
			seen: with(six(), silenced(time.Hour, 0, 1, 2, 3, 4, 5)), want: waits("Waiting for demo-0: connection refused"),
		},
		"a wrong value accepts nothing":              {seen: with(six(), renewed(0, 3), accepting("true")), want: lost},
		"the value of another loss accepts nothing":  {seen: with(six(), renewed(0, 3), accepting(lossToken("0-5459"))), want: lost},
		"accepted: those who had them are forgotten": {seen: with(six(), renewed(0, 3), token), want: forgetting},
		"accepted: nothing is done before all answer": {
			seen: with(six(), renewed(0, 3), silenced(1, 5), token), want: waits("Waiting for demo-5"),
		},
		"accepted: one member gets them, all at once": {
			seen: with(six(), renewed(0, 3), forgotten("id-0", 1, 2, 4, 5), token),
			want: does("demo-0 gets the slots 0-5460", "add slots demo-0 0-5460").losing("0-5460"),
		},
		"an acceptance that is left over is not one of another loss": {
			seen: with(six(), renewed(1, 4), token), want: stuckBy(reasonDataLoss, "5461-10922").losing("5461-10922"),
		},
		"an acceptance that is left over does nothing": {seen: with(six(), token), want: settledIs},
	}.run(t)
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
		for i, m := range o.members {
			if i == ordinal || m.view == nil || strings.HasPrefix(m.view.ID, "new-") {
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
	return func(o *observed) { o.members[ordinal].taken = true }
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
		o.rdc.Status.Nodes = nil
		o.members[ordinal].pod.Status.PodIP = "10.1.8.8"
		failedByAll(o, idOf(ordinal))
	}
}

func TestDecideGoneAndBroken(t *testing.T) {
	decisions{
		"the node of a replica that lost its Pod is forgotten": {
			seen: with(six(), renewed(3)), want: does("Forgetting nodes", every("forget demo-%d id-3", 0, 1, 2, 4, 5)...),
		},
		"who is the replica of a node does not forget it": {
			seen: with(six(), known("ghost", false, "", 0, 1, 2, 3, 4, 5), orphaned(3)),
			want: does("Forgetting nodes", every("forget demo-%d ghost", 0, 1, 2, 4, 5)...),
		},
		"no node is forgotten that may be the node of a silent Pod": {
			seen: with(six(), stored, namelessly(3)), want: waits("Waiting for demo-3"),
		},
		"nor of a volume whose Pod is not made yet": {
			seen: with(six(), stored, clearStatus, noPod(3)),
			want: waits("Waiting for demo-3: there is no Pod").making("create Pod demo-3"),
		},
		"a Pod that runs is left alone, however silent": {seen: with(six(), allOld, silenced(time.Hour, 3)), want: waits("Waiting for demo-3")},
		"a Pod of this revision that does not run, too": {
			seen: with(six(), stored, podIs(unstarted, 3), silenced(time.Hour, 3)), want: waits("Waiting for demo-3"),
		},
		"one of another revision is replaced": {
			seen: with(six(), stored, podIs(both(old, unstarted), 3), silenced(silencePatience, 3)),
			want: does("Replacing demo-3, which cannot run as it is", "delete Pod demo-3"),
		},
		"not at once": {
			seen: with(six(), stored, podIs(both(old, unstarted), 3), silenced(silencePatience-1, 3)),
			want: waits("Waiting for demo-3"),
		},
		"one whose container does not start is, too": {
			seen: with(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 3)),
			want: does("Replacing demo-3", "delete Pod demo-3"),
		},
		"but not by one that the API server rejects": {
			seen: with(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 3), rejecting),
			want: waits("Waiting for demo-3"),
		},
		"one whose init container does not end is, too": {
			seen: with(six(), podIs(both(old, blocked), 3), silenced(time.Hour, 3)),
			want: does("Replacing demo-3", "delete Pod demo-3"),
		},
		"one whose additional container does not start is not: its node may be loading": {
			seen: with(six(), podIs(both(old, sidecarsCrashing), 3), silenced(time.Hour, 3)),
			want: waits("Waiting for demo-3"),
		},
		"unless it is being deleted": {
			seen: with(six(), stored, podIs(both(old, unstarted, beingDeleted), 3), silenced(time.Hour, 3)),
			want: waits("Waiting for demo-3"),
		},
		"one with slots and a volume is, too": {
			seen: with(six(), stored, podIs(both(old, crashing), 0), silenced(time.Hour, 0)),
			want: does("Replacing demo-0", "delete Pod demo-0"),
		},
		"one with slots and no volume is not": {
			seen: with(six(), podIs(both(old, crashing), 0), silenced(time.Hour, 0)),
			want: stuckBy(reasonHeldBack, "demo-0 does not run, and may have the only copy of the slots 0-5460"),
		},
		"nor a replica, if its master is silent too": {
			seen: with(six(), podIs(both(old, crashing), 3), silenced(time.Hour, 0, 3)),
			want: stuckBy(reasonHeldBack, "demo-3 does not run, and may have the only copy of the slots 0-5460"),
		},
		"nor if no node tells who has slots": {
			seen: with(six(), podIs(both(old, crashing), 0, 1, 2, 3, 4, 5), silenced(time.Hour, 0, 1, 2, 3, 4, 5)),
			want: stuckBy(reasonHeldBack, "demo-0 does not run"),
		},
		"Pods that never started are replaced by what can": {
			seen: with(cluster(newcomer(), newcomer(), newcomer()), unformed, podIs(both(old, unstarted), 0, 1, 2), silenced(time.Hour, 0, 1, 2)),
			want: does("Replacing demo-0", "delete Pod demo-0"),
		},
	}.run(t)
}

func TestDecideIntroduce(t *testing.T) {
	news := func() *observed {
		return cluster(newcomer(), newcomer(), newcomer(), newcomer(), newcomer(), newcomer())
	}
	apartFrom := part{slots: slotsOf("5000-6000"), masterOf: -1, lone: true}
	harmless := part{masterOf: -1, lone: true, slots: nil}
	decisions{
		"new nodes are introduced to the first": {
			seen: with(news(), unformed), want: does("Introducing", every("meet demo-%d demo-0", 1, 2, 3, 4, 5)...),
		},
		"those that are about to know it are not": {
			seen: with(news(), unformed, greeted(1, 0), greeted(4, 0)),
			want: does("Introducing", every("meet demo-%d demo-0", 2, 3, 5)...),
		},
		"a new node goes to the others": {seen: with(sixAnd(harmless)), want: does("Introducing", "meet demo-6 demo-0")},
		"a new node with a low ordinal does so too": {
			seen: with(six(), renewed(1), takenOver(1, 4), forgotten("id-1", 0, 2, 3, 4, 5)),
			want: does("Introducing", "meet demo-1 demo-0"),
		},
		"a Pod with a new address is introduced": {
			seen: with(six(), elsewhere(3, 0, 5)), want: does("Introducing", "meet demo-0 demo-3", "meet demo-5 demo-3"),
		},
		"to all, also while some are silent": {
			seen: with(six(), elsewhere(3, 0, 5), silenced(1, 1)),
			want: does("Introducing", "meet demo-0 demo-3", "meet demo-5 demo-3"),
		},
		"unless it is about to be known there": {
			seen: with(six(), elsewhere(3, 0, 5), greeted(0, 3)), want: does("Introducing", "meet demo-5 demo-3"),
		},
		"one that some have forgotten is introduced": {seen: with(six(), forgotten("id-3", 2)), want: does("Introducing", "meet demo-2 demo-3")},
		"a node that knows a node without a Pod is not introduced": {
			seen: with(six(), stored, namelessly(4), renewed(3)), want: waits("Waiting for demo-0 to forget"),
		},
		"no node is introduced to one that does": {
			seen: with(sixAnd(harmless), stored, namelessly(4), forgotten("id-4", 1, 2, 3, 5)), want: waits("Waiting for demo-0 to forget id-4"),
		},
		"two that do not know each other both have a slot: they are left alone": {
			seen: with(sixAnd(apartFrom)),
			want: stuckBy(reasonDivided, "demo-0 and demo-6 do not know each other, and both have the slots 5000-6000"),
		},
		"no more than so many at once": {
			seen: with(cluster(slices.Repeat([]part{newcomer()}, maxMeets+10)...), unformed),
			want: does("Introducing", every("meet demo-%d demo-0", numbers(1, maxMeets)...)...),
		},
	}.run(t)
}

func numbers(first, last int) []int {
	var all []int
	for i := first; i <= last; i++ {
		all = append(all, i)
	}
	return all
}

func TestDecideFormAndAdopt(t *testing.T) {
	empties := func() *observed { return cluster(slices.Repeat([]part{master("")}, 6)...) }
	shares := []string{"add slots demo-0 0-5460", "add slots demo-1 5461-10921", "add slots demo-2 10922-16383"}
	unadopted := []part{master("0-5460"), master("5461-10922"), master("10923-16383"), master(""), master(""), master("")}
	lonely := []part{master("0-5460"), master("5461-10922"), master("10923-16383"), replica(0), replica(1), master("")}
	leaving := []part{master("0-5460"), master("5461-10922"), master("10923-16383"), replica(0), replica(1), replica(6), master("")}
	decisions{
		"nodes that know each other get the slots": {seen: with(empties(), unformed), want: does("Assigning the slots to 3 masters", shares...)},
		"half of that was done: the rest is": {
			seen: with(empties(), unformed, has(1, "5461-10921")), want: does("Assigning the slots", shares[0], shares[2]),
		},
		"a part of a part was done: the rest is": {
			seen: with(empties(), unformed, has(1, "5461-6000")),
			want: does("Assigning the slots", shares[0], "add slots demo-1 6001-10921", shares[2]),
		},
		"masters are on different machines": {
			seen: with(empties(), unformed, on("a", 0, 1, 2), on("b", 3, 4)),
			want: does("Assigning the slots", "add slots demo-0 0-5460", "add slots demo-3 5461-10921", "add slots demo-5 10922-16383"),
		},
		"a Pod is missing: nothing is given out": {seen: with(empties(), unformed, silenced(1, 5)), want: waits("Waiting for demo-5")},
		"one does not know another: nothing is given out": {
			seen: with(empties(), unformed, forgotten("id-3", 4), greeted(4, 3)),
			want: waitsBriefly("demo-4 does not know demo-3"),
		},
		"one does not reach another: nothing is given out": {
			seen: with(empties(), unformed, missed(3, 4)), want: waitsBriefly("demo-4 does not reach demo-3"),
		},
		"those without slots become replicas": {
			seen: with(cluster(unadopted...)),
			want: does("Giving masters to 3 replicas", "replicate demo-3 demo-0", "replicate demo-4 demo-1", "replicate demo-5 demo-2"),
		},
		"on other machines, if possible": {
			seen: with(cluster(unadopted...), on("machine-0", 3), on("machine-1", 4)),
			want: does("Giving masters", "replicate demo-3 demo-1", "replicate demo-4 demo-0", "replicate demo-5 demo-2"),
		},
		"the rest of them do, if some are": {seen: with(cluster(lonely...)), want: does("Giving masters to 1", "replicate demo-5 demo-2")},
		"a silent master gets none": {
			seen: with(cluster(lonely...), silenced(1, 2)), want: does("Giving masters to 1", "replicate demo-5 demo-0"),
		},
		"a replica that asks at an old address of its master is told again": {
			seen: with(six(), asks("10.9.9.9", 3)), want: does("Connecting 1", "replicate demo-3 demo-0"),
		},
		"... also if the master does not answer the operator": {
			seen: with(six(), asks("10.9.9.9", 3), silenced(time.Minute, 0)), want: does("Connecting 1", "replicate demo-3 demo-0"),
		},
		"one that asks at the address that its master has is not": {
			seen: with(six(), asks("10.1.0.0", 3)), want: waits("Waiting for demo-3 to be up to date"),
		},
		"one whose link is up is not, whatever it says": {
			seen: with(six(), asks("10.9.9.9", 3), viewed(func(v *redisnode.View) { v.LinkUp = true }, 3)), want: settledIs,
		},
		"one that does not know its master's address yet hears of it first": {
			seen: with(six(), asks("10.9.9.9", 3), elsewhere(0, 3)), want: does("Introducing", "meet demo-3 demo-0"),
		},
		"one that has just been made waits to be known": {
			seen: with(six(), renewed(3), forgotten("id-3", 0, 1, 2, 4, 5), greeted(3, 0)), want: waitsBriefly("does not know"),
		},
		"a node that another one is meeting again waits until the handshake ends": {
			seen: with(six(), greeted(0, 3)), want: waitsBriefly("demo-0 is in a handshake with demo-3"),
		},
		"who may be needed as a master waits until all are there": {
			seen: with(sixAnd(newcomer(), newcomer()), orphaned(5), silenced(1, 6, 7)), want: waits("Waiting for demo-6"),
		},
		"a replica of a leaving master that has no slots gets another": {
			seen: with(cluster(leaving...), sized(6)),
			want: does("Giving masters to 1", "replicate demo-5 demo-2"),
		},
	}.run(t)
}

func TestDecideAgreeAndOpen(t *testing.T) {
	replaced := cluster(master("0-5460"), replica(4), master("10923-16383"), replica(0), master("5461-10922"), replica(2))
	slotGone := func(o *observed) { saidBy(o, 0, "id-0").Migrating = map[int]string{7: "gone"} }
	decisions{
		"a master is silent: it is waited for": {
			seen: with(six(), silenced(1, 1)),
			want: waits("Waiting for demo-1, which has the slots 5461-10922: connection refused"),
		},
		"one does not reach another": {seen: with(six(), missed(3, 4)), want: waitsBriefly("demo-4 does not reach demo-3")},
		"one has not heard which slots another has": {
			seen: with(six(), claims(1, "5461-10900"), claims(2, "10901-16383")),
			want: waitsBriefly("demo-0 has not heard which slots demo-1 has"),
		},
		"one has not heard that another is a replica": {
			seen: with(six(), func(o *observed) { saidBy(o, 0, "id-4").Master = true }),
			want: waitsBriefly("demo-0 has not heard which role demo-4 has"),
		},
		"what those say who are to be removed does not count": {
			seen: with(sixAnd(master("")), sized(6), forgotten("id-6", 0, 1)),
			want: does("Removing demo-6", append(every("forget demo-%d id-6", 2, 3, 4, 5), "delete Pod demo-6")...),
		},
		"a move continues, some slots at a time": {
			seen: with(six(), moving("0-200", 0, 1, true)),
			want: moves("Continuing to move the slots 0-63", "move slots demo-0 demo-1 0-63"),
		},
		"a move continues that the giver alone knows of": {
			seen: with(six(), moving("7,9", 0, 1, false)), want: moves("Continuing", "move slots demo-0 demo-1 7,9"),
		},
		"a move continues that the taker alone knows of": {
			seen: with(six(), expecting("7,9", 1, 0)), want: moves("Continuing", "move slots demo-0 demo-1 7,9"),
		},
		"a move continues that is not needed any more": {
			seen: with(six(), moving("5461", 1, 2, true)), want: moves("Continuing", "move slots demo-1 demo-2 5461"),
		},
		"slots are not given before the taker can keep them": {
			seen: with(six(), moving("7", 0, 1, true), epoch(0, 9)),
			want: decision{step: "Waiting for demo-1 to learn the config epoch of demo-0", wait: shortly},
		},
		"who has heard of the epoch can keep them": {
			seen: with(six(), moving("7", 0, 1, true), epoch(0, 9), behind(9, 1)),
			want: moves("Continuing", "move slots demo-0 demo-1 7"),
		},
		"who has the latest epoch of all, which is not that later": {
			seen: with(six(), moving("7", 0, 1, true), epoch(0, 2), behind(2, 1)),
			want: decision{step: "Waiting for demo-1", wait: shortly},
		},
		"the mark of a taker that has the slot is removed": {
			seen: with(six(), expecting("5461", 1, 0)),
			want: does("Clearing the migrating or importing state of the slots 5461 on demo-1", "close slots demo-1 5461"),
		},
		"the mark of a giver that has given is removed": {
			seen: with(six(), moving("5461-5463", 0, 1, false)),
			want: does("Clearing the migrating or importing state", "close slots demo-0 5461-5463"),
		},
		"but not before it has heard": {
			seen: with(six(), has(1, "5460-10922"), moving("5460", 0, 1, false)),
			want: waitsBriefly("Waiting for demo-0 to learn which node owns the slot 5460 now"),
		},
		"the taker is gone: the mark is removed": {seen: with(six(), slotGone), want: does("a node that is gone", "resume move demo-0 7")},
		"a node is silent, which may have its keys": {
			seen: with(six(), slotGone, silenced(time.Second, 4)), want: waits("Waiting for demo-4, which may have keys"),
		},
		"the taker was replaced by its replica: that gets them": {
			seen: with(replaced, moving("7", 0, 1, false)), want: moves("from demo-0 to demo-4", "move slots demo-0 demo-4 7"),
		},
		"the taker has become a replica of the giver": {
			seen: with(six(), moving("7", 0, 3, false)), want: does("is its replica now", "close slots demo-0 7"),
		},
		"the taker is no master any more: its mark is removed": {
			seen: with(six(), expecting("7", 3, 0)), want: does("no longer a master", "close slots demo-3 7"),
		},
		"two moves: one after the other": {
			seen: with(six(), moving("7", 0, 1, true), moving("5470", 1, 2, true)),
			want: moves("Continuing", "move slots demo-0 demo-1 7"),
		},
	}.run(t)
}

func TestDecideBalance(t *testing.T) {
	wider := append(sixOf(), master(""), replica(6))
	narrower := []part{
		master("0-4095"), master("4096-8191"), master("8192-12287"), replica(0), replica(1), replica(2), master("12288-16383"), replica(6),
	}
	inherited := []part{master("0-5460"), master("5461-10922"), replica(0), replica(1), replica(6), replica(6), master("10923-16383")}
	triples := append(sixOf(), replica(0), replica(1), replica(2))
	decisions{
		"a new master gets slots of the others": {
			seen: with(cluster(wider...)),
			want: moves("4096 are left, now from demo-0 to demo-6", "move slots demo-0 demo-6 0-63"),
		},
		"fewer slots at a time if the master that gives them has many keys": {
			seen: with(cluster(wider...), viewed(func(v *redisnode.View) { v.Keys = 102_400 }, 0)),
			want: moves("4096 are left, now from demo-0 to demo-6", "move slots demo-0 demo-6 0-26"),
		},
		"the others go on with it": {
			seen: with(cluster(wider...), has(0, "1365-5460"), has(6, "0-1364")),
			want: moves("2731 are left", "move slots demo-1 demo-6 5461-5524"),
		},
		"it has them all": {
			seen: with(cluster(wider...), has(0, "1365-5460"), has(1, "6827-10922"), has(2, "12288-16383"), has(6, "0-1364,5461-6826,10923-12287")),
			want: settledIs,
		},
		"slots are not moved while a link is down": {seen: with(cluster(wider...), missed(0, 6)), want: waitsBriefly("does not reach")},
		"a master that leaves gives its slots away": {
			seen: with(cluster(narrower...), sized(6)),
			want: moves("4096 are left, now from demo-6 to demo-0", "move slots demo-6 demo-0 12288-12351"),
		},
		"it is not removed before it has given all": {
			seen: with(cluster(narrower...), sized(6), has(6, "16000-16383"), has(0, "0-4095,12288-15999")),
			want: moves("from demo-6 to demo-1", "move slots demo-6 demo-1 16000-16063"),
		},
		"its replica takes over if there are too few": {
			seen: with(cluster(inherited...), sized(6)),
			want: does("demo-4 takes over from its master, which is being removed", "failover demo-4"),
		},
		"it gets the time for that": {
			seen: with(cluster(inherited...), sized(6), asked(4)),
			want: waitsBriefly("Waiting for demo-4 to take over from demo-6"),
		},
		"the one that is connected does": {
			seen: with(cluster(inherited...), sized(6), linkDown(4)), want: does("demo-5 takes over", "failover demo-5"),
		},
		"a user deletes a master's volume: it leaves": {
			seen: with(six(), stored, terminating(0)), want: does("demo-3 takes over from its master, which is being removed", "failover demo-3"),
		},
		"more masters of the same Pods: one is made anew": {
			seen: with(cluster(triples...), replicas(1)),
			want: does("Replacing demo-6, to become a master",
				append([]string{"evict Pod demo-6"}, every("forget demo-%d id-6", 0, 1, 2, 3, 4, 5, 7, 8)...)...),
		},
		"with its volume": {
			seen: with(cluster(triples...), stored, replicas(1)),
			want: does("Replacing demo-6",
				append([]string{"evict Pod demo-6", "delete claim of demo-6"}, every("forget demo-%d id-6", 0, 1, 2, 3, 4, 5, 7, 8)...)...),
		},
		"but not while one is missing": {seen: with(cluster(triples...), replicas(1), silenced(1, 8)), want: waits("Waiting for demo-8")},
		"nor while another replica of its master is behind": {
			seen: with(cluster(triples...), stored, replicas(1), linkDown(3)),
			want: waits("Waiting for demo-3 to be up to date"),
		},
		"nor while the replica of another master is": {
			seen: with(cluster(triples...), replicas(1), linkDown(8)), want: waits("Waiting for demo-8 to be up to date"),
		},
		"nor while the cluster cannot be used": {
			seen: with(cluster(triples...), replicas(1), viewed(func(v *redisnode.View) { v.StateOK = false }, 0)),
			want: waits("Waiting for demo-0, which reports"),
		},
		"nor while its master cannot keep what is written": {
			seen: with(cluster(triples...), replicas(1), viewed(func(v *redisnode.View) { v.WriteError = "aof_last_write_status is err" }, 0)),
			want: waits("Waiting for demo-0, which cannot write to its disk"),
		},
		"fewer masters of the same Pods: one gives its slots away": {
			seen: with(cluster(narrower...), replicas(2)), want: moves("are left", "move slots demo-2 demo-0 8192-8255"),
		},
	}.run(t)
}

func TestDecideWholeAndRemove(t *testing.T) {
	leaving := append(sixOf(), master(""), replica(6), master(""))
	left := []part{master("0-5460"), master("5461-10922"), master("10923-16383"), replica(0), replica(1), replica(2), replica(0)}
	owner := []part{master("0-5460"), master("5461-10922"), master("10923-16000"), replica(0), replica(1), replica(2), master("16001-16383")}
	full := viewed(func(v *redisnode.View) { v.Keys = 3 }, 6)
	notOK := func(v *redisnode.View) { v.StateOK = false }
	six, seven := []int{0, 1, 2, 3, 4, 5}, []int{0, 1, 2, 3, 4, 5, 6, 8}
	removed := does("Removing demo-6", append(every("forget demo-%d id-6", six...), "delete Pod demo-6")...)
	decisions{
		"a replica is silent: it is waited for": {
			seen: with(cluster(sixOf()...), silenced(1, 4)), want: waits("Waiting for demo-4: connection refused"),
		},
		"also if another is to be replaced": {
			seen: with(cluster(sixOf()...), podIs(old, 3), silenced(1, 4)),
			want: waits("Waiting for demo-4: connection refused"),
		},
		"also if another is to be removed": {seen: with(cluster(left...), sized(6), silenced(1, 4)), want: waits("Waiting for demo-4")},
		"one by whom the cluster is down is waited for": {
			seen: with(cluster(sixOf()...), podIs(old, 3), viewed(notOK, 1)),
			want: waits("Waiting for demo-1, which reports that the cluster cannot be used"),
		},
		"a replica that is behind is waited for": {
			seen: with(cluster(sixOf()...), podIs(old, 3), linkDown(4)), want: waits("Waiting for demo-4 to be up to date"),
		},
		"a replica that is behind is, if it is to be removed": {
			seen: with(cluster(left...), sized(6), linkDown(4)), want: waits("Waiting for demo-4 to be up to date"),
		},
		"a member that is to be removed is not waited for": {seen: with(cluster(left...), sized(6), silenced(1, 6)), want: removed},
		"nor whether it is behind": {
			seen: with(cluster(left...), sized(6), linkDown(6), viewed(notOK, 6)), want: removed,
		},
		"replicas are removed before their masters": {
			seen: with(cluster(leaving...), sized(6)),
			want: does("Removing demo-7", append(every("forget demo-%d id-7", seven...), "delete Pod demo-7")...),
		},
		"one after the other": {
			seen: with(cluster(left...), sized(6), podIs(beingDeleted, 6), silenced(1, 6)),
			want: waits("Waiting for demo-6 to be gone"),
		},
		"one that has no slots, but keys, is kept": {
			seen: with(sixAnd(master("")), sized(6), full), want: stuckBy(reasonHeldBack, "demo-6 has no slots, but 3 keys"),
		},
		"a replica has keys, and is removed": {seen: with(cluster(left...), sized(6), full), want: removed},
		"the volume of one that leaves is deleted, and first": {
			seen: with(cluster(left...), stored, sized(6)),
			want: does("Removing demo-6", append(every("forget demo-%d id-6", six...), "delete claim of demo-6", "delete Pod demo-6")...),
		},
		"a silent one that leaves, with slots, is waited for": {
			seen: with(cluster(owner...), sized(6), silenced(time.Hour, 6)),
			want: waits("Waiting for demo-6, which has the slots 16001-16383"),
		},
		"a silent one whose node is unknown": {
			seen: with(cluster(left...), stored, sized(6), namelessly(6)),
			want: waits("Waiting for demo-6, which may have keys: connection refused"),
		},
		"unless it cannot have anything yet": {
			seen: with(cluster(left...), stored, sized(6), namelessly(6), unbound(6), podIs(unscheduled, 6), forgotten("id-6", six...)),
			want: does("Removing demo-6", "delete claim of demo-6", "delete Pod demo-6"),
		},
		"a user deletes a replica's volume: its Pod goes too": {
			seen: with(cluster(sixOf()...), stored, terminating(5)),
			want: does("Removing demo-5", append(every("forget demo-%d id-5", 0, 1, 2, 3, 4), "delete claim of demo-5", "delete Pod demo-5")...),
		},
	}.run(t)
}

func TestDecideSpreadRollReady(t *testing.T) {
	uneven := []part{master("0-5460"), master("5461-10922"), master("10923-16383"), replica(0), replica(0), replica(2)}
	swapped := []part{replica(3), master("5461-10922"), master("10923-16383"), master("0-5460"), replica(1), replica(2)}
	alone := []part{master("0-5460"), master("5461-10922"), master("10923-16383")}
	drained := []part{master(""), master("0-8191"), master("8192-16383")}
	decisions{
		"a replica goes from who has two to who has none": {
			seen: with(cluster(uneven...)),
			want: does("Moving the replica demo-3 from demo-0 to demo-1", "replicate demo-3 demo-1"),
		},
		"one that is on another machine": {
			seen: with(cluster(uneven...), on("machine-1", 3)),
			want: does("Moving the replica demo-4", "replicate demo-4 demo-1"),
		},
		"one more is not too many": {seen: with(sixAnd(replica(0))), want: settledIs},
		"replicas are spread before Pods are replaced": {
			seen: with(cluster(uneven...), allOld), want: does("Moving the replica", "replicate demo-3 demo-1"),
		},

		"another revision: replicas are replaced first": {
			seen: with(six(), allOld), want: does("Replacing demo-3: 6 Pods are not up to date", "evict Pod demo-3"),
		},
		"one at a time": {seen: with(six(), allOld, podIs(beingDeleted, 3), silenced(1, 3)), want: waits("Waiting for demo-3")},
		"the one after it, when that is up to date": {
			seen: with(six(), podIs(old, 0, 1, 2, 4, 5)), want: does("Replacing demo-4: 5 Pods", "evict Pod demo-4"),
		},
		"not before it is": {seen: with(six(), podIs(old, 0, 1, 2, 4, 5), linkDown(3)), want: waits("Waiting for demo-3 to be up to date")},
		"a master after its replica has taken over": {
			seen: with(six(), podIs(old, 0, 1, 2)),
			want: does("demo-3 takes over from demo-0, which is to be replaced", "failover demo-3"),
		},
		"which gets the time for it": {
			seen: with(six(), podIs(old, 0, 1, 2), asked(3)), want: waitsBriefly("Waiting for demo-3 to take over from demo-0"),
		},
		"and then as a replica": {
			seen: with(cluster(swapped...), podIs(old, 0, 1, 2)), want: does("Replacing demo-0: 3 Pods", "evict Pod demo-0"),
		},
		"a master with a volume and no replica is replaced": {
			seen: with(cluster(alone...), stored, replicas(0), podIs(old, 0, 1)),
			want: does("Replacing demo-0, which has no replica", "evict Pod demo-0"),
		},
		"one without is emptied": {
			seen: with(cluster(alone...), replicas(0), podIs(old, 0)),
			want: moves("from demo-0 to demo-1", "move slots demo-0 demo-1 0-63"),
		},
		"and replaced when it is": {
			seen: with(cluster(drained...), replicas(0), podIs(old, 0)),
			want: does("Removing demo-0", "forget demo-1 id-0", "forget demo-2 id-0", "delete Pod demo-0"),
		},
		"one that has no slots, but keys, and no volume is not": {
			seen: with(sixAnd(master("")), podIs(old, 6), viewed(func(v *redisnode.View) { v.Keys = 3 }, 6)),
			want: stuckBy(reasonHeldBack, "demo-6 is to be replaced, but has no slots, 3 keys, and no volume"),
		},
		"one with a volume is": {
			seen: with(sixAnd(master("")), stored, podIs(old, 6), viewed(func(v *redisnode.View) { v.Keys = 3 }, 6)),
			want: does("Replacing demo-6", "evict Pod demo-6"),
		},
		"a Pod that is not ready is deleted: no budget counts on it": {
			seen: with(six(), allOld, podIs(unready, 3)), want: does("Replacing demo-3: 6 Pods", "delete Pod demo-3"),
		},
		"it waits its turn at first": {seen: with(six(), allOld, podIs(unready, 4)), want: does("Replacing demo-3: 6 Pods", "evict Pod demo-3")},
		"one that has not been ready for long is the first": {
			seen: with(six(), allOld, podIs(unready, 4), unreadyForLong(4)),
			want: does("Replacing demo-4: 6 Pods", "delete Pod demo-4"),
		},
		"a master that has not been ready for long is, after its failover": {
			seen: with(six(), allOld, podIs(unready, 1), unreadyForLong(1)),
			want: does("demo-4 takes over from demo-1", "failover demo-4"),
		},
		"no Pod is replaced by one that the API server rejects": {
			seen: with(six(), allOld, rejecting), want: waits("Waiting for another spec: demo-0 stays"),
		},
		"nor emptied for that": {
			seen: with(cluster(master("0-5460"), master("5461-10922"), master("10923-16383")), sized(3), replicas(0), allOld, rejecting),
			want: waits("Waiting for another spec: demo-0 stays"),
		},
		"an operation ends when all Pods are ready": {
			seen: with(six(), under(opRoll), podIs(unready, 3)), want: waits("Waiting for the Pod demo-3 to be ready"),
		},
		"another container than redis may not be ready": {
			seen: with(six(), under(opRoll), podIs(both(unready, sidecarsCrashing), 3)), want: settledIs,
		},
		"then it has ended":              {seen: with(six(), under(opRoll)), want: settledIs},
		"a probe that fails begins none": {seen: with(six(), podIs(unready, 3)), want: settledIs},
	}.run(t)
}

// TestDecideKeepsTheOnlyCopy asks policies alone for what the ones before them prevent.
func TestDecideKeepsTheOnlyCopy(t *testing.T) {
	o := with(cluster(master("0-16383"), replica(0)), podIs(old, 0), linkDown(1))
	stuckBy(reasonHeldBack, "demo-0 is to be replaced, but has the only copy of the slots 0-16383").compare(t, *rollPods(o))
	if p := rollPods(with(six(), allOld, podIs(beingDeleted, 0, 1, 2, 3, 4, 5))); p != nil {
		t.Errorf("%q of Pods that are being deleted", p.step)
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
			for i, m := range o.members {
				if m.view.Master && m.view.Keys > 0 {
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
	"crashing", "never noted",
	"unlike replicas",
}

// unlikeReplicas has a master be gone with its data, and something else happen to each of its
// replicas.
func unlikeReplicas(r *rand.Rand, n int) alter {
	master, fates := r.Intn(n), r.Perm(5)
	if r.Intn(2) == 0 {
		fates = r.Perm(3) // All of them answer, and none is linked.
	}
	return func(o *observed) {
		for i, m := range o.members {
			if m.view == nil || m.view.Master || saidBy(o, i, m.view.ID).MasterID != idOf(master) {
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

// attempt does nothing if what is to happen to a member cannot, as a silent one says
// nothing.
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
			trial.members = slices.Clone(o.members)
			for i, m := range o.members {
				trial.members[i] = new(*m)
			}
			with(&trial)
			if p := replaceLostMasters(&trial); p != nil && p.loss != nil {
				accepting(p.loss.token)(o)
			}
		}),
	}...)
}

// TestDecideIsSafe has decide look at thousands of states, and never does anything that may lose
// anything. GLASSBACK_SEEDS=n has it look at n states.
func TestDecideIsSafe(t *testing.T) {
	const seed = 20260109
	did := map[verb]int{}
	for i := range fakeapi.Seeds(t, 4000, 1000) {
		func() {
			s := sceneOf(rand.New(rand.NewSource(seed + int64(i))))
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("seed %d, %q: %v", i, s.history, p)
				}
			}()
			p := decide(s.observed)
			for _, c := range slices.Concat(p.upkeep, p.commands) {
				did[c.verb]++
			}
			if message := s.harm(p); message != "" {
				t.Errorf("seed %d, %q: %s: %s, by %q", i, s.history, message, p.step, inWords(slices.Concat(p.upkeep, p.commands)))
			}
		}()
	}
	for _, v := range []verb{
		createPod, deletePod, evictPod, deleteClaim, meet, forget, addSlots, replicate, failover,
		moveSlots, closeSlots, openSlots, copyFunctions,
	} {
		if did[v] == 0 {
			t.Errorf("no state has led to %q: this test says nothing about it", v)
		}
	}
	t.Logf("%v", did)
}

// harm says what is wrong with a plan; "" if nothing is.
func (s scene) harm(p plan) string {
	if p.wait <= 0 {
		return "never looks again"
	}
	deleted := map[*member]bool{}
	for _, c := range slices.Concat(p.upkeep, p.commands) {
		if message := cmp.Or(s.harmOf(c), s.harmToCopies(p, c)); message != "" {
			return c.String() + " " + message
		}
		if (c.verb == deletePod || c.verb == evictPod) && c.on.pod.Status.Phase != corev1.PodFailed {
			deleted[c.on] = true
		}
	}
	if len(deleted) > 1 {
		return fmt.Sprintf("deletes %d Pods at once", len(deleted))
	}
	for _, n := range s.unknownNodes() {
		if !s.unreachable(n.ID) && len(p.commands) > 0 {
			return "acts though " + n.ID + " belongs to no Pod, and lives"
		}
	}
	for _, c := range p.upkeep {
		if !slices.Contains([]verb{createPod, createClaim, deletePod, deleteService}, c.verb) {
			return c.String() + " is no upkeep"
		}
	}
	return ""
}

func (s scene) harmOf(c command) string {
	for _, m := range []*member{c.on, c.peer} {
		if m != nil && !slices.Contains(s.members, m) {
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
		if taken := c.slots.Intersect(s.assigned()); taken.Len() > 0 || (s.formed && !s.lossAccepted()) {
			return "assigns slots that have an owner"
		}
	case replicate:
		if s.slots[c.on.id].Len() > 0 || c.on == c.peer || !c.peer.view.Master {
			return "empties who has slots"
		}
	case moveSlots:
		if c.slots.Without(s.slots[c.on.id]).Len() > 0 || c.on == c.peer || !c.peer.view.Master {
			return "gives what it has not"
		}
	}
	return ""
}

// harmOfDeletion knows better than decide who has slots: also a Pod that is silent, and
// whose node was not identified, is the node that it was.
func (s scene) harmOfDeletion(c command) string {
	slots := s.slots[c.on.id]
	if p := c.on.pod; p != nil && string(p.UID) == "uid-"+p.Name {
		slots = slots.Union(s.slots[idOf(c.on.ordinal)])
	}
	finished := c.on.pod != nil && c.on.pod.Status.Phase == corev1.PodFailed
	switch {
	case c.on.pod == nil && c.verb != deleteClaim:
		return "is not there"
	case slots.Len() == 0 || (finished && c.verb != deleteClaim):
		return ""
	case c.verb == deleteClaim || s.rdc.Spec.Storage == nil || !c.on.outdated:
		return "deletes who has the slots " + slots.String()
	case c.on.answers() && len(s.replicasOf(c.on)) > 0:
		return "deletes a master that has a replica"
	}
	return ""
}

// lossAccepted returns whether any annotation is there: it was made of the loss.
func (s scene) lossAccepted() bool {
	_, ok := s.rdc.Annotations[AnnotationAcceptDataLoss]
	return ok
}

// TestDecideChangesNothing compares what was observed before and after a decision and its status.
func TestDecideChangesNothing(t *testing.T) {
	for i := range 300 {
		s := sceneOf(rand.New(rand.NewSource(int64(i))))
		deep := i < 30 // A dump takes long.
		before := ""
		if deep {
			before = dump.ForHash(s.observed)
		}
		first, again := decide(s.observed), decide(s.observed)
		if !slices.Equal(inWords(first.commands), inWords(again.commands)) {
			t.Errorf("seed %d, %q: %q at first, and then %q", i, s.history, inWords(first.commands), inWords(again.commands))
		}
		statusOf(s.observed, first, outcome{})
		if deep && dump.ForHash(s.observed) != before {
			t.Errorf("seed %d, %q: the policy %s or the status changed what was observed", i, s.history, first.policy)
		}
		ids := slices.Sorted(maps.Keys(s.nodes))
		s.merge()
		if got := slices.Sorted(maps.Keys(s.nodes)); !slices.Equal(got, ids) {
			t.Errorf("seed %d, %q: nodes %q at first, and then %q", i, s.history, ids, got)
		}
	}
}
