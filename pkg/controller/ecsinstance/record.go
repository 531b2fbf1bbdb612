// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/recording"
)

// Decisions lets the command glassback replay call decide again. A record holds tokens instead of tag values: decide compares the tokens of
// the spec with those of the instance.
var Decisions = recording.NewKind("ECSInstance", recordedPlan{}, restore, decide)

// recordedObserved is the form of observed in a record. recording.Wall converts the times of this process.
type recordedObserved struct {
	Now    time.Time             `json:"now"`
	Object *v1alpha1.ECSInstance `json:"object"`
	Memory recordedMemory        `json:"memory"`

	Credentials    *secretState     `json:"credentials,omitempty"`
	UserData       *secretState     `json:"userData,omitempty"`
	Account        string           `json:"account,omitempty"`
	AccountProblem *recordedProblem `json:"accountProblem,omitempty"`

	ID          string           `json:"id,omitempty"`
	PolledAt    time.Time        `json:"lookedAt,omitzero"`
	AnsweredAt  time.Time        `json:"answeredAt,omitzero"`
	Instance    *aliyun.Instance `json:"instance,omitempty"`
	PollProblem *recordedProblem `json:"lookProblem,omitempty"`
}

// recordedMemory is a memory.
type recordedMemory struct {
	ChangedAt         time.Time       `json:"changedAt,omitzero"`
	Trial             recordedTrial   `json:"trial,omitzero"`
	MissingSince      time.Time       `json:"missingSince,omitzero"`
	UnreachableSince  time.Time       `json:"unreachableSince,omitzero"`
	UntaggedSince     time.Time       `json:"untaggedSince,omitzero"`
	DeleteAccepted    bool            `json:"deleteAccepted,omitempty"`
	LastCall          call            `json:"lastCall,omitzero"`
	RejectedToken     string          `json:"rejectedToken,omitempty"`
	NothingFoundSince time.Time       `json:"nothingFoundSince,omitzero"`
	DeadToken         string          `json:"deadToken,omitempty"`
	Backoff           recordedBackoff `json:"hold,omitzero"`
	AddressUntil      time.Time       `json:"addressUntil,omitzero"`
}

type recordedTrial struct {
	Step  step      `json:"step"`
	Times int       `json:"times"`
	Again time.Time `json:"again"`
}

type recordedBackoff struct {
	Problem    *recordedProblem `json:"problem"`
	Step       step             `json:"step"`
	Until      time.Time        `json:"until"`
	Generation int64            `json:"generation"`
}

// recordedProblem is a problem.
type recordedProblem struct {
	Reason  string          `json:"reason"`
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"`
	Wait    metav1.Duration `json:"wait,omitzero"`
	Stalled bool            `json:"stalled,omitempty"`
	Passing bool            `json:"passing,omitempty"`
}

// recordedPlan is a plan in a record.
type recordedPlan struct {
	Policy          string            `json:"policy"`
	Step            step              `json:"step,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
	Keys            []string          `json:"keys,omitempty"`
	Change          *aliyun.Change    `json:"change,omitempty"`
	Problem         *recordedProblem  `json:"problem,omitempty"`
	Reason          string            `json:"reason,omitempty"`
	Message         string            `json:"message,omitempty"`
	Ready           bool              `json:"ready,omitempty"`
	Drift           []string          `json:"drift,omitempty"`
	KeepsConditions bool              `json:"silent,omitempty"`
	Wants           step              `json:"wants,omitempty"`
	Gone            bool              `json:"gone,omitempty"`
	Wait            metav1.Duration   `json:"wait,omitzero"`
	Poll            metav1.Duration   `json:"look,omitzero"`
}

// Record implements recording.Observed.
func (o *observed) Record() any {
	wall := func(t time.Time) time.Time { return recording.Wall(o.now, t) }
	m := &o.memory
	return recordedObserved{
		Now: o.now.UTC(), Object: o.ecs, Credentials: o.credentials, UserData: o.userData,
		Account: o.account, AccountProblem: recordProblem(o.accountProblem), ID: o.id,
		PolledAt: wall(o.polledAt), AnsweredAt: wall(o.answeredAt), Instance: o.instance, PollProblem: recordProblem(o.pollProblem),
		Memory: recordedMemory{
			wall(m.changedAt), recordedTrial{m.trial.step, m.trial.times, wall(m.trial.again)}, wall(m.missingSince), wall(m.unreachableSince),
			wall(m.untaggedSince), m.deleteAccepted, m.lastCall, m.rejectedToken, wall(m.nothingFoundSince), m.deadToken,
			recordedBackoff{recordProblem(m.backoff.problem), m.backoff.step, wall(m.backoff.until), m.backoff.generation},
			wall(m.addressUntil),
		},
	}
}

// Record implements recording.Plan.
func (p plan) Record(*observed) any {
	r := recordedPlan{
		Policy: p.policy, Step: p.step, Tags: p.tags, Keys: p.keys, Problem: recordProblem(p.problem), Reason: p.reason, Message: p.message,
		Ready: p.ready, Drift: p.drift, KeepsConditions: p.keepsConditions, Wants: p.wants, Gone: p.gone,
		Wait: metav1.Duration{Duration: p.wait}, Poll: metav1.Duration{Duration: p.poll},
	}
	if p.change.Name != nil || p.change.SecurityGroupIDs != nil {
		r.Change = &p.change
	}
	return r
}

func recordProblem(p *problem) *recordedProblem {
	if p == nil {
		return nil
	}
	return &recordedProblem{p.reason, p.message, p.code, metav1.Duration{Duration: p.wait}, p.stalled, p.passing}
}

func restore(r *recordedObserved) *observed {
	m := &r.Memory
	return &observed{
		ecs: r.Object, now: r.Now, credentials: r.Credentials, userData: r.UserData, account: r.Account,
		accountProblem: r.AccountProblem.restore(), id: r.ID, polledAt: r.PolledAt, answeredAt: r.AnsweredAt,
		instance: r.Instance, pollProblem: r.PollProblem.restore(),
		memory: memory{
			m.ChangedAt, trial{m.Trial.Step, m.Trial.Times, m.Trial.Again}, m.MissingSince, m.UnreachableSince, m.UntaggedSince,
			m.DeleteAccepted, m.LastCall, m.RejectedToken, m.NothingFoundSince, m.DeadToken,
			backoff{m.Backoff.Problem.restore(), m.Backoff.Step, m.Backoff.Until, m.Backoff.Generation},
			m.AddressUntil,
		},
	}
}

func (r *recordedProblem) restore() *problem {
	if r == nil {
		return nil
	}
	return &problem{r.Reason, r.Message, r.Code, r.Wait.Duration, r.Stalled, r.Passing}
}
