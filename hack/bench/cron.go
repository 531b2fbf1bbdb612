// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/bench/application"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// cron measures how late Jobs are: from their slot until their watch event arrives here. The slots of all MyCronJobs are on the same
// second. The bare client creates as many Jobs at once; for it the time counts from the start of the batch.
func cron(ctx context.Context, b *bench, participant string, s size) (got sample, err error) {
	err = b.runParticipant(ctx, participant, func(p *process, ns string) error {
		w, err := b.open(ctx, p)
		if err != nil {
			return err
		}
		measure := b.slots
		if participant == bareClient {
			measure = b.batches
		}
		late, err := measure(ctx, p, ns, s)
		if err != nil {
			return err
		}
		got, err = w.close(ctx, len(late))
		// The counts include the creation of MyCronJobs and more slots than are measured.
		got = sample{p50: millis(percentile(late, 50)), p99: millis(percentile(late, 99)), peakRSS: got[peakRSS]}
		return err
	})
	return got, err
}

// jobs starts a watch of the Jobs that are created from now on.
func (b *bench) jobs(ctx context.Context, ns string) (watch.Interface, error) {
	list, err := b.Kube.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	return b.Kube.BatchV1().Jobs(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
}

// arrivals returns how late n Jobs are. due returns the time at which a Job was due, and false for a Job that does not count.
func arrivals(w watch.Interface, n int, due func(*batchv1.Job) (time.Time, bool)) ([]time.Duration, error) {
	defer w.Stop()
	var late []time.Duration
	timeout := time.After(patience)
	for len(late) < n {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return nil, fmt.Errorf("the watch ended after %d of %d Jobs", len(late), n)
			}
			if job, is := event.Object.(*batchv1.Job); is && event.Type == watch.Added {
				if at, counts := due(job); counts {
					late = append(late, time.Since(at))
				}
			}
		case <-timeout:
			return nil, fmt.Errorf("%d of %d Jobs arrived", len(late), n)
		}
	}
	return late, nil
}

func (b *bench) batches(ctx context.Context, p *process, ns string, s size) ([]time.Duration, error) {
	var late []time.Duration
	for range s.slots {
		w, err := b.jobs(ctx, ns)
		if err != nil {
			return nil, err
		}
		began, failed := time.Now(), make(chan error, 1)
		go func() { failed <- p.batch("jobs", s.objects, ns) }()
		more, err := arrivals(w, s.objects, func(*batchv1.Job) (time.Time, bool) { return began, true })
		if err := errors.Join(err, <-failed); err != nil {
			return nil, err
		}
		late = append(late, more...)
	}
	return late, nil
}

func (b *bench) slots(ctx context.Context, _ *process, ns string, s size) ([]time.Duration, error) {
	crons := b.Glassback.BatchV1().MyCronJobs(ns)
	err := each(ctx, s.objects, func(ctx context.Context, i int) error {
		m := &mcjv1.MyCronJob{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
		m.Spec.IntervalSeconds = ptr.To(int32(s.seconds))
		m.Spec.JobTemplate.Spec = application.JobSpec()
		_, err := crons.Create(ctx, m, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	for scheduled := 0; scheduled < s.objects; time.Sleep(time.Second) {
		list, err := crons.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		scheduled = 0
		for _, m := range list.Items {
			if m.Status.NextScheduleTime != nil {
				scheduled++
			}
		}
	}
	w, err := b.jobs(ctx, ns)
	if err != nil {
		return nil, err
	}
	interval := int64(s.seconds)
	first := (time.Now().Unix()/interval + 1) * interval
	if first-time.Now().Unix() < 3 {
		first += interval // The statuses of the beginning are still being written.
	}
	return arrivals(w, s.objects*s.slots, func(job *batchv1.Job) (time.Time, bool) {
		slot, err := strconv.ParseInt(job.Name[strings.LastIndexByte(job.Name, '-')+1:], 10, 64)
		return time.Unix(slot, 0), err == nil && slot >= first && slot < first+interval*int64(s.slots)
	})
}
