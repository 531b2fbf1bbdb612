// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// TestSmoke is the test on a cluster that "make test" runs; all others are in "make test-all". With a simulated node and a simulated ECS,
// the seeds' samples become Ready, and the webhooks answer with the seed's words. The leader is killed, another operator takes over, and
// one starts again with the webhooks of the killed one. No slot of the MyCronJob runs twice, and none is lost.
func TestSmoke(t *testing.T) {
	w := start(t, cluster.Config{})
	ecs := simulate(t, w, w.Kubeconfig())
	w.createNamespace(t, operatorNamespace)
	ns := w.namespace(t)
	u := freeURL(t)
	operate := func(args ...string) *operator {
		args = append([]string{
			"--kubeconfig", w.Kubeconfig(), "-v=2", "--ecs-endpoint", ecs.url, "--leader-elect",
			"--leader-elect-resource-namespace=" + operatorNamespace,
		}, args...)
		cmd := exec.Command(binary(t), args...)
		cmd.Env = withCloud()
		return follow(t, cmd, args)
	}

	leader := operate("--install-crds", "--webhook-url", u.String())
	leader.waitFor("Started controller")
	w.called(t, ns)
	testAddr(t, w, ns)
	w.redisObjects(t, ns)

	audit := w.audit(t, ns)
	for _, file := range []string{"apiexamplea.yaml", "application.yaml", "mycronjob.yaml", "ecsinstance.yaml"} {
		if out, err := w.kubectl(t, "apply", "--namespace", ns, "-f", examples+file); err != nil {
			t.Fatal(out)
		}
		if out, err := w.kubectl(t, "wait", "--namespace", ns, "--for=condition=Ready", "--timeout=5m", "-f", examples+file); err != nil {
			t.Fatal(out)
		}
	}
	const cron = "mycronjob-sample"
	w.runs(t, audit, []string{cron})

	standby := operate()
	standby.waitFor("Standing by")
	leader.kill()
	standby.waitFor(leading)
	w.runs(t, audit, []string{cron})
	audit.check(t, cron)

	operate("--webhook-url", u.String())
	w.called(t, ns)
	w.must(t, standby.cmd.Process.Signal(os.Interrupt))
	w.runs(t, audit, []string{cron})
	audit.check(t, cron)
	if is := checkWith(t, withCloud(), "--kubeconfig", w.Kubeconfig(), "--ecs-endpoint", ecs.url); is.State == "failed" {
		t.Errorf("glassback check: %s", is.said)
	}
	if instances, err := ecs.instances(t.Context()); err != nil || len(instances) != 1 {
		t.Errorf("ECS has the instances %v, want one: %v", instances, err)
	}
}

// redisObjects waits until the operator has created the objects of the sample RedisCluster, and deletes them. The node takes no Pods
// meanwhile: a simulated Pod on it would have an IP, to which the operator would connect.
func (w *world) redisObjects(t *testing.T, ns string) {
	t.Helper()
	kubectl := func(args ...string) string {
		out, err := w.kubectl(t, args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	exist := func(want int) {
		eventually(t, patience, func(context.Context) error {
			out := kubectl("get", "pods,services,configmaps,poddisruptionbudgets", "--namespace", ns, "--output=name",
				"--selector", redisv1.LabelRedisCluster+"=rediscluster-sample")
			if got := strings.Count(out, "\n"); got != want {
				return fmt.Errorf("the RedisCluster has %d objects, want %d:\n%s", got, want, out)
			}
			return nil
		})
	}
	const all = "--selector=kubernetes.io/hostname"
	kubectl("cordon", all)
	kubectl("apply", "--namespace", ns, "-f", examples+seedSample)
	exist(9) // six Pods, and one of each other kind
	kubectl("delete", "--namespace", ns, "-f", examples+seedSample)
	exist(0)
	kubectl("uncordon", all)
}
