/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/report"
)

// Reasons of the conditions, beside those of a child.Problem.
const (
	reasonFormed      = "Formed"
	reasonForming     = "Forming"
	reasonScalingOut  = "ScalingOut"
	reasonScalingIn   = "ScalingIn"
	reasonRolling     = "Rolling"
	reasonHealing     = "Healing"
	reasonDivided     = "Divided"
	reasonCovered     = "AllSlotsCovered"
	reasonUncovered   = "SlotsUncovered"
	reasonNoLoss      = "NoDataLoss"
	reasonDataLoss    = "DataLoss"
	reasonInvalidSpec = "InvalidSpec"
	reasonConflict    = "Conflict"
	reasonNoPassword  = "PasswordMissing"
	reasonPassword    = "PasswordRefused"
	reasonStranger    = "UnknownNode"
	reasonHeldBack    = "HeldBack"
	reasonBudgets     = "TwoBudgets"
	reasonSilent      = "PodNotAnswering"
	reasonNotStarting = "PodNotStarting"
	reasonNotReady    = "PodNotReady"
	reasonNotWritten  = "CannotWrite"
	reasonFailing     = "CommandFailing"
	reasonStalled     = "Stalled"
	reasonFunctions   = "FunctionsDiffer"
)

// reasons are what Ready says while an operation is under way.
var reasons = map[string]string{
	opForm: reasonForming, opScaleOut: reasonScalingOut, opScaleIn: reasonScalingIn, opRoll: reasonRolling, opHeal: reasonHealing,
}

// calm are the reasons for which nobody need be warned.
var calm = []string{reasonForming, reasonScalingOut, reasonScalingIn, reasonRolling}

const (
	// textEvery is how often a status is written at most if only the words of its
	// operation are other ones.
	textEvery = 2 * time.Second
	// maxStep bounds the step of an operation: slots in many pieces take many words.
	maxStep = 1000
	// stalledAfter is how long an operation may wait before that is a problem.
	stalledAfter = 5 * time.Minute
	// silentTooLong is how long a Pod may be silent before that is a problem.
	silentTooLong = 30 * time.Second
	// differTooLong is how long masters may have different functions before that is a
	// problem: a library is loaded or deleted on one after the other.
	differTooLong = 30 * time.Second
	// failingTooLong is how long commands may fail before that is a problem.
	failingTooLong = 10 * time.Second
)

// statusOfInvalid is the status of an object whose spec has errs. What runs is left
// as it is.
func statusOfInvalid(rdc *v1.RedisCluster, errs field.ErrorList, now time.Time) v1.RedisClusterStatus {
	status := *rdc.Status.DeepCopy()
	status.ObservedGeneration = rdc.Generation
	c := report.Conditions{List: &status.Conditions, Generation: rdc.Generation, Now: now}
	message := errs.ToAggregate().Error()
	c.Set(glassback.ConditionReady, false, reasonInvalidSpec, message)
	c.Set(glassback.ConditionProgressing, false, reasonInvalidSpec, message)
	c.Set(glassback.ConditionDegraded, true, reasonInvalidSpec, message)
	return status
}

// statusOf is the status of what was seen, while next is what is done about it. out is what came
// of the children.
func statusOf(o *observed, next plan, out outcome) v1.RedisClusterStatus {
	status := *o.rdc.Status.DeepCopy()
	status.ObservedGeneration = o.rdc.Generation
	status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector(o.rdc)})
	status.Size = int32(len(o.those(func(m *member) bool { return m.pod != nil })))
	status.Nodes = nodes(o)
	if len(o.answering()) > 0 { // Otherwise it is not known any better.
		status.Masters = int32(len(o.holders()))
		status.Shards = shards(o)
		status.SlotsAssigned = int32(slotsHeld(o))
	}
	problems := slices.Concat(next.problems, out.problems, o.troubles())
	problems = slices.CompactFunc(problems, func(a, b problem) bool { return a == b })
	status.Operation = operation(o, next)
	conditions(o, next, problems, &status)
	status.Endpoint = ""
	if meta.IsStatusConditionTrue(status.Conditions, v1.ConditionSlotsCovered) {
		status.Endpoint = o.rdc.Spec.Addr
	}
	return status
}

// slotsHeld is how many slots have a master that has a Pod.
func slotsHeld(o *observed) int {
	held := 0
	for _, m := range o.holders() {
		held += o.slots[m.id].Len()
	}
	return held
}

// nodes are the Pods as nodes. Of one that is silent, the others tell.
func nodes(o *observed) []v1.Node {
	var all []v1.Node
	for _, m := range o.members {
		n := v1.Node{Pod: m.name, ID: m.id, IP: m.ip()}
		known := o.nodes[m.id]
		switch {
		case known == nil:
		case known.Master:
			n.Role = v1.RoleMaster
		default:
			n.Role, n.Link = v1.RoleReplica, "down"
			if m.answers() && m.view.LinkUp {
				n.Link = "up"
			}
			if master := o.byID[known.MasterID]; master != nil {
				n.Master = master.name
			}
		}
		all = append(all, n)
	}
	return all
}

// shards are the masters with slots, by their slots.
func shards(o *observed) []v1.Shard {
	holders := o.holders()
	slices.SortFunc(holders, func(a, b *member) int { return cmp.Compare(o.slots[a.id][0].First, o.slots[b.id][0].First) })
	var all []v1.Shard
	for _, m := range holders {
		shard := v1.Shard{Master: m.name, Slots: o.slots[m.id].String()}
		for _, r := range o.replicasOf(m) {
			shard.Replicas = append(shard.Replicas, r.name)
		}
		all = append(all, shard)
	}
	return all
}

// operation is what next is a step of. An operation goes on until all is as it should be,
// whatever it waits for.
func operation(o *observed, next plan) *v1.Operation {
	if next.step == "" {
		return nil
	}
	was := o.rdc.Status.Operation
	is := &v1.Operation{Type: purpose(o, was), Step: next.progress()}
	if len(is.Step) > maxStep {
		is.Step = strings.ToValidUTF8(is.Step[:maxStep], "") + "…"
	}
	if was != nil && was.Type == is.Type {
		is.StartedAt = was.StartedAt
	} else {
		is.StartedAt = &metav1.Time{Time: o.now.Truncate(time.Second)}
	}
	return is
}

// purpose is the type of the operation that is under way, if was is what was so before.
func purpose(o *observed, was *v1.Operation) string {
	known := map[string]bool{}
	for _, n := range o.rdc.Status.Nodes {
		known[n.Pod] = true
	}
	added := slices.ContainsFunc(o.members, func(m *member) bool { return !o.leaving(m) && !known[m.name] })
	switch {
	case !o.formed:
		return opForm
	case slices.ContainsFunc(o.members, func(m *member) bool { return m.ordinal >= int(*o.rdc.Spec.Size) }):
		return opScaleIn
	case slices.ContainsFunc(o.members, func(m *member) bool { return m.outdated }):
		return opRoll
	case added && (was == nil || was.Type == opHeal):
		return opScaleOut
	case was != nil:
		return was.Type
	}
	return opHeal
}

// troubles are the problems of the members.
func (o *observed) troubles() []problem {
	var all []problem
	for _, m := range o.members {
		switch {
		case m.refused:
			all = append(all, problem{reasonPassword, fmt.Sprintf("%s: %s. Nothing is changed until it takes what spec.authSecretRef says", m.name, m.whySilent)})
		case m.answers() && m.view.WriteError != "":
			all = append(all, problem{reasonNotWritten, fmt.Sprintf("%s cannot keep what is written to it: %s", m.name, m.view.WriteError)})
		case o.onlyHere(m) != "" && !o.expected(m):
			all = append(all, problem{reasonHeldBack, fmt.Sprintf("%s is a master without slots, but has %s: it is not made a replica. Delete the Pod to give them up", m.name, o.onlyHere(m))})
		case m.answers() && m.unready > silentTooLong && !o.leaving(m) && m.view.StateOK && (m.view.Master || m.view.LinkUp):
			all = append(all, problem{reasonNotReady, fmt.Sprintf("%s has not been ready for more than %s, although its node is as it should be: see the events of the Pod", m.name, silentTooLong)})
		case m.answers() || o.leaving(m):
		case m.pod != nil && notStarting(m.pod):
			all = append(all, problem{reasonNotStarting, fmt.Sprintf("%s does not start: %s", m.name, waitingFor(m.pod))})
		case m.silent > silentTooLong && m.whySilent != "":
			all = append(all, problem{reasonSilent, fmt.Sprintf("%s has not answered for more than %s: %v", m.name, silentTooLong, m.whySilent)})
		}
	}
	if o.differing > differTooLong {
		all = append(all, problem{reasonFunctions, o.functionsDiffer()})
	}
	if o.failure != nil && (o.failure.reason != reasonFailing || o.failing > failingTooLong) {
		all = append(all, *o.failure)
	}
	return all
}

// expected returns whether a master without slots may have keys: some are on the move, or it
// is about to get slots.
func (o *observed) expected(m *member) bool {
	return len(m.self().Importing) > 0 || slices.Contains(o.masters(), m) ||
		slices.ContainsFunc(o.answering(), func(other *member) bool { return len(other.self().Migrating) > 0 })
}

// cause is an error without what is another text each time: the port from which a
// connection was tried.
func cause(err error) string { return dialledFrom.ReplaceAllString(err.Error(), "") }

var dialledFrom = regexp.MustCompile(`[^ ]+->`)

// notStarting returns whether a Pod waits for a person.
func notStarting(pod *corev1.Pod) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return true
		}
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// conditions sets the conditions of status, whose other fields are set.
func conditions(o *observed, next plan, problems []problem, status *v1.RedisClusterStatus) {
	c := report.Conditions{List: &status.Conditions, Generation: o.rdc.Generation, Now: o.now}
	summary := fmt.Sprintf("Pods: %d, masters: %d, slots: %d", status.Size, status.Masters, status.SlotsAssigned)
	op := status.Operation
	switch {
	case len(problems) > 0:
		c.Set(glassback.ConditionReady, false, problems[0].reason, join(problems))
		c.Set(glassback.ConditionDegraded, true, problems[0].reason, join(problems))
	case op != nil:
		c.Set(glassback.ConditionReady, false, reasons[op.Type], op.Step)
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Nothing is wrong")
	default:
		c.Set(glassback.ConditionReady, true, reasonFormed, summary)
		c.Set(glassback.ConditionDegraded, false, report.ReasonAsExpected, "Nothing is wrong")
	}
	if op != nil {
		c.Set(glassback.ConditionProgressing, true, reasons[op.Type], op.Step)
	} else {
		c.Set(glassback.ConditionProgressing, false, reasonFormed, summary)
	}
	known := len(o.answering()) > 0
	groups := o.groups()
	switch {
	case !o.formed && o.assigned().Len() < redisnode.SlotCount:
		c.Set(v1.ConditionClusterFormed, false, reasonForming, "The cluster is being formed")
	case len(groups) > 1:
		c.Set(v1.ConditionClusterFormed, false, reasonDivided, "Not all nodes know each other")
	case known:
		c.Set(v1.ConditionClusterFormed, true, reasonFormed, "All nodes that answer know each other")
	}
	switch message := uncovered(o); {
	case message != "":
		c.Set(v1.ConditionSlotsCovered, false, reasonUncovered, message)
	default:
		c.Set(v1.ConditionSlotsCovered, true, reasonCovered, "All slots have a master that answers")
	}
	if next.loss != nil {
		c.Set(v1.ConditionDataLoss, true, reasonDataLoss, next.loss.message())
	} else if slotsHeld(o) == redisnode.SlotCount || meta.FindStatusCondition(status.Conditions, v1.ConditionDataLoss) == nil {
		c.Set(v1.ConditionDataLoss, false, reasonNoLoss, "No slot has lost what it held")
	}
}

// uncovered says which slots cannot be used; "" if all can.
func uncovered(o *observed) string {
	covered := redisnode.Slots(nil)
	for _, m := range o.holders() {
		if m.answers() {
			covered = covered.Union(o.slots[m.id])
		}
	}
	if missing := redisnode.SlotRange(0, redisnode.SlotCount-1).Without(covered); missing.Len() > 0 {
		return fmt.Sprintf("%d slots have no master that answers: %s", missing.Len(), missing)
	}
	for _, m := range o.answering() {
		if !m.view.StateOK && !o.leaving(m) && !m.blank() {
			return fmt.Sprintf("The cluster cannot be used by the account of %s", m.name)
		}
	}
	return ""
}

func join(problems []problem) string {
	messages := make([]string, len(problems))
	for i, p := range problems {
		messages[i] = p.message
	}
	return strings.Join(messages, "; ")
}

// transition returns whether more has changed than the words of an operation.
func transition(was, is v1.RedisClusterStatus) bool {
	return !equality.Semantic.DeepEqual(withoutWords(was), withoutWords(is))
}

func withoutWords(status v1.RedisClusterStatus) v1.RedisClusterStatus {
	if status.Operation != nil {
		status.Operation = &v1.Operation{Type: status.Operation.Type}
	}
	status.Shards = nil // Slots are moved.
	conditions := make([]metav1.Condition, len(status.Conditions))
	for i, c := range status.Conditions {
		c.Message = ""
		conditions[i] = c
	}
	status.Conditions = conditions
	return status
}
