// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package why has the commands why and trace: they ask a running operator why it synced an object, and print the events of its stages.
//
// Both read the API of pkg/inspect: of an operator at an address, or of a Pod in a cluster through the API server.
package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/inspect"
)

const whyLong = `Why asks a running operator why it synced an object: it prints the causes of the last syncs, and who made each change.
If the operator itself made a change, it prints the causes of that sync, too. For an object that the operator only watches, such as a Job,
it prints the same for the last changes.

KIND is any name that kubectl knows: mcj, mycronjob, mycronjobs.batch.wzj.kubebuilder.io.

The operator must run with --inspect-bind-address. In a cluster, the command connects to the leader through the API server.
The exit code is 0 with an answer, 1 without one, and 2 if the command line is wrong.`

// maxLast is the largest number of syncs that a user can request. The operator remembers fewer if the syncs have many events.
const maxLast = 64

// whyOptions are the values of the flags of why.
type whyOptions struct {
	target

	last int
	at   string
}

// New returns glassback why.
func New() *cobra.Command { return (&whyOptions{}).command() }

func (o *whyOptions) command() *cobra.Command {
	o.target = target{program: "why", local: localOperator}
	c := &cobra.Command{
		Use: "why KIND/NAME [-n NAMESPACE]", Short: "ask a running operator why it has synced an object", Long: whyLong,
		PreRunE: func(_ *cobra.Command, args []string) error { return o.validate(args) },
		RunE:    command.Run(o.run),

		ValidArgsFunction: o.completeObject(func(namespace string) string {
			return cmp.Or(o.object.Namespace, namespace, metav1.NamespaceDefault)
		}),
	}
	o.addFlags(c, "namespace of the object (default: that of the kubeconfig's context, or \"default\")")
	flags := c.Flags()
	flags.IntVar(&o.last, "last", 5, fmt.Sprintf("number of syncs, or changes, to print: 1 to %d", maxLast))
	flags.StringVar(&o.at, "at", "", "moment, such as 2026-01-31T09:30:00Z: answer for it, if glassback inspect serves a recording at "+
		"--address (default: the end of the recording)")
	return c
}

func (o *whyOptions) validate(args []string) error {
	if err := o.target.validate(args); err != nil {
		return err
	}
	if o.object.Name == "" {
		return errors.New("say which object: glassback why KIND/NAME, such as glassback why mcj/mycronjob-sample")
	}
	if o.last < 1 || o.last > maxLast {
		return fmt.Errorf("--last must be from 1 to %d, not %d", maxLast, o.last)
	}
	if _, err := time.Parse(time.RFC3339Nano, o.at); o.at != "" && err != nil {
		return fmt.Errorf("--at must be a time such as 2026-01-31T09:30:00Z, not %q", o.at)
	}
	return nil
}

func (o *whyOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	answer, err := o.ask(ctx, stderr)
	if err == nil {
		err = o.print(stdout, answer)
	}
	if err != nil && ctx.Err() != nil { // The user pressed Ctrl-C.
		return command.Exit{Code: command.Failed}
	}
	return err
}

// ask asks the operator.
func (o *whyOptions) ask(ctx context.Context, stderr io.Writer) (*whyAnswer, error) {
	operator, err := o.reach(ctx, func(text string) { fmt.Fprintln(stderr, "glassback:", text) })
	if err != nil {
		return nil, err
	}
	defer operator.close()
	operator.at = o.at
	overview, err := operator.overview(ctx)
	if err != nil {
		return nil, operator.unanswered(err)
	}
	root, err := o.find(ctx, operator)
	if err != nil {
		return nil, err
	}
	return answerWhy(overview, root, o.last, func(object inspect.Object) (*inspect.Life, error) {
		return lifeOf(ctx, operator.client, object)
	})
}

// find returns the life of the object in the command line.
func (o *whyOptions) find(ctx context.Context, operator *operator) (*inspect.Life, error) {
	object := o.object
	if object.Namespace == "" {
		object.Namespace = operator.namespace
	}
	life, err := operator.life(ctx, object)
	if missing(err) && o.object.Namespace == "" { // The kind may be cluster-scoped.
		if cluster, clusterErr := operator.life(ctx, o.object); clusterErr == nil {
			return cluster, nil
		}
	}
	// If no informer watches the kind, the kind is wrong, and the error lists the known kinds.
	if missing(err) && !strings.HasPrefix(err.Error(), "no informer watches") {
		return nil, fmt.Errorf("%w; check its name, and say its namespace with -n", err)
	}
	return life, err
}

// lifeOf returns the life of an object, or nil if it has none.
func lifeOf(ctx context.Context, c *client, object inspect.Object) (*inspect.Life, error) {
	life, err := c.life(ctx, object)
	if missing(err) {
		return nil, nil
	}
	return life, err
}

// missing reports whether err is the answer 404.
func missing(err error) bool {
	refusal, refused := errors.AsType[*refusedError](err)
	return refused && refusal.Status == http.StatusNotFound
}

func (o *whyOptions) print(stdout io.Writer, answer *whyAnswer) error {
	if o.output != command.Text {
		return command.Print(stdout, o.output, answer)
	}
	(&whyText{out: stdout, colour: command.Colour(stdout), now: answer.Time}).answer(answer)
	return nil
}
