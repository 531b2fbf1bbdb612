// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/trace"
)

const traceLong = `Trace prints a line for each stage that an object passes in a running operator: it is read from the API server,
goes through the queue into the index and to the handlers, its key goes into a workqueue, is synced, and objects are written.
It runs until Ctrl-C.

KIND is any name that kubectl knows. With KIND or NAME, it prints only events of these objects and of their syncs.

The operator must run with --inspect-bind-address. In a cluster, the command connects to the leader through the API server.
Under load, the operator records only one in several changes, but each at all stages. Notices on stderr report that.`

// stages returns the names of all stages, in the order in which an object passes them.
func stages() []string {
	var all []string
	for stage := trace.Wire; stage <= trace.Done; stage++ {
		all = append(all, stage.String())
	}
	return all
}

// traceOptions are the options from the command line of trace.
type traceOptions struct {
	target

	stages        []string // none: all
	allNamespaces bool
}

// NewTrace returns glassback trace.
func NewTrace() *cobra.Command { return (&traceOptions{}).command() }

func (o *traceOptions) command() *cobra.Command {
	o.target = target{program: "trace"}
	c := &cobra.Command{
		Use: "trace [KIND[/NAME]] [-n NAMESPACE]", Short: "show what passes through a running operator", Long: traceLong,
		PreRunE: func(_ *cobra.Command, args []string) error { return o.validate(args) },
		RunE: command.Run(func(ctx context.Context, stdout, stderr io.Writer) error {
			return (&tracer{traceOptions: o, stdout: stdout, stderr: stderr, retry: traceRetry, oneIn: 1}).run(ctx)
		}),

		ValidArgsFunction: o.completeObject(func(string) string {
			if o.allNamespaces {
				return metav1.NamespaceAll
			}
			return o.object.Namespace
		}),
	}
	o.addFlags(c, "namespace of the objects (default: all)")
	flags := c.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "show the objects of all namespaces, whatever --namespace says")
	flags.StringSliceVar(&o.stages, "stage", nil, "stage to show; may be repeated; there are "+strings.Join(stages(), ", ")+" (default: all)")
	command.CompleteValues(c, "stage", stages()...)
	return c
}

func (o *traceOptions) validate(args []string) error {
	if err := o.target.validate(args); err != nil {
		return err
	}
	if o.allNamespaces {
		o.object.Namespace = ""
	}
	for _, stage := range o.stages {
		if !slices.Contains(stages(), stage) {
			return fmt.Errorf("--stage: there is no %q; there are %s", stage, strings.Join(stages(), ", "))
		}
	}
	return nil
}

// traceRetry is the interval of attempts to connect again to an operator.
const traceRetry = time.Second

// tracer prints the events of an operator's stream.
type tracer struct {
	*traceOptions

	stdout, stderr io.Writer
	retry          time.Duration

	connected bool  // connected now
	ever      bool  // was connected before
	oneIn     int   // of the last overview
	broken    error // of stdout
}

// run follows operators until ctx ends: when one ends, it waits for the next.
func (t *tracer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := t.follow(ctx)
		if ctx.Err() == nil && t.hopeless(err) {
			return err
		}
		if ctx.Err() == nil && t.connected {
			t.connected = false
			t.notice("the operator is gone, waiting for it: " + err.Error())
		}
		wait := time.NewTimer(t.retry)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
	return nil
}

// hopeless reports whether a retry cannot succeed: stdout is closed, there never was an operator, or it rejected the request (status below
// 500).
func (t *tracer) hopeless(err error) bool {
	refusal, refused := errors.AsType[*refusedError](err)
	return t.broken != nil || !t.ever || (refused && refusal.Status < http.StatusInternalServerError)
}

// follow prints the events of one operator until the connection ends.
func (t *tracer) follow(ctx context.Context) error {
	quiet := t.ever // Only a successful attempt prints a notice.
	var said []string
	operator, err := t.reach(ctx, func(text string) {
		if said = append(said, text); !quiet {
			t.notice(text)
		}
	})
	if err != nil {
		return err
	}
	defer operator.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = operator.stream(ctx, t.object, listener{
		Overview: func(o *inspect.Overview) {
			if !t.connected && t.ever {
				t.notice(strings.Join(append(slices.Clip(said), "connected to "+o.Instance), "; "))
			}
			t.connected, t.ever = true, true
			t.sampling(o.OneIn)
		},
		Events: func(events *inspect.Events) {
			if t.print(events); t.broken != nil {
				cancel()
			}
		},
	})
	if t.broken != nil {
		return fmt.Errorf("print: %w", t.broken)
	}
	if t.connected {
		return err
	}
	return operator.unanswered(err)
}

// sampling prints a notice when the operator begins or stops leaving out changes.
func (t *tracer) sampling(oneIn int) {
	switch {
	case oneIn == t.oneIn:
	case oneIn > 1:
		t.notice(fmt.Sprintf("many changes: the operator records 1 in %d, with all of its stages", oneIn))
	default:
		t.notice("all changes are recorded again")
	}
	t.oneIn = oneIn
}

func (t *tracer) print(events *inspect.Events) {
	if events.Missed > 0 {
		t.notice(fmt.Sprintf("%d events are left out: there are too many to send", events.Missed))
	}
	for n := range events.Events {
		e := &events.Events[n]
		if len(t.stages) > 0 && !slices.Contains(t.stages, e.Stage) {
			continue
		}
		if t.broken = t.printEvent(e); t.broken != nil {
			return
		}
	}
}

// printEvent prints one event: a line, or with -o yaml a document.
func (t *tracer) printEvent(e *inspect.Event) error {
	line, err := []byte(command.Printable(e.Line)+"\n"), error(nil)
	switch t.output {
	case command.JSON:
		line, err = json.Marshal(e)
		line = append(line, '\n')
	case command.YAML:
		line, err = yaml.Marshal(e)
		line = append([]byte("---\n"), line...)
	}
	if err == nil {
		_, err = t.stdout.Write(line)
	}
	return err
}

// notice prints a line that is not an event to stderr.
func (t *tracer) notice(text string) { fmt.Fprintln(t.stderr, "glassback:", command.Printable(text)) }
