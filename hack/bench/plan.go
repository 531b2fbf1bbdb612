// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/bench/application"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// exitUnsettled is the exit code of glassback plan if the operator would still change an object: the object is not settled.
const exitUnsettled = 2

// plan measures the command "glassback plan". No operator has reconciled the objects yet, so the command plans all of their children. There
// is one MyCronJob for 10 Applications, and one RedisCluster for 250, but at least one.
func plan(ctx context.Context, b *bench, participant string, s size) (sample, error) {
	ns, err := b.createNamespace(ctx)
	if err != nil {
		return nil, err
	}
	crons, redis := s.objects/10, max(1, s.objects/250)
	if err := b.createAll(ctx, ns, s.objects, crons, redis); err != nil {
		return nil, err
	}
	if err := b.waitUntilIdle(ctx, b.server); err != nil {
		return nil, err
	}
	got, err := b.runPlan(ctx, participant, ns, s.objects+crons+redis)
	return got, errors.Join(err, b.clean(ctx, ns, func() error { return nil }))
}

// createAll creates the given numbers of Applications, MyCronJobs and RedisClusters.
func (b *bench) createAll(ctx context.Context, ns string, apps, crons, redis int) error {
	err := each(ctx, apps, func(ctx context.Context, i int) error { return b.create(ctx, ns, name(i)) })
	if err != nil {
		return err
	}
	err = each(ctx, crons, func(ctx context.Context, i int) error {
		m := &mcjv1.MyCronJob{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
		m.Spec.IntervalSeconds = ptr.To[int32](60)
		m.Spec.JobTemplate.Spec = application.JobSpec()
		_, err := b.Glassback.BatchV1().MyCronJobs(ns).Create(ctx, m, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return each(ctx, redis, func(ctx context.Context, i int) error {
		r := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Spec: redisv1.RedisClusterSpec{Addr: "192.0.2.1:6379"}}
		_, err := b.Glassback.RedisV1().RedisClusters(ns).Create(ctx, r, metav1.CreateOptions{})
		return err
	})
}

// runPlan runs glassback plan. It returns an error if any of the objects is settled.
func (b *bench) runPlan(ctx context.Context, participant, ns string, objects int) (sample, error) {
	args := []string{"plan", "--namespace", ns, "--output", "json", "--kubeconfig", b.kubeconfig}
	if participant == planOffline {
		args = append(args, "--offline")
	}
	output := filepath.Join(b.dir, "plan.json")
	out, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	before, err := b.metrics(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.bin("glassback"), args...)
	cmd.Stdout = out
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	if code := cmd.ProcessState.ExitCode(); code != exitUnsettled {
		return nil, fmt.Errorf("glassback plan ended with the exit code %d (%v), want %d", code, err, exitUnsettled)
	}
	after, err := b.metrics(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkPlan(output, objects); err != nil {
		return nil, err
	}
	sent := func(verbs ...string) float64 {
		return requestsIn(after, planned, verbs...) - requestsIn(before, planned, verbs...)
	}
	reads := sent("LIST", "WATCH")
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return sample{
		planTime: took.Seconds(), lists: reads, writes: sent() - reads, peakRSS: 1024 * float64(usage.Maxrss) / 1e6,
		operatorCPU: millis(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / float64(objects),
	}, nil
}

// checkPlan returns an error unless a plan has exactly this number of objects, and none of them is settled.
func checkPlan(file string, objects int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var plan struct{ Objects []struct{ Settled bool } }
	if err := json.Unmarshal(text, &plan); err != nil {
		return fmt.Errorf("the plan is not valid JSON: %w", err)
	}
	unsettled := 0
	for _, o := range plan.Objects {
		if !o.Settled {
			unsettled++
		}
	}
	if len(plan.Objects) != objects || unsettled != objects {
		return fmt.Errorf("the plan has %d objects, of which %d are not settled, want %d", len(plan.Objects), unsettled, objects)
	}
	return nil
}
