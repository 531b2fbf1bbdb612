// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/must"
)

// BenchmarkPunctuality measures how late Jobs are created when many MyCronJobs have the same slots, every 5 seconds. The measured time
// begins at the slot, plus its jitter if there is any. It ends when the watch event of the Job arrives here, so that it includes all of the
// API server's work. The operator uses the shipped account and Role. The operator, the control plane and this process share the machine.
//
//	go test -run '^$' -bench 'Punctuality|BareClient' -benchtime 1x ./e2e
func BenchmarkPunctuality(b *testing.B) {
	alone := cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}}
	for _, c := range []struct {
		name    string
		objects int
		jitter  int32
		config  cluster.Config
	}{
		{"500 on etcd and the API server only and all at once", 500, 0, alone},
		{"500 on etcd and the API server only with jitterSeconds 4", 500, 4, alone},
		{"50 on the whole simulated node and all at once", 50, 0, cluster.Config{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := start(b, c.config)
			config := w.shippedAccount(b)
			launch(b, append([]string{"--kubeconfig", config}, strings.Fields(os.Getenv("GLASSBACK_ARGS"))...)...).waitFor("Started controller")
			for range b.N {
				w.punctuality(b, c.objects, 8, c.jitter)
			}
		})
	}
}

// shippedAccount installs the CRDs, and creates an account with the shipped Role.
func (w *world) shippedAccount(t testing.TB) string {
	t.Helper()
	o := launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds")
	o.waitFor("Started controller")
	o.kill()
	config := w.account(t, "manager")
	w.grantShippedRole(t)
	return config
}

// offset returns how long after a slot an object's Job starts: its share of jitterSeconds. It is the same as in pkg/controller/mycronjob.
func offset(uid string, jitterSeconds int32) time.Duration {
	if jitterSeconds == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // hash.Hash never returns an error
	return time.Duration(h.Sum64()%uint64(jitterSeconds*1000)) * time.Millisecond
}

// BenchmarkBareClient is the comparison for BenchmarkPunctuality: the time that the API server takes to create 500 Jobs at once. Some
// number of writers create them, and do nothing else.
func BenchmarkBareClient(b *testing.B) {
	w := start(b, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	for _, writers := range []int{8, 16, 32} {
		b.Run(fmt.Sprintf("%d writers", writers), func(b *testing.B) {
			var late []time.Duration
			for i := range b.N {
				names := make(chan string)
				begin := time.Now()
				var mu sync.Mutex
				var writing sync.WaitGroup
				for range writers {
					writing.Go(func() {
						for name := range names {
							job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: sample("").Spec.JobTemplate.Spec}
							if _, err := w.kube.BatchV1().Jobs("default").Create(b.Context(), job, metav1.CreateOptions{}); err != nil {
								b.Error(err)
							}
							mu.Lock()
							late = append(late, time.Since(begin))
							mu.Unlock()
						}
					})
				}
				for j := range 500 {
					names <- fmt.Sprintf("job-%d-%d-%d-%d", writers, b.N, i, j)
				}
				close(names)
				writing.Wait()
			}
			report(b, late)
		})
	}
}

// report reports the percentiles of delays.
func report(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(late[len(late)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(late[len(late)*99/100].Milliseconds()), "p99-ms")
	b.ReportMetric(float64(late[len(late)-1].Milliseconds()), "max-ms")
	b.ReportMetric(float64(len(late)), "jobs")
}

// punctuality watches the Jobs of a number of objects for a number of slots, and reports their delays.
func (w *world) punctuality(b *testing.B, objects, slots int, jitter int32) {
	w.createSamples(b, objects, jitter)
	eventually(b, time.Minute, func(ctx context.Context) error { return w.allScheduled(ctx, objects) })

	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	jobs, err := w.kube.BatchV1().Jobs("default").List(ctx, metav1.ListOptions{Limit: 1})
	must.Succeed(b, err)
	watching, err := watchtools.NewRetryWatcherWithContext(ctx, jobs.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return w.kube.BatchV1().Jobs("default").Watch(ctx, o)
		},
	})
	must.Succeed(b, err)
	defer watching.Stop()
	first := time.Now().Unix()/5*5 + 10 // The slot after the next one: by then, all work of the start has ended.
	last := first + int64(slots-1)*5
	var late, sent []time.Duration
	deadline := time.After(time.Until(time.Unix(last+int64(jitter)+20, 0)))
	for len(late) < objects*slots {
		select {
		case event, open := <-watching.ResultChan():
			now := time.Now()
			if !open || event.Type == "ERROR" {
				b.Fatalf("the watch ended after %d Jobs: %+v", len(late), event.Object)
			}
			job, ok := event.Object.(*batchv1.Job)
			if !ok || event.Type != "ADDED" {
				continue
			}
			second, err := strconv.ParseInt(job.Name[strings.LastIndex(job.Name, "-")+1:], 10, 64)
			must.Succeed(b, err)
			if second >= first && second <= last {
				due := time.Unix(second, 0).Add(offset(string(job.OwnerReferences[0].UID), jitter))
				late = append(late, now.Sub(due))
				if millis, err := strconv.Atoi(job.Annotations[v1.AnnotationSkew]); err == nil {
					sent = append(sent, time.Duration(millis)*time.Millisecond)
				}
			}
		case <-deadline:
			b.Fatalf("%d of %d Jobs were created", len(late), objects*slots)
		}
	}
	report(b, late)
	slices.Sort(sent)
	b.ReportMetric(float64(sent[len(sent)*99/100].Milliseconds()), "p99-sent-ms")
}

// createSamples creates a number of copies of the seed's MyCronJob.
func (w *world) createSamples(t testing.TB, objects int, jitter int32) {
	t.Helper()
	var creating sync.WaitGroup
	for i := range objects {
		creating.Go(func() {
			m := sample(fmt.Sprintf("sample-%d", i))
			m.Spec.JitterSeconds = &jitter
			if _, err := w.glassback.BatchV1().MyCronJobs("default").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	creating.Wait()
}

func (w *world) allScheduled(ctx context.Context, objects int) error {
	list, err := w.glassback.BatchV1().MyCronJobs("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	scheduled := 0
	for _, m := range list.Items {
		if m.Status.NextScheduleTime != nil {
			scheduled++
		}
	}
	if scheduled < objects {
		return fmt.Errorf("%d of %d objects have a next slot", scheduled, objects)
	}
	return nil
}

// sample is the seed's MyCronJob.
func sample(name string) *v1.MyCronJob {
	return &v1.MyCronJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.MyCronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers: []corev1.Container{{
				Name: "hello", Image: "busybox", Args: []string{"/bin/sh", "-c", "date; echo Hello from the Kubernetes cluster"},
			}},
		}}}}, Suspend: ptr.To(false)},
	}
}
