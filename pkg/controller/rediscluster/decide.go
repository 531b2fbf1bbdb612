// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/redisnode"
)

// policies decide what to do, in this order: the first one that returns a plan decides. So a policy runs
// only when all policies before it are satisfied, and can rely on that. The upkeep may still have something to do: see decide.
//
// No policy remembers anything: an interrupted operation continues from what is observed.
var policies = []policy{
	{"completeSwitch", completeSwitch},           // all nodes use the same protocol among themselves
	{"ignoreShortSilence", ignoreShortSilence},   // a settled cluster stays Ready while a node is silent for a moment
	{"stopForProblems", stopForProblems},         // the password is known, and no other owner's Pod has a member's name
	{"stopForUnknownNodes", stopForUnknownNodes}, // no node of another cluster is among the nodes
	{"correctAddresses", correctAddresses},       // no node announces an address at which the others do not reach it
	{"allowFailover", allowFailover},             // replicas can be elected, if the nodes reach each other
	{"replaceLostMasters", replaceLostMasters},   // every slot has an owner that lives or will come back
	{"moveStrandedKeys", moveStrandedKeys},       // moves to a master that is lost continue to its replica
	{"finishImports", finishImports},             // slots whose owner was replaced during a move continue from the new owner
	{"forgetNodes", forgetNodes},                 // no node knows a node whose Pod is gone
	{"replaceBrokenPods", replaceBrokenPods},     // a Pod that cannot run has the current revision
	{"introduceNodes", introduceNodes},           // all nodes know each other, at their current addresses
	{"waitForUsers", waitForUsers},               // every node that answers has its users
	{"beginRestore", beginRestore},               // the status has that the restore of an empty cluster has begun
	{"assignSlots", assignSlots},                 // a new cluster has all slots assigned, once
	{"assignReplicas", assignReplicas},           // every node that must not be a master is a replica
	{"reconnectReplicas", reconnectReplicas},     // every replica asks for data at the current address of its master
	{"waitForAgreement", waitForAgreement},       // all nodes that answer describe each other alike
	{"announceAddresses", announceAddresses},     // every node announces the address of its Service, if it is reachable there
	{"finishMoves", finishMoves},                 // no slot is half moved
	{"copyLibraries", copyLibraries},             // a new master has the functions of the others, before its first slot
	{"balanceSlots", balanceSlots},               // the intended masters have all slots, in equal shares
	{"replaceUnsynced", replaceUnsynced},         // a replica that cannot copy its master's data has the current revision
	{"waitForReplicas", waitForReplicas},         // every node answers, and every replica is up to date
	{"startSwitch", startSwitch},                 // the nodes use TLS as the spec says, if all have a certificate
	{"removePods", removePods},                   // the members that leave are forgotten and deleted
	{"balanceReplicas", balanceReplicas},         // every master has as many replicas as the others
	{"rollPods", rollPods},                       // every Pod has the current revision; they are replaced one by one
	{"waitForReadiness", waitForReadiness},       // the Pods are ready
	{"waitForAccount", waitForAccount},           // a Pod that is created can mount the password of the operator's user
	{"restoreBackup", restoreBackup},             // a new cluster has every key of the backup in its spec
	{"waitForAddresses", waitForAddresses},       // clients outside of the cluster reach every node
}

// policy ensures one property of a cluster. decide returns nil if the cluster has that property.
type policy struct {
	name   string
	decide func(*observed) *plan
}

// decide returns what to do next. One policy decides on the commands, and its step replaces that of the upkeep. The upkeep runs in any
// case: it creates the Secret of the operator's user, missing Pods and the Job of a backup, sets directives and users, makes nodes load
// renewed certificates, grows volumes, and deletes Services and Jobs that are not needed.
func decide(o *observed) plan {
	p := plan{Wait: duration(poll)}
	account, upkeep, directives, users := accountCommands(o), missingPods(o), directiveCommands(o), userCommands(o)
	growth := growthCommands(o)
	switch {
	case len(upkeep) > 0:
		p.Step, p.Wait = "Creating Pods", duration(brief)
	case len(directives) > 0:
		p.Step, p.Wait = settingStep("directives", directives), duration(brief)
	case len(users) > 0:
		p.Step, p.Wait = settingStep("users", users), duration(brief)
	case len(growth) > 0:
		p.Step, p.Wait = fmt.Sprintf("Growing %d volumes to %s", len(growth), o.Object.Spec.Storage.Size.String()), duration(brief)
	}
	for _, policy := range policies {
		if decided := policy.decide(o); decided != nil {
			p, p.Policy = *decided, policy.name
			break
		}
	}
	p.Upkeep = slices.Concat(account, upkeep, directives, users, certificateCommands(o), serviceCommands(o), growth, backupCommands(o, p))
	if len(account) > 0 {
		p.Wait = duration(brief) // Pods wait for it.
	}
	if o.GrowthRefused != nil {
		p.Retries = len(growth)
	}
	if until := o.untilBackup(); until > 0 {
		p.Wait = duration(min(p.Wait.Duration, until))
	}
	if slices.ContainsFunc(p.Commands, func(c command) bool { return c.verb == evictPod }) {
		p.EvictionRefused = o.EvictionRefused
	}
	if p.waits() && !p.ByJob && !o.ActedAt.IsZero() && o.Now.Sub(o.ActedAt) > stalledAfter && len(p.Problems) == 0 && o.AccountProblem == nil {
		p.Problems = []problem{{reasonStalled, fmt.Sprintf("There was no progress for more than %s: %s", stalledAfter, p.progress())}}
	}
	return p
}

// The values of status.operation.type.
const (
	opForm      = "Form"
	opScaleOut  = "ScaleOut"
	opScaleIn   = "ScaleIn"
	opRoll      = "Roll"
	opConfigure = "Configure"
	opHeal      = "Heal"
	opRestore   = "Restore"
)

// The delays until the next sync. A change of a Pod starts a sync by itself; a change within Redis does not.
const (
	poll  = 10 * time.Second       // while nothing is to be done
	check = time.Second            // while Pods start, or nodes copy data
	brief = 250 * time.Millisecond // while nodes exchange their views
	soon  = 20 * time.Millisecond  // while one node learns a change of another
)

// plan is what to do next.
type plan struct {
	Policy          string          `json:"policy"`                    // the name of the policy that decided; "" if all are satisfied
	KeepStatus      bool            `json:"keepStatus,omitempty"`      // whether to report nothing and do nothing
	Step            string          `json:"step,omitempty"`            // for status.operation, with which Ready is False; "" if settled
	EvictionRefused string          `json:"evictionRefused,omitempty"` // why the eviction among the commands was refused the last time
	Upkeep          []command       `json:"upkeep,omitempty"`          // commands that do not depend on each other
	Retries         int             `json:"retries,omitempty"`         // how many of them the API server has refused before
	Commands        []command       `json:"commands,omitempty"`        // commands that run in order: each may depend on those before it
	Wait            metav1.Duration `json:"wait"`
	ByJob           bool            `json:"byJob,omitempty"` // whether the plan waits for a Job, which may take long
	Problems        []problem       `json:"problems,omitempty"`
	Loss            *loss           `json:"loss,omitempty"` // the slots that were lost, until they are assigned again
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// Record implements recording.Plan.
func (p plan) Record(*observed) any { return p }

// waits returns whether the plan only waits for something.
func (p plan) waits() bool {
	acts := len(p.Commands)+len(p.Upkeep) > p.Retries && p.EvictionRefused == ""
	return p.Step != "" && !acts
}

// progress returns the step, and what delays it.
func (p plan) progress() string {
	if p.EvictionRefused == "" {
		return p.Step
	}
	return p.Step + ". The PodDisruptionBudget does not allow the eviction now: " + p.EvictionRefused
}

// command is one write, or a sequence of writes with one purpose.
type command struct {
	verb  *verb
	on    *member
	peer  *member
	id    string
	slots redisnode.Slots
	how   redisnode.Failover
	names []string // of directives, users, nodes, Services or Jobs; or one address; or the transport for recordTLS
}

// String returns the command in a few words, for logs and tests.
func (c command) String() string {
	words := []string{c.verb.text}
	if c.on != nil {
		words = append(words, c.on.Name)
	}
	if c.how != redisnode.Graceful {
		words = append(words, string(c.how))
	}
	if c.peer != nil {
		words = append(words, c.peer.Name)
	}
	if c.id != "" {
		words = append(words, c.id)
	}
	if len(c.slots) > 0 {
		words = append(words, c.slots.String())
	}
	return strings.Join(append(words, c.names...), " ")
}

// MarshalJSON returns the text of the command, for records.
func (c command) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// wait returns a plan that does nothing until the next sync.
func wait(after time.Duration, format string, args ...any) *plan {
	return &plan{Step: fmt.Sprintf(format, args...), Wait: duration(after)}
}

// do returns a plan that carries out commands. The next sync follows after brief. After a move of slots it follows
// at once, since there is nothing to wait for.
func do(commands []command, format string, args ...any) *plan {
	p := &plan{Step: fmt.Sprintf(format, args...), Commands: commands, Wait: duration(brief)}
	if commands[0].verb == moveSlots {
		p.Wait = duration(time.Millisecond)
	}
	return p
}

// stuck returns a plan that does nothing until a user has acted.
func stuck(reason, format string, args ...any) *plan {
	message := fmt.Sprintf(format, args...)
	return &plan{Step: message, Wait: duration(check), Problems: []problem{{reason, message}}}
}

// shortSilence is how long a node of a settled cluster may be silent before the operator reports this.
const shortSilence = 3 * time.Second

// ignoreShortSilence keeps the status of a settled cluster while running nodes have not answered for a moment.
func ignoreShortSilence(o *observed) *plan {
	if !o.Formed || o.Object.Status.Operation != nil || o.Object.Status.ObservedGeneration != o.Object.Generation {
		return nil
	}
	silent := o.membersWhere(func(m *member) bool { return !m.answers() })
	if len(silent) == 0 || slices.ContainsFunc(silent, func(m *member) bool { return !transientlySilent(m) }) {
		return nil
	}
	return &plan{KeepStatus: true, Wait: duration(check)}
}

// transientlySilent returns whether a silent member is perhaps just slow to answer.
func transientlySilent(m *member) bool {
	return m.SilentFor.Duration <= shortSilence && whyNotAsked(m.Pod) == nil && !notStarting(m.Pod) && !m.Refused
}

// stopForProblems stops all later policies while a user has to remove an obstacle. The upkeep continues.
func stopForProblems(o *observed) *plan {
	if len(o.Problems) == 0 {
		return nil
	}
	return &plan{Step: o.Problems[0].Message, Wait: duration(poll), Problems: o.Problems}
}

// waitForAgreement waits until every master with slots answers, and all nodes describe each other alike.
func waitForAgreement(o *observed) *plan {
	for _, m := range o.slotOwners() {
		if !m.answers() {
			return wait(check, "Waiting for %s, which has the slots %s: %s", m.Name, o.slots[m.ID], m.WhySilent)
		}
	}
	if disagreement := o.disagreement(); disagreement != "" {
		return wait(brief, "Waiting for the nodes to agree: %s", disagreement)
	}
	return nil
}
