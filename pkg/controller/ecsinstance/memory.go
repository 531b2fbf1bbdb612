// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// session holds what the controller keeps of one ECSInstance between its syncs. The workqueue runs one sync of an object at a time, so only
// the map needs a lock. A session may be lost at any time: it saves calls and time, and no promise depends on it.
type session struct {
	uid    types.UID
	memory memory

	// access holds the credentials and the region of the last sync, and watched the instance that their fleet polls, "" for none.
	access  fleetKey
	watched string
	// backoffAccess is the value of access when the backoff of the memory began.
	backoffAccess fleetKey
	// key is the last access key that the Secret held.
	key aliyun.AccessKey
	// userData is the script for an instance to create. It may be secret.
	userData []byte
}

// sessionOf returns the session of an ECSInstance. A new object of the same name gets a new one, which knows what the old one polls.
func (c *Controller) sessionOf(ecs *v1alpha1.ECSInstance) *session {
	found, _ := c.sessions.LoadOrStore(cache.MetaObjectToName(ecs), &session{uid: ecs.UID})
	s := found.(*session)
	if s.uid != ecs.UID {
		*s = session{uid: ecs.UID, access: s.access, watched: s.watched}
	}
	return s
}

// memory holds what the syncs of one ECSInstance remember. A sync copies it into Observed; act returns the next one in its outcome.
type memory struct {
	// ChangedAt is the time of the last call that changes the instance. Earlier polls are stale.
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// Trial is the change that was requested and does not show yet.
	Trial trial `json:"trial,omitzero"`

	// MissingSince, UnreachableSince and UntaggedSince are the times when these states began, zero if they do not hold now: polls do not show
	// the instance; a passing problem prevents access to ECS; the instance has none of the tags that left the spec.
	MissingSince     time.Time `json:"missingSince,omitzero"`
	UnreachableSince time.Time `json:"unreachableSince,omitzero"`
	UntaggedSince    time.Time `json:"untaggedSince,omitzero"`

	// DeleteAccepted reports that ECS accepted a call to delete the instance.
	DeleteAccepted bool `json:"deleteAccepted,omitempty"`

	// LastCall is the last call to create in the status. The next two fields cover only the calls up to it: another operator may have made a
	// later call.
	LastCall call `json:"lastCall,omitzero"`
	// RejectedToken is a token with which no call created an instance: ECS rejected every call, or lookups found no instance until the attempt
	// was settled.
	RejectedToken string `json:"rejectedToken,omitempty"`
	// NothingFoundSince is the time of the first lookup after LastCall that found no instance, zero for none.
	NothingFoundSince time.Time `json:"nothingFoundSince,omitzero"`
	// DeadToken is a token that ECS no longer accepts.
	DeadToken string `json:"deadToken,omitempty"`

	Backoff backoff `json:"hold,omitzero"`
	// AddressUntil is until when the operator does not request the public IP again: it was requested, or ECS has refused it.
	AddressUntil time.Time `json:"addressUntil,omitzero"`
}

// call identifies a call to create.
type call struct {
	Token string `json:"token"`
	At    int64  `json:"at"` // the time in the status, in seconds since 1970
}

func callOf(create *v1alpha1.Create) call {
	if create == nil {
		return call{}
	}
	return call{create.Token, create.RequestedTime.Unix()}
}

// trial counts how often a change was requested.
type trial struct {
	Step  string    `json:"step"` // its name
	Times int       `json:"times"`
	Again time.Time `json:"again"` // the earliest time of the next request
}

// backoff delays the retry of a step that failed. It ends early with a change of the spec or of the credentials.
type backoff struct {
	Problem    *problem  `json:"problem"` // why the step failed, nil for no backoff
	Step       string    `json:"step"`    // its name
	Until      time.Time `json:"until"`
	Generation int64     `json:"generation"`
}

// active reports whether the backoff applies to a generation of the object at a time.
func (b backoff) active(generation int64, now time.Time) bool {
	return b.Problem != nil && b.Generation == generation && now.Before(b.Until)
}

// A change that does not show is requested again after minRepeat, then twice as long each time, up to maxRepeat.
const (
	minRepeat = 10 * time.Second
	maxRepeat = 5 * time.Minute
)

// addTrial records that a change was requested.
func (m *memory) addTrial(change string, now time.Time) {
	m.keepTrial(change)
	m.Trial.Step, m.Trial.Again = change, now.Add(min(minRepeat<<min(m.Trial.Times, 10), maxRepeat))
	m.Trial.Times++
}

// keepTrial forgets the trial unless its change is still wanted. An unwanted change shows already, or left the spec.
func (m *memory) keepTrial(wanted string) {
	if m.Trial.Step != wanted {
		m.Trial = trial{}
	}
}

// forgetEarlierCalls forgets what is known of calls to create if the status has a later call.
func (m *memory) forgetEarlierCalls(create *v1alpha1.Create) {
	if last := callOf(create); last != m.LastCall {
		m.LastCall, m.RejectedToken, m.NothingFoundSince = last, "", time.Time{}
	}
}

// record updates the times at which the observed states began.
func (m *memory) record(o *Observed) {
	p := o.accessProblem()
	setSince(&m.UnreachableSince, p != nil && p.Passing, o.Now)
	missing := o.Instance == nil && !o.PolledAt.IsZero()
	if missing && m.MissingSince.IsZero() {
		m.Backoff = backoff{} // The backoff is about an instance that no longer exists.
	}
	setSince(&m.MissingSince, missing, o.PolledAt)
	setSince(&m.UntaggedSince, o.untagged(), o.Now)
}

// setSince sets since to now when active becomes true, and to zero when active becomes false.
func setSince(since *time.Time, active bool, now time.Time) {
	switch {
	case !active:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}
