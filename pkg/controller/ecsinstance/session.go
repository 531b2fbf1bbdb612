/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// sessions are what is remembered of every ECSInstance from one sync to the next. All of it
// can be lost: it spares calls, and time.
type sessions struct {
	mu    sync.Mutex
	byKey map[cache.ObjectName]*session
}

// session is what is remembered of one ECSInstance. The queue sees to it that only one sync
// at a time uses it.
type session struct {
	uid types.UID

	// watched is the instance that a fleet looks at for it, "" for none.
	fleet   fleetKey
	watched string

	// acted is when something was last asked for that changes the instance: what was seen
	// before that is not to be gone by.
	acted time.Time
	// tried are the changes that were asked for and are not seen yet.
	tried map[step]trial
	// missing is when the instance was first not there; zero while it is.
	missing time.Time
	// blind is when ECS was first not to be reached; zero while it is.
	blind time.Time
	// bare is when the instance was first seen without any tag that has left the spec; zero
	// while it has one, or none has left.
	bare time.Time

	// clean is the token of which every call, since it was first used, was answered with a
	// no: nothing was made with it.
	clean string
	// dead is a token that nothing can come of any more.
	dead string
	// empty is when a lookup first found nothing after the last call to create; zero if none
	// has yet.
	empty time.Time
	// asked is the call that clean and empty are about, by the status: another operator may
	// have made another one since.
	asked call

	// held is why nothing is asked for before until, unless the spec or the credentials
	// change.
	held       *problem
	heldStep   step // what was asked for
	until      time.Time
	generation int64
	heldWith   fleetKey

	// key is the access key that was used last.
	key aliyun.AccessKey
}

// call is a call to create.
type call struct {
	token string
	at    int64 // by the status, in seconds since 1970
}

func callOf(create *v1alpha1.Create) call {
	if create == nil {
		return call{}
	}
	return call{create.Token, create.RequestedTime.Unix()}
}

// trial is a change that was asked for.
type trial struct {
	times int
	again time.Time // not before
}

// of returns the session of an ECSInstance. One of the same name that was there before has
// nothing to do with it.
func (s *sessions) of(ecs *v1alpha1.ECSInstance) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := cache.MetaObjectToName(ecs)
	mine := s.byKey[key]
	if mine == nil || mine.uid != ecs.UID {
		before := mine
		mine = &session{uid: ecs.UID, tried: map[step]trial{}}
		if before != nil {
			mine.fleet, mine.watched = before.fleet, before.watched
		}
		s.byKey[key] = mine
	}
	return mine
}

// forget drops a session, and returns it, nil if there is none.
func (s *sessions) forget(key cache.ObjectName) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.byKey[key]
	delete(s.byKey, key)
	return mine
}

// hold has nothing be asked for until p's time is over.
func (s *session) hold(p *problem, what step, ecs *v1alpha1.ECSInstance, with fleetKey, now time.Time) {
	s.held, s.heldStep, s.until, s.generation, s.heldWith = p, what, now.Add(later(p.wait, string(ecs.UID), now)), ecs.Generation, with
}

// holding returns what hold said, for as long as that holds.
func (s *session) holding(ecs *v1alpha1.ECSInstance, with fleetKey, now time.Time) (*problem, time.Duration) {
	if s.held == nil || ecs.Generation != s.generation || with != s.heldWith || !now.Before(s.until) {
		return nil, 0
	}
	return s.held, s.until.Sub(now)
}

// A change that does not show is asked for again after firstAgain, then twice as long each
// time, but at least every mostAgain.
const (
	firstAgain = 10 * time.Second
	mostAgain  = 5 * time.Minute
)

// try notes that a change was asked for.
func (s *session) try(what step, now time.Time) {
	t := s.tried[what]
	t.again = now.Add(min(firstAgain<<min(t.times, 10), mostAgain))
	t.times++
	s.tried[what] = t
}

// keep drops what was asked for and is seen now: all but what is still wanted.
func (s *session) keep(o *observed, wanted step) {
	if !o.fresh() {
		return
	}
	for what := range s.tried {
		if what != wanted {
			delete(s.tried, what)
		}
	}
}

// heed forgets what is known of calls to create if there was another one since.
func (s *session) heed(create *v1alpha1.Create) {
	if asked := callOf(create); asked != s.asked {
		s.asked, s.clean, s.empty = asked, "", time.Time{}
	}
}

// note remembers since when what a sync sees has been so.
func (s *session) note(o *observed) {
	since(&s.blind, o.problem != nil && o.problem.passing, o.now)
	if o.sight != nil && !o.sight.at.IsZero() {
		if o.sight.instance == nil && s.missing.IsZero() {
			s.held = nil // It was about an instance that is not there.
		}
		since(&s.missing, o.sight.instance == nil, o.sight.at)
	} else {
		s.missing = time.Time{}
	}
	since(&s.bare, o.bare(), o.now)
}

// since sets first to now if something is so, and was not, and to zero if it is not.
func since(first *time.Time, is bool, now time.Time) {
	switch {
	case !is:
		*first = time.Time{}
	case first.IsZero():
		*first = now
	}
}
