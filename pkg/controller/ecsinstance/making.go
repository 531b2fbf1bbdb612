/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

import (
	"fmt"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// rejected returns whether ECS is known to have made nothing since the object was bound to an
// account: it answered every call to create with a no, or calls that it did not answer have
// shown nothing for settleAfter. The status then names no account. Until that is written, the
// session knows it. So a crash before the write leaves the object bound.
func (o *observed) rejected() bool {
	return o.creating() && (o.ecs.Status.AccountID == "" || o.mine.clean == o.ecs.Status.Create.Token)
}

func adopting(o *observed) (plan, bool) {
	if !o.adopts() {
		return plan{}, false
	}
	if next, not := unseen(o); not {
		return next, true
	}
	i := o.sight.instance
	if i == nil {
		return plan{wait: o.jittered(waitForMending), problem: &problem{reason: reasonNotFound, stalled: true,
			message: fmt.Sprintf("There is no instance %s in %s: correct adoptInstanceID or regionID", o.id, o.ecs.Spec.RegionID)}}, true
	}
	owner := i.Tags[v1alpha1.TagUID]
	next := plan{reason: reasonAdopting, message: "Instance " + o.id + " is taken over"}
	switch {
	case owner != "" && !o.owned():
		return plan{wait: o.jittered(waitForMending), problem: &problem{reason: reasonNotOwned, stalled: true,
			message: fmt.Sprintf("Instance %s is another object's (%s), by its tag %s: delete that object with deletionPolicy: Retain first, or take the tag off",
				o.id, i.Tags[v1alpha1.TagObject], v1alpha1.TagUID)}}, true
	case owner != "" || o.ecs.Status.InstanceID == "":
		next.step = stepAdopt
		return next, true
	}
	next.step, next.tags = stepTag, ownership(o.ecs)
	return o.try(next)
}

// adopts returns whether there is an instance to be taken over. It is put down first as the one
// that this is about, then tagged, and then put down as adopted: so it is known at any time
// where there may be a tag.
func (o *observed) adopts() bool { return o.ecs.Spec.AdoptInstanceID != "" && !o.ecs.Status.Adopted }

func absent(o *observed) (plan, bool) {
	if o.ecs.Status.InstanceID != "" {
		return plan{}, false
	}
	return plan{step: stepCreate, reason: reasonCreating, message: "ECS is asked for an instance"}, true
}
