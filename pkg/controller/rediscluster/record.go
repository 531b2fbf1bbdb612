// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/redisnode"
)

// Decisions lets glassback replay decide again. It merges the views of the members again. It does not compute again which Pods are
// outdated, and which directives and users are to be set: they depend on texts that are not recorded.
var Decisions = recording.NewKind(kind.Kind, recordedPlan{}, restore, decide)

// recordedObserved is observed in a record, without what merge derives from the members.
type recordedObserved struct {
	Now                time.Time            `json:"now"`
	Object             *v1.RedisCluster     `json:"object"`
	Members            []recordedMember     `json:"members"`
	Formed             bool                 `json:"formed"`
	Problems           []problem            `json:"problems,omitempty"`
	UnassignedFor      metav1.Duration      `json:"unassignedFor,omitzero"`
	FunctionsDifferFor metav1.Duration      `json:"functionsDifferFor,omitzero"`
	NoFailoverFor      metav1.Duration      `json:"noFailoverFor,omitzero"`
	Failure            *problem             `json:"failure,omitempty"`
	FailingFor         metav1.Duration      `json:"failingFor,omitzero"`
	Rejection          string               `json:"rejection,omitempty"`
	AccountMissing     bool                 `json:"accountMissing,omitempty"`
	AccountProblem     *problem             `json:"accountProblem,omitempty"`
	MissingUser        string               `json:"missingUser,omitempty"`
	Certificate        *recordedCertificate `json:"certificate,omitempty"`
	GrowthRefusedAt    time.Time            `json:"growthRefusedAt,omitzero"`
	GrowthRefused      *problem             `json:"growthRefused,omitempty"`
	EvictionRefused    string               `json:"evictionRefused,omitempty"`
	ActedAt            time.Time            `json:"actedAt,omitzero"`
	Moves              map[int]failedMove   `json:"moves,omitempty"`
	Revisions          map[string]bool      `json:"revisions,omitempty"`
	Pods               int                  `json:"pods"`
	Uncounted          int                  `json:"uncounted"`
	Services           []*corev1.Service    `json:"services,omitempty"`
	Closed             bool                 `json:"closed,omitempty"`
	Jobs               []*job               `json:"jobs,omitempty"`
	BackupImage        string               `json:"backupImage,omitempty"`
	JobRejection       string               `json:"jobRejection,omitempty"`
	JobRejectedAt      time.Time            `json:"jobRejectedAt,omitzero"`
	JobFailure         string               `json:"jobFailure,omitempty"`
	// Nodes are those that were unknown or unreachable for some time, by their IDs.
	Nodes map[string]recordedNode `json:"nodes,omitempty"`
}

// recordedCertificate has the properties of the certificate in the Secret of spec.tls, but not the certificate itself.
type recordedCertificate struct {
	Fingerprint string    `json:"fingerprint,omitempty"`
	NotAfter    time.Time `json:"notAfter,omitzero"`
	Problem     *problem  `json:"problem,omitempty"`
}

// recordedMember is a member in a record.
type recordedMember struct {
	Name             string                        `json:"name"`
	Ordinal          int                           `json:"ordinal"`
	Pod              *corev1.Pod                   `json:"pod,omitempty"`
	Claim            *corev1.PersistentVolumeClaim `json:"claim,omitempty"`
	Taken            bool                          `json:"taken,omitempty"`
	View             *redisnode.View               `json:"view,omitempty"`
	WhySilent        string                        `json:"whySilent,omitempty"`
	Refused          bool                          `json:"refused,omitempty"`
	Untrusted        bool                          `json:"untrusted,omitempty"`
	SilentFor        metav1.Duration               `json:"silentFor,omitzero"`
	ID               string                        `json:"id,omitempty"`
	Outdated         bool                          `json:"outdated,omitempty"`
	Differs          bool                          `json:"differs,omitempty"`
	Pending          []string                      `json:"pending,omitempty"`
	TellsHostnames   bool                          `json:"tellsHostnames,omitempty"`
	PendingUsers     []string                      `json:"pendingUsers,omitempty"`
	StaleCertificate bool                          `json:"staleCertificate,omitempty"`
	StaleFor         metav1.Duration               `json:"staleFor,omitzero"`
	LoadedFor        metav1.Duration               `json:"loadedFor,omitzero"`
	LoadRefusal      string                        `json:"loadRefusal,omitempty"`
	UnreadyFor       metav1.Duration               `json:"unreadyFor,omitzero"`
	PromotedFor      metav1.Duration               `json:"promotedFor,omitzero"`
	UnlinkedFor      metav1.Duration               `json:"unlinkedFor,omitzero"`
	ReachedAt        string                        `json:"reachedAt,omitempty"`
	WhyUnreached     string                        `json:"whyUnreached,omitempty"`
	AddressMissedFor metav1.Duration               `json:"addressMissedFor,omitzero"`
	UnreachedFor     metav1.Duration               `json:"unreachedFor,omitzero"`
}

// recordedNode is what a session remembers of a node.
type recordedNode struct {
	UnknownFor     metav1.Duration `json:"unknownFor,omitzero"`
	UnreachableFor metav1.Duration `json:"unreachableFor,omitzero"`
	LossSeen       bool            `json:"lossSeen,omitempty"`
}

// recordedPlan is a plan in a record. Commands have the same text as in the log.
type recordedPlan struct {
	Policy          string          `json:"policy"`
	KeepStatus      bool            `json:"keepStatus,omitempty"`
	Step            string          `json:"step,omitempty"`
	EvictionRefused string          `json:"evictionRefused,omitempty"`
	Upkeep          []string        `json:"upkeep,omitempty"`
	Retries         int             `json:"retries,omitempty"`
	Commands        []string        `json:"commands,omitempty"`
	Wait            metav1.Duration `json:"wait"`
	ByJob           bool            `json:"byJob,omitempty"`
	Problems        []problem       `json:"problems,omitempty"`
	Loss            string          `json:"loss,omitempty"` // the message, with the slots and the token
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// Record implements recording.Observed.
func (o *observed) Record() any {
	r := recordedObserved{
		Now: o.now.UTC(), Object: o.rdc, Members: make([]recordedMember, 0, len(o.members)), Formed: o.formed,
		Problems: o.problems, Failure: o.failure, AccountProblem: o.accountProblem,
		UnassignedFor: duration(o.unassignedFor), FunctionsDifferFor: duration(o.functionsDifferFor),
		NoFailoverFor: duration(o.noFailoverFor), FailingFor: duration(o.failingFor),
		Rejection: o.rejection, AccountMissing: o.accountMissing, MissingUser: o.missingUser,
		GrowthRefused: o.growthRefused, GrowthRefusedAt: recording.Wall(o.now, o.growthRefusedAt),
		EvictionRefused: o.evictionRefused, ActedAt: recording.Wall(o.now, o.actedAt), Moves: o.moves, Revisions: o.revisions,
		Pods: o.pods, Uncounted: o.uncounted, Services: o.services, Nodes: map[string]recordedNode{},
		Closed: o.closed,
		Jobs:   o.jobs, BackupImage: o.backupImage, JobRejection: o.jobRejection, JobRejectedAt: recording.Wall(o.now, o.jobRejectedAt),
		JobFailure: o.jobFailure,
	}
	if c := o.certificate; c != nil {
		r.Certificate = &recordedCertificate{c.fingerprint, c.notAfter, c.problem}
	}
	for _, m := range o.members {
		r.Members = append(r.Members, recordedMember{
			m.name, m.ordinal, m.pod, m.claim, m.taken, m.view, m.whySilent, m.refused, m.untrusted,
			duration(m.silentFor), m.id, m.outdated, m.differs,
			m.pending, m.tellsHostnames, m.pendingUsers, m.staleCertificate, duration(m.staleFor), duration(m.loadedFor), m.loadRefusal,
			duration(m.unreadyFor), duration(m.promotedFor), duration(m.unlinkedFor),
			recordAddress(m.reachedAt), m.whyUnreached, duration(m.addressMissedFor), duration(m.unreachedFor),
		})
	}
	for id, n := range o.nodes {
		if known := (recordedNode{duration(n.unknownFor), duration(n.unreachableFor), n.lossSeen}); known != (recordedNode{}) {
			r.Nodes[id] = known
		}
	}
	return r
}

// Record implements recording.Plan.
func (p plan) Record(*observed) any {
	r := recordedPlan{
		Policy: p.policy, KeepStatus: p.keepStatus, Step: p.step, EvictionRefused: p.evictionRefused, Upkeep: textsOf(p.upkeep),
		Retries:  p.retries,
		Commands: textsOf(p.commands), Wait: duration(p.wait), ByJob: p.byJob, Problems: p.problems,
	}
	if p.loss != nil {
		r.Loss = p.loss.message()
	}
	return r
}

func textsOf(commands []command) []string {
	var texts []string
	for _, c := range commands {
		texts = append(texts, c.String())
	}
	return texts
}

func recordAddress(a address) string {
	if a == (address{}) {
		return ""
	}
	return a.String()
}

func restore(r *recordedObserved) *observed {
	o := &observed{
		rdc: r.Object, now: r.Now, formed: r.Formed, unassignedFor: r.UnassignedFor.Duration, functionsDifferFor: r.FunctionsDifferFor.Duration,
		noFailoverFor: r.NoFailoverFor.Duration, problems: r.Problems, failure: r.Failure, accountProblem: r.AccountProblem,
		failingFor: r.FailingFor.Duration, rejection: r.Rejection, accountMissing: r.AccountMissing,
		missingUser: r.MissingUser, growthRefused: r.GrowthRefused, growthRefusedAt: r.GrowthRefusedAt, evictionRefused: r.EvictionRefused,
		actedAt: r.ActedAt, moves: r.Moves,
		revisions: r.Revisions, pods: r.Pods, uncounted: r.Uncounted, services: r.Services,
		closed: r.Closed, jobs: r.Jobs, backupImage: r.BackupImage, jobRejection: r.JobRejection, jobRejectedAt: r.JobRejectedAt,
		jobFailure: r.JobFailure,
	}
	if c := r.Certificate; c != nil {
		o.certificate = &certificate{fingerprint: c.Fingerprint, notAfter: c.NotAfter, problem: c.Problem}
	}
	for _, m := range r.Members {
		o.members = append(o.members, &member{
			name: m.Name, ordinal: m.Ordinal, pod: m.Pod, claim: m.Claim, taken: m.Taken, view: m.View, whySilent: m.WhySilent, refused: m.Refused,
			untrusted:        m.Untrusted,
			staleCertificate: m.StaleCertificate, staleFor: m.StaleFor.Duration, loadedFor: m.LoadedFor.Duration, loadRefusal: m.LoadRefusal,
			silentFor: m.SilentFor.Duration, id: m.ID, outdated: m.Outdated, differs: m.Differs, pending: m.Pending,
			pendingUsers: m.PendingUsers, tellsHostnames: m.TellsHostnames,
			unreadyFor: m.UnreadyFor.Duration, promotedFor: m.PromotedFor.Duration, unlinkedFor: m.UnlinkedFor.Duration,
			reachedAt: addressIn(m.ReachedAt), whyUnreached: m.WhyUnreached, addressMissedFor: m.AddressMissedFor.Duration,
			unreachedFor: m.UnreachedFor.Duration,
		})
	}
	o.matchServices()
	o.merge()
	for id, known := range r.Nodes {
		if n := o.nodes[id]; n != nil {
			n.unknownFor, n.unreachableFor, n.lossSeen = known.UnknownFor.Duration, known.UnreachableFor.Duration, known.LossSeen
		}
	}
	return o
}
