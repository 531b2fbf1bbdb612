// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
)

// burst creates many Applications at once.
func burst(ctx context.Context, b *bench, participant string, s size) (sample, error) {
	return b.measureBatch(ctx, "burst", "create", participant, s.objects)
}

// change changes the image of all Applications at once.
func change(ctx context.Context, b *bench, participant string, s size) (sample, error) {
	return b.measureBatch(ctx, "change", "change", participant, s.objects)
}

// measureBatch measures one batch of n Applications: see batch. For a change, it creates them before the window opens.
func (b *bench) measureBatch(ctx context.Context, scenario, verb, participant string, n int) (got sample, err error) {
	err = b.runParticipant(ctx, participant, func(p *process, ns string) error {
		var w *window
		if verb == "create" {
			w, err = b.open(ctx, p)
		} else {
			w, err = b.prepare(ctx, p, participant, ns, n)
		}
		if err != nil {
			return err
		}
		waitForProfile := b.profiler.profile(ctx, scenario, participant)
		took, err := b.batch(ctx, p, participant, verb, ns, n)
		if err := errors.Join(err, waitForProfile()); err != nil {
			return err
		}
		if got, err = w.close(ctx, n); err != nil {
			return err
		}
		got[perSecond] = float64(n) / took.Seconds()
		if verb == "create" {
			return b.checkChildren(ctx, ns, n)
		}
		return nil
	})
	return got, err
}

// checkChildren returns an error unless there are n Deployments, n Services and n Ingresses beside those of the canary.
func (b *bench) checkChildren(ctx context.Context, ns string, n int) error {
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

// prepare creates n Applications, waits until the participant and the API server are idle, and opens a window.
func (b *bench) prepare(ctx context.Context, p *process, participant, ns string, n int) (*window, error) {
	if _, err := b.batch(ctx, p, participant, "create", ns, n); err != nil {
		return nil, err
	}
	if err := errors.Join(b.waitUntilIdle(ctx, p.cmd.Process.Pid), b.waitUntilIdle(ctx, b.server)); err != nil {
		return nil, err
	}
	return b.open(ctx, p)
}

// changedMeanwhile is the number of Applications that change while no operator runs.
const changedMeanwhile = 10

// restart measures the start of an operator. While no operator runs, changedMeanwhile Applications change. The operator is ready when it
// has reconciled these. CPU time and requests since the start are divided by the number of all Applications.
func restart(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	err = b.runParticipant(ctx, participant, func(p *process, ns string) (err error) {
		if _, err := b.prepare(ctx, p, participant, ns, s.objects); err != nil {
			return err
		}
		if err := p.stop(); err != nil {
			return err
		}
		changed := names(s.objects, max(1, s.objects/changedMeanwhile))
		for name := range changed {
			if err := b.patch(ctx, ns, name); err != nil {
				return err
			}
		}
		if err := b.waitUntilIdle(ctx, b.server); err != nil {
			return err
		}
		wait, err := b.watch(ctx, ns, changed, func(app *v1.Application) bool { return app.Generation > 1 && statusCurrent(app) })
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
		defer func() { err = errors.Join(err, w.p.stop()) }()
		waitForProfile := b.profiler.profile(ctx, "restart", participant)
		if err := wait(); err != nil {
			return err
		}
		took := time.Since(w.began)
		if err := waitForProfile(); err != nil {
			return err
		}
		if got, err = w.close(ctx, s.objects); err == nil {
			got[readyTime] = took.Seconds()
		}
		return err
	})
	return got, err
}

// availableStatus is the status of a Deployment that is Available. Its parameter is the number of Pods.
const availableStatus = `{"status":{"observedGeneration":1,"replicas":%[1]d,"updatedReplicas":%[1]d,"readyReplicas":1,"availableReplicas":1,
	"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"Enough Pods are available."},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"The ReplicaSet has progressed."}]}}`

// statuses writes the status of Deployments at a steady rate, as their controller would. After the first write to a Deployment, only the
// number of Pods changes.
func statuses(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	err = b.runParticipant(ctx, participant, func(p *process, ns string) error {
		w, err := b.prepare(ctx, p, participant, ns, s.objects)
		if err != nil {
			return err
		}
		n := s.rate * s.seconds
		err = each(ctx, n, func(ctx context.Context, i int) error {
			time.Sleep(time.Until(w.began.Add(time.Duration(i) * time.Second / time.Duration(s.rate))))
			patch := fmt.Appendf(nil, availableStatus, 1+(i/s.objects)%2)
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
