// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/pipeline"
)

// TestBothQueues runs one operator for each delta queue, in a namespace of its own. The operator creates, repairs, changes and deletes
// children of several kinds. It also processes changes from a time without an operator.
func TestBothQueues(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	if code := w.operate(t, "--install-crds").stop(); code != 0 {
		t.Fatalf("the operator that installs the definitions ended with %d", code)
	}
	t.Run("at the same time", func(t *testing.T) {
		for _, queue := range []pipeline.Queue{pipeline.DeltaFIFO, pipeline.RealFIFO} {
			t.Run(queue.String(), func(t *testing.T) {
				t.Parallel()
				testQueue(t, w, w.namespace(t), queue.String())
			})
		}
	})
}

func testQueue(t *testing.T, w *world, ns, queue string) {
	const name = "sample"
	address := freeAddress(t)
	page := &shown{world: w, url: "http://" + address + "/inspect/"}
	args := []string{
		"--namespace=" + ns, "--controllers=apiexamplea,application,mycronjob", "--informer-queue=" + queue, "--inspect-bind-address=" + address,
	}
	examples, apps := w.glassback.GroupaV1().ApiExampleAs(ns), w.glassback.AppV1().Applications(ns)
	crons := w.glassback.BatchV1().MyCronJobs(ns)
	configMaps := w.kube.CoreV1().ConfigMaps(ns)
	settles := func(firstName string, replicas int32) {
		t.Helper()
		eventually(t, 60*time.Second, func(ctx context.Context) error {
			m, err := configMaps.Get(ctx, name+"-greeting", metav1.GetOptions{})
			if err != nil || m.Data["greeting"] != "Greetings to "+firstName {
				return fmt.Errorf("the ConfigMap has %v, want a greeting to %s: %w", m.Data, firstName, err)
			}
			d, err := w.kube.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil || d.Spec.Replicas == nil || *d.Spec.Replicas != replicas {
				return fmt.Errorf("the Deployment has %v replicas, want %d: %w", d.Spec.Replicas, replicas, err)
			}
			return nil
		})
		w.wantKinds(t, 60*time.Second, ns, name, "Deployment", "Ingress", "Service")
		w.ready(t, ns, name)
	}
	change := func(firstName string, replicas int32) {
		t.Helper()
		_, err := examples.Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"first_name":%q}}`, firstName),
			metav1.PatchOptions{})
		w.must(t, err)
		w.patchApp(t, ns, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
		w.must(t, configMaps.Delete(t.Context(), name+"-greeting", metav1.DeleteOptions{}))
		w.must(t, w.kube.CoreV1().Services(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	o := w.operate(t, args...)
	_, err := examples.Create(t.Context(), &groupav1.ApiExampleA{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: groupav1.ApiExampleASpec{FirstName: "Ada"},
	}, metav1.CreateOptions{})
	w.must(t, err)
	w.createApp(t, ns, name)
	w.create(t, ns, name)
	settles("Ada", 1)
	change("Grace", 2)
	settles("Grace", 2)

	o.kill()
	change("Barbara", 1)
	o = w.operate(t, args...)
	settles("Barbara", 1)
	eventually(t, 60*time.Second, func(ctx context.Context) error {
		if jobs, err := w.jobsOf(ctx, ns, name); err != nil || len(jobs) == 0 {
			return fmt.Errorf("the MyCronJob has no Job: %w", err)
		}
		return nil
	})

	w.must(t, examples.Delete(t.Context(), name, metav1.DeleteOptions{}))
	w.must(t, apps.Delete(t.Context(), name, metav1.DeleteOptions{}))
	w.must(t, crons.Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		overview, err := page.overview(ctx)
		if err != nil {
			return err
		}
		for _, i := range overview.Informers {
			if i.Queue != queue {
				t.Errorf("the informer of %s has the queue %s", i.Resource, i.Queue)
			}
			own := i.Resource == resources["apiexamplea"].informer || i.Resource == resources["application"].informer ||
				i.Resource == resources["mycronjob"].informer
			if own && i.Objects > 0 {
				return fmt.Errorf("the index of %s still has %d objects", i.Resource, i.Objects)
			}
		}
		return nil
	})
	if code := o.stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}
}
