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

	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/loop"
	"github.com/glassback/glassback/pkg/report"
)

// Recheck is the time between two attempts when the controller gets no event of the change that lets a retry succeed. For example, another
// owner's object frees the name, or an admission policy changes.
const Recheck = 30 * time.Second

// Verb is what a Change does.
type Verb string

const (
	// Nothing leaves everything as it is.
	Nothing Verb = ""
	// Create creates an object that does not exist.
	Create Verb = "create"
	// Update applies the desired fields to an object that exists.
	Update Verb = "update"
	// Delete deletes an object.
	Delete Verb = "delete"
)

// Change is one write to one child, which Do carries out.
type Change struct {
	Verb       Verb
	Kind, Name string

	do func(context.Context) (Outcome, error)
	// fields returns the fields that the operator owns now, those that it owns after an apply, and the live object. The function is nil if
	// the change applies nothing.
	fields func() (owned, desired, live any, err error)
}

// Outcome is the result of a Change.
type Outcome struct {
	// Wrote says that an object was changed: a watch event will follow.
	Wrote bool
	// Gone says that the owner has no such child. An object that the owner does not control may have its name.
	Gone bool
	// Problem goes into the owner's conditions; nil if there is none.
	Problem *Problem
	// Wait is the time until the next attempt, if no event comes earlier; 0 for none.
	Wait time.Duration
}

// Problem says why a child is not as desired, with the reason and the message of a condition.
type Problem struct{ Reason, Message string }

// Outcomes is the result of several Changes.
type Outcomes struct {
	// Wrote says that an object was changed.
	Wrote bool
	// Gone has the kinds of which the owner has no child.
	Gone     []string
	Problems []Problem
	// Wait is the shortest Wait of the Changes.
	Wait time.Duration
}

// ReasonConflict is the reason of a Problem: an object that the owner does not control has the name of the child.
const ReasonConflict = "Conflict"

// Do carries the change out. If a retry may succeed, it returns an error, mostly with a Problem. If a person must act first, it returns a
// Problem and no error.
func (c Change) Do(ctx context.Context) (Outcome, error) {
	if c.do == nil {
		return Outcome{}, nil
	}
	out, err := c.do(ctx)
	var nameTaken takenError
	switch {
	case err == nil:
	case errors.As(err, &nameTaken):
		out.Gone, out.Problem, err = true, &Problem{ReasonConflict, nameTaken.Error()}, nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		out.Problem, err = &Problem{c.Kind + "Rejected", err.Error()}, nil
	case apierrors.IsForbidden(err):
		out.Problem = &Problem{c.Kind + "NotApplied",
			fmt.Sprintf("The API server does not accept the %s at present, and the operator retries: %v", c.Kind, err)}
	case apierrors.IsConflict(err): // Another client wrote first: the next sync sees its version.
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		// The message omits the text of the error. The text may differ at each attempt, and each new text would cause a write of the status.
		out.Problem = &Problem{c.Kind + "NotApplied",
			fmt.Sprintf("The API server does not accept the %s at present, and the operator retries: %s", c.Kind, apierrors.ReasonForError(err))}
	}
	if out.Problem != nil && out.Wait == 0 {
		out.Wait = Recheck
	}
	return out, err
}

// Preview adds the write of Do to a plan, does not send it, and returns an outcome with Wrote set. If there is nothing to write, Preview
// returns the outcome of Do.
func (c Change) Preview(ctx context.Context, plan *report.Plan) (Outcome, error) {
	if c.Verb == Nothing {
		return c.Do(ctx)
	}
	write := report.Write{Verb: string(c.Verb), Kind: c.Kind, Name: c.Name}
	if c.fields != nil {
		owned, desired, live, err := c.fields()
		if err == nil {
			write.Fields, err = fields.DiffOwned(owned, desired, live)
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	plan.Writes = append(plan.Writes, write)
	return Outcome{Wrote: true}, nil
}

// DoAll carries the changes out. An error of one does not stop the others.
func DoAll(ctx context.Context, changes []Change) (Outcomes, error) {
	return all(changes, func(c Change) (Outcome, error) { return c.Do(ctx) })
}

// PreviewAll adds the writes of DoAll to a plan, and returns their outcome.
func PreviewAll(ctx context.Context, changes []Change, plan *report.Plan) (Outcomes, error) {
	return all(changes, func(c Change) (Outcome, error) { return c.Preview(ctx, plan) })
}

func all(changes []Change, do func(Change) (Outcome, error)) (Outcomes, error) {
	var out Outcomes
	var errs []error
	for _, change := range changes {
		done, err := do(change)
		out.Wrote = out.Wrote || done.Wrote
		out.Wait = loop.Soonest(out.Wait, done.Wait)
		if done.Gone {
			out.Gone = append(out.Gone, change.Kind)
		}
		if done.Problem != nil {
			out.Problems = append(out.Problems, *done.Problem)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}
