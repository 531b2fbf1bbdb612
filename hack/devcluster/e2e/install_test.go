/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
)

const (
	managers    = "app.kubernetes.io/name=glassback,app.kubernetes.io/component=manager"
	examplesDir = "../../../artifacts/examples/"
)

// The images of an upgrade. Except in TestUpgrade, they hold the same program.
const (
	imageBefore = "glassback.test/glassback:before"
	imageAfter  = "glassback.test/glassback:after"
)

// installation is an operator that was installed in a cluster of its own.
type installation struct {
	*world

	ecs string // the URL of an ECS simulator
	// release installs from the files of a release; install installs, or upgrades to, an image; uninstall is the opposite of both.
	release   func(t *testing.T)
	install   func(t *testing.T, image string)
	uninstall func(t *testing.T)
	// check runs glassback check in the cluster.
	check func(t *testing.T)
}

// TestInstallation installs from the files of a release, and upgrades to another image.
func TestInstallation(t *testing.T) {
	needRealNode(t)
	dist := makeRelease(t)
	w := start(t, cluster.Config{Node: cluster.NodeReal})
	_, err := w.Load(t.Context(), onlyFile(t, dist, "glassback-*-image.tar"))
	w.must(t, err)
	w.load(t, imageAfter)
	in, _ := w.prepare(t)
	in.install, in.uninstall, in.check = in.apply, in.delete, in.checked
	in.release = func(t *testing.T) {
		manifests, err := os.ReadFile(filepath.Join(dist, "install.yaml"))
		in.must(t, err)
		in.applyManifests(t, manifests)
	}
	t.Run("install.yaml", func(t *testing.T) { in.test(t, in.restartLeader, in.killLeader, in.evictLeader) })
	in.run(t, "delete", "--ignore-not-found", "-f", "../../../artifacts/crd", "--timeout=2m")
	in.install, in.uninstall, in.check = in.helmUpgrade, in.helmUninstall, in.helmTest
	in.release = func(t *testing.T) { in.helmInstall(t, onlyFile(t, dist, "glassback-*.tgz")) }
	t.Run("the chart", func(t *testing.T) { in.test(t) }) // The Deployment is the same: see TestTheChartInstallsWhatKustomizeDoes.
}

// makeRelease makes a release of this checkout for this machine, and returns the directory of its files.
func makeRelease(t *testing.T) string {
	t.Helper()
	chart, err := os.ReadFile(filepath.Join(root, "artifacts", "chart", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(chart), "\nappVersion: ")
	version, _, _ = strings.Cut(version, "\n")
	dist := filepath.Join(t.TempDir(), "dist")
	cmd := exec.CommandContext(t.Context(), built(t, "RELEASE_BIN", "bin/tools/release", "make bin/tools/release"), "make", "--source", root,
		"--dist", dist, "--version", version, "--commit", strings.Repeat("0a", 20), "--date", "2026-01-02T03:04:05Z",
		"--platforms", "linux/"+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a release: %v\n%s", err, out)
	}
	return dist
}

// onlyFile returns the only file of a directory whose name matches a pattern.
func onlyFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("the files %s are %q: %v", pattern, found, err)
	}
	return found[0]
}

// prepare starts an ECS simulator, and makes the Secret by which the samples use it. Nothing is installed yet.
func (w *world) prepare(t *testing.T) (*installation, *cloud) {
	t.Helper()
	simulated := w.simulateInside(t)
	in := &installation{world: w, ecs: simulated.url}
	in.run(t, "create", "secret", "generic", "aliyun", "--from-literal=accessKeyID=test", "--from-literal=accessKeySecret=test")
	return in, simulated
}

// load gives the node an image of the operator, under this name.
func (w *world) load(t *testing.T, name string) {
	t.Helper()
	w.loadProgram(t, name, built(t, "GLASSBACK_LINUX", "bin/linux/glassback", "make image"))
}

// loadProgram gives the node an image of a static program, under this name.
func (w *world) loadProgram(t *testing.T, name, program string) {
	t.Helper()
	mkimage := built(t, "MKIMAGE_BIN", "bin/tools/mkimage", "make image")
	archive := filepath.Join(t.TempDir(), "image.tar")
	cmd := exec.CommandContext(t.Context(), mkimage, "binary", "--name", name, "--output", archive, program)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make image %s: %v\n%s", name, err, out)
	}
	_, err := w.Load(t.Context(), archive)
	w.must(t, err)
}

// simulateInside starts an ECS simulator, with more arguments, at an address that Pods can reach.
func (w *world) simulateInside(t *testing.T, args ...string) *cloud {
	t.Helper()
	nodes, err := w.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	w.must(t, err)
	at := slices.IndexFunc(nodes.Items[0].Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	address := net.JoinHostPort(nodes.Items[0].Status.Addresses[at].Address, "8099")
	args = append([]string{"--bind-address", address, "--speed", "60"}, args...)
	cmd := w.Command(context.Background(), built(t, "ECSSIM_BIN", "bin/ecssim", "make ecssim"), args...)
	simulator := begin(t, "ecssim", cmd, args)
	simulator.waitFor("glassback --ecs-endpoint ")
	return &cloud{world: w, url: "http://" + address, simulator: simulator}
}

// apply installs the operator as in docs/install.md, except for the endpoint of ECS.
func (in *installation) apply(t *testing.T, image string) {
	t.Helper()
	in.applyFrom(t, root, image)
}

// applyFrom is apply with the manifests of a checkout.
func (in *installation) applyFrom(t *testing.T, checkout, image string) {
	t.Helper()
	in.applyManifests(t, renderFrom(t, checkout, "default", image))
}

// applyManifests is apply with these manifests.
func (in *installation) applyManifests(t *testing.T, manifests []byte) {
	t.Helper()
	manifests = bytes.Replace(manifests, []byte("- --leader-elect\n"),
		[]byte("- --leader-elect\n        - --ecs-endpoint="+in.ecs+"\n"), 1)
	if !bytes.Contains(manifests, []byte(in.ecs)) {
		t.Fatal("the manifests have no argument --leader-elect")
	}
	in.must(t, os.WriteFile(in.manifests(t), manifests, 0o600))
	in.run(t, "apply", "--server-side", "--force-conflicts", "--field-manager=glassback", "-f", in.manifests(t))
}

func (in *installation) manifests(t *testing.T) string {
	return filepath.Join(in.Dir(), "install.yaml")
}

func (in *installation) delete(t *testing.T) {
	t.Helper()
	in.must(t, os.WriteFile(in.manifests(t), render(t, "--without-crds", "default", imageAfter), 0o600))
	in.run(t, "delete", "--ignore-not-found", "-f", in.manifests(t), "--timeout=2m")
}

// helmUpgrade is apply with the chart.
func (in *installation) helmUpgrade(t *testing.T, image string) {
	t.Helper()
	repository, tag, _ := strings.Cut(image, ":")
	in.helmInstall(t, "../../../artifacts/chart", "image.repository="+repository, "image.tag="+tag)
}

// helmInstall installs, or upgrades to, a chart with these values.
func (in *installation) helmInstall(t *testing.T, chart string, values ...string) {
	t.Helper()
	in.helm(t, "upgrade", "--install", "glassback", chart, "--create-namespace", "--wait", "--timeout=3m",
		"--set", strings.Join(append(values, "ecsEndpoint="+in.ecs), ","))
}

func (in *installation) helmUninstall(t *testing.T) {
	t.Helper()
	in.helm(t, "uninstall", "glassback", "--wait", "--timeout=2m")
	in.run(t, "delete", "namespace", operatorNamespace, "--timeout=2m") // As the README of the chart says.
}

// helmTest is checked, and the same in the Pod of "helm test".
func (in *installation) helmTest(t *testing.T) {
	t.Helper()
	in.checked(t)
	in.helm(t, "test", "glassback", "--timeout=2m")
}

func (in *installation) helm(t *testing.T, args ...string) {
	t.Helper()
	args = append(args, "--namespace", operatorNamespace, "--kubeconfig", in.Kubeconfig())
	cmd := exec.CommandContext(t.Context(), built(t, "HELM_BIN", "bin/tools/helm", "make bin/tools/helm"), args...)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// run runs kubectl and returns its output. It fails the test if kubectl fails.
func (in *installation) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := in.kubectl(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if strings.Contains(out, "PodSecurity") {
		t.Errorf("kubectl %s: %s", strings.Join(args, " "), out)
	}
	return out
}

// test goes through the life of an installation, with disturbances after its upgrade.
func (in *installation) test(t *testing.T, disturbances ...func(*testing.T)) {
	in.release(t)
	in.ready(t)
	in.check(t)
	in.samples(t)
	in.webhooks(t)
	in.metrics(t)
	ns := in.namespace(t)
	audit := in.audit(t, ns)
	m := in.create(t, ns, "sample", func(m *v1.MyCronJob) {
		m.Spec.MissedRunPolicy = v1.AllMissed
		m.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0)
	})
	check := func() {
		t.Helper()
		in.runs(t, audit, []string{m.Name})
		audit.check(t, m.Name)
	}
	check()
	in.upgrade(t)
	check()
	for _, disturb := range disturbances {
		disturb(t)
		check()
	}
	if got, err := in.get(t.Context(), ns, m.Name); err != nil || got.Status.MissedTotal > 0 {
		t.Errorf("%d slots were missed: %v", got.Status.MissedTotal, err)
	}
	in.run(t, "delete", "-f", in.sampleFiles(), "--timeout=2m")
	in.run(t, "delete", "namespace", ns, "--timeout=2m")
	in.uninstall(t)
	in.leftovers(t)
}

// ready waits until the operator is, both replicas.
func (in *installation) ready(t *testing.T) {
	t.Helper()
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=3m")
	pods := in.replicas(t)
	if len(pods) != 2 {
		t.Errorf("there are %d replicas that stay", len(pods))
	}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				t.Errorf("%s was started %d times again", pod.Name, c.RestartCount)
			}
		}
	}
}

// replicas are the Pods of the operator that are not on their way out.
func (in *installation) replicas(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := in.kube.CoreV1().Pods(operatorNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: managers})
	in.must(t, err)
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// checked has the operator check itself, in its Pod.
func (in *installation) checked(t *testing.T) {
	t.Helper()
	out, err := in.kubectl(t, "exec", "--namespace", operatorNamespace, "deployment/glassback-manager", "--", "/glassback", "check")
	if err != nil || !strings.Contains(out, "\nAll in all ") {
		t.Errorf("glassback check in a Pod: %v\n%s", err, out)
	}
}

// sampleFiles are the manifests of the seeds.
func (in *installation) sampleFiles() string {
	var files []string
	for _, kind := range []string{"apiexamplea", "application", "mycronjob", "rediscluster", "ecsinstance"} {
		files = append(files, examplesDir+kind+".yaml")
	}
	return strings.Join(files, ",")
}

func (in *installation) samples(t *testing.T) {
	t.Helper()
	began := time.Now()
	eventually(t, time.Minute, func(context.Context) error {
		out, err := in.kubectl(t, "apply", "-f", in.sampleFiles())
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	in.run(t, "patch", "ecs", "ecsinstance-sample", "--type=merge", "-p", `{"spec":{"credentialsSecretRef":{"name":"aliyun"}}}`)
	in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--timeout=4m")
	t.Logf("the samples of the seeds were Ready after %s", time.Since(began).Round(time.Second))
}

// webhooks sends the API server requests whose answers need a webhook.
func (in *installation) webhooks(t *testing.T) {
	t.Helper()
	out := in.run(t, "scale", "rdc/rediscluster-sample", "--replicas=5")
	if !strings.Contains(out, "Warning: spec.replicas: 5 is stored as 6") {
		t.Errorf("a RedisCluster is scaled to 5 Pods, and kubectl says\n%s", out)
	}
}

// metrics scrapes as Prometheus does: by the Service's name, which the certificate is for, with
// the token of a ServiceAccount.
func (in *installation) metrics(t *testing.T) {
	t.Helper()
	ns := in.namespace(t)
	in.grantMetrics(t, ns, "prometheus")
	for name, want := range map[string]int{"prometheus": http.StatusOK, "default": http.StatusForbidden, "": http.StatusUnauthorized} {
		code, body := in.scrape(t, in.token(t, ns, name))
		if code != want {
			t.Errorf("ServiceAccount %q gets %d, want %d: %s", name, code, want, body)
		}
		if want == http.StatusOK && !strings.Contains(body, "\ncontroller_runtime_reconcile_total{") {
			t.Errorf("the metrics are %d bytes, and do not count reconciles", len(body))
		}
	}
}

func (in *installation) grantMetrics(t *testing.T, ns, name string) {
	t.Helper()
	_, err := in.kube.CoreV1().ServiceAccounts(ns).Create(t.Context(), serviceAccount(name), metav1.CreateOptions{})
	in.must(t, err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-metrics"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "glassback-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: name}},
	}
	_, err = in.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	in.must(t, err)
}

// token returns one of a ServiceAccount; none for no name.
func (in *installation) token(t *testing.T, ns, name string) string {
	t.Helper()
	if name == "" {
		return ""
	}
	request, err := in.kube.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	in.must(t, err)
	return request.Status.Token
}

func (in *installation) scrape(t *testing.T, token string) (int, string) {
	t.Helper()
	secret, err := in.kube.CoreV1().Secrets(operatorNamespace).Get(t.Context(), "glassback-webhook-ca", metav1.GetOptions{})
	in.must(t, err)
	service, err := in.kube.CoreV1().Services(operatorNamespace).Get(t.Context(), "glassback-metrics", metav1.GetOptions{})
	in.must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	name := "glassback-metrics." + operatorNamespace + ".svc"
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return in.dialInside(ctx, network, net.JoinHostPort(service.Spec.ClusterIP, "8443"))
		},
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}, DisableKeepAlives: true,
	}, Timeout: 10 * time.Second}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+name+":8443/metrics", nil)
	in.must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	in.must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	in.must(t, err)
	return answer.StatusCode, string(body)
}

// dialInside connects to an address of the cluster's network. The connection stays there.
func (w *world) dialInside(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // The thread ends with the goroutine, and no other goroutine gets it.
		err := w.Enter()
		if err == nil {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		}
		failed <- err
	}()
	return conn, <-failed
}

// upgrade upgrades to another image. The samples stay Ready.
func (in *installation) upgrade(t *testing.T) {
	t.Helper()
	began := time.Now()
	in.install(t, imageAfter)
	in.ready(t)
	for _, pod := range in.replicas(t) {
		if image := pod.Spec.Containers[0].Image; image != imageAfter {
			t.Errorf("%s has the image %s", pod.Name, image)
		}
	}
	in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--timeout=1m")
	t.Logf("the upgrade took %s", time.Since(began).Round(time.Second))
	in.webhooks(t)
}

// leader returns the leader's Pod, and the holder in the Lease.
func (in *installation) leader(ctx context.Context) (pod, identity string, err error) {
	lease, err := in.kube.CoordinationV1().Leases(operatorNamespace).Get(ctx, "glassback", metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	identity = ptr.Deref(lease.Spec.HolderIdentity, "")
	pod, _, _ = strings.Cut(identity, "_")
	return pod, identity, nil
}

// followed waits until another Pod leads, and returns how long that took.
func (in *installation) followed(t *testing.T, before string, patience time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	eventually(t, patience, func(ctx context.Context) error {
		switch _, now, err := in.leader(ctx); {
		case err != nil:
			return err
		case now == "" || now == before:
			return fmt.Errorf("the leader is still %q", now)
		}
		return nil
	})
	return time.Since(began)
}

// restartLeader kills the leader's process: the kubelet starts it again, and it continues as the
// leader that it was.
func (in *installation) restartLeader(t *testing.T) {
	t.Helper()
	pod, identity, err := in.leader(t.Context())
	in.must(t, err)
	began := time.Now()
	in.killProcess(t, pod)
	eventually(t, leaseDuration, func(ctx context.Context) error {
		lease, err := in.kube.CoordinationV1().Leases(operatorNamespace).Get(ctx, "glassback", metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: began}) {
			err = fmt.Errorf("it was last renewed at %s", lease.Spec.RenewTime)
		}
		return err
	})
	_, now, err := in.leader(t.Context())
	in.must(t, err)
	t.Logf("a leader whose process was killed led again after %s (the same Pod: %t)", time.Since(began), now == identity)
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=2m")
}

// killLeader ends the leader's Pod without any notice, as a node that fails does: the leader
// does not release the Lease.
func (in *installation) killLeader(t *testing.T) {
	t.Helper()
	pod, identity, err := in.leader(t.Context())
	in.must(t, err)
	began := time.Now()
	in.killProcess(t, pod)
	in.must(t, in.kube.CoreV1().Pods(operatorNamespace).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	in.followed(t, identity, 2*leaseDuration)
	took := time.Since(began)
	t.Logf("a leader whose Pod was killed was followed after %s", took)
	if took > leaseDuration+time.Second {
		t.Errorf("the next leader came after %s, and the lease is for %s", took, leaseDuration)
	}
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=2m")
}

// killProcess sends SIGKILL to the operator in a Pod.
func (in *installation) killProcess(t *testing.T, pod string) {
	t.Helper()
	object, err := in.kube.CoreV1().Pods(operatorNamespace).Get(t.Context(), pod, metav1.GetOptions{})
	in.must(t, err)
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	in.must(t, err)
	for _, file := range groups {
		process := filepath.Dir(file)
		group, err1 := os.ReadFile(file)
		line, err2 := os.ReadFile(filepath.Join(process, "cmdline"))
		pid, err3 := strconv.Atoi(filepath.Base(process))
		if errors.Join(err1, err2, err3) != nil || !bytes.HasPrefix(line, []byte("/glassback\x00")) {
			continue // This Pod is not the leader, or has ended.
		}
		// systemd's names of control groups have no hyphens.
		if bytes.Contains(bytes.ReplaceAll(group, []byte("_"), []byte("-")), []byte("pod"+object.UID)) {
			in.must(t, syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	t.Fatalf("Pod %s has no process", pod)
}

// evictLeader has the leader's Pod evicted, as kubectl drain does.
func (in *installation) evictLeader(t *testing.T) {
	t.Helper()
	pod, identity, err := in.leader(t.Context())
	in.must(t, err)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: pod}}
	in.must(t, in.kube.PolicyV1().Evictions(operatorNamespace).Evict(t.Context(), eviction))
	took := in.followed(t, identity, leaseDuration)
	t.Logf("a leader whose Pod was evicted was followed after %s", took)
	if took > 2*time.Second {
		t.Errorf("a planned handover took %s", took)
	}
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=2m")
}

// leftovers fails the test if anything is left but the definitions.
func (in *installation) leftovers(t *testing.T) {
	t.Helper()
	kinds := "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,namespaces"
	out := in.run(t, "get", kinds, "-l", nameLabel+"=glassback", "-o", "name")
	if out := strings.TrimSpace(out); out != "" && !strings.Contains(out, "No resources found") {
		t.Errorf("these are left:\n%s", out)
	}
	if out := in.run(t, "get", "crds", "-o", "name"); strings.Count(out, "\n") != 5 {
		t.Errorf("these definitions are left:\n%s", out)
	}
}
