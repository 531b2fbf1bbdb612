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

// writers is the number of concurrent requests of this process.
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
		err = p.line("ready")
	}
	return p, err
}

// window measures a participant between two moments.
type window struct {
	b              *bench
	p              *process
	began          time.Time
	before, server usage
	requests       float64
}

func (b *bench) open(ctx context.Context, p *process) (*window, error) {
	w := &window{b: b, p: p}
	var err1, err2, err3 error
	w.requests, err1 = b.cluster.requests(ctx)
	if p != nil { // A process that starts later has used nothing yet.
		w.before, err2 = usageOf(p.cmd.Process.Pid)
	}
	w.server, err3 = usageOf(b.server)
	w.began = time.Now()
	return w, errors.Join(err1, err2, err3)
}

// close waits until the participant is idle, and returns its usage for each object.
func (w *window) close(ctx context.Context, objects int) (sample, error) {
	if err := w.b.settle(ctx, w.p.cmd.Process.Pid); err != nil {
		return nil, err
	}
	if !w.b.smoke {
		time.Sleep(5 * time.Second) // Go returns memory to the system.
	}
	server, err1 := usageOf(w.b.server)
	after, err2 := usageOf(w.p.cmd.Process.Pid)
	sum, err3 := w.b.cluster.requests(ctx)
	n := float64(objects)
	return sample{
		operatorCPU: millis(after.cpu-w.before.cpu) / n, serverCPU: millis(server.cpu-w.server.cpu) / n, requests: (sum - w.requests) / n,
		received: (after.received - w.before.received) / n / 1000, sent: (after.sent - w.before.sent) / n / 1000,
		peakRSS: after.peak / 1e6, settledRSS: after.rss / 1e6,
	}, errors.Join(err1, err2, err3)
}

// idle is the CPU time per second below which a process is idle.
const idle = 50 * time.Millisecond

// settle waits until a process has been idle for a second.
func (b *bench) settle(ctx context.Context, pid int) error {
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
		if last >= 0 && u.cpu-last <= idle {
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

func names(n, every int) map[string]bool {
	all := map[string]bool{}
	for i := 0; i < n; i += every {
		all[name(i)] = true
	}
	return all
}

// described reports whether the status describes the newest spec and three children.
func described(app *v1.Application) bool {
	return app.Status.ObservedGeneration == app.Generation && len(app.Status.Resources) == 3
}

// each calls do for the numbers below n, with at most writers calls at a time.
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

// batch writes all objects, with this process or with the bare client. It returns the time until the statuses of all are up to date
// (described).
func (b *bench) batch(ctx context.Context, p *process, participant, verb, ns string, n int) (time.Duration, error) {
	done := func(app *v1.Application) bool { return described(app) && (verb == "create" || app.Generation > 1) }
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
	group := errgroup.Group{}
	group.Go(wait)
	group.Go(write)
	err = group.Wait()
	return time.Since(began), err
}

// with runs do with a participant in a namespace of its own. The participant is ready: it has reconciled one Application.
func (b *bench) with(ctx context.Context, participant string, do func(p *process, ns string) error) error {
	ns, err := b.namespace(ctx)
	if err != nil {
		return err
	}
	p, err := b.launch(ctx, participant)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }() // after an error
	if participant != bareClient {
		wait, err := b.watch(ctx, ns, map[string]bool{"canary": true}, described)
		if err != nil {
			return err
		}
		if err := errors.Join(b.create(ctx, ns, "canary"), wait()); err != nil {
			return err
		}
	}
	if err := errors.Join(b.settle(ctx, p.cmd.Process.Pid), b.settle(ctx, b.server)); err != nil {
		return err
	}
	if err := do(p, ns); err != nil {
		return err
	}
	settle := func() error {
		if p.stopped() {
			return nil
		}
		return b.settle(ctx, p.cmd.Process.Pid)
	}
	return errors.Join(b.clean(ctx, ns, settle), p.stop())
}

// burst creates many Applications at once.
func burst(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	err = b.with(ctx, participant, func(p *process, ns string) error {
		w, err := b.open(ctx, p)
		if err != nil {
			return err
		}
		profiled := b.profiler.profile(ctx, "burst", participant)
		took, err := b.batch(ctx, p, participant, "create", ns, s.objects)
		if err := errors.Join(err, profiled()); err != nil {
			return err
		}
		if got, err = w.close(ctx, s.objects); err != nil {
			return err
		}
		got[perSecond] = float64(s.objects) / took.Seconds()
		return b.complete(ctx, ns, s.objects)
	})
	return got, err
}

// complete returns an error if the children of an Application are missing.
func (b *bench) complete(ctx context.Context, ns string, n int) error {
	options := metav1.ListOptions{LabelSelector: v1.LabelApplication + "!=canary"}
	deployments, err1 := b.Kube.AppsV1().Deployments(ns).List(ctx, options)
	services, err2 := b.Kube.CoreV1().Services(ns).List(ctx, options)
	ingresses, err3 := b.Kube.NetworkingV1().Ingresses(ns).List(ctx, options)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if d, s, i := len(deployments.Items), len(services.Items), len(ingresses.Items); d != n || s != n || i != n {
		return fmt.Errorf("%d Applications have %d Deployments, %d Services and %d Ingresses", n, d, s, i)
	}
	return nil
}

// change changes the image of all Applications at once.
func change(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	err = b.with(ctx, participant, func(p *process, ns string) error {
		w, err := b.prepare(ctx, p, participant, ns, s.objects)
		if err != nil {
			return err
		}
		profiled := b.profiler.profile(ctx, "change", participant)
		took, err := b.batch(ctx, p, participant, "change", ns, s.objects)
		if err := errors.Join(err, profiled()); err != nil {
			return err
		}
		if got, err = w.close(ctx, s.objects); err != nil {
			return err
		}
		got[perSecond] = float64(s.objects) / took.Seconds()
		return nil
	})
	return got, err
}

// prepare creates Applications, waits until the participant is idle, and opens a window.
func (b *bench) prepare(ctx context.Context, p *process, participant, ns string, n int) (*window, error) {
	if _, err := b.batch(ctx, p, participant, "create", ns, n); err != nil {
		return nil, err
	}
	if err := errors.Join(b.settle(ctx, p.cmd.Process.Pid), b.settle(ctx, b.server)); err != nil {
		return nil, err
	}
	return b.open(ctx, p)
}

// changedMeanwhile is the number of Applications that change while no operator runs.
const changedMeanwhile = 10

// restart starts an operator on settled Applications. It is ready after it has reconciled the ten that changed while no operator ran.
// These are spread over all names. The figures are for each Application, from the start of the process.
func restart(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	err = b.with(ctx, participant, func(p *process, ns string) error {
		if _, err := b.prepare(ctx, p, participant, ns, s.objects); err != nil {
			return err
		}
		if err := p.stop(); err != nil {
			return err
		}
		changed := names(s.objects, s.objects/changedMeanwhile)
		for name := range changed {
			if err := b.patch(ctx, ns, name); err != nil {
				return err
			}
		}
		if err := b.settle(ctx, b.server); err != nil {
			return err
		}
		wait, err := b.watch(ctx, ns, changed, func(app *v1.Application) bool { return app.Generation > 1 && described(app) })
		if err != nil {
			return err
		}
		w, err := b.open(ctx, nil)
		if err != nil {
			return err
		}
		if w.p, err = b.launch(ctx, participant); err != nil {
			return err
		}
		profiled := b.profiler.profile(ctx, "restart", participant)
		if err := wait(); err != nil {
			return errors.Join(err, w.p.stop())
		}
		took := time.Since(w.began)
		if err = profiled(); err != nil {
			return errors.Join(err, w.p.stop())
		}
		if got, err = w.close(ctx, s.objects); err == nil {
			got[readyTime] = took.Seconds()
		}
		return errors.Join(err, w.p.stop())
	})
	return got, err
}

// rolledOut is the status of a Deployment whose rollout is complete; the number of its Pods is a placeholder.
const rolledOut = `{"status":{"observedGeneration":1,"replicas":%[1]d,"updatedReplicas":%[1]d,"readyReplicas":1,"availableReplicas":1,` +
	`"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Enough Pods are available."},` +
	`{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"The ReplicaSet has progressed."}]}}`

// statuses writes the status of Deployments at a steady rate, as their controller would. After the first one of each, only numbers change.
func statuses(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	err = b.with(ctx, participant, func(p *process, ns string) error {
		w, err := b.prepare(ctx, p, participant, ns, s.objects)
		if err != nil {
			return err
		}
		n := s.rate * s.seconds
		err = each(ctx, n, func(ctx context.Context, i int) error {
			time.Sleep(time.Until(w.began.Add(time.Duration(i) * time.Second / time.Duration(s.rate))))
			patch := fmt.Appendf(nil, rolledOut, 1+i/s.objects%2)
			_, err := b.Kube.AppsV1().Deployments(ns).Patch(ctx, name(i%s.objects), types.MergePatchType, patch,
				metav1.PatchOptions{}, "status")
			return err
		})
		if err != nil {
			return err
		}
		took := time.Since(w.began)
		if got, err = w.close(ctx, n); err == nil {
			got[perSecond] = float64(n) / took.Seconds()
		}
		return err
	})
	return got, err
}
