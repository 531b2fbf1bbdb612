// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"regexp"
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

// The images of an upgrade. Except in TestUpgrade, both contain the same program.
const (
	imageBefore = "glassback.test/glassback:before"
	imageAfter  = "glassback.test/glassback:after"
)

// installation is an operator that was installed in a cluster of its own.
type installation struct {
	*world

	ecs string // the URL of an ECS simulator

	// Only with the files of a release:
	user  *user
	first release
	// next waits until the next release is built and the node has its image.
	next func(t *testing.T) release
	// install installs a release, or upgrades to it.
	install func(t *testing.T, r release)
	// check runs glassback check in the cluster.
	check func(t *testing.T)
}

// TestInstallation follows the documents with only the files of two releases. First it installs the chart, runs the examples, upgrades to
// the next release and uninstalls the chart. The definitions and the objects stay. Then it installs install.yaml, which adopts them. It
// upgrades, disturbs the operator, and deletes everything. At the end, the cluster has the same objects as before.
func TestInstallation(t *testing.T) {
	needRealNode(t)
	heavy.parallel(t)
	first := makeRelease(t, root)
	r := first.made(t)
	w := start(t, cluster.Config{Node: cluster.NodeReal})
	in, _ := w.prepare(t)
	in.user = w.newUser(t)
	in.first = r
	in.user.imports(t, r)
	next, imported := makeRelease(t, nextCheckout(t)), false // This runs while the test uses the first release.
	in.next = func(t *testing.T) release {
		if !imported {
			in.user.imports(t, next.made(t))
			imported = true
		}
		return next.release
	}

	ns := in.namespace(t)
	before, err := in.user.everything(t, r, "")
	in.must(t, err)
	in.user.shell(t, r, `sha256sum --check --strict --quiet SHA256SUMS
		tar -xzf glassback-`+r.version+`-linux-`+runtime.GOARCH+`.tar.gz glassback
		install glassback ~/bin/kubectl-glassback
		tar -xzf examples.tar.gz
		kubectl glassback check --pre`)

	audit := in.audit(t, ns)
	const name = "sample"
	ran := func(t *testing.T, since time.Time) {
		t.Helper()
		in.ran(t, audit, name, since)
		audit.check(t, name)
	}
	in.install, in.check = in.helmInstall, in.helmTest
	if !t.Run("the chart", func(t *testing.T) {
		in.installed(t)
		began := time.Now()
		in.create(t, ns, name, func(m *v1.MyCronJob) {
			m.Spec.IntervalSeconds = ptr.To[int32](2) // The test often waits for two slots: a short interval saves time.
			m.Spec.MissedRunPolicy = v1.AllMissed
			withoutPods(m)
		})
		in.used(t)
		ran(t, began)
		ran(t, in.upgrade(t))
		in.helmUninstall(t)
	}) {
		return
	}
	workloads := in.workloads(t)
	in.install, in.check = in.applyRelease, in.checked
	t.Run("install.yaml", func(t *testing.T) { // The Deployment is the same as the chart's: see TestTheChartInstallsWhatKustomizeDoes.
		in.installed(t)
		began := time.Now()
		in.used(t)
		ran(t, began)
		if now := in.workloads(t); now != workloads {
			t.Errorf("the workloads were\n%s\nand are\n%s", workloads, now)
		}
		ran(t, in.upgrade(t))
		for _, disturb := range []func(*testing.T) time.Time{in.restartLeader, in.killLeader, in.evictLeader} {
			ran(t, disturb(t))
		}
		if got, err := in.get(t.Context(), ns, name); err != nil || got.Status.MissedTotal > 0 {
			t.Errorf("%d slots were missed: %v", got.Status.MissedTotal, err)
		}
		in.deleteAll(t)
		eventually(t, time.Minute, func(context.Context) error { // The garbage collector deletes the last dependents after their owners.
			after, err := in.user.everything(t, r, "")
			if err != nil {
				return err
			}
			if left := slices.DeleteFunc(after, func(object string) bool { return slices.Contains(before, object) }); len(left) > 0 {
				return fmt.Errorf("these objects still exist:\n%s", strings.Join(left, "\n"))
			}
			return nil
		})
	})
}

// prepare starts an ECS simulator, and creates the Secret with which the samples use it. It installs nothing.
func (w *world) prepare(t *testing.T) (*installation, *cloud) {
	t.Helper()
	simulated := w.simulateInside(t)
	in := &installation{world: w, ecs: simulated.url}
	in.run(t, "create", "secret", "generic", "aliyun", "--from-literal=accessKeyID=test", "--from-literal=accessKeySecret=test")
	return in, simulated
}

// load gives the node an image of the operator with the name.
func (w *world) load(t *testing.T, name string) {
	t.Helper()
	w.loadProgram(t, name, built(t, "GLASSBACK_LINUX", "bin/linux/glassback", "make image"))
}

// loadProgram gives the node an image of a static program with the name.
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

// simulateInside starts an ECS simulator at an address that Pods can reach. It adds the arguments.
func (w *world) simulateInside(t *testing.T, args ...string) *cloud {
	t.Helper()
	address := net.JoinHostPort(w.nodeIP(t), "8099")
	args = append([]string{"--bind-address", address, "--speed", "60"}, args...)
	cmd := w.Command(context.Background(), built(t, "ECSSIM_BIN", "bin/ecssim", "make ecssim"), args...)
	simulator := begin(t, "ecssim", cmd, args)
	simulator.waitFor("glassback --ecs-endpoint ")
	return &cloud{world: w, url: "http://" + address, simulator: simulator}
}

// nodeIP returns the address of the node, which Pods can reach.
func (w *world) nodeIP(t *testing.T) string {
	t.Helper()
	nodes, err := w.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	w.must(t, err)
	at := slices.IndexFunc(nodes.Items[0].Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	return nodes.Items[0].Status.Addresses[at].Address
}

// apply installs the operator as in docs/install.md, but with another endpoint of ECS.
func (in *installation) apply(t *testing.T, image string) {
	t.Helper()
	in.applyFrom(t, root, image)
}

// applyFrom does the same as apply, with the manifests of a checkout.
func (in *installation) applyFrom(t *testing.T, checkout, image string) {
	t.Helper()
	in.applyManifests(t, renderFrom(t, checkout, "default", image))
}

// applyManifests does the same as apply, with other manifests.
func (in *installation) applyManifests(t *testing.T, manifests []byte) {
	t.Helper()
	file := filepath.Join(in.Dir(), "install.yaml")
	in.must(t, os.WriteFile(file, in.simulating(t, manifests), 0o600))
	in.run(t, "apply", "--server-side", "--force-conflicts", "--field-manager=glassback", "-f", file)
}

// simulating returns the manifests of an operator that uses the ECS simulator.
func (in *installation) simulating(t *testing.T, manifests []byte) []byte {
	t.Helper()
	manifests = bytes.Replace(manifests, []byte("- --leader-elect\n"),
		[]byte("- --leader-elect\n        - --ecs-endpoint="+in.ecs+"\n"), 1)
	if !bytes.Contains(manifests, []byte(in.ecs)) {
		t.Fatal("the manifests have no argument --leader-elect")
	}
	return manifests
}

// applyRelease installs install.yaml of a release as docs/install.md says, but with another endpoint of ECS.
func (in *installation) applyRelease(t *testing.T, r release) {
	t.Helper()
	file := filepath.Join(r.dir, "install.yaml")
	manifests, err := os.ReadFile(file)
	in.must(t, err)
	in.must(t, os.WriteFile(file, in.simulating(t, manifests), 0o600))
	in.user.shell(t, r, `kubectl apply --server-side --force-conflicts --field-manager=glassback -f install.yaml
		kubectl rollout status -n glassback-system deployment/glassback-manager --timeout=3m`)
}

// deleteAll deletes the objects, the definitions and the operator as docs/install.md says.
func (in *installation) deleteAll(t *testing.T) {
	t.Helper()
	r := in.next(t)
	in.user.shell(t, r, "kubectl delete apiexampleas,applications,ecsinstances,mycronjobs,redisclusters --all --all-namespaces")
	if out := in.user.shell(t, r, "kubectl get glassback --all-namespaces"); out != "" {
		t.Errorf("these objects still exist:\n%s", out)
	}
	in.user.shell(t, r, "kubectl delete -f install.yaml")
}

// helmInstall installs the chart of a release, or upgrades to it, with another endpoint of ECS.
func (in *installation) helmInstall(t *testing.T, r release) {
	t.Helper()
	command := "upgrade"
	if r == in.first {
		command = "install --create-namespace"
	}
	in.user.shell(t, r, "helm "+command+" glassback "+r.chart()+" -n glassback-system --wait --set ecsEndpoint="+in.ecs)
}

// helmUninstall uninstalls the chart as its README says. Only the definitions and their objects stay.
func (in *installation) helmUninstall(t *testing.T) {
	t.Helper()
	in.user.shell(t, in.next(t), "helm uninstall glassback --namespace glassback-system --wait")
	in.user.shell(t, in.next(t), "kubectl delete namespace glassback-system")
	left, err := in.user.everything(t, in.next(t), nameLabel+"=glassback")
	in.must(t, err)
	if len(left) != 5 || slices.ContainsFunc(left, func(o string) bool { return !strings.Contains(o, "/CustomResourceDefinition/") }) {
		t.Errorf("these objects still exist, want only the five definitions:\n%s", strings.Join(left, "\n"))
	}
}

// helmTest runs glassback check in three places: in the operator's Pod, in the Pod of "helm test", and as the plugin of kubectl. It must
// run before ECSInstances exist, since the plugin cannot reach the simulator.
func (in *installation) helmTest(t *testing.T) {
	t.Helper()
	in.checked(t)
	in.user.shell(t, in.first, "helm test glassback -n glassback-system")
	in.user.shell(t, in.first, "kubectl glassback check")
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

// installed installs the first release, and checks it.
func (in *installation) installed(t *testing.T) {
	t.Helper()
	began := time.Now()
	in.install(t, in.first)
	in.ready(t)
	t.Logf("the installation took %s", time.Since(began).Round(time.Second))
	in.check(t)
}

// used applies the examples, and sends requests to the operator's endpoints.
func (in *installation) used(t *testing.T) {
	t.Helper()
	in.samples(t, filepath.Join(in.first.dir, "artifacts", "examples"))
	in.status(t)
	in.webhooks(t)
	in.metrics(t)
}

// ran waits until a MyCronJob has created two Jobs for slots after a time.
func (in *installation) ran(t *testing.T, audit *audit, name string, since time.Time) {
	t.Helper()
	eventually(t, time.Minute, func(context.Context) error {
		jobs := slices.DeleteFunc(audit.of(name), func(job string) bool { return slotOf(t, job) <= since.Unix() })
		if len(jobs) < 2 {
			return fmt.Errorf("%s has created the Jobs %q since %s", name, jobs, since)
		}
		return nil
	})
}

// ready waits until both replicas of the operator are ready.
func (in *installation) ready(t *testing.T) {
	t.Helper()
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=3m")
	pods := in.replicas(t)
	if len(pods) != 2 {
		t.Errorf("the operator has %d replicas, want 2", len(pods))
	}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				t.Errorf("%s was restarted %d times", pod.Name, c.RestartCount)
			}
		}
	}
}

// replicas returns the Pods of the operator that are not being deleted.
func (in *installation) replicas(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := in.kube.CoreV1().Pods(operatorNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: managers})
	in.must(t, err)
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// checked runs glassback check in a Pod of the operator.
func (in *installation) checked(t *testing.T) {
	t.Helper()
	out, err := in.kubectl(t, "exec", "--namespace", operatorNamespace, "deployment/glassback-manager", "--", "/glassback", "check")
	if err != nil || !strings.Contains(out, "\nAll in all ") {
		t.Errorf("glassback check in a Pod: %v\n%s", err, out)
	}
}

// sampleFiles are the manifests of the seeds in a directory.
func sampleFiles(dir string) string {
	var files []string
	for _, kind := range []string{"apiexamplea", "application", "mycronjob", "rediscluster", "ecsinstance"} {
		files = append(files, filepath.Join(dir, kind+".yaml"))
	}
	return strings.Join(files, ",")
}

// samples applies the manifests of the seeds in a directory, and waits until their objects are Ready.
func (in *installation) samples(t *testing.T, dir string) {
	t.Helper()
	began := time.Now()
	eventually(t, time.Minute, func(context.Context) error {
		out, err := in.kubectl(t, "apply", "-f", sampleFiles(dir))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	in.run(t, "patch", "ecs", "ecsinstance-sample", "--type=merge", "-p", `{"spec":{"credentialsSecretRef":{"name":"aliyun"}}}`)
	in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--timeout=4m")
	t.Logf("the samples of the seeds were Ready after %s", time.Since(began).Round(time.Second))
}

// status lists the samples with the plugin of kubectl. One object of each kind must be ready.
func (in *installation) status(t *testing.T) {
	t.Helper()
	out := in.user.shell(t, in.first, `kubectl apply -f artifacts/examples/apiexamplea-jimmy.yaml >&2
		kubectl glassback status -A`)
	for _, kind := range []string{"aea/apiexamplea", "app/application", "mcj/mycronjob", "rdc/rediscluster", "ecs/ecsinstance"} {
		if !regexp.MustCompile(`(?m)^default +` + kind + `-sample +True `).MatchString(out) {
			t.Errorf("kubectl glassback status does not list a ready %s-sample:\n%s", kind, out)
		}
	}
}

// webhooks sends the API server requests whose answers need a webhook.
func (in *installation) webhooks(t *testing.T) {
	t.Helper()
	out := in.run(t, "scale", "rdc/rediscluster-sample", "--replicas=5")
	if !strings.Contains(out, "Warning: spec.replicas: 5 is stored as 6") {
		t.Errorf("after a scale of a RedisCluster to 5 Pods, kubectl printed\n%s", out)
	}
}

// metrics scrapes as Prometheus does: by the name of the Service, which the certificate contains, and with the token of a ServiceAccount.
func (in *installation) metrics(t *testing.T) {
	t.Helper()
	ns := in.namespace(t)
	in.grantMetrics(t, ns, "prometheus")
	for name, want := range map[string]int{"prometheus": http.StatusOK, "default": http.StatusForbidden, "": http.StatusUnauthorized} {
		code, body := in.scrape(t, in.token(t, ns, name))
		if code != want {
			t.Errorf("ServiceAccount %q gets the code %d, want %d: %s", name, code, want, body)
		}
		if want == http.StatusOK && !strings.Contains(body, "\ncontroller_runtime_reconcile_total{") {
			t.Errorf("the metrics (%d bytes) have no count of reconciles", len(body))
		}
	}
	in.must(t, in.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), ns+"-metrics", metav1.DeleteOptions{}))
	in.must(t, in.kube.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
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

// token returns a token of a ServiceAccount, or "" if the name is empty.
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

// dialInside connects to an address in the cluster's network. The connection stays in that network.
func (w *world) dialInside(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // No other goroutine uses this thread: it ends with the goroutine.
		err := w.Enter()
		if err == nil {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		}
		failed <- err
	}()
	return conn, <-failed
}

// upgrade upgrades to the next release. The samples stay Ready. It returns a time at which a new Pod was the leader.
func (in *installation) upgrade(t *testing.T) time.Time {
	t.Helper()
	next := in.next(t)
	began := time.Now()
	in.install(t, next)
	in.ready(t)
	pods := in.replicas(t)
	for _, pod := range pods {
		image, _, _ := strings.Cut(pod.Spec.Containers[0].Image, "@")
		if image != releasedImage+":"+next.version {
			t.Errorf("%s has the image %s", pod.Name, image)
		}
	}
	in.leads(t, pods[0].Spec.Containers[0].Image)
	led := time.Now()
	t.Logf("the upgrade took %s", led.Sub(began).Round(time.Second))
	in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--timeout=1m")
	in.webhooks(t)
	return led
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

// followed waits until another Pod is the leader, and returns how long that took.
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

// successor waits until another process leads after the leader's process was killed. If not is set, it must be another holder, and so in
// another Pod. The killed leader did not release the Lease, so this may take as long as its lease. successor returns the holder and the
// time.
func (in *installation) successor(t *testing.T, killed time.Time, not string) (holder string, led time.Time) {
	t.Helper()
	eventually(t, 2*leaseDuration, func(ctx context.Context) error {
		lease, err := in.kube.CoordinationV1().Leases(operatorNamespace).Get(ctx, "glassback", metav1.GetOptions{})
		if err != nil {
			return err
		}
		holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		if holder == "" || holder == not || !lease.Spec.RenewTime.After(killed) {
			return fmt.Errorf("the leader is %q, and has renewed the Lease at %s", holder, lease.Spec.RenewTime)
		}
		return nil
	})
	led = time.Now()
	if took := led.Sub(killed); took > leaseDuration+time.Second {
		t.Errorf("there was a leader after %s, but the lease lasts %s", took, leaseDuration)
	}
	return holder, led
}

// restartLeader kills the leader's process. The kubelet starts the process again. It stays the leader if it starts before its lease is
// over. Like the other disturbances, restartLeader returns a time at which there was a leader again.
func (in *installation) restartLeader(t *testing.T) time.Time {
	t.Helper()
	pod, before, err := in.leader(t.Context())
	in.must(t, err)
	killed := in.killProcess(t, pod)
	now, led := in.successor(t, killed, "")
	t.Logf("%s after the leader's process was killed, there was a leader again (the same Pod: %t)", led.Sub(killed), now == before)
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=2m")
	return led
}

// killLeader ends the leader's Pod without a signal, as a failed node does. The leader does not release the Lease.
func (in *installation) killLeader(t *testing.T) time.Time {
	t.Helper()
	pod, before, err := in.leader(t.Context())
	in.must(t, err)
	killed := in.killProcess(t, pod)
	in.must(t, in.kube.CoreV1().Pods(operatorNamespace).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	_, led := in.successor(t, killed, before)
	t.Logf("%s after the leader's Pod was killed, another Pod was the leader", led.Sub(killed))
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=2m")
	return led
}

// killProcess sends SIGKILL to the operator in a Pod, and returns the time after that.
func (in *installation) killProcess(t *testing.T, pod string) time.Time {
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
		// systemd's names of control groups have underscores instead of hyphens.
		if bytes.Contains(bytes.ReplaceAll(group, []byte("_"), []byte("-")), []byte("pod"+object.UID)) {
			in.must(t, syscall.Kill(pid, syscall.SIGKILL))
			return time.Now()
		}
	}
	t.Fatalf("Pod %s has no running process", pod)
	return time.Time{}
}

// evictLeader evicts the leader's Pod, as kubectl drain does.
func (in *installation) evictLeader(t *testing.T) time.Time {
	t.Helper()
	pod, identity, err := in.leader(t.Context())
	in.must(t, err)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: pod}}
	in.must(t, in.kube.PolicyV1().Evictions(operatorNamespace).Evict(t.Context(), eviction))
	took, led := in.followed(t, identity, leaseDuration), time.Now()
	t.Logf("%s after the leader's Pod was evicted, another Pod was the leader", took)
	if took > 2*time.Second {
		t.Errorf("a planned handover took %s", took)
	}
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout=2m")
	return led
}
