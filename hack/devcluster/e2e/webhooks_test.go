// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

const (
	examples = "../../../artifacts/examples/"
	// soon is the limit until the API server and the operator have processed a write. The operator writes to the configurations at most once
	// in a few seconds.
	soon = 10 * time.Second

	// withoutOutside turns off the controllers of RedisClusters and ECSInstances, which need systems outside of the cluster. Their webhooks
	// still run.
	withoutOutside = "--controllers=*,-rediscluster,-ecsinstance"

	withoutStorage = "Warning: spec.storage: without it a Pod's data is gone with the Pod\n"
	withoutSwitch  = "Warning: spec.vSwitchID: without a vSwitch, the operator requests the classic network, " +
		"which ECS rejects for most accounts\n"
)

// TestWebhooks runs the operator outside of the cluster. The API server calls it by a URL.
func TestWebhooks(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	w.installCRDs(t)
	t.Run("the output of kubectl", func(t *testing.T) {
		w.hook(t)
		for name, test := range map[string]func(*testing.T, *world, string){
			"an invalid addr":                                 testAddr,
			"a size that is too small is raised":              testSize,
			"a schedule without any time":                     testNever,
			"an unwise spec causes a warning, and no error":   testWarnings,
			"a protected object cannot be deleted":            testProtection,
			"an operator that cannot serve webhooks says why": testNoWebhooks,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w, w.bareNamespace(t))
			})
		}
	})
	// The cases run one after the other: otherwise the webhooks of one case would get requests of another one.
	for name, test := range map[string]func(*testing.T, *world){
		"the configurations are as desired, and are repaired":         testRegistrations,
		"foreign configurations are left alone":                       testForeignConfigurations,
		"a clean stop deletes the configurations":                     testCleanStop,
		"after a crash, the next start uses the configurations again": testCrash,
		"without a URL, no configurations are created":                testNoURL,
		"objects in other namespaces are not checked":                 testOtherNamespaces,
		"the certificate comes from files":                            testFiles,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

// installCRDs runs an operator that installs the CRDs, and ends it.
func (w *world) installCRDs(t *testing.T) {
	t.Helper()
	w.operate(t, "--install-crds").kill()
}

// bareNamespace creates a namespace without a service account.
func (w *world) bareNamespace(t *testing.T) string {
	t.Helper()
	ns, err := w.kube.CoreV1().Namespaces().Create(t.Context(), namespaceObject(), metav1.CreateOptions{})
	w.must(t, err)
	return ns.Name
}

// hooked is an operator that the API server calls by a URL.
type hooked struct {
	*operator
	url  *url.URL
	name string // name of both configurations
}

// hook runs the operator with webhooks at a free port, and waits until the API server calls them. At the end of the test, it deletes the
// configurations.
func (w *world) hook(t *testing.T, args ...string) *hooked {
	t.Helper()
	h := w.launchHooked(t, freeURL(t), args...)
	w.called(t, "default")
	return h
}

// launchHooked does the same as hook for a URL, but does not wait until the webhooks are called. Unless args say otherwise, it runs no
// controllers of RedisClusters and ECSInstances.
func (w *world) launchHooked(t *testing.T, u *url.URL, args ...string) *hooked {
	t.Helper()
	name := webhook.NameByURL(u)
	args = append([]string{"--kubeconfig", w.Kubeconfig(), "-v=2", "--webhook-url", u.String(), withoutOutside}, args...)
	h := &hooked{launch(t, args...), u, name}
	t.Cleanup(func() {
		h.kill() // A running operator would create the configurations again.
		w.unregister(t, name)
	})
	return h
}

func freeURL(t *testing.T) *url.URL {
	t.Helper()
	return &url.URL{Scheme: "https", Host: freeAddress(t)}
}

// unregister deletes the configurations with a name, if they exist.
func (w *world) unregister(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon) // A cleanup has no context of the test.
	defer cancel()
	api := w.kube.AdmissionregistrationV1()
	for _, err := range []error{
		api.MutatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
		api.ValidatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// sizeOf3 returns the size that the API server would store for a new RedisCluster of size 3. It is 6 if the API server calls the webhooks.
func (w *world) sizeOf3(ctx context.Context, ns string) (int32, error) {
	r, err := w.glassback.RedisV1().RedisClusters(ns).Create(ctx, redisCluster("dry-run"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return 0, err
	}
	return *r.Spec.Size, nil
}

func redisCluster(name string) *redisv1.RedisCluster {
	return &redisv1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       redisv1.RedisClusterSpec{Addr: "192.168.1.10:6379", Size: ptr.To[int32](3)},
	}
}

// called waits until the API server calls the webhooks for objects of a namespace.
func (w *world) called(t *testing.T, ns string) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		if size, err := w.sizeOf3(ctx, ns); err != nil || size != 6 {
			return fmt.Errorf("a size of 3 is stored as %d: %w", size, err)
		}
		return nil
	})
}

// answers are the results of repeated calls of sizeOf3.
type answers struct {
	asked int
	sizes map[int32]int      // number of answers, by size
	errs  map[string][]error // errors, by class
}

// asker calls sizeOf3 again and again in several goroutines.
type asker struct {
	cancel context.CancelFunc
	asking sync.WaitGroup
	mu     sync.Mutex
	got    answers
}

// ask starts the goroutines that call sizeOf3, and waits until each has got an answer.
func (w *world) ask(t *testing.T, ns string, askers int) *asker {
	ctx, cancel := context.WithCancel(t.Context())
	a := &asker{cancel: cancel, got: answers{sizes: map[int32]int{}, errs: map[string][]error{}}}
	var begun sync.WaitGroup
	for range askers {
		begun.Add(1)
		a.asking.Go(func() {
			first := sync.OnceFunc(begun.Done)
			for ctx.Err() == nil {
				a.note(w.sizeOf3(context.WithoutCancel(ctx), ns))
				first()
			}
		})
	}
	t.Cleanup(func() { a.end() })
	begun.Wait()
	return a
}

func (a *asker) note(size int32, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got.asked++
	if err == nil {
		a.got.sizes[size]++
	} else {
		a.got.errs[about(err)] = append(a.got.errs[about(err)], err)
	}
}

// more waits for n more answers.
func (a *asker) more(t *testing.T, n int) {
	t.Helper()
	asked := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.got.asked
	}
	want := asked() + n
	eventually(t, patience, func(context.Context) error {
		if got := asked(); got < want {
			return fmt.Errorf("%d answers have arrived, want %d", got, want)
		}
		return nil
	})
}

// end ends the goroutines, and returns the answers.
func (a *asker) end() answers {
	a.cancel()
	a.asking.Wait()
	return a.got
}

// check fails the test for every error.
func (a answers) check(t *testing.T) {
	t.Helper()
	for class, errs := range a.errs {
		t.Errorf("%d of %d requests have failed because of %s, such as: %v", len(errs), a.asked, class, errs[0])
	}
}

// about returns the class of a request's error.
func about(err error) string {
	for _, class := range []struct {
		name  string
		signs []string
	}{
		{"a certificate", []string{"x509: ", "tls: "}},
		{"a connection", []string{"connection refused", "connection reset", "EOF", "broken pipe", "use of closed network connection"}},
		{"a timeout", []string{"deadline exceeded", "i/o timeout", "Client.Timeout"}},
	} {
		if slices.ContainsFunc(class.signs, func(sign string) bool { return strings.Contains(err.Error(), sign) }) {
			return class.name
		}
	}
	return "something else"
}

// apply applies an object of Glassback with kubectl, and returns the output.
func (w *world) apply(t *testing.T, ns, object string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	w.must(t, os.WriteFile(file, []byte(object), 0o600))
	out, _ := w.kubectl(t, "apply", "--namespace", ns, "-f", file) // The output shows whether kubectl succeeded.
	return out
}

func (w *world) size(t *testing.T, ns, name string) int32 {
	t.Helper()
	r, err := w.glassback.RedisV1().RedisClusters(ns).Get(t.Context(), name, metav1.GetOptions{})
	w.must(t, err)
	return *r.Spec.Size
}

const rediscluster = `{apiVersion: bytewang123-redis.wzj.kubebuilder.io/v1, kind: RedisCluster, metadata: {name: rediscluster-sample}`

func testAddr(t *testing.T, w *world, ns string) {
	const invalid = `The RedisCluster "rediscluster-sample" is invalid: spec.addr: Invalid value: %q: invalid ip port, ip:port` + "\n"
	const created = withoutStorage + "rediscluster.bytewang123-redis.wzj.kubebuilder.io/rediscluster-sample created\n"
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
			if got := w.apply(t, ns, rediscluster+test.rest); got != test.want {
				t.Errorf("kubectl printed\n%swant\n%s", got, test.want)
			}
			err := w.glassback.RedisV1().RedisClusters(ns).Delete(t.Context(), "rediscluster-sample", metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
}

func testSize(t *testing.T, w *world, ns string) {
	const name = "rediscluster-sample"
	three := rediscluster + `, spec: {addr: "1.2.3.4:6379", size: 3}}`
	scale := func(replicas string) string {
		out, _ := w.kubectl(t, "scale", "--namespace", ns, "rdc", name, "--replicas", replicas)
		return out
	}
	for _, step := range []struct { // Each step starts with the objects of the step before it.
		what string
		do   func() string
		want string
		size int32
	}{
		{"apply", func() string { return w.apply(t, ns, three) }, "spec.size: 3 is stored as 6", 6},
		{"apply again", func() string { return w.apply(t, ns, three) }, "spec.size: 3 is stored as 6", 6},
		{"scale to 3", func() string { return scale("3") }, "spec.replicas: 3 is stored as 6", 6},
		{"scale to 7", func() string { return scale("7") }, "", 7},
		{"two more replicas for each master", func() string {
			out, _ := w.kubectl(t, "patch", "--namespace", ns, "rdc", name, "--type=merge", "-p", `{"spec":{"replicasPerMaster":3}}`)
			return out
		}, "spec.size: 7 is stored as 12", 12},
		{"scale these to 3", func() string { return scale("3") }, "spec.replicas: 3 is stored as 12", 12},
		{"scale these to 0", func() string { return scale("0") }, "spec.replicas: 0 is stored as 12", 12},
	} {
		out := step.do()
		warning, _, _ := strings.Cut(strings.TrimPrefix(out, "Warning: "), "\n")
		if step.want == "" && strings.Contains(out, "Warning: ") || step.want != "" && warning != step.want {
			t.Errorf("%s: kubectl printed\n%swant the warning %q", step.what, out, step.want)
		}
		if size := w.size(t, ns, name); size != step.size {
			t.Errorf("%s: the stored size is %d, want %d", step.what, size, step.size)
		}
	}
}

func testNever(t *testing.T, w *world, ns string) {
	const want = `The MyCronJob "never" is invalid: spec.schedule: Invalid value: "0 0 30 2 *": never comes: ` +
		`none of its months has such a day` + "\n"
	got := w.apply(t, ns, `{apiVersion: batch.wzj.kubebuilder.io/v1, kind: MyCronJob, metadata: {name: never}, spec: {schedule: "0 0 30 2 *",
		jobTemplate: {spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: hello, image: busybox}]}}}}}}`)
	if got != want {
		t.Errorf("kubectl printed\n%swant\n%s", got, want)
	}
}

func testWarnings(t *testing.T, w *world, ns string) {
	for file, want := range map[string]string{
		"mycronjob.yaml":   "mycronjob.batch.wzj.kubebuilder.io/mycronjob-sample created\n",
		"application.yaml": "application.app.aiops.org/application-sample created\n",
		"apiexamplea.yaml": "apiexamplea.groupa.k8s.zhuang.com/apiexamplea-sample created\n",
		// The operator itself logs the warnings, and nothing else.
		"rediscluster.yaml":         withoutStorage + "rediscluster.bytewang123-redis.wzj.kubebuilder.io/rediscluster-sample created\n",
		"rediscluster-storage.yaml": "rediscluster.bytewang123-redis.wzj.kubebuilder.io/rediscluster-storage created\n",
		"ecsinstance.yaml":          withoutSwitch + "ecsinstance.alibabacloud.zhouzhengxi.com/ecsinstance-sample created\n",
		"ecsinstance-stopped.yaml":  "ecsinstance.alibabacloud.zhouzhengxi.com/ecsinstance-stopped created\n",
	} {
		if got, err := w.kubectl(t, "apply", "--namespace", ns, "-f", examples+file); err != nil || got != want {
			t.Errorf("for %s, kubectl printed\n%swant\n%s(%v)", file, got, want, err)
		}
	}
}

func testProtection(t *testing.T, w *world, ns string) {
	const protection = glassback.AnnotationDeletionProtection
	for file, object := range map[string]string{
		"mycronjob.yaml":    "mycronjobs.batch.wzj.kubebuilder.io mycronjob-sample",
		"application.yaml":  "applications.app.aiops.org application-sample",
		"apiexamplea.yaml":  "apiexampleas.groupa.k8s.zhuang.com apiexamplea-sample",
		"rediscluster.yaml": "redisclusters.bytewang123-redis.wzj.kubebuilder.io rediscluster-sample",
		"ecsinstance.yaml":  "ecsinstances.alibabacloud.zhouzhengxi.com ecsinstance-sample",
	} {
		t.Run(file, func(t *testing.T) {
			kubectl := func(args ...string) (string, error) {
				return w.kubectl(t, append([]string{"--namespace", ns}, args...)...)
			}
			if out, err := kubectl("apply", "-f", examples+file); err != nil {
				t.Fatal(out)
			}
			resource, name, _ := strings.Cut(object, " ")
			if out, err := kubectl("annotate", resource, name, protection+"=true"); err != nil {
				t.Fatal(out)
			}
			want := fmt.Sprintf("Error from server (Forbidden): admission webhook \"protect.%s\" denied the request: "+
				"%s %q is forbidden: it is protected: remove the annotation %s first\n", resource, resource, name, protection)
			if out, _ := kubectl("delete", resource, name); out != want {
				t.Errorf("kubectl delete printed\n%swant\n%s", out, want)
			}
			plural, group, _ := strings.Cut(resource, ".") // kubectl delete --all sends one request for each object.
			version := "v1"
			if plural == "ecsinstances" {
				version = "v1alpha1"
			}
			out, err := kubectl("delete", "--raw", "/apis/"+group+"/"+version+"/namespaces/"+ns+"/"+plural)
			if err == nil || !strings.Contains(out, name) || !strings.Contains(out, "remove the annotation "+protection+" first") {
				t.Errorf("kubectl delete --all printed\n%s", out)
			}
			if out, err := kubectl("annotate", resource, name, protection+"-"); err != nil {
				t.Fatal(out) // Otherwise the object would be deleted.
			}
			if out, err := kubectl("delete", resource, name); err != nil {
				t.Errorf("without the annotation, kubectl delete printed\n%s", out)
			}
		})
	}
}

// testNoWebhooks starts operators that cannot serve webhooks. Each prints one line that says what to do, and exits.
func testNoWebhooks(t *testing.T, w *world, _ string) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(t, err)
	t.Cleanup(func() { taken.Close() })
	shipped := w.shippedRole(t).Rules
	without := slices.DeleteFunc(slices.Clone(shipped),
		func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "redisclusters") })
	for name, test := range map[string]struct {
		kubeconfig string
		args       []string
		want       string
	}{
		"the port is in use": {
			w.Kubeconfig(), []string{"--webhook-url", "https://" + taken.Addr().String()},
			"cannot serve the webhooks, choose another port with --webhook-port, or leave them out with --webhooks=false: " +
				"listen tcp " + taken.Addr().String() + ": bind: address already in use",
		},
		"the certificate files do not exist": {
			w.Kubeconfig(), []string{"--webhook-cert-path", t.TempDir()}, "--webhook-cert-path must be a directory with tls.crt and tls.key: ",
		},
		"the account may not register webhooks": {
			w.granted(t, shipped...), []string{"--webhook-url", freeURL(t).String()},
			"for --webhook-url this account is not allowed to create,delete,get,list,update,watch " +
				"mutatingwebhookconfigurations.admissionregistration.k8s.io; " +
				"create,delete,get,list,update,watch validatingwebhookconfigurations.admissionregistration.k8s.io in the cluster: " +
				"apply artifacts/rbac/webhook_url_role.yaml and its binding, or use an account that may",
		},
		"the account may not read RedisClusters": {
			w.granted(t, without...), []string{"--webhook-url", freeURL(t).String(), withoutOutside},
			"for its webhooks (--webhooks=false leaves them out) this account is not allowed to get " +
				"redisclusters.bytewang123-redis.wzj.kubebuilder.io ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			expectRefusal(t, launch(t, append([]string{"--kubeconfig", test.kubeconfig}, test.args...)...), 1, test.want)
		})
	}
}

// granted creates an account with a role of its own, and returns a kubeconfig for the account.
func (w *world) granted(t *testing.T, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules}
	role, err := w.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	w.must(t, err)
	config := w.account(t, role.Name)
	_, err = w.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: role.Name, Namespace: "default"}},
	}, metav1.CreateOptions{})
	w.must(t, err)
	return config
}

// testRegistrations damages both configurations in many ways, and then deletes them. The operator repairs them.
func testRegistrations(t *testing.T, w *world) {
	beside := artifact[rbacv1.ClusterRole](t, "rbac/webhook_url_role.yaml").Rules
	spy := w.spy(t, w.granted(t, append(w.shippedRole(t).Rules, beside...)...))
	h := w.hook(t, "--kubeconfig", spy.kubeconfig)
	c := w.configurations(t, h.name)
	want := desired(h.url, nil, c.bundle())
	w.must(t, c.differ(want))
	if got, all := c.names(), []string{
		"default.redisclusters.bytewang123-redis.wzj.kubebuilder.io",
		"protect.apiexampleas.groupa.k8s.zhuang.com",
		"protect.applications.app.aiops.org",
		"protect.ecsinstances.alibabacloud.zhouzhengxi.com",
		"protect.mycronjobs.batch.wzj.kubebuilder.io",
		"protect.redisclusters.bytewang123-redis.wzj.kubebuilder.io",
		"validate.applications.app.aiops.org",
		"validate.ecsinstances.alibabacloud.zhouzhengxi.com",
		"validate.mycronjobs.batch.wzj.kubebuilder.io",
		"validate.redisclusters.bytewang123-redis.wzj.kubebuilder.io",
	}; !slices.Equal(got, all) {
		t.Errorf("the webhooks are %q, want %q", got, all)
	}
	w.stays(t, spy, h.name)

	// The test makes all changes at once. The operator writes only every few seconds, so that it does not compete with another writer.
	other := newPair(t)
	m, v := &c.mutating.Webhooks[0], c.validating.Webhooks
	m.ClientConfig.CABundle, m.FailurePolicy = other.certPEM, ptr.To(admissionregistrationv1.Ignore)
	v[0].ClientConfig.CABundle = nil
	v[1].TimeoutSeconds = ptr.To[int32](30)
	v[2].MatchConditions = nil
	v[3].Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Connect}
	v[4].ClientConfig.URL = ptr.To(h.url.String() + "/elsewhere")
	c.validating.Webhooks = v[:len(v)-1]
	w.must(t, w.update(t.Context(), c))
	w.repaired(t, want)
	w.unregister(t, h.name)
	w.repaired(t, want)
	w.stays(t, spy, h.name)
}

// configurations are both webhook configurations with a name.
type configurations struct {
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
}

func desired(u *url.URL, namespaces []string, caBundle []byte) configurations {
	e, name := webhook.ByURL(u, namespaces, caBundle), webhook.NameByURL(u)
	return configurations{e.MutatingConfiguration(name), e.ValidatingConfiguration(name)}
}

func (c configurations) bundle() []byte { return c.bundles()[0] }

func (c configurations) bundles() [][]byte {
	var bundles [][]byte
	for _, h := range c.mutating.Webhooks {
		bundles = append(bundles, h.ClientConfig.CABundle)
	}
	for _, h := range c.validating.Webhooks {
		bundles = append(bundles, h.ClientConfig.CABundle)
	}
	return bundles
}

// differ returns an error unless c equals other. It ignores metadata that the API server adds.
func (c configurations) differ(other configurations) error {
	if !equality.Semantic.DeepEqual(c.mutating.Webhooks, other.mutating.Webhooks) ||
		!equality.Semantic.DeepEqual(c.mutating.Labels, other.mutating.Labels) {
		return fmt.Errorf("the stored configuration is %+v, want %+v", c.mutating, other.mutating)
	}
	if !equality.Semantic.DeepEqual(c.validating.Webhooks, other.validating.Webhooks) ||
		!equality.Semantic.DeepEqual(c.validating.Labels, other.validating.Labels) {
		return fmt.Errorf("the stored configuration is %+v, want %+v", c.validating, other.validating)
	}
	return nil
}

func (c configurations) names() []string {
	var names []string
	for _, h := range c.mutating.Webhooks {
		names = append(names, h.Name)
	}
	for _, h := range c.validating.Webhooks {
		names = append(names, h.Name)
	}
	slices.Sort(names)
	return names
}

func (c configurations) versions() [2]string {
	return [2]string{c.mutating.ResourceVersion, c.validating.ResourceVersion}
}

func (w *world) configurations(t *testing.T, name string) configurations {
	t.Helper()
	c, err := w.getConfigurations(t.Context(), name)
	w.must(t, err)
	return c
}

func (w *world) getConfigurations(ctx context.Context, name string) (configurations, error) {
	api := w.kube.AdmissionregistrationV1()
	m, mutatingErr := api.MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	v, validatingErr := api.ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	return configurations{m, v}, errors.Join(mutatingErr, validatingErr)
}

func (w *world) register(ctx context.Context, c configurations) error {
	api := w.kube.AdmissionregistrationV1()
	_, mutatingErr := api.MutatingWebhookConfigurations().Create(ctx, c.mutating, metav1.CreateOptions{})
	_, validatingErr := api.ValidatingWebhookConfigurations().Create(ctx, c.validating, metav1.CreateOptions{})
	return errors.Join(mutatingErr, validatingErr)
}

func (w *world) update(ctx context.Context, c configurations) error {
	api := w.kube.AdmissionregistrationV1()
	_, mutatingErr := api.MutatingWebhookConfigurations().Update(ctx, c.mutating, metav1.UpdateOptions{})
	_, validatingErr := api.ValidatingWebhookConfigurations().Update(ctx, c.validating, metav1.UpdateOptions{})
	return errors.Join(mutatingErr, validatingErr)
}

// none fails the test if a configuration with the name exists.
func (w *world) none(t *testing.T, name string) {
	t.Helper()
	api := w.kube.AdmissionregistrationV1()
	_, mutatingErr := api.MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	_, validatingErr := api.ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(mutatingErr) || !apierrors.IsNotFound(validatingErr) {
		t.Errorf("the configurations %s still exist: %v, %v", name, mutatingErr, validatingErr)
	}
}

// repaired waits until the configurations are as wanted and the API server calls the webhooks.
func (w *world) repaired(t *testing.T, want configurations) {
	t.Helper()
	begun := time.Now()
	eventually(t, soon, func(ctx context.Context) error {
		c, err := w.getConfigurations(ctx, want.mutating.Name)
		if err != nil {
			return err
		}
		return c.differ(want)
	})
	t.Logf("repaired after %s", time.Since(begun).Round(time.Millisecond))
	w.called(t, "default")
}

// stays fails the test if the configurations change within some seconds, or if the operator sends a write that changes nothing.
func (w *world) stays(t *testing.T, spy *spy, name string) {
	t.Helper()
	before := w.configurations(t, name).versions()
	spy.forget()
	time.Sleep(3 * time.Second) // the time without writes
	if after := w.configurations(t, name).versions(); after != before {
		t.Errorf("the configurations have changed: resourceVersions %v, before %v", after, before)
	}
	for request, n := range spy.requests() {
		if strings.HasSuffix(request, "webhookconfigurations") {
			t.Errorf("the operator sent the request %[2]s %[1]d times", n, request)
		}
	}
}

// testForeignConfigurations starts the operator when foreign configurations have the names that the operator needs.
func testForeignConfigurations(t *testing.T, w *world) {
	u := freeURL(t)
	foreign := desired(u, []string{"nowhere"}, nil)
	foreign.mutating.Labels, foreign.validating.Labels = nil, nil
	w.must(t, w.register(t.Context(), foreign))
	before := w.configurations(t, foreign.mutating.Name)
	h := w.launchHooked(t, u)
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		h.waitFor(kind + " " + h.name +
			" is not the operator's: it has no label glassback.dev/registered-by-url; delete it, or give --webhook-url another address")
	}
	if code := h.stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if after := w.configurations(t, h.name); after.versions() != before.versions() {
		t.Errorf("the operator changed the foreign configurations: %+v and %+v", after.mutating, after.validating)
	}

	// The advice in the log solves the problem.
	h = w.launchHooked(t, u)
	h.waitFor("is not the operator's")
	w.unregister(t, h.name)
	w.called(t, "default")
}

// testCleanStop stops the operator while the test creates objects. No creation fails: the operator answers as long as the API server calls
// it.
func testCleanStop(t *testing.T, w *world) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			h := w.hook(t)
			answers := w.ask(t, "default", 1)
			begun := time.Now()
			w.must(t, h.cmd.Process.Signal(signal))
			if code := h.wait(soon); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			t.Logf("ended after %s", time.Since(begun).Round(time.Millisecond))
			w.none(t, h.name)
			got := answers.end()
			got.check(t)
			if got.sizes[6] == 0 || got.sizes[3] == 0 {
				t.Errorf("the sizes in the answers are %v: the test needs answers with and without the webhooks", got.sizes)
			}
		})
	}
}

// testCrash kills the operator. Requests that need no webhook still succeed.
func testCrash(t *testing.T, w *world) {
	ns := w.bareNamespace(t)
	h := w.hook(t)
	clusters := w.glassback.RedisV1().RedisClusters(ns)
	for _, name := range []string{"sample", "ending", "protected"} {
		r := redisCluster(name)
		r.Finalizers = []string{"example.com/test"}
		if name == "protected" {
			r.Annotations = map[string]string{glassback.AnnotationDeletionProtection: "true"}
		}
		_, err := clusters.Create(t.Context(), r, metav1.CreateOptions{})
		w.must(t, err)
	}
	h.kill()
	before := w.configurations(t, h.name)

	patch := func(name, patch string) error {
		_, err := clusters.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	_, statusErr := clusters.Patch(t.Context(), "sample", types.MergePatchType, []byte(`{"status":{"masters":3}}`),
		metav1.PatchOptions{}, "status")
	for what, err := range map[string]error{
		"set a label":    patch("sample", `{"metadata":{"labels":{"a":"b"}}}`),
		"set the status": statusErr,
		"delete":         clusters.Delete(t.Context(), "ending", metav1.DeleteOptions{}),
		"create an object that only the controller would reject": w.createNever(t.Context(), ns),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.must(t, patch("ending", `{"metadata":{"finalizers":null}}`))
	if _, err := clusters.Get(t.Context(), "ending", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object without finalizers still exists: %v", err)
	}

	refused := regexp.MustCompile(`^Error from server \(InternalError\): .*failed calling webhook ` +
		`"(default|validate|protect)\.redisclusters\.bytewang123-redis\.wzj\.kubebuilder\.io": ` +
		`failed to call webhook: Post "https://` + regexp.QuoteMeta(h.url.Host) + `/.*": dial tcp ` + regexp.QuoteMeta(h.url.Host) +
		`: connect: connection refused\n$`)
	for _, args := range [][]string{
		{"patch", "rdc", "sample", "--type=merge", "-p", `{"spec":{"size":9}}`},
		{"scale", "rdc", "sample", "--replicas=9"},
		{"delete", "rdc", "protected"},
		{"create", "-f", examples + "rediscluster.yaml"},
	} {
		if out, err := w.kubectl(t, append([]string{"--namespace", ns}, args...)...); err == nil || !refused.MatchString(out) {
			t.Errorf("kubectl %s printed\n%swant an error: the webhook cannot be called", args[0], out)
		}
	}

	w.launchHooked(t, h.url)
	w.called(t, ns)
	after := w.configurations(t, h.name)
	if after.mutating.UID != before.mutating.UID || after.validating.UID != before.validating.UID {
		t.Error("the operator created the configurations again")
	}
	if err := patch("sample", `{"spec":{"size":9}}`); err != nil {
		t.Error(err)
	}
}

// createNever creates a MyCronJob with an invalid schedule. Without webhooks, only the controller rejects it.
func (w *world) createNever(ctx context.Context, ns string) error {
	m := sample("never")
	m.Namespace = ns
	m.Spec.Schedule = ptr.To("0 0 30 2 *")
	_, err := w.glassback.BatchV1().MyCronJobs(ns).Create(ctx, m, metav1.CreateOptions{})
	return err
}

func testNoURL(t *testing.T, w *world) {
	for _, args := range [][]string{nil, {"--webhooks=false"}} {
		o := w.operate(t, args...)
		api := w.kube.AdmissionregistrationV1()
		mutating, mutatingErr := api.MutatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
		validating, validatingErr := api.ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
		w.must(t, errors.Join(mutatingErr, validatingErr))
		if len(mutating.Items)+len(validating.Items) > 0 {
			t.Errorf("with %q, the configurations %+v and %+v exist", args, mutating.Items, validating.Items)
		}
		if said := strings.Contains(o.log.String(), "No webhooks: outside of a cluster they need --webhook-url"); said != (args == nil) {
			t.Errorf("with %q, the log says why there are no webhooks: %t", args, said)
		}
		if size, err := w.sizeOf3(t.Context(), "default"); err != nil || size != 3 {
			t.Errorf("with %q, a size of 3 is stored as %d, error %v", args, size, err)
		}
		if code := o.stop(); code != 0 {
			t.Errorf("with %q: exit code %d", args, code)
		}
	}
}

func testOtherNamespaces(t *testing.T, w *world) {
	own, also, other := w.bareNamespace(t), w.bareNamespace(t), w.bareNamespace(t)
	h := w.launchHooked(t, freeURL(t), "--namespace", own, "--namespace", also)
	w.called(t, own)
	w.called(t, also)
	r := redisCluster("sample")
	r.Annotations = map[string]string{glassback.AnnotationDeletionProtection: "true"}
	r.Spec.Addr = ""
	if _, err := w.glassback.RedisV1().RedisClusters(own).Create(t.Context(), r, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an object without an addr: error %v, want an invalid object", err)
	}
	clusters := w.glassback.RedisV1().RedisClusters(other)
	got, err := clusters.Create(t.Context(), r, metav1.CreateOptions{})
	w.must(t, err)
	if *got.Spec.Size != 3 {
		t.Errorf("the stored size is %d, want 3", *got.Spec.Size)
	}
	w.must(t, clusters.Delete(t.Context(), r.Name, metav1.DeleteOptions{}))
	if code := h.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// testFiles runs the operator with a certificate in files. The test renews the files, and applies the configurations itself.
func testFiles(t *testing.T, w *world) {
	first, second := newPair(t), newPair(t)
	u := freeURL(t)
	dir := t.TempDir()
	put := func(certPEM, keyPEM []byte) {
		t.Helper()
		w.must(t, os.WriteFile(filepath.Join(dir, certificate.CertFile), certPEM, 0o600))
		w.must(t, os.WriteFile(filepath.Join(dir, certificate.KeyFile), keyPEM, 0o600))
	}
	put(first.certPEM, first.keyPEM)
	o := w.operate(t, "--webhook-cert-path", dir, "--webhook-port", u.Port())
	by := desired(u, nil, slices.Concat(first.certPEM, second.certPEM))
	by.mutating.Labels, by.validating.Labels = nil, nil
	t.Cleanup(func() { w.unregister(t, by.mutating.Name) })
	w.must(t, w.register(t.Context(), by))
	w.called(t, "default")

	for _, step := range []struct {
		what            string
		certPEM, keyPEM []byte
		want            pair
	}{
		{"the first certificate", first.certPEM, first.keyPEM, first},
		{"a certificate of another CA", second.certPEM, second.keyPEM, second},
		{"a key of another certificate", second.certPEM, first.keyPEM, second},
		{"garbage", []byte("garbage"), []byte("garbage"), second},
		{"nothing", nil, nil, second},
		{"restored", first.certPEM, first.keyPEM, first},
	} {
		put(step.certPEM, step.keyPEM)
		if shown := showing(t, u.Host); !slices.Equal(shown, step.want.leaf) {
			t.Errorf("%s: a new connection gets another certificate", step.what)
		}
		if size, err := w.sizeOf3(t.Context(), "default"); err != nil || size != 6 {
			t.Errorf("%s: a size of 3 is stored as %d, error %v", step.what, size, err)
		}
	}
	// The operator logs garbage and missing files with the same line, and so only once.
	if n := strings.Count(o.log.String(), "Serving the last certificate that could be read"); n != 2 {
		t.Errorf("the operator logged %d times that it cannot use the files, want 2", n)
	}
}

// pair is a serving certificate for 127.0.0.1 with its CA, in one file, and its key.
type pair struct {
	certPEM, keyPEM []byte
	leaf            []byte // DER
}

func newPair(t *testing.T) pair {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	must.Succeed(t, err)
	parsed, err := tls.X509KeyPair(certPEM, keyPEM)
	must.Succeed(t, err)
	return pair{certPEM, keyPEM, parsed.Certificate[0]}
}

// showing returns the certificate that a new connection gets.
func showing(t *testing.T, address string) []byte {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	must.Succeed(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Raw
}
