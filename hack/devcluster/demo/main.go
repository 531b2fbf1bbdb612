// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Glassback at work. It starts a devcluster and an ECS simulator, and installs the manifests as an administrator does.
// The operator runs under its own ServiceAccount, with exactly the permissions that are shipped. Then demo applies an example of each
// kind and follows them. With --examples=all it also applies the others, one when those before it are Ready. "make demo" runs this command.
//
//	main        the steps, in order
//	├─ api      the administrator: applies manifests, waits for CRDs, makes a kubeconfig for a ServiceAccount
//	├─ operator starts the operator and the ECS simulator
//	├─ bridge   a proxy from a browser to the operator's page, if the cluster has a network of its own
//	├─ child    a process that does not outlive the demo
//	├─ kinds    Glassback's kinds, and what the user may try with each
//	├─ follow   polls the examples
//	└─ screen   shows the examples: on a terminal a table redrawn in place, elsewhere a line for every change
//
// Ctrl-C ends all processes at any time and removes all files. If the demo is killed, its directory stays.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// Exit codes.
const (
	exitOK          = 0   // every example became Ready; without --once, Ctrl-C came after that
	exitFailed      = 1   // something has failed
	exitUsage       = 2   // bad flags
	exitInterrupted = 130 // Ctrl-C before every example was Ready
)

type options struct {
	once     bool
	node     string
	examples string
}

// Values of --examples.
const (
	someExamples = "one-of-each"
	allExamples  = "all"
)

// stalledAfter is the time without another settled example or ready Pod after which the demo gives up.
const stalledAfter = 3 * time.Minute

func main() {
	if len(os.Args) > 1 && os.Args[1] == keepCommand {
		os.Exit(keep(os.Args[2:]))
	}
	var o options
	flag.BoolVar(&o.once, "once", false, "end when every example is Ready")
	flag.StringVar(&o.node, "node", nodeAny, `kind of node: "real", "simulated", or "any": real where that can run`)
	flag.StringVar(&o.examples, "examples", someExamples, `"one-of-each", or "all": the others too, one after the other`)
	flag.Parse()
	if o.examples != someExamples && o.examples != allExamples {
		fmt.Fprintf(os.Stderr, "demo: --examples is %s or %s: see --help\n", someExamples, allExamples)
		os.Exit(exitUsage)
	}
	if flag.NArg() > 0 || !slices.Contains([]string{nodeAny, cluster.NodeReal, cluster.NodeSimulated}, o.node) {
		fmt.Fprintln(os.Stderr, "demo: there are only flags, and --node is any, real or simulated: see --help")
		os.Exit(exitUsage)
	}
	os.Exit(show(o))
}

// nodeAny means a real node if the machine can run one, and a simulated node otherwise.
const nodeAny = "any"

// chooseNode returns the kind of node, and a remark about it for the screen.
func chooseNode(asked string) (node, remark string) {
	if asked == nodeAny {
		if err := cluster.RealNodeMissing(); err != nil {
			return cluster.NodeSimulated, "Node: simulated; Pods run and complete without a container. " + sentence(err.Error())
		}
		asked = cluster.NodeReal
	}
	if asked == cluster.NodeReal {
		return asked, "Node: real; Pods have containers."
	}
	return asked, "Node: simulated; Pods run and complete without a container."
}

// sentence turns the text of an error into a sentence.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// show runs the demo and returns its exit code.
func show(o options) int {
	// Further signals do not interrupt the cleanup, which takes a second or two.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s := newScreen(os.Stdout)
	ready, err := run(ctx, s, o)
	switch {
	case errors.Is(err, errLeftover):
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return exitFailed
	case ctx.Err() != nil && ready:
		s.say("Ended: nothing runs any more, and its files are removed.")
		return exitOK
	case ctx.Err() != nil:
		s.say("Interrupted: nothing runs any more, and its files are removed.")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// errLeftover is the error of a process or a file that could not be removed.
var errLeftover = errors.New("clean up")

// run runs the demo, and returns whether every example became Ready. With --once it returns when they are Ready, and otherwise when ctx
// ends. It returns an error if they do not become Ready, or if the operator, the simulator or the cluster ends. It always ends all
// processes that it started.
func run(ctx context.Context, s *screen, o options) (ready bool, err error) {
	clean := func(undo func() error) {
		if undoErr := undo(); undoErr != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", errLeftover, undoErr))
		}
	}
	dir, err := os.MkdirTemp("", "glassback-demo-")
	if err != nil {
		return false, fmt.Errorf("make a directory: %w", err)
	}
	defer clean(func() error { return os.RemoveAll(dir) })

	node, remark := chooseNode(o.node)
	s.say("%s", remark)
	c, err := cluster.Start(ctx, cluster.Config{
		Node:     node,
		Dir:      filepath.Join(dir, "cluster"),
		Progress: func(line string) { s.say("  %s", line) },
	})
	if err != nil {
		return false, err
	}
	defer clean(c.Stop)

	admin, err := newAPI(c)
	if err != nil {
		return false, err
	}
	s.say("Installing artifacts/crd and artifacts/rbac")
	if err := admin.install(ctx); err != nil {
		return false, err
	}
	simulator, ecs, err := startSimulator(ctx, c, dir)
	if err != nil {
		return false, err
	}
	defer simulator.stop()
	s.say("Starting %s as ServiceAccount %s/%s, with a simulated ECS", operatorBinary, operatorNamespace, operatorAccount)
	page, err := newPage(c)
	if err != nil {
		return false, err
	}
	defer page.stop()
	op, err := startOperator(ctx, admin, c, dir, ecs, page.target)
	if err != nil {
		return false, err
	}
	defer op.stop()
	sayWhere(s, c, ecs, page.address, op.logFile)
	ready, err = present(ctx, s, o, &follower{api: admin, real: c.Real()}, op.wait, simulator.wait, c.Wait)
	if err != nil && ctx.Err() == nil {
		for _, child := range []*child{simulator, op} {
			s.say("The last lines of the log of %s:\n%s", child.name, child.lastLines(15))
		}
	}
	return ready, err
}

// sayWhere prints the addresses of a running demo: those of the simulated ECS and of the operator's page, and the operator's log.
func sayWhere(s *screen, c *cluster.Cluster, ecs, page, log string) {
	for _, k := range skipped(c.Real()) {
		s.say("The demo skips %ss: they need containers, and a simulated node runs none", k.Kind)
	}
	s.say("")
	s.say("  the gears at work     http://%s/inspect/", page)
	s.say("  why did it sync?      bin/glassback why mycronjob/mycronjob-sample --address http://%s", page)
	s.say("  in another terminal   export KUBECONFIG=%s", c.Kubeconfig())
	s.say("  or without kubectl    bin/devcluster kubectl --dir %s -- get glassback", c.Dir())
	if c.Real() {
		s.say("  in its network        bin/devcluster exec --dir %s -- curl http://application-sample:8080", c.Dir())
		s.say("  the simulated cloud   bin/devcluster exec --dir %s -- curl %s", c.Dir(), ecs)
	} else {
		s.say("  the simulated cloud   %s", ecs)
	}
	s.say("  the operator's log    %s", log)
	s.say("")
}

// present applies the examples, and follows them until ctx ends, until all are Ready (with --once), or until one of the ends returns: each
// waits for a process that must not end. It returns whether the examples became Ready.
func present(ctx context.Context, s *screen, o options, f *follower, ends ...func(context.Context) error) (ready bool, err error) {
	first, later, err := exampleFiles(f.real)
	if err != nil {
		return false, err
	}
	if o.examples == allExamples {
		f.later = later
	}
	if err := f.apply(ctx, first...); err != nil {
		return false, err
	}
	return watch(ctx, s, o, f, ends)
}

func watch(ctx context.Context, s *screen, o options, f *follower, ends []func(context.Context) error) (ready bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel(nil)
	for _, end := range ends {
		waiting.Go(func() { cancel(end(ctx)) })
	}

	began, moved, most := time.Now(), time.Now(), 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		f.look(ctx)
		if !ready && f.settled() {
			if len(f.later) > 0 {
				next := f.later[0]
				f.later = f.later[1:]
				if err := f.apply(ctx, next); err != nil {
					return false, err
				}
				continue
			}
			ready = true
			f.conclude(time.Since(began), !o.once)
		}
		if n := f.progress(ctx); n > most {
			most, moved = n, time.Now()
		}
		if ctx.Err() == nil {
			s.show(f)
		}
		switch {
		case ready && o.once:
			return true, nil
		case !ready && time.Since(moved) > stalledAfter:
			return false, fmt.Errorf("there was no progress for %s, and these are not Ready: %s\n%s",
				stalledAfter, f.unsettled(), f.api.troubles(ctx))
		}
		select {
		case <-ctx.Done():
			return ready, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
