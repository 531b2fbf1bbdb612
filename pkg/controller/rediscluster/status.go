// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/controller/rediscluster/manifest"

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
	reasonRejected    = "PodRejected"
	reasonNotWritten  = "CannotWrite"
	reasonNotMoved    = "SlotNotMoved"
	reasonFailing     = "CommandFailing"
	reasonStalled     = "Stalled"
	reasonFunctions   = "FunctionsDiffer"
	reasonNoAccount   = "AccountMissing"
	reasonNoSecret    = "SecretRejected"
	reasonUser        = "UserRejected"
	reasonConfiguring = "Configuring"
	reasonDirective   = "DirectiveRejected"

	reasonUnreachable          = "AddressUnreachable"
	reasonNoCertificate        = "CertificateMissing"
	reasonCertificate          = "CertificateInvalid"
	reasonCertificateNotLoaded = "CertificateNotLoaded"

	reasonRestoring      = "Restoring"
	reasonRestoreFailed  = "RestoreFailed"
	reasonRestoreRefused = "RestoreRefused"
	reasonBackedUp       = "Succeeded"
	reasonBackupFailed   = "Failed"
	reasonNoImage        = "BackupImageMissing"
	reasonJobRejected    = "JobRejected"
)

// ReasonNoBackupYet is the reason of the condition BackedUp until the first backup has ended.
const ReasonNoBackupYet = "NotYet"

// reasons are the reasons of Ready during each operation.
var reasons = map[string]string{
	opForm: reasonForming, opScaleOut: reasonScalingOut, opScaleIn: reasonScalingIn, opRoll: reasonRolling, opHeal: reasonHealing,
	opConfigure: reasonConfiguring, opRestore: reasonRestoring,
}

// expectedReasons are the reasons whose events are no warnings.
var expectedReasons = []string{reasonForming, reasonScalingOut, reasonScalingIn, reasonRolling, reasonConfiguring, reasonRestoring}

const (
	// textEvery is the minimum time between two writes of the status if only texts change.
	textEvery = 2 * time.Second
	// maxStep is the maximum length of an operation's step, in bytes: many ranges of slots make a long text.
	maxStep = 1000
	// stalledAfter is how long an operation may wait before the status reports it.
	stalledAfter = 5 * time.Minute
	// silentTooLong is how long a Pod may be silent, or not ready, before the status reports it.
	silentTooLong = 30 * time.Second
	// differTooLong is how long masters may have different functions before the status reports it: users load or
	// delete a library on one master after the other.
	differTooLong = 30 * time.Second
	// failingTooLong is how long commands may fail before the status reports it.
	failingTooLong = 10 * time.Second
)

// statusOfInvalid returns the status of an object with an invalid spec. The operator changes nothing else.
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

// statusOf returns the status of the observed cluster. p is the operator's next plan. out is the result of applying the children.
func statusOf(o *observed, p plan, out child.Outcomes) v1.RedisClusterStatus {
	status := *o.Object.Status.DeepCopy()
	status.ObservedGeneration = o.Object.Generation
	status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: manifest.Selector(o.Object)})
	status.Size = int32(len(o.membersWhere(func(m *member) bool { return m.Pod != nil })))
	status.Nodes, status.TLS = nodes(o), tlsStatus(o)
	status.Backup, status.Restore = backupStatus(o, p), restoreStatus(o, p)
	if len(o.answering()) > 0 { // Otherwise nothing newer is known.
		status.Masters = int32(len(o.slotOwners()))
		status.Shards = shards(o)
		status.SlotsAssigned = int32(ownedSlots(o))
	}
	problems := slices.Clone(p.Problems)
	for _, ofChild := range out.Problems {
		problems = append(problems, problem(ofChild))
	}
	problems = arranged(append(problems, memberProblems(o)...))
	status.Operation = operation(o, p)
	setConditions(o, p, problems, &status)
	status.Endpoint = ""
	if meta.IsStatusConditionTrue(status.Conditions, v1.ConditionSlotsCovered) {
		status.Endpoint = o.Object.Spec.Addr
	}
	return status
}

// symptoms are the reasons of problems that mostly follow from others. The higher number is further from the cause.
var symptoms = map[string]int{reasonFailing: 1, reasonSilent: 1, reasonNotStarting: 1, reasonNotReady: 1, reasonStalled: 2}

// arranged returns problems with the root cause first: it gives the condition its reason, and the beginning of its message. It leaves out
// that there was no progress if there is another problem, and counts members with the same problem.
func arranged(problems []problem) []problem {
	slices.SortStableFunc(problems, func(a, b problem) int { return cmp.Compare(symptoms[a.Reason], symptoms[b.Reason]) })
	problems = slices.CompactFunc(problems, func(a, b problem) bool { return a == b })
	if len(problems) > 1 {
		problems = slices.DeleteFunc(problems, func(p problem) bool { return p.Reason == reasonStalled })
	}
	return problems
}

// ownedSlots returns how many slots have a master that has a Pod.
func ownedSlots(o *observed) int {
	owned := 0
	for _, m := range o.slotOwners() {
		owned += o.slots[m.ID].Len()
	}
	return owned
}

// nodes returns the nodes of the Pods for the status. For a silent node, the other nodes report its role and its master.
func nodes(o *observed) []v1.Node {
	var all []v1.Node
	for _, m := range o.Members {
		n := v1.Node{Pod: m.Name, ID: m.ID, IP: m.ip()}
		if m.answers() {
			at, tls := m.announced(), m.View.TLS
			if to := o.externalOf(m); to.IsName() && m.offers(to) {
				at = to
			}
			if at.IsName() || m.isElsewhere() {
				n.Address = net.JoinHostPort(at.IP, strconv.Itoa(at.ClientPort(tls != nil && tls.Cluster)))
			}
		}
		known := o.nodes[m.ID]
		switch {
		case known == nil:
		case known.Master:
			n.Role = v1.RoleMaster
		default:
			n.Role, n.Link = v1.RoleReplica, "down"
			if m.answers() && m.View.LinkUp {
				n.Link = "up"
			}
			if master := o.byID[known.MasterID]; master != nil {
				n.Master = master.Name
			}
		}
		all = append(all, n)
	}
	return all
}

// shards returns the masters with slots, sorted by their first slot.
func shards(o *observed) []v1.Shard {
	masters := o.slotOwners()
	slices.SortFunc(masters, func(a, b *member) int { return cmp.Compare(o.slots[a.ID][0].First, o.slots[b.ID][0].First) })
	var all []v1.Shard
	for _, m := range masters {
		shard := v1.Shard{Master: m.Name, Slots: o.slots[m.ID].String()}
		for _, r := range o.replicasOf(m) {
			shard.Replicas = append(shard.Replicas, r.Name)
		}
		all = append(all, shard)
	}
	return all
}

// operation returns the operation that the plan belongs to; nil if the cluster matches the spec. An operation ends when every policy is
// satisfied; it continues while a policy waits.
func operation(o *observed, p plan) *v1.Operation {
	if p.Step == "" {
		return nil
	}
	last := o.Object.Status.Operation
	current := &v1.Operation{Type: operationType(o, p, last), Step: p.progress()}
	if len(current.Step) > maxStep {
		current.Step = strings.ToValidUTF8(current.Step[:maxStep], "") + "…"
	}
	if last != nil && last.Type == current.Type {
		current.StartedAt = last.StartedAt
	} else {
		current.StartedAt = &metav1.Time{Time: o.Now.Truncate(time.Second)}
	}
	return current
}

// operationType returns the type of the current operation. last is the operation in the status; nil if there was none.
func operationType(o *observed, p plan, last *v1.Operation) string {
	known := map[string]bool{}
	for _, n := range o.Object.Status.Nodes {
		known[n.Pod] = true
	}
	added := slices.ContainsFunc(o.Members, func(m *member) bool { return !o.leaving(m) && !known[m.Name] })
	switch {
	case p.Policy == "restoreBackup":
		return opRestore
	case !o.Formed:
		return opForm
	case slices.ContainsFunc(o.Members, func(m *member) bool { return m.Ordinal >= int(*o.Object.Spec.Size) }):
		return opScaleIn
	case slices.ContainsFunc(o.Members, func(m *member) bool { return m.Outdated }):
		return opRoll
	case added && (last == nil || last.Type == opHeal):
		return opScaleOut
	case last != nil:
		return last.Type
	case len(directiveCommands(o)) > 0 || len(userCommands(o)) > 0 || p.switches() || p.announces():
		return opConfigure
	}
	return opHeal
}

// memberProblems returns the problems of the members and of the whole cluster. It leaves out problems that have not lasted long enough
// yet.
func memberProblems(o *observed) []problem {
	var all []problem
	if p := o.AccountProblem; p != nil && !slices.Contains(o.Problems, *p) {
		all = append(all, *p) // It may be why Pods are missing.
	}
	all = append(all, counted(o, o.memberProblem)...)
	all = append(all, counted(o, o.addressProblem)...)
	if p := o.hostnameProblem(); p != nil {
		all = append(all, *p)
	}
	if p := o.badCertificate(); p != nil {
		all = append(all, *p)
	}
	if o.Rejection != "" {
		all = append(all, problem{reasonRejected, o.Rejection})
	}
	if o.GrowthRefused != nil && len(toGrow(o)) > 0 {
		all = append(all, *o.GrowthRefused)
	}
	all = append(all, rejectionProblems(o)...)
	all = append(all, userProblems(o)...)
	if o.FunctionsDifferFor.Duration > differTooLong {
		all = append(all, problem{reasonFunctions, o.functionDifference()})
	}
	all = append(all, o.moveProblems()...)
	if o.Failure != nil && (o.Failure.Reason != reasonFailing || o.FailingFor.Duration > failingTooLong) {
		all = append(all, *o.Failure)
	}
	return all
}

// counted returns the problems of the members. Of several that differ only in the name of the member, it returns the first one, and says
// how many others have it.
func counted(o *observed, problemOf func(*member) *problem) []problem {
	var found []problem
	others := map[problem]int{} // how many members have a problem, by the problem without the name
	index := map[problem]int{}
	for _, m := range o.Members {
		p := problemOf(m)
		if p == nil {
			continue
		}
		nameless := problem{p.Reason, strings.ReplaceAll(p.Message, m.Name, "")}
		if _, again := index[nameless]; again {
			others[nameless]++
			continue
		}
		index[nameless] = len(found)
		found = append(found, *p)
	}
	for nameless, n := range others {
		found[index[nameless]].Message += fmt.Sprintf(" (and %d more Pods)", n)
	}
	return found
}

// memberProblem returns the most important problem of a member, or nil.
func (o *observed) memberProblem(m *member) *problem {
	found := func(reason, format string, args ...any) *problem {
		return &problem{reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case o.tlsProblem(m) != nil:
		return o.tlsProblem(m)
	case m.Refused:
		return found(reasonPassword, "%s: %s. Nothing is changed until it takes what %s says", m.Name, m.WhySilent, o.passwordSource(m))
	case m.answers() && o.writeError(m) != "":
		return found(reasonNotWritten, "%s cannot keep what is written to it: %s", m.Name, o.writeError(m))
	case o.uniqueData(m) != "" && !o.mayHaveKeys(m):
		return found(reasonHeldBack, "%s is a master without slots, but has %s: it is not made a replica. Delete the Pod to give them up",
			m.Name, o.uniqueData(m))
	case m.answers() && m.UnreadyFor.Duration > silentTooLong && !o.leaving(m) && m.View.StateOK && (m.View.Master || m.View.LinkUp):
		return found(reasonNotReady, "%s has not been ready for more than %s, although its node reports no problem: see the events of the Pod",
			m.Name, silentTooLong)
	case m.answers() || o.leaving(m):
		return nil
	case m.Pod != nil && notStarting(m.Pod):
		return found(reasonNotStarting, "%s does not start: %s", m.Name, waitingFor(m.Pod))
	case m.SilentFor.Duration > silentTooLong && m.WhySilent != "":
		return found(reasonSilent, "%s has not answered for more than %s: %s", m.Name, silentTooLong, m.WhySilent)
	}
	return nil
}

// writeError returns why a member that answers may lose writes, or refuses them; "" if it does neither. After a failed snapshot, Redis
// refuses writes only if spec.config has save points: a snapshot that a client or a backup asked for does not count.
func (o *observed) writeError(m *member) string {
	config := o.Object.Spec.Config
	if m.View.WriteError == "" && redisnode.Value(string(config["save"])) != "" && config["stop-writes-on-bgsave-error"] != "no" {
		return m.View.SaveError
	}
	return m.View.WriteError
}

// passwordSource returns the place of the password with which the operator logs in to a member.
func (o *observed) passwordSource(m *member) string {
	if manifest.HasAccount(m.Pod) {
		return "Secret " + manifest.AccountRef(o.Object).Name
	}
	return "spec.authSecretRef"
}

// mayHaveKeys returns whether a master without slots may have keys: slots are being moved, or it is about to get
// some.
func (o *observed) mayHaveKeys(m *member) bool {
	return len(m.self().Importing) > 0 || slices.Contains(o.intendedMasters(), m) ||
		slices.ContainsFunc(o.answering(), func(other *member) bool { return len(other.self().Migrating) > 0 })
}

// setConditions sets the conditions of status, whose other fields are set.
func setConditions(o *observed, p plan, problems []problem, status *v1.RedisClusterStatus) {
	c := report.Conditions{List: &status.Conditions, Generation: o.Object.Generation, Now: o.Now}
	summary := fmt.Sprintf("Pods: %d, masters: %d, slots: %d", status.Size, status.Masters, status.SlotsAssigned)
	op := status.Operation
	switch {
	case len(problems) > 0:
		c.Set(glassback.ConditionReady, false, problems[0].Reason, joinMessages(problems))
		c.Set(glassback.ConditionDegraded, true, problems[0].Reason, joinMessages(problems))
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
	switch {
	case !o.Formed && o.unassigned().Len() > 0:
		c.Set(v1.ConditionClusterFormed, false, reasonForming, "The cluster is being formed")
	case len(o.groups()) > 1:
		c.Set(v1.ConditionClusterFormed, false, reasonDivided, "Not all nodes know each other")
	case len(o.answering()) > 0:
		c.Set(v1.ConditionClusterFormed, true, reasonFormed, "All nodes that answer know each other")
	}
	switch message := uncovered(o); {
	case message != "" && !o.Formed:
		c.Set(v1.ConditionSlotsCovered, false, reasonForming, message) // It is no fault: no alert sees it.
	case message != "":
		c.Set(v1.ConditionSlotsCovered, false, reasonUncovered, message)
	default:
		c.Set(v1.ConditionSlotsCovered, true, reasonCovered, "All slots have a master that answers")
	}
	if status.Backup != nil {
		ok, reason, message := backedUp(o, p, status.Backup)
		c.Set(v1.ConditionBackedUp, ok, reason, message)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1.ConditionBackedUp)
	}
	// DataLoss stays True while nothing newer is known.
	if p.Loss != nil {
		c.Set(v1.ConditionDataLoss, true, reasonDataLoss, p.Loss.message())
	} else if ownedSlots(o) == redisnode.SlotCount || meta.FindStatusCondition(status.Conditions, v1.ConditionDataLoss) == nil {
		c.Set(v1.ConditionDataLoss, false, reasonNoLoss, "No slot has lost what it held")
	}
}

// uncovered returns which slots clients cannot use; "" if they can use all.
func uncovered(o *observed) string {
	var covered redisnode.Slots
	for _, m := range o.slotOwners() {
		if m.answers() {
			covered = covered.Union(o.slots[m.ID])
		}
	}
	if missing := redisnode.AllSlots().Without(covered); missing.Len() > 0 {
		return fmt.Sprintf("%d slots have no master that answers: %s", missing.Len(), missing)
	}
	for _, m := range o.answering() {
		if !m.View.StateOK && !o.leaving(m) && !m.isBlank() {
			return fmt.Sprintf("The cluster cannot be used by the account of %s", m.Name)
		}
	}
	return ""
}

func joinMessages(problems []problem) string {
	messages := make([]string, len(problems))
	for i, p := range problems {
		messages[i] = p.Message
	}
	return strings.Join(messages, "; ")
}

// withoutTexts returns a status without its texts and shards. A change of these alone is written at most once in textEvery.
func withoutTexts(status v1.RedisClusterStatus) v1.RedisClusterStatus {
	if status.Operation != nil {
		status.Operation = &v1.Operation{Type: status.Operation.Type}
	}
	status.Shards = nil // They change with every move of slots.
	status.Conditions = report.WithoutMessages(status.Conditions)
	return status
}
