/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package child

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Recheck is how often something is tried again that nothing tells of when it may
// succeed: a name is free again, or a policy allows what it did not.
const Recheck = 30 * time.Second

// Verb is what a Change does.
type Verb string

const (
	// Nothing is to be done.
	Nothing Verb = ""
	// Create makes an object that is not there.
	Create Verb = "create"
	// Update applies to an object that is there.
	Update Verb = "update"
	// Delete deletes an object.
	Delete Verb = "delete"
)

// Change is what is to be done about one child.
type Change struct {
	Verb       Verb
	Kind, Name string

	do func(context.Context) (Outcome, error)
}

// Outcome is what came of a Change.
type Outcome struct {
	// Wrote is whether an object was changed, which the cache is about to show.
	Wrote bool
	// Gone is whether there is no such object of the owner's.
	Gone bool
	// Problem is what a person should know of; nil if there is nothing.
	Problem *Problem
	// Wait is when to try again although nothing may happen until then; 0 for never.
	Wait time.Duration
}

// Problem is why a child is not as it should be, in the words of a condition.
type Problem struct{ Reason, Message string }

// ReasonConflict is the reason of a Problem with an object that the owner does not
// control.
const ReasonConflict = "Conflict"

// Do carries the change out. An error may pass, and is retried with a backoff; what
// needs somebody else to do something is a Problem alone.
func (c Change) Do(ctx context.Context) (Outcome, error) {
	if c.do == nil {
		return Outcome{}, nil
	}
	out, err := c.do(ctx)
	var taken takenError
	switch {
	case err == nil:
	case errors.As(err, &taken):
		out.Gone, out.Problem, err = true, &Problem{ReasonConflict, taken.Error()}, nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		out.Problem, err = &Problem{c.Kind + "Rejected", err.Error()}, nil
	case apierrors.IsForbidden(err):
		out.Problem = &Problem{c.Kind + "NotApplied", fmt.Sprintf("The API server does not take the %s now, which is tried again: %v", c.Kind, err)}
	case apierrors.IsConflict(err): // Somebody wrote in between: the next sync sees it.
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		// Without the text: it may change with every try, and every change would be written.
		out.Problem = &Problem{c.Kind + "NotApplied",
			fmt.Sprintf("The API server does not take the %s now, which is tried again: %s", c.Kind, apierrors.ReasonForError(err))}
	}
	if out.Problem != nil && out.Wait == 0 {
		out.Wait = Recheck
	}
	return out, err
}
