// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

// The results in this file depend on the speed of the machine. "make measure" runs the tests.

// watched runs an operator, and returns a function with its requests to the API server: their numbers by method and code.
func (w *world) watched(t *testing.T) (*operator, func() map[string]string) {
	t.Helper()
	metrics := freeAddress(t)
	o := w.operate(t, "--install-crds", "--metrics-bind-address="+metrics, "--metrics-secure=false")
	return o, func() map[string]string {
		response, err := http.Get("http://" + metrics + "/metrics")
		w.must(t, err)
		defer response.Body.Close()
		counts := map[string]string{}
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			name, count, _ := strings.Cut(lines.Text(), "} ")
			if requests, ok := strings.CutPrefix(name, "rest_client_requests_total{"); ok {
				counts[requests] = count
			}
		}
		if len(counts) == 0 {
			t.Fatal("the metrics have no requests")
		}
		return counts
	}
}

// settled waits until an operator has made no request for a while: then all background work has ended. It returns the requests until then.
func settled(t *testing.T, while time.Duration, requests func() map[string]string) map[string]string {
	t.Helper()
	before, since := requests(), time.Now()
	await(t, func(context.Context) error {
		now := requests()
		if !maps.Equal(before, now) {
			before, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < while {
			return fmt.Errorf("the last request was %s ago: %v", quiet, now)
		}
		return nil
	})
	return before
}

// TestApplicationsAreQuiet shows that the operator makes no request for settled Applications, and writes nothing for them after a restart.
func TestApplicationsAreQuiet(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	o, requests := w.watched(t)
	ns := w.namespace(t)
	files, err := filepath.Glob(examplesDir + "application*.yaml") // Their children need many defaults of the API server.
	w.must(t, err)
	names := []string{"resources"}
	for _, file := range files {
		app := artifact[appv1.Application](t, filepath.Join("examples", filepath.Base(file)))
		names = append(names, app.Name)
		_, err := w.glassback.AppV1().Applications(ns).Create(t.Context(), app, metav1.CreateOptions{})
		w.must(t, err)
	}
	w.createApp(t, ns, "resources", func(a *appv1.Application) { // The API server stores other forms of these.
		a.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Ki")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("2.0"), "memory": resource.MustParse("0.5Gi")},
		}
	})
	for _, name := range names {
		w.ready(t, ns, name)
	}
	before := settled(t, 12*time.Second, requests) // The operator writes a change of numbers only after 10 s.
	t.Logf("requests for %d Applications: %v", len(names), before)
	time.Sleep(time.Minute)
	if after := requests(); !maps.Equal(before, after) {
		t.Errorf("within a minute, the requests %v became %v", before, after)
	}
	o.stop()
	o, requests = w.watched(t)
	for _, name := range names { // Each object has been synced, and not only watched.
		o.waitFor(fmt.Sprintf(`"Synced" controller="application" object="%s/%s"`, ns, name))
	}
	for request := range settled(t, 12*time.Second, requests) {
		if strings.Contains(request, `method="PATCH"`) || strings.Contains(request, `method="PUT"`) || strings.Contains(request, `method="DELETE"`) {
			t.Errorf("after a restart, there were the requests %s", request)
		}
	}
}

// TestQuietBetweenSlots shows that the operator makes no request between two slots.
func TestQuietBetweenSlots(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	_, requests := w.watched(t)
	const interval = 60
	audit := w.audit(t, metav1.NamespaceDefault)
	for i := range 20 {
		w.create(t, metav1.NamespaceDefault, fmt.Sprintf("sample-%d", i), func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](interval) })
	}
	await(t, func(context.Context) error {
		if jobs := audit.of("sample"); len(jobs) < 20 {
			return fmt.Errorf("%d of 20 Jobs were created", len(jobs))
		}
		return nil
	})
	before := settled(t, 5*time.Second, requests) // The operator records the slots, and sends events in the background.
	untilNext := interval - time.Now().Unix()%interval
	if untilNext < 10 {
		t.Fatalf("the next slot is in %d s: this would show nothing", untilNext)
	}
	time.Sleep(time.Duration(untilNext-2) * time.Second)
	if after := requests(); !maps.Equal(before, after) {
		t.Errorf("in %d s between two slots, the requests %v became %v", untilNext-2, before, after)
	}
}

const imageAttacker = "glassback.test/attacker:test"

// TestWebhooksUnderAttack installs the shipped operator with its memory limit. A Pod attacks its only replica for a minute. The kernel does
// not kill the replica, and the API server gets its answers.
func TestWebhooksUnderAttack(t *testing.T) {
	needRealNode(t)
	w := start(t, cluster.Config{Node: cluster.NodeReal})
	w.load(t, imageBefore)
	attacker := filepath.Join(t.TempDir(), "attacker")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", attacker, "./attacker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the attacker: %v\n%s", err, out)
	}
	w.loadProgram(t, imageAttacker, attacker)
	in := &installation{world: w, ecs: "http://127.0.0.1:8099"} // This test has no ECSInstances.
	in.apply(t, imageBefore)
	in.ready(t)
	in.mustKubectl(t, "scale", "--namespace", operatorNamespace, "deployment/glassback-manager", "--replicas=1")
	await(t, func(context.Context) error {
		if n := len(in.replicas(t)); n != 1 {
			return fmt.Errorf("the operator has %d replicas", n)
		}
		return nil
	})
	manager := in.replicas(t)[0]
	ns := in.namespace(t)
	w.called(t, ns)

	target := net.JoinHostPort(manager.Status.PodIP, "9443")
	_, err := w.kube.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "attacker"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{
			Name: "attacker", Image: imageAttacker, ImagePullPolicy: corev1.PullIfNotPresent,
			Args: []string{"--target", target, "--at-once=64", "--for=1m"},
		}},
	}}, metav1.CreateOptions{})
	w.must(t, err)
	answers := w.ask(t, ns, 2)
	in.mustKubectl(t, "wait", "--namespace", ns, "pod/attacker", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=10m")
	got := answers.end()
	t.Logf("%d valid requests, sizes %v, and the attacker's:\n%s", got.asked, got.sizes, in.mustKubectl(t, "logs", "--namespace", ns, "attacker"))
	if failed := got.asked - got.sizes[6]; got.asked < 100 || failed*100 > got.asked {
		got.check(t)
		t.Errorf("%d of %d valid requests were not answered in time, want no more than 1 %% of at least 100", failed, got.asked)
	}
	after := in.replicas(t)
	if len(after) != 1 || after[0].UID != manager.UID || after[0].Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the replica was killed: %+v", after)
	}
}
