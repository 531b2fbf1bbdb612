// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

const imageAttacker = "glassback.test/attacker:test"

// TestWebhooksUnderAttack installs the shipped operator with its memory limit. A Pod attacks its only replica for a minute. The kernel does
// not kill the replica, and the API server gets its answers.
func TestWebhooksUnderAttack(t *testing.T) {
	needRealNode(t)
	w := start(t, cluster.Config{Node: cluster.NodeReal})
	w.load(t, imageBefore)
	w.loadProgram(t, imageAttacker, attacker(t))
	in := &installation{world: w, ecs: "http://127.0.0.1:8099"} // This test has no ECSInstances.
	in.apply(t, imageBefore)
	in.ready(t)
	in.run(t, "scale", "--namespace", operatorNamespace, "deployment/glassback-manager", "--replicas=1")
	eventually(t, patience, func(context.Context) error {
		if n := len(in.replicas(t)); n != 1 {
			return fmt.Errorf("the operator has %d replicas", n)
		}
		return nil
	})
	manager := in.replicas(t)[0]
	ns := in.namespace(t)
	w.called(t, ns)

	began := time.Now()
	in.attack(t, ns, net.JoinHostPort(manager.Status.PodIP, "9443"))
	answers := w.ask(t, ns, 2)
	log := in.finished(t, ns, "attacker")
	got := answers.end()
	t.Logf("%d valid requests in %s, sizes %v, and the attacker's:\n%s", got.asked, time.Since(began).Round(time.Second), got.sizes, log)
	failed := got.asked - got.sizes[6]
	if got.asked < 100 || failed*100 > got.asked {
		for class, errs := range got.errs {
			t.Errorf("%d for %s, such as: %v", len(errs), class, errs[0])
		}
		t.Errorf("%d of %d valid requests were not answered in time, want no more than 1 %% of at least 100", failed, got.asked)
	}
	after := in.replicas(t)
	if len(after) != 1 || after[0].UID != manager.UID || after[0].Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the replica was killed: %+v", after)
	}
}

// attacker builds the attacking program, and returns its file.
func attacker(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "attacker")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", file, "./attacker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the attacker: %v\n%s", err, out)
	}
	return file
}

// attack runs a Pod that attacks an address for a minute.
func (in *installation) attack(t *testing.T, ns, target string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "attacker"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name: "attacker", Image: imageAttacker, ImagePullPolicy: corev1.PullIfNotPresent,
			Args: []string{"--target", target, "--at-once=64", "--for=1m"},
		}},
	}}
	_, err := in.kube.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	in.must(t, err)
}

// finished waits until a Pod has succeeded, and returns its log.
func (in *installation) finished(t *testing.T, ns, pod string) string {
	t.Helper()
	eventually(t, 2*patience, func(ctx context.Context) error {
		got, err := in.kube.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
		if err != nil || got.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("Pod %s is %s, %w", pod, got.Status.Phase, err)
		}
		return nil
	})
	log, err := in.kube.CoreV1().Pods(ns).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
	in.must(t, err)
	return string(log)
}
