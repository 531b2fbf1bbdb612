// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const testInstance = "i-0123456789abcdefghijkl"

// settledECS returns an object with defaults whose instance has the desired state.
func settledECS() *v1alpha1.ECSInstance {
	ecs := &v1alpha1.ECSInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "vm", UID: "0a1b2c3d-0000-4000-8000-000000000001", Generation: 1, ResourceVersion: "7",
			Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.ECSInstanceSpec{
			RegionID: "cn-beijing", InstanceType: "ecs.g6.large", ImageID: "a.vhd", InstanceName: "vm", Tags: map[string]string{"team": "a"},
			SecurityGroupIDs: []string{"sg-b", "sg-a"},
		},
		Status: v1alpha1.ECSInstanceStatus{
			ObservedGeneration: 1, InstanceID: testInstance, AccountID: testAccount, State: "Running", TagKeys: []string{"team"},
			Create: &v1alpha1.Create{
				Attempt: 1, Token: "0a1b2c3d-0000-4000-8000-000000000001-1", RegionID: "cn-beijing", Parameters: "p",
				RequestedTime: metav1.NewTime(t0.Add(-time.Hour)),
			},
			Conditions: []metav1.Condition{{Type: glassback.ConditionReady, Status: metav1.ConditionTrue, Reason: "Running"}},
		},
	}
	ecs.Default()
	return ecs
}

// seen is what observe returned for settledECS a second ago.
func seen() *Observed {
	ecs := settledECS()
	return &Observed{
		Object: ecs, Now: t0, Account: testAccount, ID: testInstance, PolledAt: t0.Add(-time.Second), AnsweredAt: t0.Add(-time.Second),
		Instance: &aliyun.Instance{
			ID: testInstance, Name: "vm", State: aliyun.StateRunning, Type: "ecs.g6.large", ImageID: "a.vhd", ChargeType: "PostPaid",
			ZoneID: "cn-beijing-a", SecurityGroupIDs: []string{"sg-a", "sg-b"},
			Tags: map[string]string{"team": "a", "foreign": "x", v1alpha1.TagUID: string(ecs.UID), v1alpha1.TagObject: "default/vm"},
		},
	}
}

// decision has the parts of a plan that a test expects.
type decision struct {
	step            *step
	reason          string // of the problem if it is one
	problem         bool
	stalled, ready  bool
	keepsConditions bool
	polls           bool // sooner than usual
	says            string
}

// compare fails the test if decide returns another plan, or if decide or the status change what was observed.
func (d decision) compare(t *testing.T, is other) {
	t.Helper()
	o, was := seen(), seen()
	is(o)
	is(was)
	p := decide(o)
	if statusOf(p, newOutcome(o, p)); !reflect.DeepEqual(o, was) {
		t.Errorf("what is observed was %+v, and is %+v", was, o)
	}
	got := decision{
		step: p.Step, reason: p.Reason, ready: p.Ready, keepsConditions: p.KeepsConditions, polls: p.Poll.Duration > 0,
		says: p.Message + strings.Join(p.Drift, "; "),
	}
	if p.Problem != nil {
		got.problem, got.reason, got.stalled, got.says = true, p.Problem.Reason, p.Problem.Stalled, p.Problem.Message
	}
	if got.keepsConditions {
		got.reason, got.says = "", d.says
	}
	if !strings.Contains(got.says, d.says) {
		t.Errorf("it says %q, and not %q", got.says, d.says)
	}
	if got.says = d.says; got != d {
		t.Errorf("it is %+v, want %+v\n(%+v)", got, d, p)
	}
}

// saying is the same decision, with these words in its message.
func (d decision) saying(words string) decision {
	d.says = words
	return d
}

var (
	isRunning  = decision{ready: true, reason: "Running"}
	pollsAgain = decision{keepsConditions: true, polls: true}
)

func does(s *step, reason string) decision { return decision{step: s, reason: reason} }

func silently(s *step) decision { return decision{step: s, keepsConditions: true} }

func waits(reason string) decision { return decision{polls: true, reason: reason} }

func heldUpBy(reason string) decision { return decision{problem: true, reason: reason} }

func stalledBy(reason string) decision { return decision{problem: true, stalled: true, reason: reason} }

// The ways in which things are other than in seen.
type other = func(*Observed)

func all(changes ...other) other {
	return func(o *Observed) {
		for _, c := range changes {
			c(o)
		}
	}
}

var (
	deleted   = func(o *Observed) { o.Object.DeletionTimestamp = ptr.To(metav1.NewTime(t0)) }
	unseenYet = func(o *Observed) { o.PolledAt, o.Instance = time.Time{}, nil } // The instance was not polled yet.
	absentYet = all(unseenYet, func(o *Observed) { o.ID, o.Object.Status.InstanceID, o.Object.Status.Create = "", "", nil })
	// The first call had no answer, and its result is not known.
	unanswered = all(unseenYet, func(o *Observed) { o.ID, o.Object.Status.InstanceID = "", "" })
	// The status says that no call has made an instance.
	unbound = func(o *Observed) { o.Object.Status.AccountID = "" }
	// ECS accepted a call to delete the instance.
	deleteAccepted = func(o *Observed) { o.Memory.DeleteAccepted = true }
	// No poll has found the instance yet.
	neverSeen = func(o *Observed) { o.Object.Status.State = "" }
	// ECS has answered the last call with a no.
	rejected = func(o *Observed) { o.Memory.RejectedToken = o.Object.Status.Create.Token }
	// ECS no longer accepts the token of the last call.
	deadToken = func(o *Observed) { o.Memory.DeadToken = o.Object.Status.Create.Token }
	// The status has the ID of the instance.
	noted = func(o *Observed) { o.Object.Status.InstanceID = testInstance }
	// The status has the token of a call that was never made.
	onlyNoted = func(o *Observed) { o.Object.Status.Create.Parameters = "" }

	unowned      = func(o *Observed) { delete(o.Instance.Tags, v1alpha1.TagUID) }
	elsewhereNow = func(o *Observed) { o.Account = otherAccount }
	otherRegion  = func(o *Observed) { o.Object.Spec.RegionID = "cn-hangzhou" }
	otherName    = func(o *Observed) { o.Object.Spec.InstanceName = "other" }
	otherTag     = func(o *Observed) { o.Instance.Tags["team"] = "b" }
	resize       = func(o *Observed) { o.Object.Spec.InstanceType = "ecs.g6.xlarge" }
	retain       = func(o *Observed) { o.Object.Spec.DeletionPolicy = v1alpha1.DeletionRetain }
	recreate     = func(o *Observed) { o.Object.Spec.RecreatePolicy = v1alpha1.RecreateAlways }
)

func goneSince(d time.Duration) other {
	return func(o *Observed) { o.Instance, o.Memory.MissingSince = nil, o.PolledAt.Add(-d) }
}

// polled: ECS answered the last poll some time ago.
func polled(ago time.Duration) other {
	return func(o *Observed) { o.PolledAt, o.AnsweredAt = t0.Add(-ago-time.Second), t0.Add(-ago) }
}

func state(s aliyun.State) other { return func(o *Observed) { o.Instance.State = s } }

func power(s v1alpha1.PowerState) other { return func(o *Observed) { o.Object.Spec.PowerState = s } }

// toAdopt: the object names an instance that it has not taken over yet.
func toAdopt(o *Observed) {
	absentYet(o)
	o.Object.Spec.AdoptInstanceID, o.ID, o.PolledAt, o.Instance = testInstance, testInstance, seen().PolledAt, seen().Instance
	unowned(o)
}

func typeChange(p v1alpha1.TypeChangePolicy) other {
	return func(o *Observed) { o.Object.Spec.InstanceTypeChangePolicy = p }
}

func tried(what *step, times int, again time.Duration) other {
	return func(o *Observed) { o.Memory.Trial = trial{Step: what.name, Times: times, Again: t0.Add(again)} }
}

func failing(class aliyun.Class, lasting bool) other {
	return func(o *Observed) {
		s := snapshot{err: &aliyun.Error{Action: "DescribeInstances", Class: class, Message: "no"}, lasting: lasting}
		if s.trouble() != "" {
			o.PollProblem = problemOf(s.err, "Secret aliyun")
		}
	}
}

func notBefore(what *step) other {
	return func(o *Observed) {
		o.Memory.Backoff = backoff{
			Problem: &problem{Reason: reasonOutOfStock, Message: "none now"}, Step: what.name, Until: t0.Add(time.Minute),
			Generation: o.Object.Generation,
		}
	}
}

func TestDecideForLife(t *testing.T) {
	wide := func(o *Observed) { o.Object.Spec.InternetMaxBandwidthOut, o.Instance.Bandwidth = ptr.To[int32](5), 5 }
	addressed := func(o *Observed) { o.Instance.PublicIPs = []string{"1.2.3.4"} }
	for sentence, test := range map[string]struct {
		is   other
		want decision
	}{
		"nothing differs":                     {all(), isRunning.saying("is Running")},
		"there is no finalizer":               {func(o *Observed) { o.Object.Finalizers = []string{"other"} }, silently(stepFinalize)},
		"there is no instance":                {absentYet, does(stepCreate, reasonCreating)},
		"it is not known what came of a call": {unanswered, does(stepCreate, reasonCreating)},
		"something keeps it from being made":  {all(absentYet, notBefore(stepCreate)), heldUpBy(reasonOutOfStock).saying("none now")},
		"there are no credentials": {
			func(o *Observed) { o.AccountProblem = &problem{Reason: reasonSecretMissing, Stalled: true} },
			stalledBy(reasonSecretMissing),
		},
		"ECS is silent, and it was Ready": {func(o *Observed) {
			o.AccountProblem, o.Memory.UnreachableSince = &problem{Reason: reasonUnreachable, Passing: true}, t0
		}, decision{problem: true, keepsConditions: true}},
		"ECS has been silent for some time": {func(o *Observed) {
			o.AccountProblem, o.Memory.UnreachableSince = &problem{Reason: reasonUnreachable, Passing: true}, t0.Add(-unreachableAfter)
		}, heldUpBy(reasonUnreachable)},
		"the account is another one":              {elsewhereNow, stalledBy(reasonWrongAccount).saying(otherAccount)},
		"the account is, and nothing was made":    {all(unanswered, elsewhereNow, rejected), does(stepCreate, reasonCreating)},
		"the account is, by the status the same":  {all(unanswered, elsewhereNow, unbound), does(stepCreate, reasonCreating)},
		"it was not polled yet":                   {unseenYet, pollsAgain},
		"something was done since":                {func(o *Observed) { o.Memory.ChangedAt = t0 }, pollsAgain},
		"the last poll failed":                    {failing(aliyun.Transient, false), isRunning},
		"the last polls have failed for a while":  {failing(aliyun.Transient, true), heldUpBy(reasonUnreachable)},
		"the last poll was not allowed":           {failing(aliyun.Unauthorized, false), stalledBy(reasonForbidden)},
		"it is not there":                         {goneSince(time.Second), pollsAgain},
		"it is gone":                              {goneSince(settleAfter), stalledBy(reasonInstanceGone).saying("recreatePolicy: Always")},
		"it is gone, and another one wanted":      {all(goneSince(settleAfter), recreate), does(stepRecreate, reasonCreating)},
		"it is not there, and another one wanted": {all(goneSince(goneAfter), recreate), pollsAgain},
		"it was adopted, and is gone": {all(goneSince(settleAfter), func(o *Observed) {
			o.Object.Spec.AdoptInstanceID, o.Object.Status.Adopted = testInstance, true
		}), stalledBy(reasonInstanceGone).saying("delete this object")},
		"it is gone, and never was more than pending": {
			all(goneSince(settleAfter), func(o *Observed) { o.Object.Status.State = "Pending" }), does(stepRecreate, reasonCreating),
		},
		"it was never seen, just after it was made": {all(goneSince(settleAfter), func(o *Observed) {
			o.Object.Status.State, o.Object.Status.Create.RequestedTime = "", metav1.NewTime(t0.Add(-settleAfter))
		}), pollsAgain},
		"it was never seen, long after it was made": {all(goneSince(settleAfter), neverSeen), does(stepRecreate, reasonCreating)},
		"it is seen for the first time":             {neverSeen, decision{keepsConditions: true}},
		"it is another owner's":                     {unowned, stalledBy(reasonNotOwned)},
		"it is pending":                             {state(aliyun.StatePending), waits(reasonCreating)},
		"it is in an unknown state":                 {state("Hibernating"), waits(reasonWaiting)},
		"a tag differs":                             {otherTag, does(stepTag, reasonChanging)},
		"a tag is new: it is put down first":        {func(o *Observed) { o.Object.Spec.Tags["new"] = "b" }, decision{reason: reasonChanging}},
		"a tag is not wanted any more":              {func(o *Observed) { o.Object.Spec.Tags = nil }, does(stepUntag, reasonChanging)},
		"a tag without a value is missing": {
			func(o *Observed) {
				o.Object.Spec.Tags["empty"], o.Object.Status.TagKeys = "", []string{"empty", "team"}
			}, does(stepTag, reasonChanging),
		},
		"a tag is not wanted any more, and not there": {
			func(o *Observed) { o.Object.Spec.Tags = nil; delete(o.Instance.Tags, "team") }, isRunning,
		},
		"neither a name nor groups are wanted": {
			func(o *Observed) { o.Object.Spec.InstanceName, o.Object.Spec.SecurityGroupIDs = "", nil }, isRunning,
		},
		"the name differs": {otherName, does(stepModify, reasonChanging)},
		"the security groups differ": {
			func(o *Observed) { o.Object.Spec.SecurityGroupIDs = []string{"sg-a"} }, does(stepModify, reasonChanging),
		},
		"the type differs, with WhenStopped": {resize, isRunning.saying("powerState is Stopped")},
		"the type differs, with Never":       {all(resize, typeChange(v1alpha1.TypeChangeNever)), isRunning.saying("is Never")},
		"the type differs, with Restart": {
			all(resize, typeChange(v1alpha1.TypeChangeRestart)), does(stepStop, reasonChanging).saying("stopped"),
		},
		"the type differs, and it was stopped": {
			all(resize, typeChange(v1alpha1.TypeChangeRestart), state(aliyun.StateStopped)), does(stepSetType, reasonChanging),
		},
		"the type differs, and it is to be stopped": {
			all(resize, power(v1alpha1.PowerStopped), state(aliyun.StateStopped)), does(stepSetType, reasonChanging),
		},
		"the type differs, and it is to start": {all(resize, state(aliyun.StateStopped)), does(stepStart, reasonStarting)},
		"the type differs, and it is paid for": {all(resize, typeChange(v1alpha1.TypeChangeRestart), func(o *Observed) {
			o.Object.Spec.InstanceChargeType, o.Instance.ChargeType = v1alpha1.PrePaid, "PrePaid"
		}), isRunning.saying("PrePaid")},
		"it runs, and is to be stopped": {power(v1alpha1.PowerStopped), does(stepStop, reasonStopping)},
		"it is stopped, as it is to be": {
			all(power(v1alpha1.PowerStopped), state(aliyun.StateStopped)), decision{ready: true, reason: "Stopped"},
		},
		"it has no public IP, and is to run": {all(state(aliyun.StateStopped), wide), does(stepAllocate, reasonChanging)},
		"it has one":                         {all(state(aliyun.StateStopped), wide, addressed), does(stepStart, reasonStarting)},
		"it was asked for one, or ECS refused it": {all(state(aliyun.StateStopped), wide, func(o *Observed) {
			o.Memory.AddressUntil = t0.Add(time.Second)
		}), does(stepStart, reasonStarting)},
		"it runs without one": {wide, isRunning.saying("there is no public IP")},
		"it is locked, and is to run": {
			all(state(aliyun.StateStopped), func(o *Observed) { o.Instance.Locks = []string{"financial"} }),
			stalledBy(reasonInstanceLocked).saying("financial"),
		},
		"it is locked, and nothing differs": {func(o *Observed) { o.Instance.Locks = []string{"financial"} }, isRunning},
		"it was started just now":           {all(state(aliyun.StateStopped), tried(stepStart, 1, time.Second)), waits(reasonStarting)},
		"it was started again and again": {
			all(state(aliyun.StateStopped), tried(stepStart, maxTrials, time.Second)),
			decision{polls: true, problem: true, reason: reasonNoEffect, says: "start"},
		},
		"it is to be adopted, and has no owner": {toAdopt, does(stepAdopt, reasonAdopting)},
		"it is to be adopted, and was put down": {all(toAdopt, noted), does(stepTag, reasonAdopting)},
		"it is to be adopted, and was tagged": {
			all(toAdopt, func(o *Observed) { o.Instance.Tags[v1alpha1.TagUID] = string(o.Object.UID) }),
			does(stepAdopt, reasonAdopting),
		},
		"it is to be adopted, and is another's": {
			all(toAdopt, func(o *Observed) { o.Instance.Tags[v1alpha1.TagUID] = "other" }), stalledBy(reasonNotOwned),
		},
		"it is to be adopted, and is not there": {all(toAdopt, func(o *Observed) { o.Instance = nil }), stalledBy(reasonNotFound)},
		"it is to be adopted, and was not seen": {all(toAdopt, unseenYet), pollsAgain},
		"the region of the spec is another one": {otherRegion, isRunning.saying("regionID")},
		"tags come first, then the rest":        {all(otherTag, otherName, power(v1alpha1.PowerStopped)), does(stepTag, reasonChanging)},
		"nothing is asked of one in transition": {all(state(aliyun.StateStopping), otherTag), waits(reasonStopping)},
		"a backoff does not delay a poll":       {all(goneSince(time.Second), notBefore(stepCreate)), pollsAgain},
	} {
		t.Run(sentence, func(t *testing.T) { test.want.compare(t, test.is) })
	}
}

func TestDecideForDeath(t *testing.T) {
	for sentence, test := range map[string]struct {
		is   other
		want decision
	}{
		"nothing was ever made": {absentYet, silently(stepRelease)},
		"nothing was made, without credentials": {
			all(absentYet, func(o *Observed) { o.AccountProblem = &problem{Reason: reasonSecretMissing} }),
			silently(stepRelease),
		},
		"every call was answered with a no: look it up once more": {all(unanswered, rejected), silently(stepVerifyGone)},
		"every call was, and no lookup is possible any more": {all(unanswered, func(o *Observed) {
			o.Memory.RejectedToken, o.AccountProblem = o.Object.Status.Create.Token, &problem{Reason: reasonRefused}
		}), silently(stepRelease)},
		"it is seen for the first time":                {neverSeen, decision{keepsConditions: true}},
		"an attempt was only put down":                 {all(unanswered, onlyNoted), silently(stepRelease)},
		"it is not known what came of a call":          {unanswered, does(stepFindAttempt, reasonSettling)},
		"it is not known, and the account other":       {all(unanswered, elsewhereNow), stalledBy(reasonWrongAccount)},
		"so it was, by the status, in another account": {all(unanswered, elsewhereNow, unbound), silently(stepVerifyGone)},
		"an earlier call is not known to be a no": {
			all(unanswered, func(o *Observed) { o.Memory.RejectedToken = "another token" }), does(stepFindAttempt, reasonSettling),
		},
		"there are no credentials": {
			func(o *Observed) { o.AccountProblem = &problem{Reason: reasonRefused, Stalled: true} }, stalledBy(reasonRefused),
		},
		"it was not polled yet":                    {unseenYet, pollsAgain},
		"it was deleted since":                     {func(o *Observed) { o.Memory.ChangedAt = t0 }, pollsAgain},
		"it was polled some time ago":              {polled(recentPoll + 1), pollsAgain},
		"it was polled just now":                   {polled(recentPoll), does(stepDelete, reasonDeleting)},
		"it was polled some time ago, and is kept": {all(retain, polled(recentPoll+1)), pollsAgain},
		"it was polled some time ago, and a backoff lasts": {
			all(polled(recentPoll+1), notBefore(stepDelete)), heldUpBy(reasonOutOfStock),
		},
		"it was polled some time ago, and is another owner's": {all(unowned, polled(recentPoll+1)), stalledBy(reasonNotOwned)},
		"it is not there":                          {goneSince(time.Second), waits(reasonDeleting)},
		"it is not there, and polls fail since":    {all(goneSince(time.Hour), failing(aliyun.BadCredentials, false)), stalledBy(reasonRefused)},
		"it is gone":                               {all(goneSince(goneAfter), deleteAccepted), silently(stepVerifyGone)},
		"it is gone, and was not deleted":          {goneSince(settleAfter - time.Second), waits(reasonDeleting)},
		"it is gone for long, and was not deleted": {goneSince(settleAfter), silently(stepVerifyGone)},
		"it is gone, and was never seen": {all(goneSince(time.Hour), func(o *Observed) {
			o.Object.Status.State, o.Object.Status.Create.RequestedTime = "", metav1.NewTime(t0.Add(-settleAfter/2))
		}), waits(reasonDeleting)},
		"it is another owner's":                    {unowned, stalledBy(reasonNotOwned)},
		"it is another owner's, and is to be kept": {all(unowned, retain), silently(stepVerifyGone)},
		"it was to be adopted, and is another's":   {all(toAdopt, noted), silently(stepVerifyGone)},
		"it was to be adopted, and is tagged": {
			all(toAdopt, func(o *Observed) { o.Object.Status.InstanceID, o.Instance = testInstance, seen().Instance }),
			does(stepUntag, reasonDeleting),
		},
		"it was to be adopted, and nothing done": {toAdopt, silently(stepRelease)},
		"it is to be kept":                       {retain, does(stepUntag, reasonDeleting).saying("it stays")},
		"it is pending":                          {state(aliyun.StatePending), waits(reasonCreating)},
		"it is stopping":                         {state(aliyun.StateStopping), waits(reasonStopping)},
		"all differs, which is no matter": {
			all(resize, typeChange(v1alpha1.TypeChangeRestart), power(v1alpha1.PowerStopped)),
			does(stepDelete, reasonDeleting),
		},
		"it was deleted just now":     {tried(stepDelete, 1, time.Second), waits(reasonDeleting)},
		"ECS does not let it go":      {notBefore(stepDelete), heldUpBy(reasonOutOfStock)},
		"a backoff of its creation":   {notBefore(stepCreate), does(stepDelete, reasonDeleting)},
		"recreatePolicy is no matter": {all(goneSince(settleAfter), recreate), silently(stepVerifyGone)},
	} {
		t.Run(sentence, func(t *testing.T) { test.want.compare(t, all(deleted, test.is)) })
	}
}

// TestNothingIsDoneInAnotherAccount: whatever else there is to see.
func TestNothingIsDoneInAnotherAccount(t *testing.T) {
	for sentence, is := range map[string]other{
		"nothing differs": all(), "it is gone": all(goneSince(time.Hour), recreate), "it is not known what came of a call": unanswered,
		"it is not there any more": goneSince(time.Hour), "it is to be kept": retain, "it is stopped": state(aliyun.StateStopped),
		"it is another owner's":                    unowned,
		"tags differ":                              func(o *Observed) { o.Object.Spec.Tags = nil },
		"the type differs":                         all(resize, typeChange(v1alpha1.TypeChangeRestart)),
		"it is another owner's, and is to be kept": all(unowned, retain),
	} {
		for _, death := range []other{all(), deleted} {
			o := seen()
			all(is, elsewhereNow, death)(o)
			if p := decide(o); p.Step != nil || p.Problem == nil || p.Problem.Reason != reasonWrongAccount {
				t.Errorf("%s, deleted %t: %+v", sentence, o.Object.DeletionTimestamp != nil, p)
			}
		}
	}
}

// withIDs returns instances of which only the IDs are known, and for i-old that it is an hour old.
func withIDs(ids []string) []aliyun.Instance {
	var found []aliyun.Instance
	for _, id := range ids {
		found = append(found, aliyun.Instance{ID: id})
		if id == "i-old" {
			found[len(found)-1].CreationTime = t0.Add(-time.Hour)
		}
	}
	return found
}

func TestNextAttempt(t *testing.T) {
	const first, second = "0a1b2c3d-0000-4000-8000-000000000001-1", "0a1b2c3d-0000-4000-8000-000000000001-2"
	bornAt := func(at time.Time) other { return func(o *Observed) { o.Object.CreationTimestamp = metav1.NewTime(at) } }
	empty := func(d time.Duration) other { return func(o *Observed) { o.Memory.NothingFoundSince = t0.Add(-d) } }
	for sentence, test := range map[string]struct {
		is         other
		found      []string
		parameters string
		id, reason string
		token      string
		clean      bool // a refusal would prove that there is none
	}{
		"there was no attempt":                   {is: absentYet, parameters: "p", token: first, clean: true},
		"there was no attempt, and there is one": {is: absentYet, found: []string{"i-1"}, parameters: "p", id: "i-1"},
		"there is one that is older than the object": {
			is: all(absentYet, bornAt(t0)), found: []string{"i-old"}, parameters: "p", reason: reasonNotOwned,
		},
		"there is one that is younger": {
			is: all(absentYet, bornAt(t0.Add(-time.Hour))), found: []string{"i-old"}, parameters: "p", id: "i-old",
		},
		"there are two":  {is: unanswered, found: []string{"i-1", "i-2"}, parameters: "p", reason: reasonSurplus},
		"the same again": {is: unanswered, parameters: "p", token: first},
		"the same again, and nothing has shown": {
			is: all(unanswered, empty(settleAfter)), parameters: "p", token: first, clean: true,
		},
		"the same again, and by the status nothing was made": {
			is: all(unanswered, unbound), parameters: "p", token: first, clean: true,
		},
		"another one, and by the status nothing was made": {
			is: all(unanswered, unbound), parameters: "q", token: second, clean: true,
		},
		"the attempt was only put down":     {is: all(unanswered, onlyNoted), parameters: "q", token: first, clean: true},
		"another one, and nothing is known": {is: unanswered, parameters: "q", reason: reasonSettling},
		"another one, and nothing has shown for a moment": {
			is: all(unanswered, empty(settleAfter-time.Second)), parameters: "q", reason: reasonSettling,
		},
		"another one, and nothing has shown for long enough": {
			is: all(unanswered, empty(settleAfter)), parameters: "q", token: second, clean: true,
		},
		"another one, and ECS has said no": {is: all(unanswered, rejected), parameters: "q", token: second, clean: true},
		"another one, and one shows":       {is: all(unanswered, empty(time.Hour)), found: []string{"i-1"}, parameters: "q", id: "i-1"},
		"the token is dead":                {is: all(unanswered, deadToken), parameters: "p", reason: reasonSettling},
		"the token is dead, and nothing has shown": {
			is: all(unanswered, empty(settleAfter), deadToken), parameters: "p", token: second, clean: true,
		},
		"the region is another one": {is: all(unanswered, otherRegion), parameters: "p", reason: reasonSettling},
		"the region is another one, and nothing has shown": {
			is: all(unanswered, empty(settleAfter), otherRegion), parameters: "p", token: second, clean: true,
		},
		"the region is another one, and ECS has said no": {
			is: all(unanswered, rejected, otherRegion), parameters: "p", token: second, clean: true,
		},
		"none is wanted any more, and nothing is known":        {is: unanswered, reason: reasonSettling},
		"none is wanted any more, and nothing has shown since": {is: all(unanswered, empty(settleAfter)), token: second, clean: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := seen()
			test.is(o)
			v := nextAttempt(o, withIDs(test.found), test.parameters, t0)
			token, reason := "", ""
			if v.create != nil {
				token = v.create.Token
				if same := o.region() == o.Object.Spec.RegionID; (v.create.Parameters == test.parameters) != same && test.parameters != "" ||
					v.create.RegionID != o.Object.Spec.RegionID {
					t.Errorf("it is put down as %+v", v.create)
				}
			}
			if v.problem != nil {
				reason = v.problem.Reason
			}
			if v.id != test.id || reason != test.reason || token != test.token || v.clean != test.clean {
				t.Errorf("it is %q, %q, %q, %v", v.id, reason, token, v.clean)
			}
		})
	}
}

func TestLeftovers(t *testing.T) {
	for sentence, test := range map[string]struct {
		is     other
		found  []string
		reason string
	}{
		"none":                                 {all(), nil, ""},
		"the one that was deleted":             {all(), []string{testInstance}, reasonDeleting},
		"it and another one":                   {all(), []string{testInstance, "i-other"}, reasonSurplus},
		"the one that is kept":                 {retain, []string{testInstance}, ""},
		"the one that is kept and another one": {retain, []string{testInstance, "i-other"}, reasonSurplus},
	} {
		o := seen()
		test.is(o)
		if p := leftovers(o, withIDs(test.found)); (p == nil) != (test.reason == "") || (p != nil && p.Reason != test.reason) {
			t.Errorf("%s: it is %+v, want %q", sentence, p, test.reason)
		}
	}
}

func TestTrials(t *testing.T) {
	var m memory
	now := t0
	for n := range 12 {
		m.addTrial(stepStop.name, now)
		if gap, want := m.Trial.Again.Sub(now), min(minRepeat<<n, maxRepeat); gap != want {
			t.Errorf("after %d times it waits for %s, want %s", n+1, gap, want)
		}
		now = m.Trial.Again
	}
	for sentence, test := range map[string]struct {
		changedAt time.Time
		wants     string
		times     int
	}{
		"still wanted":                       {wants: stepStop.name, times: 12},
		"still wanted, and not seen":         {changedAt: t0, wants: stepStop.name, times: 12},
		"another change is wanted":           {wants: stepStart.name},
		"nothing is wanted any more":         {},
		"nothing is wanted, by a stale poll": {changedAt: t0, times: 12},
	} {
		o := seen()
		o.Memory.Trial, o.Memory.ChangedAt = m.Trial, test.changedAt
		if got := newOutcome(o, Plan{Wants: test.wants}).o.Memory.Trial.Times; got != test.times {
			t.Errorf("%s: %d trials are remembered, want %d", sentence, got, test.times)
		}
	}
	if m.addTrial(stepStart.name, now); m.Trial.Times != 1 || m.Trial.Step != stepStart.name {
		t.Errorf("of another change, %+v is remembered", m.Trial)
	}
}
