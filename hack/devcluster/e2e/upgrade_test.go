// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// upgradeFrom is the commit that TestUpgrade upgrades from. The golden files of the children are of the same commit.
const upgradeFrom = "0908c11"

// TestUpgrade installs the operator of an earlier commit, upgrades it to this commit as docs/install.md says, and downgrades it again.
// Objects of every kind exist. A client writes to the RedisCluster all the time, and a MyCronJob runs every 5 seconds. After each step, the
// workloads are the same objects and have not restarted. No slot was missed, and no acknowledged write is lost. ECS has got no call that
// changes anything. The API server accepts every stored object.
func TestUpgrade(t *testing.T) {
	needRealNode(t)
	old := checkout(t, upgradeFrom)
	program := filepath.Join(old, "bin", "glassback")
	// Without -trimpath, Go would compile the code again in each new directory.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Dir, build.Env = old, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the operator of %s: %v\n%s", upgradeFrom, err, out)
	}
	heavy.parallel(t)
	w := start(t, cluster.Config{Node: cluster.NodeReal})
	w.loadProgram(t, imageBefore, program)
	w.load(t, imageAfter)
	in, ecs := w.prepare(t)
	in.applyFrom(t, old, imageBefore)
	in.ready(t)
	in.samples(t, examplesDir)

	ns := w.namespace(t)
	audit := w.audit(t, ns)
	const name = "audited"
	w.create(t, ns, name, func(m *v1.MyCronJob) {
		m.Spec.MissedRunPolicy = v1.AllMissed
		withoutPods(m)
	})
	n := &node{w, metav1.NamespaceDefault}
	writer := n.known(t, artifact[redisv1.RedisCluster](t, "examples/rediscluster.yaml")).write(t)

	workloads, calls := in.workloads(t), ecs.changes()
	if len(calls) == 0 || strings.Count(workloads, "\nPod/") < 7 {
		t.Fatalf("before the upgrade, something is missing: ECS got the calls %q, and the workloads are\n%s", calls, workloads)
	}
	for _, step := range []struct{ what, checkout, image string }{{"the upgrade", root, imageAfter}, {"the downgrade", old, imageBefore}} {
		began, reads := time.Now(), len(ecs.calls())
		in.applyFrom(t, step.checkout, step.image)
		in.ready(t)
		in.leads(t, step.image)
		t.Logf("%s took %s", step.what, time.Since(began).Round(time.Second))
		w.runs(t, audit, []string{name}) // In this time, the new leader syncs every object.
		audit.check(t, name)
		if m, err := w.get(t.Context(), ns, name); err != nil || m.Status.MissedTotal > 0 {
			t.Errorf("%s: %d slots of %s were missed: %v", step.what, m.Status.MissedTotal, name, err)
		}
		writer.kept(step.what)
		in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--all-namespaces", "--timeout=1m")
		if now := in.workloads(t); now != workloads {
			t.Errorf("%s: the workloads were\n%s\nand now are\n%s", step.what, workloads, now)
		}
		if len(ecs.calls()) == reads {
			t.Errorf("%s: no operator has described the instance", step.what)
		}
		if now := ecs.changes(); !slices.Equal(now, calls) {
			t.Errorf("%s: ECS has got the calls %q, before the step %q", step.what, now, calls)
		}
		in.valid(t, step.checkout, ns)
	}
}

// checkout returns a directory with the files of a commit. It skips the test if the repository does not have the commit.
func checkout(t *testing.T, commit string) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, needs commit %s in the history of the checkout: %v: %s", commit, err, strings.TrimSpace(string(out)))
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "archive.tar")
	for _, args := range [][]string{{"git", "-C", root, "archive", "-o", archive, commit}, {"tar", "-xf", archive, "-C", dir}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return dir
}

// leads waits until the leader is a Pod with an image.
func (in *installation) leads(t *testing.T, image string) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		leader, _, err := in.leader(ctx)
		if err == nil && !slices.ContainsFunc(in.replicas(t), func(pod corev1.Pod) bool {
			return pod.Name == leader && pod.Spec.Containers[0].Image == image
		}) {
			err = fmt.Errorf("the leader is %q, want a Pod with the image %s", leader, image)
		}
		return err
	})
}

// workloads returns a line for each object in the namespace default that runs or serves something: its UID, its generation, and the
// restarts of its containers. It leaves out Jobs and their Pods, which are created and deleted all the time, and PodDisruptionBudgets,
// which an upgrade may change.
func (in *installation) workloads(t *testing.T) string {
	t.Helper()
	const line = `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.generation} ` +
		`{.status.containerStatuses[*].restartCount}{"\n"}{end}`
	return in.run(t, "get", "aea,app,mcj,rdc,ecs,deployments,replicasets,services,configmaps,ingresses,pvc", "-o", line) +
		in.run(t, "get", "pods", "-l", "!batch.kubernetes.io/job-name", "-o", line)
}

// ecsChange matches a call that changes something, in the log of the simulator.
var ecsChange = regexp.MustCompile(`(?m)^\S+ ((?:Create|Run|Start|Stop|Delete|Modify|Tag|Untag|Join|Leave)\S* .*)$`)

// changes returns the calls to the simulator that change something.
func (c *cloud) changes() (calls []string) {
	for _, call := range ecsChange.FindAllStringSubmatch(c.simulator.log.String(), -1) {
		calls = append(calls, call[1])
	}
	return calls
}

// resourceVersions matches the versions of objects in YAML.
var resourceVersions = regexp.MustCompile(`(?m)^ +resourceVersion:.*\n`)

// valid fails the test unless the API server serves the definitions of a checkout. The API server must also accept each stored object
// without a change, and the examples of the earlier commit.
func (in *installation) valid(t *testing.T, checkout, ns string) {
	t.Helper()
	in.run(t, "wait", "--for=condition=Established", "crds", "--all", "--timeout=1m")
	in.run(t, "wait", "--for=condition=NamesAccepted", "crds", "--all", "--timeout=1m")
	if out, err := in.kubectl(t, "diff", "--server-side", "--force-conflicts", "--field-manager=glassback",
		"-f", filepath.Join(checkout, "artifacts", "crd")); err != nil {
		t.Errorf("the definitions differ from those of the checkout: %v\n%s", err, out)
	}
	in.run(t, "create", "--dry-run=server", "--namespace", ns, "-f", filepath.Join(checkout, "artifacts", "examples"))
	stored := filepath.Join(in.Dir(), "stored.yaml")
	eventually(t, patience, func(context.Context) error {
		// Statuses change between the two commands. Without a resourceVersion, kubectl replaces the present object. This rarely conflicts.
		all := resourceVersions.ReplaceAllString(in.run(t, "get", "aea,app,mcj,rdc,ecs", "--all-namespaces", "-o", "yaml"), "")
		in.must(t, os.WriteFile(stored, []byte(all), 0o600))
		out, err := in.kubectl(t, "replace", "--dry-run=server", "-f", stored)
		if err != nil {
			return fmt.Errorf("replace the stored objects: %w\n%s", err, out)
		}
		return nil
	})
}
