// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/preview"
)

// Recheck is the time between two attempts when no event says that the next one may succeed: a name becomes free, or a policy changes.
const Recheck = 30 * time.Second

// Verb is what a Change does.
type Verb string

const (
	// Nothing leaves everything as it is.
	Nothing Verb = ""
	// Create creates an object that does not exist.
	Create Verb = "create"
	// Update applies to an object that exists.
	Update Verb = "update"
	// Delete deletes an object.
	Delete Verb = "delete"
)

// Change is one write to one child, which Do carries out.
type Change struct {
	Verb       Verb
	Kind, Name string

	do func(context.Context) (Outcome, error)
	// fields returns the fields that the operator owns, those that it will own after an apply, and the object; nil if the change applies
	// nothing.
	fields func() (owned, desired, live any, err error)
}

// Outcome is the result of a Change.
type Outcome struct {
	// Wrote says that an object was changed: a watch event will follow.
	Wrote bool
	// Gone says that the owner has no such child.
	Gone bool
	// Problem goes into the owner's conditions; nil if there is none.
	Problem *Problem
	// Wait is the time until the next attempt, if no event comes earlier; 0 for none.
	Wait time.Duration
}

// Problem says why a child is not as desired, with the reason and the message of a condition.
type Problem struct{ Reason, Message string }

// ReasonConflict is the reason of a Problem with an object that the owner does not control.
const ReasonConflict = "Conflict"

// Do carries the change out. It returns an error if a retry may succeed, and only a Problem if a person must act first.
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
		out.Problem = &Problem{c.Kind + "NotApplied",
			fmt.Sprintf("The API server does not accept the %s at present, and the operator retries: %v", c.Kind, err)}
	case apierrors.IsConflict(err): // Another client wrote first: the next sync sees its version.
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		// Without the text: it may differ at each attempt, and each difference would be written to the status.
		out.Problem = &Problem{c.Kind + "NotApplied",
			fmt.Sprintf("The API server does not accept the %s at present, and the operator retries: %s", c.Kind, apierrors.ReasonForError(err))}
	}
	if out.Problem != nil && out.Wait == 0 {
		out.Wait = Recheck
	}
	return out, err
}

// Preview adds the write that Do would make to a plan, and makes none. Its outcome says that Do would write, or else is that of Do.
func (c Change) Preview(ctx context.Context, plan *preview.Plan) (Outcome, error) {
	if c.Verb == Nothing {
		return c.Do(ctx)
	}
	write := preview.Write{Verb: string(c.Verb), Kind: c.Kind, Name: c.Name}
	if c.fields != nil {
		owned, desired, live, err := c.fields()
		if err == nil {
			write.Fields, err = preview.DiffOwned(owned, desired, live)
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	plan.Writes = append(plan.Writes, write)
	return Outcome{Wrote: true}, nil
}
