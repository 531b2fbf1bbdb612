// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// checked is the output of glassback check.
type checked struct {
	t      *testing.T
	code   int
	said   string
	Schema string `json:"schema"`
	State  string `json:"state"`

	Sections []struct {
		ID     string         `json:"id"`
		Checks []checkOutcome `json:"checks"`
	} `json:"sections"`
}

type checkOutcome struct{ ID, Title, State, Reason, Remedy, Because string }

// check runs glassback check -o json.
func check(t *testing.T, args ...string) checked {
	t.Helper()
	return checkWith(t, nil, args...)
}

// checkWith does the same as check, with environment variables.
func checkWith(t *testing.T, env []string, args ...string) checked {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{"check", "-o", "json"}, args...)...)
	cmd.Env = append(withoutCloud(), env...)
	code, stdout, stderr := run(t, cmd)
	is := checked{t: t, code: code, said: stdout}
	if err := json.Unmarshal([]byte(stdout), &is); err != nil || is.Schema != "glassback.dev/check/v1" || stderr != "" {
		t.Fatalf("check %s: %v, exit code %d, on stderr %q:\n%s", strings.Join(args, " "), err, code, stderr, stdout)
	}
	if (code == 0) != (is.State != "failed") || code > 1 {
		t.Errorf("check %s: exit code %d, but the state is %s", strings.Join(args, " "), code, is.State)
	}
	return is
}

// withoutCloud returns the environment without cloud credentials. The program also does not ask the metadata service of the machine.
func withoutCloud() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "ALIBABA_CLOUD_") })
	return append(env, "ALIBABA_CLOUD_ECS_METADATA_DISABLED=true")
}

// run runs a command to its end.
func run(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// expect fails the test unless the check with the ID has the state, and its reason contains the text.
func (c checked) expect(id, state, reason string) {
	c.t.Helper()
	for _, s := range c.Sections {
		for _, o := range s.Checks {
			if o.ID == id {
				if o.State != state || !strings.Contains(o.Reason, reason) {
					c.t.Errorf("%s is %s: %q (%s), want %s: %q", id, o.State, o.Reason, o.Remedy, state, reason)
				}
				return
			}
		}
	}
	c.t.Errorf("the output has no check %s", id)
}

// only fails the test unless exactly these checks have failed.
func (c checked) only(failed ...string) {
	c.t.Helper()
	want := map[string]bool{}
	for _, id := range failed {
		want[id] = true
	}
	for _, s := range c.Sections {
		for _, o := range s.Checks {
			if bad := o.State == "failed"; bad != want[o.ID] {
				c.t.Errorf("%s is %s: %s", o.ID, o.State, o.Reason)
			}
		}
	}
}

const (
	crdMyCronJobs    = "crds/mycronjobs.batch.wzj.kubebuilder.io"
	crdRedisClusters = "crds/redisclusters.bytewang123-redis.wzj.kubebuilder.io"
)

// TestCheck runs glassback check at each step of an installation. The first step is an empty cluster.
func TestCheck(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	crds := apiextensions.NewForConfigOrDie(w.config).ApiextensionsV1().CustomResourceDefinitions()
	admin := []string{"--kubeconfig", w.Kubeconfig()}

	t.Run("the API server cannot be reached", func(t *testing.T) { checkUnreachable(t, w) })

	pre := check(t, append(admin, "--pre")...)
	pre.only()
	pre.expect(crdMyCronJobs, "ok", "not there yet; the API server would take it")
	pre.expect("permissions/grant", "ok", "")
	if list, err := crds.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("glassback check created %d CRDs (error %v)", len(list.Items), err)
	}
	account := w.account(t, "manager")
	powerless := check(t, "--pre", "--kubeconfig", account)
	powerless.expect("permissions/*/clusterroles.rbac.authorization.k8s.io", "failed", "not allowed to create,get,patch")
	powerless.expect("permissions/grant", "failed", "so cannot grant: create,patch events; ")
	bare := check(t, admin...)
	bare.expect(crdMyCronJobs, "failed", "it is not there")
	bare.expect("redis/clusters", "skipped", "not asked, since this failed: redisclusters")
	bare.expect("webhooks/registered", "skipped", "it knows of none")

	h := w.hook(t, "--install-crds")
	installed := check(t, admin...)
	installed.only()
	installed.expect(crdMyCronJobs, "ok", "served, stored as v1")
	installed.expect("permissions/account", "ok", "those of ")
	for _, id := range []string{"webhooks/" + h.name + "/complete", "webhooks/" + h.name + "/trust", "webhooks/" + h.name + "/validity",
		"webhooks/" + h.name + "/serving", "webhooks/defaults", "webhooks/refuses"} {
		installed.expect(id, "ok", "")
	}
	if list, err := w.glassback.RedisV1().RedisClusters("").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("glassback check created %d RedisClusters (error %v)", len(list.Items), err)
	}
	people := exec.Command(binary(t), append([]string{"check"}, admin...)...)
	people.Env = withoutCloud()
	code, text, _ := run(t, people)
	if code != 0 || !strings.Contains(text, "√ they refuse") || !strings.Contains(text, "\nAll in all √ ") || strings.Contains(text, "\x1b") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	h.kill()
	dead := check(t, admin...)
	dead.only("webhooks/defaults")
	dead.expect("webhooks/defaults", "failed", "connection refused")

	t.Run("a Lease", func(t *testing.T) { checkLeases(t, w, admin) })
	t.Run("the cloud", func(t *testing.T) { checkCloud(t, w, admin) })

	for _, test := range []struct{ revision, state, reason string }{
		{"0", "failed", "it is older: revision 0"}, {"99", "warning", "it is newer: revision 99"},
	} {
		patch := []byte(`{"metadata":{"annotations":{"glassback.dev/crd-revision":"` + test.revision + `"}}}`)
		if _, err := crds.Patch(t.Context(), strings.TrimPrefix(crdMyCronJobs, "crds/"), types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		check(t, append(admin, "--webhooks=false")...).expect(crdMyCronJobs, test.state, test.reason)
	}
	w.must(t, crds.Delete(t.Context(), strings.TrimPrefix(crdRedisClusters, "crds/"), metav1.DeleteOptions{}))
	eventually(t, soon, func(ctx context.Context) error {
		if _, err := crds.Get(ctx, strings.TrimPrefix(crdRedisClusters, "crds/"), metav1.GetOptions{}); err == nil {
			return errors.New("the CRD still exists")
		}
		return nil
	})
	check(t, append(admin, "--webhooks=false")...).only(crdRedisClusters)

	without := check(t, "--kubeconfig", account)
	without.expect("permissions/*/jobs.batch", "failed", "not allowed to create,delete,get,list,watch; needed by mycronjob")
	without.expect(crdMyCronJobs, "ok", "this account may not see its revision")
	w.grantShippedRole(t)
	eventually(t, soon, func(context.Context) error { // The API server applies a new binding after a moment.
		if is := check(t, "--kubeconfig", account); strings.Contains(is.said, "not allowed") {
			return fmt.Errorf("exit code %d:\n%s", is.code, is.said)
		}
		return nil
	})
	check(t, "--kubeconfig", account).only(crdRedisClusters)
}

// checkUnreachable runs glassback check with kubeconfigs by which it cannot reach an API server.
func checkUnreachable(t *testing.T, w *world) {
	forged := check(t, "--kubeconfig", w.forged(t))
	forged.only("cluster/credentials")
	forged.expect("cluster/credentials", "failed", "does not accept them")
	forged.expect(crdMyCronJobs, "skipped", "not asked, since this failed: the credentials are accepted")
	refused := check(t, "--master", "http://"+freeAddress(t))
	refused.only("cluster/reachable")
	refused.expect("cluster/reachable", "failed", "connection refused")
	missing := check(t, "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	missing.only("cluster/configuration")
	stranger := *w.config
	stranger.CAData = nil
	untrusted := check(t, "--kubeconfig", (&world{config: &stranger}).forged(t))
	untrusted.only("cluster/reachable")
	untrusted.expect("cluster/reachable", "failed", "certificate signed by unknown authority")

	silent, err := net.Listen("tcp", "127.0.0.1:0") // It accepts connections, and sends nothing.
	w.must(t, err)
	defer silent.Close()
	began := time.Now()
	check(t, "--timeout", "1s", "--master", "http://"+silent.Addr().String()).only("cluster/reachable")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("glassback check took %s", took)
	}
	o := launch(t, "check", "--timeout", "10m", "--master", "http://"+silent.Addr().String())
	o.waitFor("√ which cluster")
	w.must(t, o.cmd.Process.Signal(syscall.SIGINT))
	if code := o.wait(10 * time.Second); code != 1 || !strings.Contains(o.log.String(), "interrupted") {
		t.Errorf("Ctrl-C: exit code %d:\n%s", code, o.log.String())
	}
	if code, stdout, stderr := run(t, exec.Command(binary(t), "check", "--output=xml")); code != 2 || stdout != "" ||
		!strings.HasPrefix(stderr, "glassback: --output must be") {
		t.Errorf("a wrong flag: exit code %d, %q, %q", code, stdout, stderr)
	}
}

// checkLeases runs glassback check with a Lease that is held, and with one that has expired.
func checkLeases(t *testing.T, w *world, admin []string) {
	ns := w.bareNamespace(t)
	renewed := time.Now()
	lease, err := w.kube.CoordinationV1().Leases(ns).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "glassback"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("pod-1"), LeaseDurationSeconds: ptr.To[int32](600), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}, metav1.CreateOptions{})
	w.must(t, err)
	args := append(admin, "--operator-namespace", ns)
	check(t, args...).expect("lease/holder", "ok", "pod-1, which has renewed it")
	check(t, append(args, "--pre")...).expect("lease/holder", "warning", "an operator is running: pod-1")
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(renewed.Add(-time.Hour)))
	_, err = w.kube.CoordinationV1().Leases(ns).Update(t.Context(), lease, metav1.UpdateOptions{})
	w.must(t, err)
	check(t, args...).expect("lease/holder", "warning", "no operator process holds it: the last leader, pod-1, has not renewed it for")
}

// checkCloud checks access keys with the ECS simulator. The output has no secret.
func checkCloud(t *testing.T, w *world, admin []string) {
	const wrong = "e2e-another-secret"
	c := simulate(t, w, w.Kubeconfig())
	env := []string{"ALIBABA_CLOUD_ACCESS_KEY_ID=" + cloudKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + cloudKeySecret}
	args := append(admin[:len(admin):len(admin)], "-n", c.ns, "--webhooks=false", "--ecs-endpoint", c.url)
	none := check(t, args...)
	none.only()
	none.expect("cloud/credentials", "skipped", "there is none")
	for name, secret := range map[string]string{"right": cloudKeySecret, "wrong": wrong, "missing": ""} {
		if secret != "" {
			_, err := w.kube.CoreV1().Secrets(c.ns).Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"accessKeyID": cloudKeyID, "accessKeySecret": secret + "\n"},
			}, metav1.CreateOptions{})
			w.must(t, err)
		}
		ecs := &ecsv1alpha1.ECSInstance{ObjectMeta: metav1.ObjectMeta{Name: name}}
		ecs.Spec.RegionID, ecs.Spec.InstanceType, ecs.Spec.ImageID = "cn-beijing", "ecs.t6-c1m1.large", "aliyun_3_x64_20G_alibase_20240528.vhd"
		ecs.Spec.CredentialsSecretRef = &ecsv1alpha1.SecretReference{Name: name}
		_, err := w.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Create(t.Context(), ecs, metav1.CreateOptions{})
		w.must(t, err)
		t.Cleanup(func() { // Later checks must not call the real cloud.
			if err := w.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Delete(context.WithoutCancel(t.Context()), name,
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	is := checkWith(t, env, args...)
	is.only("cloud/"+c.ns+"/wrong/cn-beijing", "cloud/"+c.ns+"/missing/cn-beijing")
	is.expect("cloud/credentials", "ok", "account ")
	is.expect("cloud/"+c.ns+"/right/cn-beijing", "ok", "account ")
	is.expect("cloud/"+c.ns+"/wrong/cn-beijing", "failed", "the secret is not that of the access key's ID")
	is.expect("cloud/"+c.ns+"/missing/cn-beijing", "failed", "there is no such Secret")
	for _, secret := range []string{cloudKeySecret, wrong, cloudKeyID} {
		if strings.Contains(is.said, secret) {
			t.Errorf("the output has the secret %s", secret)
		}
	}
}
