// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/state"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
)

const (
	operatorNamespace = "glassback-system"
	managers          = "app.kubernetes.io/name=glassback,app.kubernetes.io/component=manager"
	examplesDir       = "../../../artifacts/examples/"

	// The images of an upgrade from an earlier commit.
	imageBefore = "glassback.test/glassback:before"
	imageAfter  = "glassback.test/glassback:after"
	// releasedImage is the name of the image in a release.
	releasedImage = "ghcr.io/glassback/glassback"
)

// installation is an operator that was installed in a cluster of its own.
type installation struct {
	*world

	ecs string // the URL of an ECS simulator
}

// TestInstallation follows the documents with only the files of two releases. First it installs the chart, runs the examples, upgrades to
// the next release and uninstalls the chart. The definitions and the objects stay. Then it installs install.yaml, which adopts them,
// upgrades, and deletes everything. At the end, the cluster has the same objects as before. Meanwhile, no workload restarts.
func TestInstallation(t *testing.T) {
	needRealNode(t)
	heavy.parallel(t)
	first, next := makeRelease(t, root), makeRelease(t, nextCheckout(t))
	w := start(t, cluster.Config{Node: cluster.NodeReal})
	in, _ := w.prepare(t)
	u := w.newUser(t)
	u.imports(t, first)
	u.imports(t, next)
	ns := in.namespace(t)
	before, err := u.everything(t, first, "")
	in.must(t, err)
	u.shell(t, first, `sha256sum --check --strict --quiet SHA256SUMS
		tar -xzf glassback-`+first.version+`-linux-`+runtime.GOARCH+`.tar.gz glassback
		install glassback ~/bin/kubectl-glassback
		tar -xzf examples.tar.gz
		kubectl glassback check --pre`)

	audit, workloads := in.audit(t, ns), ""
	const name = "sample"
	for _, way := range []struct {
		what      string
		install   func(release)
		uninstall func()
	}{
		{"the chart", func(r release) {
			command := "upgrade"
			if r == first {
				command = "install --create-namespace"
			}
			u.shell(t, r, "helm "+command+" glassback "+r.chart()+" -n glassback-system --wait --set ecsEndpoint="+in.ecs)
		}, func() {
			u.shell(t, next, `helm uninstall glassback --namespace glassback-system --wait
				kubectl delete namespace glassback-system`)
			left, err := u.everything(t, next, "app.kubernetes.io/name=glassback")
			in.must(t, err)
			if len(left) != 5 || slices.ContainsFunc(left, func(o string) bool { return !strings.Contains(o, "/CustomResourceDefinition/") }) {
				t.Errorf("these objects still exist, want only the five definitions:\n%s", strings.Join(left, "\n"))
			}
		}},
		{"install.yaml", func(r release) {
			file := filepath.Join(r.dir, "install.yaml")
			manifests, err := os.ReadFile(file)
			in.must(t, err)
			in.must(t, os.WriteFile(file, in.simulating(t, manifests), 0o600))
			u.shell(t, r, `kubectl apply --server-side --force-conflicts --field-manager=glassback -f install.yaml
				kubectl rollout status -n glassback-system deployment/glassback-manager`)
		}, func() {
			u.shell(t, next, "kubectl delete apiexampleas,applications,ecsinstances,mycronjobs,redisclusters --all --all-namespaces")
			if out := u.shell(t, next, "kubectl get glassback --all-namespaces"); out != "" {
				t.Errorf("these objects still exist:\n%s", out)
			}
			u.shell(t, next, "kubectl delete -f install.yaml")
		}},
	} {
		for _, r := range []release{first, next} {
			way.install(r)
			in.ready(t)
			in.leads(t, releasedImage+r.digest(t))
			if workloads == "" {
				u.shell(t, r, "helm test glassback -n glassback-system")
				in.create(t, ns, name, func(m *v1.MyCronJob) {
					m.Spec.MissedRunPolicy = v1.AllMissed
					withoutPods(m)
				})
				in.samples(t, filepath.Join(r.dir, "artifacts", "examples"))
				workloads = in.workloads(t)
			}
			in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--timeout="+patience.String())
			out := in.run(t, "exec", "--namespace", operatorNamespace, "deployment/glassback-manager", "--", "/glassback", "check")
			if !strings.Contains(out, "\nAll in all ") {
				t.Errorf("glassback check in a Pod printed\n%s", out)
			}
			out = in.run(t, "scale", "rdc/rediscluster-sample", "--replicas=5") // The answer needs a webhook.
			if !strings.Contains(out, "Warning: spec.replicas: 5 is stored as 6") {
				t.Errorf("after a scale of a RedisCluster to 5 Pods, kubectl printed\n%s", out)
			}
			in.metrics(t)
			in.runs(t, audit, []string{name})
			audit.check(t, name)
			if now := in.workloads(t); now != workloads {
				t.Errorf("%s, %s: the workloads were\n%s\nand are\n%s", way.what, r.version, workloads, now)
			}
		}
		way.uninstall()
	}
	await(t, func(context.Context) error { // The garbage collector deletes the last dependents after their owners.
		after, err := u.everything(t, next, "")
		if left := slices.DeleteFunc(after, func(object string) bool { return slices.Contains(before, object) }); len(left) > 0 {
			return fmt.Errorf("these objects still exist:\n%s", strings.Join(left, "\n"))
		}
		return err
	})
}

// upgradeFrom is the commit that TestUpgrade upgrades from.
const upgradeFrom = "109edb9"

// TestUpgrade installs the operator of an earlier commit, upgrades it to this commit as docs/install.md says, and downgrades it again.
// Objects of every kind exist. A client writes to the RedisCluster all the time, and a MyCronJob runs every 5 seconds. After each step, the
// workloads are the same objects and have not restarted. No slot was missed, and no acknowledged write is lost. ECS has got no call that
// changes anything. The API server accepts every stored object.
func TestUpgrade(t *testing.T) {
	needRealNode(t)
	old := checkout(t, upgradeFrom)
	// Without -trimpath, Go would compile the code again in each new directory.
	script(t, `cd "$1"; CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false go build -trimpath -ldflags '-s -w' -o bin/glassback .`, old)
	heavy.parallel(t)
	w := start(t, cluster.Config{Node: cluster.NodeReal})
	w.loadProgram(t, imageBefore, filepath.Join(old, "bin", "glassback"))
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
		reads := len(ecs.calls())
		in.applyFrom(t, step.checkout, step.image)
		in.ready(t)
		in.leads(t, step.image)
		w.runs(t, audit, []string{name}) // In this time, the new leader syncs every object.
		audit.check(t, name)
		if m, err := w.get(t.Context(), ns, name); err != nil || m.Status.MissedTotal > 0 {
			t.Errorf("%s: %d slots of %s were missed: %v", step.what, m.Status.MissedTotal, name, err)
		}
		writer.kept(step.what)
		in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--all-namespaces", "--timeout="+patience.String())
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

// TestDefinitionsAreUpgraded stores the examples of an earlier commit with its definitions. Then the operator installs its own.
func TestDefinitionsAreUpgraded(t *testing.T) {
	light.parallel(t)
	old := checkout(t, upgradeFrom)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	in := &installation{world: w}
	definitions := filepath.Join(old, "artifacts", "crd")
	in.run(t, "apply", "--server-side", "--field-manager=glassback", "-f", definitions)
	in.run(t, "wait", "--for=condition=Established", "crds", "--all", "--timeout="+patience.String())
	in.run(t, "create", "--namespace", w.bareNamespace(t), "-f", filepath.Join(old, "artifacts", "examples"))
	w.operate(t, "--install-crds")
	in.valid(t, root, w.bareNamespace(t))
}

// TestManifestsAreAccepted applies each complete installation of artifacts to a real API server. hack/chart checks that their objects fit
// together.
func TestManifestsAreAccepted(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	apply := func(directory string, args ...string) {
		t.Helper()
		manifests := slices.DeleteFunc(bytes.Split(render(t, root, directory, "glassback:v1"), []byte("\n---\n")), func(object []byte) bool {
			return bytes.Contains(object, []byte("apiVersion: cert-manager.io/")) // This API group is not installed.
		})
		file := filepath.Join(t.TempDir(), "install.yaml") // kubectl splits a file name at a comma
		w.must(t, os.WriteFile(file, bytes.Join(manifests, []byte("\n---\n")), 0o600))
		out, err := w.kubectl(t, append([]string{"apply", "-f", file}, args...)...)
		if err != nil || strings.Contains(out, "Warning") {
			t.Errorf("apply %s %v: %v\n%s", directory, args, err, out)
		}
	}
	apply("default") // by a client-side apply: the objects fit into its annotation
	apply("default", "--server-side", "--force-conflicts")
	for _, directory := range []string{"default-certmanager", "default-inspect", "namespaced"} {
		apply(directory, "--server-side", "--force-conflicts", "--dry-run=server")
	}
	await(t, func(ctx context.Context) error { // The Pods have the security that the namespace demands.
		d, err := w.kube.AppsV1().Deployments(operatorNamespace).Get(ctx, "glassback-manager", metav1.GetOptions{})
		if err != nil || d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas != 2 || d.Status.UpdatedReplicas != 2 {
			return fmt.Errorf("the Deployment is %+v, error %v", d.Status, err)
		}
		return nil
	})
}

// TestImages renders manifests with images, and without definitions, as make undeploy does: it would delete all of their objects.
func TestImages(t *testing.T) {
	const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	definition := []byte("\nkind: CustomResourceDefinition\n")
	all := render(t, root, "default", "glassback")
	if bytes.Count(all, definition) != 5 {
		t.Errorf("the manifests have %d definitions, want 5", bytes.Count(all, definition))
	}
	for image, want := range map[string]string{
		"glassback":                         "glassback:latest",
		"glassback/glassback:dev":           "glassback/glassback:dev",
		"localhost:5000/a/b:v1.2.3":         "localhost:5000/a/b:v1.2.3",
		"registry.example/a:v1.0@" + digest: "registry.example/a:v1.0@" + digest,
	} {
		rest := render(t, root, "--without-crds", "default", image)
		for _, line := range []string{" image: " + want + "\n", " --backup-image=" + want + "\n"} {
			if !bytes.Contains(rest, []byte(line)) {
				t.Errorf("IMG=%s: the manifests lack %q:\n%s", image, line, rest)
			}
		}
		if bytes.Contains(rest, definition) || bytes.Count(rest, []byte("\n---\n")) != bytes.Count(all, []byte("\n---\n"))-5 {
			t.Errorf("IMG=%s: the manifests without definitions are\n%s", image, rest)
		}
	}
}

// render returns the output of hack/render.sh of a checkout with these arguments: a directory and an image.
func render(t *testing.T, checkout string, args ...string) []byte {
	t.Helper()
	binary, err := cluster.FindBinary()
	must.Succeed(t, err)
	kubectl := filepath.Join(t.TempDir(), "kubectl") // With this name, the program works as kubectl.
	must.Succeed(t, os.Symlink(binary, kubectl))
	at := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	cmd := exec.CommandContext(t.Context(), filepath.Join(checkout, "hack", "render.sh"), slices.Insert(slices.Clone(args), at, kubectl)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("render %v: %v: %s", args, err, complaints.String())
	}
	return out
}

// prepare starts an ECS simulator, and creates the Secret with which the samples use it. It installs nothing.
func (w *world) prepare(t *testing.T) (*installation, *cloud) {
	t.Helper()
	simulated := w.simulateInside(t)
	w.mustKubectl(t, "create", "secret", "generic", "aliyun", "--from-literal=accessKeyID=test", "--from-literal=accessKeySecret=test")
	return &installation{world: w, ecs: simulated.url}, simulated
}

// load gives the node an image of the operator with the name.
func (w *world) load(t *testing.T, name string) {
	t.Helper()
	w.loadProgram(t, name, built(t, "GLASSBACK_LINUX", "bin/linux/glassback", "make image"))
}

// loadProgram gives the node an image of a static program with the name.
func (w *world) loadProgram(t *testing.T, name, program string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	cmd := exec.CommandContext(t.Context(), built(t, "RELEASE_BIN", "bin/tools/release", "make image"), "image", "--image", name,
		"--output", archive, program)
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

// applyFrom installs the operator as in docs/install.md, but with the manifests of a checkout, and another endpoint of ECS.
func (in *installation) applyFrom(t *testing.T, checkout, image string) {
	t.Helper()
	file := filepath.Join(in.Dir(), "install.yaml")
	in.must(t, os.WriteFile(file, in.simulating(t, render(t, checkout, "default", image)), 0o600))
	in.run(t, "apply", "--server-side", "--force-conflicts", "--field-manager=glassback", "-f", file)
}

// apply does the same as applyFrom, with the manifests of this checkout.
func (in *installation) apply(t *testing.T, image string) {
	t.Helper()
	in.applyFrom(t, root, image)
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

// run runs kubectl. It fails the test if Pods have less security than their namespace demands.
func (in *installation) run(t *testing.T, args ...string) string {
	t.Helper()
	out := in.mustKubectl(t, args...)
	if strings.Contains(out, "PodSecurity") {
		t.Errorf("kubectl %s: %s", strings.Join(args, " "), out)
	}
	return out
}

// ready waits until both replicas of the operator are ready.
func (in *installation) ready(t *testing.T) {
	t.Helper()
	in.run(t, "rollout", "status", "--namespace", operatorNamespace, "deployment/glassback-manager", "--timeout="+patience.String())
	if pods := in.replicas(t); len(pods) != 2 {
		t.Errorf("the operator has %d replicas, want 2", len(pods))
	}
}

// replicas returns the Pods of the operator that are not being deleted.
func (in *installation) replicas(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := in.kube.CoreV1().Pods(operatorNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: managers})
	in.must(t, err)
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// leads waits until the leader is a Pod with an image.
func (in *installation) leads(t *testing.T, image string) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		lease, err := in.kube.CoordinationV1().Leases(operatorNamespace).Get(ctx, "glassback", metav1.GetOptions{})
		if err != nil {
			return err
		}
		leader, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		if !slices.ContainsFunc(in.replicas(t), func(pod corev1.Pod) bool {
			// The manifests of a release name a tag, too.
			name, digest, by := strings.Cut(pod.Spec.Containers[0].Image, "@")
			if by {
				name, _, _ = strings.Cut(name, ":")
				name += "@" + digest
			}
			return pod.Name == leader && name == image
		}) {
			return fmt.Errorf("the leader is %q, want a Pod with the image %s", leader, image)
		}
		return nil
	})
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
	await(t, func(context.Context) error { // The API server uses new webhooks only after a moment.
		out, err := in.kubectl(t, "apply", "-f", sampleFiles(dir))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	in.run(t, "patch", "ecs", "ecsinstance-sample", "--type=merge", "-p", `{"spec":{"credentialsSecretRef":{"name":"aliyun"}}}`)
	in.run(t, "wait", "--for=condition=Ready", "aea,app,mcj,rdc,ecs", "--all", "--timeout="+patience.String())
}

// metrics scrapes as Prometheus does: by the name of the Service, which the certificate contains, and with the token of a ServiceAccount.
func (in *installation) metrics(t *testing.T) {
	t.Helper()
	ns := in.namespace(t)
	in.run(t, "create", "serviceaccount", "prometheus", "--namespace", ns)
	in.run(t, "create", "clusterrolebinding", ns, "--clusterrole=glassback-metrics-reader", "--serviceaccount="+ns+":prometheus")
	secret, err := in.kube.CoreV1().Secrets(operatorNamespace).Get(t.Context(), "glassback-webhook-ca", metav1.GetOptions{})
	in.must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	const host = "glassback-metrics." + operatorNamespace + ".svc"
	client := &http.Client{Transport: &http.Transport{
		DialContext: (&node{in.world, ns}).enter(t).dial, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}, DisableKeepAlives: true,
	}}
	for token, want := range map[string]int{
		in.token(t, ns, "prometheus"): http.StatusOK, in.token(t, ns, "default"): http.StatusForbidden, "": http.StatusUnauthorized,
	} {
		await(t, func(ctx context.Context) error { // The API server applies a new binding after a moment.
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"."+cluster.Domain+":8443/metrics", http.NoBody)
			in.must(t, err)
			if token != "" {
				request.Header.Set("Authorization", "Bearer "+token)
			}
			answer, err := client.Do(request)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode != want {
				return fmt.Errorf("the answer has the code %d, want %d", answer.StatusCode, want)
			}
			return nil
		})
	}
	in.run(t, "delete", "clusterrolebinding", ns)
	in.run(t, "delete", "namespace", ns, "--wait=false")
}

// token returns a token of a ServiceAccount.
func (w *world) token(t *testing.T, ns, name string) string {
	t.Helper()
	request, err := w.kube.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	w.must(t, err)
	return request.Status.Token
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
// without a change, and the examples of the checkout.
func (in *installation) valid(t *testing.T, checkout, ns string) {
	t.Helper()
	in.run(t, "wait", "--for=condition=Established", "crds", "--all", "--timeout="+patience.String())
	if out, err := in.kubectl(t, "diff", "--server-side", "--force-conflicts", "--field-manager=glassback",
		"-f", filepath.Join(checkout, "artifacts", "crd")); err != nil {
		t.Errorf("the definitions differ from those of the checkout: %v\n%s", err, out)
	}
	in.run(t, "create", "--dry-run=server", "--namespace", ns, "-f", filepath.Join(checkout, "artifacts", "examples"))
	stored := filepath.Join(in.Dir(), "stored.yaml")
	await(t, func(context.Context) error {
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

// checkout returns a directory with the files of a commit. It skips the test if the repository does not have the commit.
func checkout(t *testing.T, commit string) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, needs commit %s in the history of the checkout: %v: %s", commit, err, strings.TrimSpace(string(out)))
	}
	dir := t.TempDir()
	script(t, `git -C "$1" archive "$3" | tar -C "$2" -x`, root, dir, commit)
	return dir
}

// nextCheckout returns a directory with all files that a release needs. They are the same as in this checkout, but have the next version.
func nextCheckout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	version := strings.TrimPrefix(versionOf(t, root), "v")
	dot := strings.LastIndex(version, ".")
	patch, err := strconv.Atoi(version[dot+1:])
	must.Succeed(t, err)
	script(t, `tar -C "$1" -c CHANGELOG.md LICENSE go.mod go.sum main.go pkg artifacts | tar -C "$2" -x
		sed -i "s/${3//./\\.}/$4/g" "$2/CHANGELOG.md" "$2/artifacts/chart/Chart.yaml"`, root, dir, version,
		fmt.Sprintf("%s.%d", version[:dot], patch+1))
	return dir
}

// script runs a script with the arguments.
func script(t *testing.T, text string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-euo", "pipefail", "-c", text, "script"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// versionOf returns the version of a checkout.
func versionOf(t *testing.T, checkout string) string {
	t.Helper()
	chart, err := os.ReadFile(filepath.Join(checkout, "artifacts", "chart", "Chart.yaml"))
	must.Succeed(t, err)
	_, version, _ := strings.Cut(string(chart), "\nappVersion: ")
	version, _, _ = strings.Cut(version, "\n")
	return version
}

// release has the files of a release.
type release struct {
	dir     string // the directory of the files
	version string // such as v0.2.0
}

// chart returns the name of the package of the chart.
func (r release) chart() string { return "glassback-" + strings.TrimPrefix(r.version, "v") + ".tgz" }

// digest returns the digest of its image, as in "@sha256:…".
func (r release) digest(t *testing.T) string {
	t.Helper()
	manifests, err := os.ReadFile(filepath.Join(r.dir, "install.yaml"))
	must.Succeed(t, err)
	return regexp.MustCompile(`@sha256:[0-9a-f]{64}`).FindString(string(manifests))
}

// makeRelease builds a release of a checkout, for the architecture of this machine only.
func makeRelease(t *testing.T, checkout string) release {
	t.Helper()
	r := release{filepath.Join(t.TempDir(), "dist"), versionOf(t, checkout)}
	cmd := exec.CommandContext(t.Context(), built(t, "RELEASE_BIN", "bin/tools/release", "make bin/tools/release"), "make",
		"--source", checkout, "--dist", r.dir, "--version", r.version, "--commit", strings.Repeat("0a", 20), "--date", "2026-01-02T03:04:05Z",
		"--platforms", "linux/"+runtime.GOARCH, "--unsigned")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make release %s: %v\n%s", r.version, err, out)
	}
	return r
}

// user runs commands with only the files of a release, kubectl and helm. A user has no checkout and no Go.
type user struct {
	*world

	home string // the home directory; programs are in its directory bin
}

// newUser returns a user with the kubeconfig of the cluster.
func (w *world) newUser(t *testing.T) *user {
	t.Helper()
	u := &user{world: w, home: t.TempDir()}
	w.must(t, os.Mkdir(filepath.Join(u.home, "bin"), 0o700))
	devcluster, err := cluster.FindBinary()
	w.must(t, err)
	helm := built(t, "HELM_BIN", "bin/tools/helm", "make bin/tools/helm")
	for name, program := range map[string]string{"kubectl": devcluster, "helm": helm} {
		w.must(t, os.Symlink(program, filepath.Join(u.home, "bin", name)))
	}
	return u
}

// shell runs a script in the directory of a release, and returns its standard output. It fails the test if the script fails.
func (u *user) shell(t *testing.T, r release, script string) string {
	t.Helper()
	out, err := u.try(t, r, script)
	must.Succeed(t, err)
	return out
}

// try does the same as shell, but returns the error of the script.
func (u *user) try(t *testing.T, r release, script string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = r.dir
	path := filepath.Join(u.home, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin"
	cmd.Env = []string{"HOME=" + u.home, "KUBECONFIG=" + u.Kubeconfig(), "PATH=" + path}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s%s", script, err, out, complaints.String())
	}
	if strings.Contains(complaints.String(), "PodSecurity") {
		t.Errorf("%s: %s", script, complaints.String())
	}
	return string(out), nil
}

// imports imports the image of a release into the node's containerd, as docs/install.md says. On a machine without ctr, devcluster loads
// the image.
func (u *user) imports(t *testing.T, r release) {
	t.Helper()
	archive := "glassback-" + r.version + "-image.tar"
	if _, err := exec.LookPath("ctr"); err != nil {
		_, err := u.Load(t.Context(), filepath.Join(r.dir, archive))
		u.must(t, err)
		return
	}
	record, err := state.Dir(u.Dir()).Load()
	u.must(t, err)
	u.shell(t, r, fmt.Sprintf("ctr --address /proc/%d/root/run/containerd/containerd.sock --namespace k8s.io images import --digests "+
		"--base-name %s %s", record.Sandbox.Init, releasedImage, archive))
}

// everything returns a line for each object of the cluster that matches the selector, of all kinds except events. It leaves out objects in
// the namespaces of Kubernetes, whose components create objects at any time.
func (u *user) everything(t *testing.T, r release, selector string) ([]string, error) {
	t.Helper()
	const line = `{.metadata.namespace}/{.apiVersion}/{.kind}/{.metadata.name}{"\n"}`
	out, err := u.try(t, r, `kinds=$(kubectl api-resources --verbs=list -o name | grep -v '^events' | paste -sd ,)
		kubectl get "$kinds" --all-namespaces --selector '`+selector+`' -o 'jsonpath={range .items[*]}`+line+`{end}'`)
	return slices.DeleteFunc(strings.Fields(out), func(line string) bool { return strings.HasPrefix(line, "kube-") }), err
}
