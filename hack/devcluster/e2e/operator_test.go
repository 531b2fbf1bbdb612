// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/must"
)

// world is a cluster with clients for it.
type world struct {
	*cluster.Cluster
	kube      kubernetes.Interface
	glassback versioned.Interface
	config    *rest.Config
}

// start starts a cluster, which stops when the test ends.
func start(t testing.TB, config cluster.Config) *world {
	t.Helper()
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatalf("start cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop cluster: %v", err)
		}
	})
	return newWorld(c)
}

func newWorld(c *cluster.Cluster) *world {
	json := c.RESTConfig()
	json.QPS = -1
	json.WarningHandler = rest.NoWarnings{} // The API server sends thousands of warnings, which only kubectl should show.
	binary := rest.CopyConfig(json)
	binary.ContentType = k8sruntime.ContentTypeProtobuf
	return &world{c, kubernetes.NewForConfigOrDie(binary), versioned.NewForConfigOrDie(json), json}
}

// operator is a running bin/glassback, or another program that runs beside it.
type operator struct {
	t       testing.TB
	name    string
	cmd     *exec.Cmd
	log     *logBuffer
	exited  chan struct{}
	waitErr error // valid after exited is closed
}

// logBuffer keeps the output of a process.
type logBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	wait []string // texts to wait for; one of them is enough
	then func()   // called when one of the texts is in the log; nil if nothing waits
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.b.Write(p)
	l.look()
	return n, err
}

// when calls then once, as soon as the log contains one of the texts.
func (l *logBuffer) when(texts []string, then func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait, l.then = texts, then
	l.look()
}

func (l *logBuffer) look() {
	if l.then != nil && slices.ContainsFunc(l.wait, func(text string) bool { return bytes.Contains(l.b.Bytes(), []byte(text)) }) {
		l.then()
		l.then = nil
	}
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func binary(t testing.TB) string {
	t.Helper()
	return built(t, "GLASSBACK_BIN", "bin/glassback", "make build")
}

// built returns the path of a program that the Makefile builds, unless env names another.
func built(t testing.TB, env, file, how string) string {
	t.Helper()
	if path := os.Getenv(env); path != "" {
		return path
	}
	path, err := filepath.Abs("../../../" + file)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("find %s, run %s first: %v", file, how, err)
	}
	return path
}

// launch runs the operator with the arguments. The end of the test kills the operator if it still runs. If the test has failed, it prints
// the operator's log.
func launch(t testing.TB, args ...string) *operator {
	t.Helper()
	return follow(t, exec.Command(binary(t), args...), args)
}

// follow does the same as launch, with a given command.
func follow(t testing.TB, cmd *exec.Cmd, args []string) *operator {
	t.Helper()
	return begin(t, "glassback", cmd, args)
}

// begin does the same as follow, for any program.
func begin(t testing.TB, name string, cmd *exec.Cmd, args []string) *operator {
	t.Helper()
	artifacts := t.ArtifactDir() // A cleanup cannot call this.
	o := &operator{t: t, name: name, cmd: cmd, log: &logBuffer{}, exited: make(chan struct{})}
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	if err := o.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		o.waitErr = o.cmd.Wait()
		close(o.exited)
	}()
	t.Cleanup(func() {
		o.kill()
		if t.Failed() {
			file := filepath.Join(artifacts, fmt.Sprintf("%s-%d.log", name, o.cmd.Process.Pid))
			if err := os.WriteFile(file, []byte(o.log.String()), 0o644); err != nil {
				t.Error(err)
			}
			t.Logf("the log of %s %s is in %s (go test -artifacts keeps it); its end:\n%s",
				name, strings.Join(args, " "), file, tail(o.log.String(), 10))
		}
	})
	return o
}

// operate runs the operator on w and waits until its controllers have started.
func (w *world) operate(t testing.TB, args ...string) *operator {
	t.Helper()
	o := launch(t, append([]string{"--kubeconfig", w.Kubeconfig(), "-v=2"}, args...)...)
	o.waitFor("Started controller")
	return o
}

func (o *operator) waitFor(line string) {
	o.t.Helper()
	await(o.t, func(context.Context) error {
		if o.running() && !strings.Contains(o.log.String(), line) {
			return fmt.Errorf("the log has no %q", line)
		}
		return nil
	})
	if !strings.Contains(o.log.String(), line) {
		o.t.Fatalf("%s ended (%v) before it logged %q:\n%s", o.name, o.waitErr, line, tail(o.log.String(), 30))
	}
}

func (o *operator) running() bool {
	select {
	case <-o.exited:
		return false
	default:
		return true
	}
}

// kill ends the process with SIGKILL, and returns when it has ended.
func (o *operator) kill() {
	_ = o.cmd.Process.Kill() // An error means that the process has ended.
	<-o.exited
}

// killAt ends the process with SIGKILL as soon as the process logs one of the lines. It returns the lines that are not in the log.
func (o *operator) killAt(patience time.Duration, lines ...string) (missing []string) {
	o.t.Helper()
	o.log.when(lines, func() { _ = o.cmd.Process.Kill() }) // As in kill.
	select {
	case <-o.exited:
	case <-time.After(patience):
		o.t.Fatalf("%s has logged none of %q within %s:\n%s", o.name, lines, patience, tail(o.log.String(), 30))
	}
	log := o.log.String()
	missing = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(log, line) })
	if len(missing) == len(lines) {
		o.t.Fatalf("%s ended (%v) before it logged any of %q:\n%s", o.name, o.waitErr, lines, tail(log, 30))
	}
	return missing
}

// stop ends the process with SIGTERM, and returns its exit code.
func (o *operator) stop() int {
	o.t.Helper()
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		o.t.Fatalf("stop %s: %v", o.name, err)
	}
	return o.wait(patience)
}

func (o *operator) wait(patience time.Duration) int {
	o.t.Helper()
	select {
	case <-o.exited:
	case <-time.After(patience):
		o.t.Fatalf("%s still runs after %s:\n%s", o.name, patience, tail(o.log.String(), 30))
	}
	return o.cmd.ProcessState.ExitCode()
}

// await calls check until it returns nil, and fails the test with its last error if that takes longer than patience.
func await(t testing.TB, check func(context.Context) error) {
	t.Helper()
	awaitFor(t, patience, check)
}

// awaitFor is await with another patience.
func awaitFor(t testing.TB, patience time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err // This leaves out the error of a request that the timeout canceled.
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %v", patience, last)
		case <-tick.C:
		}
	}
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (w *world) must(t *testing.T, err error) {
	t.Helper()
	must.Succeed(t, err)
}

// kubectl runs kubectl on the cluster and returns its output. "devcluster kubectl" would start its large program twice.
func (w *world) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.Dir(), "bin", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustKubectl does the same as kubectl, and ends the test if kubectl fails.
func (w *world) mustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.kubectl(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// createNamespace creates a namespace with exactly this name.
func (w *world) createNamespace(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := w.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	w.must(t, err)
}

// bareNamespace creates a namespace without a service account.
func (w *world) bareNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	ns, err := w.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	w.must(t, err)
	return ns.Name
}

// namespace creates a namespace with a service account, and returns its name.
func (w *world) namespace(t *testing.T) string {
	t.Helper()
	ns := w.bareNamespace(t)
	await(t, func(ctx context.Context) error {
		_, err := w.kube.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return ns
}

func serviceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// account creates a ServiceAccount, and returns a kubeconfig for it.
func (w *world) account(t testing.TB, name string) string {
	t.Helper()
	accounts := w.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	_, err := accounts.Create(t.Context(), serviceAccount(name), metav1.CreateOptions{})
	must.Succeed(t, err)
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must.Succeed(t, err)
	return w.kubeconfig(t, token.Status.Token)
}

func (w *world) kubeconfig(t testing.TB, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, w.WriteKubeconfig(file, token))
	return file
}

// shippedRole is the ClusterRole that is installed with the operator.
func (w *world) shippedRole(t testing.TB) *rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile("../../../artifacts/rbac/role.yaml")
	must.Succeed(t, err)
	role := &rbacv1.ClusterRole{}
	must.Succeed(t, yaml.UnmarshalStrict(data, role))
	return role
}

// shippedAccount installs the CRDs, and creates an account with the shipped Role.
func (w *world) shippedAccount(t testing.TB) string {
	t.Helper()
	w.operate(t, "--install-crds").kill()
	role := w.shippedRole(t)
	_, err := w.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	must.Succeed(t, err)
	_, err = w.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "manager", Namespace: metav1.NamespaceDefault}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	return w.account(t, "manager")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	return l.Addr().String()
}

// withoutCloud returns the environment without cloud credentials. The program also does not ask the metadata service of the machine.
func withoutCloud() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "ALIBABA_CLOUD_") })
	return append(env, "ALIBABA_CLOUD_ECS_METADATA_DISABLED=true")
}

// nodeEnv names an environment variable for the kind of the node. With "simulated", tests that need a real node are skipped, even if the
// machine could run one.
const nodeEnv = "GLASSBACK_E2E_NODE"

// realNode is one cluster with a real node for all tests of this process, since the start of a node takes longer than most tests. The first
// test that needs it starts it, and TestMain stops it. If the process dies, the cluster stops by itself.
var realNode suite

type suite struct {
	start sync.Once
	w     *world
	err   error
}

func TestMain(m *testing.M) {
	redis.SetLogger(mute{}) // go-redis logs every failed connection.
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil { // See places.parallel.
		panic(err)
	}
	code := m.Run()
	if err := realNode.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster with the real node:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// mute is a logger that drops all lines.
type mute struct{}

func (mute) Printf(context.Context, string, ...any) {}

// noStreams makes an API server work as before Kubernetes 1.34: it does not stream lists in a watch, so that informers LIST first.
const noStreams = "--feature-gates=WatchList=false"

func (s *suite) world() (*world, error) {
	s.start.Do(func() {
		// This is not the context of a test: the cluster outlives the first test.
		c, err := cluster.Start(context.Background(), cluster.Config{
			Node: cluster.NodeReal, ExtraArgs: map[string][]string{cluster.APIServer: {noStreams}}, // TestInstallation streams lists.
		})
		if err != nil {
			s.err = err
			return
		}
		s.w = newWorld(c)
	})
	return s.w, s.err
}

func (s *suite) stop() error {
	if s.w == nil {
		return nil
	}
	return s.w.Stop()
}

// node is the part of the cluster with the real node that belongs to one test: a namespace.
type node struct {
	*world
	ns string
}

// needRealNode skips the test on a machine that cannot run a real node.
func needRealNode(t *testing.T) {
	t.Helper()
	if os.Getenv(nodeEnv) == cluster.NodeSimulated {
		t.Skipf("SKIPPED, needs a real node: %s=%s asks for none", nodeEnv, cluster.NodeSimulated)
	}
	if err := cluster.RealNodeMissing(); err != nil {
		t.Skipf("SKIPPED, needs a real node: %v", err)
	}
}

// places limits how many tests run at the same time.
type places chan struct{}

// A heavy test loads most of a processor: the probes of a RedisCluster on a real node do, for example. If a machine is too busy, probes
// time out. The kubelet then replaces containers, which costs even more.
var (
	heavy = make(places, 1)
	light = make(places, max(1, runtime.GOMAXPROCS(0)-1))
)

// parallel waits for a place. The test keeps it until its subtests and cleanups have ended. The limit of -parallel would not do: a subtest
// would wait until all other tests had begun, and the cluster of its test would run until then. So TestMain removes that limit.
func (p places) parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	p <- struct{}{}
	t.Cleanup(func() { <-p })
}

// onNode returns a new namespace on the real node, or skips the test: see needRealNode. When the test ends, the namespace is deleted. If
// the test has failed, its objects, events and logs are saved before that.
func onNode(t *testing.T) *node {
	t.Helper()
	needRealNode(t)
	w, err := realNode.world()
	if err != nil {
		t.Fatalf("start a cluster with a real node: %v", err)
	}
	artifacts := t.ArtifactDir() // A cleanup cannot call this.
	n := &node{w, w.namespace(t)}
	t.Cleanup(func() {
		if t.Failed() {
			n.keep(t, artifacts)
		}
		n.delete(t)
	})
	return n
}

// keep saves the state of a failed test in dir: the logs of components and containers, the events and the objects of the namespace. It
// only logs its own errors, since the test has failed already.
func (n *node) keep(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const most = 4 << 20 // kept from the end of each file
	save := func(name string, data []byte, err error) {
		if writeErr := os.WriteFile(filepath.Join(dir, name), data[max(0, len(data)-most):], 0o644); err != nil || writeErr != nil {
			t.Logf("%s could not be kept: %v, %v", name, err, writeErr)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(filepath.Dir(n.LogFile("any")), "*.log"))
	for _, log := range logs { // These come first: they exist even if the API server does not answer.
		data, err := os.ReadFile(log)
		save("component-"+filepath.Base(log), data, err)
	}
	kubectl := func(args ...string) ([]byte, error) {
		return n.Command(ctx, "kubectl", append(args, "--namespace", n.ns)...).CombinedOutput()
	}
	objects, err := kubectl("get", "glassback,all,configmaps,endpointslices,ingresses,networkpolicies,persistentvolumeclaims,"+
		"poddisruptionbudgets", "--output=yaml")
	save("objects.yaml", objects, err)
	described, err := kubectl("describe", "pods,persistentvolumeclaims,nodes")
	save("describe.txt", described, err)
	events, err := kubectl("events")
	save("events.txt", events, err)
	pods, err := kubectl("get", "pods", "--output=name")
	save("pods.txt", pods, err)
	for pod := range strings.FieldsSeq(string(pods)) {
		for _, previous := range []string{"--previous=false", "--previous=true"} { // Few containers have run before.
			log, err := kubectl("logs", pod, "--all-containers", "--ignore-errors", "--timestamps", previous)
			save(fmt.Sprintf("%s-%s.log", filepath.Base(pod), strings.TrimPrefix(previous, "--")), log, err)
		}
	}
	t.Logf("namespace %s: objects, events and logs are in %s (go test -artifacts keeps them); the last events:\n%s",
		n.ns, dir, tail(string(events), 20))
}

// delete deletes the namespace, without a wait for the end of the deletion. It deletes the Pods without a grace period.
func (n *node) delete(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // A cleanup has no context of the test.
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := n.kube.CoreV1().Pods(n.ns).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Errorf("delete Pods of namespace %s: %v", n.ns, err)
	}
	if err := n.kube.CoreV1().Namespaces().Delete(ctx, n.ns, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete namespace %s: %v", n.ns, err)
	}
}

// operate runs the operator for the test's namespace only, and waits until its controllers have started. It runs in the cluster's network,
// and so reaches Services and Pods.
func (n *node) operate(t testing.TB, args ...string) *operator {
	t.Helper()
	args = append([]string{"--kubeconfig", n.Kubeconfig(), "--install-crds", "--namespace", n.ns, "-v=2"}, args...)
	o := follow(t, n.inside(binary(t), args...), args)
	o.waitFor("Started controller")
	return o
}

// inside returns a command that runs in the cluster's network. The caller must end it: see launch.
func (n *node) inside(name string, args ...string) *exec.Cmd {
	return n.Command(context.Background(), name, args...)
}
