// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
)

// patience is the longest time that a scenario waits for all of its objects.
const patience = 10 * time.Minute

// writers is the largest number of concurrent requests of this process.
const writers = 16

func name(i int) string { return fmt.Sprintf("app-%d", i) }

// launch starts a participant.
func (b *bench) launch(ctx context.Context, participant string, args ...string) (*process, error) {
	command := map[string][]string{
		full:       {b.bin("glassback")},
		alone:      {b.bin("glassback"), "--controllers", "application"},
		recorded:   {b.bin("glassback"), "--record", filepath.Join(b.dir, "recording")},
		cr16:       {b.bin("bench", "peer"), "--workers", "16"},
		cr1:        {b.bin("bench", "peer")},
		bareClient: {b.bin("bench", "bare")},
	}[participant]
	command = slices.Concat(command, []string{"--kubeconfig", b.kubeconfig}, b.profiler.args(participant), args)
	p, err := start(ctx, filepath.Join(b.dir, "participant.log"), command...)
	if err == nil && participant == bareClient {
		if err = p.line("ready"); err != nil {
			return nil, errors.Join(err, p.stop())
		}
	}
	return p, err
}

// window measures a participant between two moments. The last three fields are values at the first moment.
type window struct {
	b              *bench
	p              *process
	began          time.Time
	before         usage // of the participant
	serverBefore   usage // of the API server
	requestsBefore float64
}

func (b *bench) open(ctx context.Context, p *process) (*window, error) {
	w := &window{b: b, p: p}
	var err1, err2, err3 error
	w.requestsBefore, err1 = b.cluster.requests(ctx)
	if p != nil { // A process that starts later has used nothing yet.
		w.before, err2 = usageOf(p.cmd.Process.Pid)
	}
	w.serverBefore, err3 = usageOf(b.server)
	w.began = time.Now()
	return w, errors.Join(err1, err2, err3)
}

// close waits until the participant is idle. It returns CPU time, requests and traffic per object, and the participant's memory in MB.
func (w *window) close(ctx context.Context, objects int) (sample, error) {
	if err := w.b.waitUntilIdle(ctx, w.p.cmd.Process.Pid); err != nil {
		return nil, err
	}
	if !w.b.smoke {
		time.Sleep(5 * time.Second) // In this time, Go returns memory to the system.
	}
	server, err1 := usageOf(w.b.server)
	after, err2 := usageOf(w.p.cmd.Process.Pid)
	sum, err3 := w.b.cluster.requests(ctx)
	n := float64(objects)
	return sample{
		operatorCPU: millis(after.cpu-w.before.cpu) / n, serverCPU: millis(server.cpu-w.serverBefore.cpu) / n,
		requests: (sum - w.requestsBefore) / n,
		received: (after.received - w.before.received) / n / 1000, sent: (after.sent - w.before.sent) / n / 1000,
		peakRSS: after.peak / 1e6, settledRSS: after.rss / 1e6,
	}, errors.Join(err1, err2, err3)
}

// maxIdleCPU is the CPU time between two checks up to which waitUntilIdle takes a process for idle.
const maxIdleCPU = 50 * time.Millisecond

// waitUntilIdle waits until a process has been idle for a second, or for 0.2 seconds in a smoke run. After a minute it gives up without an
// error.
func (b *bench) waitUntilIdle(ctx context.Context, pid int) error {
	pause := time.Second
	if b.smoke {
		pause = 200 * time.Millisecond
	}
	last := time.Duration(-1)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		u, err := usageOf(pid)
		if err != nil {
			return err
		}
		if last >= 0 && u.cpu-last <= maxIdleCPU {
			break
		}
		last = u.cpu
		time.Sleep(pause)
	}
	return ctx.Err()
}

// watch returns a function that waits until each named Application is done. The watch has begun when watch returns.
func (b *bench) watch(ctx context.Context, ns string, names map[string]bool, done func(*v1.Application) bool) (func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	w, err := b.Glassback.AppV1().Applications(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, err
	}
	missing := maps.Clone(names)
	return func() error {
		defer cancel()
		for {
			for event := range w.ResultChan() {
				if app, ok := event.Object.(*v1.Application); ok && done(app) {
					delete(missing, app.Name)
				}
				if len(missing) == 0 {
					w.Stop()
					return nil
				}
			}
			// A busy machine can lose the connection. A new watch begins with the objects that exist.
			if w, err = b.Glassback.AppV1().Applications(ns).Watch(ctx, metav1.ListOptions{}); err != nil {
				return fmt.Errorf("watch, while %d of %d Applications are not done: %w", len(missing), len(names), err)
			}
		}
	}, nil
}

// names returns the names of every step-th of n Applications, beginning with the first.
func names(n, step int) map[string]bool {
	all := map[string]bool{}
	for i := 0; i < n; i += step {
		all[name(i)] = true
	}
	return all
}

// statusCurrent reports whether the status is of the newest spec and lists three children.
func statusCurrent(app *v1.Application) bool {
	return app.Status.ObservedGeneration == app.Generation && len(app.Status.Resources) == 3
}

// each calls do with the numbers from 0 to n-1, and with several at the same time: see writers.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (b *bench) create(ctx context.Context, ns, name string) error {
	app := &v1.Application{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ApplicationSpec{Image: "nginx"}}
	_, err := b.Glassback.AppV1().Applications(ns).Create(ctx, app, metav1.CreateOptions{})
	return err
}

func (b *bench) patch(ctx context.Context, ns, name string) error {
	_, err := b.Glassback.AppV1().Applications(ns).Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"image":"nginx:2"}}`),
		metav1.PatchOptions{})
	return err
}

// batch creates n Applications (verb "create") or changes their image (verb "change"). This process does it, or the bare client. batch
// returns the time until each Application has a current status: see statusCurrent.
func (b *bench) batch(ctx context.Context, p *process, participant, verb, ns string, n int) (time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	done := func(app *v1.Application) bool { return statusCurrent(app) && (verb == "create" || app.Generation > 1) }
	wait, err := b.watch(ctx, ns, names(n, 1), done)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	write := func() error {
		return each(ctx, n, func(ctx context.Context, i int) error {
			if verb == "create" {
				return b.create(ctx, ns, name(i))
			}
			return b.patch(ctx, ns, name(i))
		})
	}
	if participant == bareClient {
		write = func() error { return p.batch(verb, n, ns) }
	}
	// A goroutine reads the watch meanwhile: the API server ends a watch that is not read.
	group.Go(wait)
	group.Go(write)
	err = group.Wait()
	return time.Since(began), err
}

// runParticipant creates a namespace, starts a participant, calls do, and stops the participant. Before do begins, an operator has
// reconciled one Application, the canary.
func (b *bench) runParticipant(ctx context.Context, participant string, do func(p *process, ns string) error) error {
	ns, err := b.createNamespace(ctx)
	if err != nil {
		return err
	}
	p, err := b.launch(ctx, participant)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }() // Only an early return needs it.
	if participant != bareClient {
		wait, err := b.watch(ctx, ns, map[string]bool{"canary": true}, statusCurrent)
		if err != nil {
			return err
		}
		if err := b.create(ctx, ns, "canary"); err != nil {
			return err
		}
		if err := wait(); err != nil {
			return err
		}
	}
	if err := errors.Join(b.waitUntilIdle(ctx, p.cmd.Process.Pid), b.waitUntilIdle(ctx, b.server)); err != nil {
		return err
	}
	if err := do(p, ns); err != nil {
		return err
	}
	settle := func() error {
		if p.stopped() {
			return nil
		}
		return b.waitUntilIdle(ctx, p.cmd.Process.Pid)
	}
	return errors.Join(b.clean(ctx, ns, settle), p.stop())
}
