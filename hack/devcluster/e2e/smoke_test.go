// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// TestSmoke is the test on a cluster that "make test" runs; all others are in "make test-all". With a simulated node and a simulated ECS,
// the seeds' samples become Ready, and the webhooks answer with the seed's words. A namespace that enforces the Pod Security Standard
// "restricted" admits the Pods of a RedisCluster, and of an Application with the security context for it. The leader is killed, another
// operator takes over, and one starts again with the webhooks of the killed one. No slot of the MyCronJob runs twice, and none is lost.
func TestSmoke(t *testing.T) {
	w := start(t, cluster.Config{})
	ecs := simulate(t, w, w.Kubeconfig())
	w.createNamespace(t, operatorNamespace)
	ns := w.namespace(t)
	u := freeURL(t)
	operate := func(args ...string) *operator {
		args = append([]string{
			"--kubeconfig", w.Kubeconfig(), "-v=2", "--ecs-endpoint", ecs.url, "--ecs-own-credentials-namespaces", ns,
			"--leader-elect", "--leader-elect-resource-namespace=" + operatorNamespace,
		}, args...)
		cmd := exec.Command(binary(t), args...)
		cmd.Env = withCloud()
		return follow(t, cmd, args)
	}

	leader := operate("--install-crds", "--webhook-url", u.String())
	leader.waitFor("Started controller")
	w.called(t, ns)
	testAddr(t, w, ns)
	restricted := w.namespace(t)
	w.mustKubectl(t, "label", "namespace", restricted, enforceRestricted)
	w.redisObjects(t, restricted)
	w.example(t, restricted, "application-restricted.yaml")

	audit := w.audit(t, ns)
	for _, file := range []string{"apiexamplea.yaml", "application.yaml", "mycronjob.yaml", "ecsinstance.yaml"} {
		w.example(t, ns, file)
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
	var report struct{ Schema, State string }
	check := exec.Command(binary(t), "check", "--output=json", "--kubeconfig", w.Kubeconfig(), "--ecs-endpoint", ecs.url,
		"--ecs-own-credentials-namespaces", ns)
	check.Env = withCloud()
	out, checkErr := check.Output()
	if err := errors.Join(json.Unmarshal(out, &report), checkErr); err != nil || report.Schema != "glassback.dev/check/v1" ||
		report.State == "failed" {
		t.Errorf("glassback check: %v\n%s", err, out)
	}
	if instances, err := ecs.instances(t.Context()); err != nil || len(instances) != 1 {
		t.Errorf("ECS has the instances %v, want one: %v", instances, err)
	}
}

// enforceRestricted is the label of a namespace that enforces the Pod Security Standard "restricted".
const enforceRestricted = "pod-security.kubernetes.io/enforce=restricted"

// example applies an example, and waits until it is Ready.
func (w *world) example(t *testing.T, ns, file string) {
	t.Helper()
	w.mustKubectl(t, "apply", "--namespace", ns, "-f", examplesDir+file)
	w.mustKubectl(t, "wait", "--namespace", ns, "--for=condition=Ready", "--timeout=5m", "-f", examplesDir+file)
}

// otherVersion says that the API server is an older one: see make versions.
var otherVersion = os.Getenv(cluster.ControlPlaneEnv) != ""

// printed returns the output of kubectl without invalid values: for a rule of a schema, Kubernetes 1.34 prints the type instead.
func printed(output string) string {
	if !otherVersion {
		return output
	}
	return invalidValue.ReplaceAllString(output, "Invalid value: …: ")
}

var invalidValue = regexp.MustCompile(`Invalid value: "[^"]*": `)

// testAddr applies RedisClusters with kubectl, which prints what the seed's webhook says.
func testAddr(t *testing.T, w *world, ns string) {
	const (
		invalid = `The RedisCluster "rediscluster-sample" is invalid: spec.addr: Invalid value: %q: invalid ip port, ip:port` + "\n"
		created = "Warning: spec.storage: without it a Pod's data is gone with the Pod\n" +
			"rediscluster.bytewang123-redis.wzj.kubebuilder.io/rediscluster-sample created\n"
		object = `{apiVersion: bytewang123-redis.wzj.kubebuilder.io/v1, kind: RedisCluster, metadata: {name: rediscluster-sample}`
	)
	file := filepath.Join(t.TempDir(), "object.yaml")
	for name, test := range map[string]struct{ rest, want string }{
		"no spec":                 {`}`, fmt.Sprintf(invalid, "")},
		"an empty spec":           {`, spec: {}}`, fmt.Sprintf(invalid, "")},
		"no addr":                 {`, spec: {size: 6}}`, fmt.Sprintf(invalid, "")},
		"an empty addr":           {`, spec: {addr: "", size: 6}}`, fmt.Sprintf(invalid, "")},
		"words":                   {`, spec: {addr: "foo:bar"}}`, fmt.Sprintf(invalid, "foo:bar")},
		"no port":                 {`, spec: {addr: "1.2.3.4"}}`, fmt.Sprintf(invalid, "1.2.3.4")},
		"port 0":                  {`, spec: {addr: "1.2.3.4:0"}}`, fmt.Sprintf(invalid, "1.2.3.4:0")},
		"a port that is too high": {`, spec: {addr: "1.2.3.4:70000"}}`, fmt.Sprintf(invalid, "1.2.3.4:70000")},
		"an IPv6 address":         {`, spec: {addr: "[::1]:6379"}}`, created},
	} {
		t.Run(name, func(t *testing.T) {
			w.must(t, os.WriteFile(file, []byte(object+test.rest), 0o600))
			if got, _ := w.kubectl(t, "apply", "--namespace", ns, "-f", file); printed(got) != printed(test.want) {
				t.Errorf("kubectl printed\n%swant\n%s", got, test.want)
			}
			err := w.glassback.RedisV1().RedisClusters(ns).Delete(t.Context(), "rediscluster-sample", metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
}

// redisObjects waits until the operator has created the objects of the sample RedisCluster, and deletes them. The node takes no Pods
// meanwhile: a simulated Pod on it would have an IP, to which the operator would connect.
func (w *world) redisObjects(t *testing.T, ns string) {
	t.Helper()
	exist := func(want int) {
		await(t, func(context.Context) error {
			out := w.mustKubectl(t, "get", "pods,services,configmaps,poddisruptionbudgets", "--namespace", ns, "--output=name",
				"--selector", redisv1.LabelRedisCluster+"=rediscluster-sample")
			if got := strings.Count(out, "\n"); got != want {
				return fmt.Errorf("the RedisCluster has %d objects, want %d:\n%s", got, want, out)
			}
			return nil
		})
	}
	const all = "--selector=kubernetes.io/hostname"
	w.mustKubectl(t, "cordon", all)
	w.mustKubectl(t, "apply", "--namespace", ns, "-f", examplesDir+seedSample)
	exist(9) // six Pods, and one of each other kind
	w.mustKubectl(t, "delete", "--namespace", ns, "-f", examplesDir+seedSample)
	exist(0)
	w.mustKubectl(t, "uncordon", all)
}

// TestStart starts the operator when something is missing: the definitions, the API server, and rights. A refusal ends the process with the
// code 1 and one line that says what to do.
func TestStart(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	refuses := func(want string, args ...string) {
		t.Helper()
		o := launch(t, args...)
		code, log := o.wait(patience), o.log.String()
		if last := tail(log, 1); code != 1 || strings.Count(log, "glassback: ") != 1 || !strings.HasPrefix(last, "glassback: ") ||
			!strings.Contains(last, want) {
			t.Errorf("exit code %d, want 1 and the last line glassback: … %s:\n%s", code, want, log)
		}
	}
	refuses("the cluster has no CRD apiexampleas.groupa.k8s.zhuang.com: start once with --install-crds", "--kubeconfig", w.Kubeconfig())
	refuses("does not accept these credentials", "--kubeconfig", w.kubeconfig(t, "forged"))

	w.must(t, w.Kill(t.Context(), cluster.APIServer))
	o := launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds")
	o.waitFor("Waiting for the API server")
	w.must(t, w.Restart(t.Context(), cluster.APIServer))
	o.waitFor("Started controller")
	if code := o.stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}

	refuses("this account is not allowed to ", "--kubeconfig", w.account(t, "manager"))
}

// TestTheRoleIsEnoughForAStricterServer runs the operator with its shipped permissions on an API server that needs more permissions: it
// does not stream lists, and runs OwnerReferencesPermissionEnforcement.
func TestTheRoleIsEnoughForAStricterServer(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{
		Components: []string{cluster.Etcd, cluster.APIServer},
		ExtraArgs: map[string][]string{
			cluster.APIServer: {noStreams, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
		},
	})
	o := launch(t, "--kubeconfig", w.shippedAccount(t), "-v=2", "--ecs-endpoint=http://"+freeAddress(t))
	o.waitFor("Started controller")
	w.mustKubectl(t, "apply", "-f", sampleFiles(examplesDir))
	w.mustKubectl(t, "patch", "ecs/ecsinstance-sample", "--type=merge", "-p", `{"spec":{"credentialsSecretRef":{"name":"aliyun"}}}`)
	await(t, func(context.Context) error { // The plugin learns of new definitions within half a minute.
		made := w.mustKubectl(t, "get", "configmaps,deployments,ingresses,jobs,poddisruptionbudgets,services", "-o",
			`jsonpath={range .items[*]}{.kind} of {.metadata.ownerReferences[?(@.blockOwnerDeletion)].kind}{"\n"}{end}`)
		for _, want := range []string{
			"ConfigMap of ApiExampleA", "Deployment of Application", "Service of Application", "Ingress of Application", "Job of MyCronJob",
			"ConfigMap of RedisCluster", "Service of RedisCluster", "PodDisruptionBudget of RedisCluster",
		} {
			if !strings.Contains(made, want+"\n") {
				return fmt.Errorf("the children lack %s; they are:\n%s", want, made)
			}
		}
		return nil
	})
}
