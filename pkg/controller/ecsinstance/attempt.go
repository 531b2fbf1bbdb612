/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
)

// verdict is what a lookup has shown of the attempts to make an instance: the one that it came
// to, a problem, or the attempt that is next.
type verdict struct {
	id      string
	problem *problem
	create  *v1alpha1.Create
	call    bool // and not only to be put down
	// clean is whether nothing came of any call so far: if this one is refused too, there is
	// no instance.
	clean bool
}

// lookAgain is how often it is looked what came of an attempt.
const lookAgain = 15 * time.Second

// judge says how to go on after a lookup, which was asked for at asked, has found these. An
// instance with those parameters is wanted; "" for none.
//
// The same token with the same parameters can be used as often as one likes. Another token is
// safe only when it is certain that nothing came of the last one.
func judge(o *observed, found []aliyun.Instance, parameters string, asked time.Time) verdict {
	switch len(found) {
	case 0:
	case 1:
		return verdict{id: found[0].ID}
	default:
		return verdict{problem: surplus(found)}
	}
	last := o.ecs.Status.Create
	nextAttempt := v1alpha1.Create{Attempt: 1}
	clean := !o.creating() || o.rejected() || o.settled(asked)
	switch {
	case last == nil:
	case last.Parameters == "" ||
		(last.Parameters == parameters && last.RegionID == o.ecs.Spec.RegionID && o.mine.dead != last.Token):
		nextAttempt.Attempt = last.Attempt
	case clean:
		nextAttempt.Attempt = last.Attempt + 1
	default:
		return verdict{problem: &problem{reason: reasonSettling, passing: true, wait: lookAgain, message: fmt.Sprintf(
			"It is not known what came of attempt %d to make an instance: for %s it is looked whether one shows", last.Attempt, settleAfter)}}
	}
	nextAttempt.Token, nextAttempt.RegionID = token(o.ecs, nextAttempt.Attempt), o.ecs.Spec.RegionID
	// In another region nothing was looked for yet.
	call := o.fleet.region == nextAttempt.RegionID
	if call {
		nextAttempt.Parameters = parameters
	}
	return verdict{create: &nextAttempt, call: call, clean: clean}
}

// requestedAt is the time of a call at now, for the status: in another second than the last
// call, since the status holds seconds, and callOf tells calls apart by them.
func requestedAt(now time.Time, last *v1alpha1.Create) metav1.Time {
	if last != nil && now.Unix() <= last.RequestedTime.Unix() {
		now = last.RequestedTime.Add(time.Second)
	}
	return metav1.NewTime(now)
}

// settled returns whether no lookup, up to that of asked, has found anything for so long that
// nothing will be.
func (o *observed) settled(asked time.Time) bool {
	return !o.mine.empty.IsZero() && asked.Sub(o.mine.empty) >= settleAfter
}

// leftovers returns what is wrong if there still are instances with this object's tag; nil if
// there are none.
func leftovers(o *observed, found []aliyun.Instance) *problem {
	if o.ecs.Spec.DeletionPolicy == v1alpha1.DeletionRetain {
		found = slices.DeleteFunc(slices.Clone(found), func(i aliyun.Instance) bool { return i.ID == o.id })
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) == 1 && found[0].ID == o.id:
		return &problem{reason: reasonDeleting, passing: true, wait: waitForState, message: fmt.Sprintf("Instance %s still shows", o.id)}
	}
	return surplus(found)
}

func surplus(found []aliyun.Instance) *problem {
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return &problem{reason: reasonSurplus, stalled: true, wait: waitForDeletion, message: fmt.Sprintf(
		"The tag %s of this object is on %s. The operator makes one at a time, so others were perhaps copied with their tags: delete them, or take the tag off all but one",
		v1alpha1.TagUID, strings.Join(ids, ", "))}
}
