// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// TestWebhooks runs the operator outside of the cluster. The API server calls it by a URL. The cases run one after the other: otherwise the
// webhooks of one case would get requests of another one.
func TestWebhooks(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	w.operate(t, "--install-crds").kill()
	for name, test := range map[string]func(*testing.T, *world){
		"a clean stop deletes the configurations":                     testCleanStop,
		"after a crash, the next start uses the configurations again": testCrash,
		"the certificate comes from files":                            testFiles,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

// testCleanStop stops the operator while the test creates objects. No creation fails: the operator answers as long as the API server calls
// it.
func testCleanStop(t *testing.T, w *world) {
	h := w.hook(t, freeURL(t))
	w.called(t, metav1.NamespaceDefault)
	answers := w.ask(t, metav1.NamespaceDefault, 1)
	w.must(t, h.cmd.Process.Signal(syscall.SIGTERM))
	if code := h.wait(patience); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	left, err := w.kubectl(t, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--output=name")
	if err != nil || left != "" {
		t.Errorf("these configurations still exist: %s (%v)", left, err)
	}
	answers.more(t, 2) // The API server calls nothing any more.
	got := answers.end()
	got.check(t)
	if got.sizes[6] == 0 || got.sizes[3] == 0 {
		t.Errorf("the sizes in the answers are %v: the test needs answers with and without the webhooks", got.sizes)
	}
}

// testCrash kills the operator. Requests that need no webhook still succeed.
func testCrash(t *testing.T, w *world) {
	ns := w.bareNamespace(t)
	h := w.hook(t, freeURL(t))
	w.called(t, ns)
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
	before, err := w.getConfigurations(t.Context(), h.name)
	w.must(t, err)

	patch := func(name, patch string, subresources ...string) error {
		_, err := clusters.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		return err
	}
	never := sample("never") // Without webhooks, only the controller rejects it.
	never.Spec.Schedule = ptr.To("0 0 30 2 *")
	_, createErr := w.glassback.BatchV1().MyCronJobs(ns).Create(t.Context(), never, metav1.CreateOptions{})
	for what, err := range map[string]error{
		"set a label":    patch("sample", `{"metadata":{"labels":{"a":"b"}}}`),
		"set the status": patch("sample", `{"status":{"masters":3}}`, "status"),
		"delete":         clusters.Delete(t.Context(), "ending", metav1.DeleteOptions{}),
		"end a deletion": patch("ending", `{"metadata":{"finalizers":null}}`),
		"create an object that only the controller would reject": createErr,
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	refused := regexp.MustCompile(`^Error from server \(InternalError\): .*failed calling webhook ` +
		`"(default|validate|protect)\.redisclusters\.bytewang123-redis\.wzj\.kubebuilder\.io": .*connection refused\n$`)
	for _, args := range [][]string{
		{"patch", "rdc", "sample", "--type=merge", "-p", `{"spec":{"size":9}}`},
		{"scale", "rdc", "sample", "--replicas=9"},
		{"delete", "rdc", "protected"},
		{"create", "-f", examplesDir + "rediscluster.yaml"},
	} {
		if out, err := w.kubectl(t, append([]string{"--namespace", ns}, args...)...); err == nil || !refused.MatchString(out) {
			t.Errorf("kubectl %s printed\n%swant an error: the webhook cannot be called", args[0], out)
		}
	}

	w.hook(t, h.url)
	w.called(t, ns)
	after, err := w.getConfigurations(t.Context(), h.name)
	w.must(t, err)
	if after.mutating.UID != before.mutating.UID || after.validating.UID != before.validating.UID {
		t.Error("the operator created the configurations again")
	}
	if err := patch("sample", `{"spec":{"size":9}}`); err != nil {
		t.Error(err)
	}
}

// testFiles runs the operator with a certificate in files. The test renews the files, and applies the configurations itself.
func testFiles(t *testing.T, w *world) {
	type pair struct{ certPEM, keyPEM []byte }
	newPair := func() pair {
		certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil) // a serving certificate with its CA
		w.must(t, err)
		return pair{certPEM, keyPEM}
	}
	first, second := newPair(), newPair()
	u := freeURL(t)
	dir := t.TempDir()
	put := func(files pair) {
		t.Helper()
		w.must(t, os.WriteFile(filepath.Join(dir, certificate.CertFile), files.certPEM, 0o600))
		w.must(t, os.WriteFile(filepath.Join(dir, certificate.KeyFile), files.keyPEM, 0o600))
	}
	put(first)
	w.operate(t, "--webhook-cert-path", dir, "--webhook-port", u.Port())
	e, name := webhook.ByURL(u, nil, slices.Concat(first.certPEM, second.certPEM)), webhook.NameByURL(u)
	by := configurations{e.MutatingConfiguration(name), e.ValidatingConfiguration(name)}
	by.mutating.Labels, by.validating.Labels = nil, nil
	t.Cleanup(func() { w.unregister(t, name) })
	w.must(t, w.register(t.Context(), by))
	w.called(t, metav1.NamespaceDefault)
	for _, step := range []struct {
		what      string
		put, want pair
	}{
		{"the first certificate", first, first},
		{"a certificate of another CA", second, second},
		{"a key of another certificate", pair{second.certPEM, first.keyPEM}, second},
		{"nothing", pair{}, second},
		{"the first certificate again", first, first},
	} {
		put(step.put)
		conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true})
		w.must(t, err)
		want, err := tls.X509KeyPair(step.want.certPEM, step.want.keyPEM)
		w.must(t, err)
		if shown := conn.ConnectionState().PeerCertificates[0].Raw; !slices.Equal(shown, want.Certificate[0]) {
			t.Errorf("%s: a new connection gets another certificate", step.what)
		}
		conn.Close()
		if size, err := w.sizeOf3(t.Context(), metav1.NamespaceDefault); err != nil || size != 6 {
			t.Errorf("%s: a size of 3 is stored as %d, error %v", step.what, size, err)
		}
	}
}

// hooked is an operator that the API server calls by a URL.
type hooked struct {
	*operator
	url  *url.URL
	name string // name of both configurations
}

// hook runs the operator with webhooks at a URL. Its controllers leave RedisClusters and ECSInstances alone. At the end of the test, hook
// deletes the configurations.
func (w *world) hook(t *testing.T, u *url.URL) *hooked {
	t.Helper()
	h := &hooked{w.operate(t, "--webhook-url", u.String(), "--controllers=mycronjob"), u, webhook.NameByURL(u)}
	t.Cleanup(func() {
		h.kill() // A running operator would create the configurations again.
		w.unregister(t, h.name)
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
	ctx, cancel := context.WithTimeout(context.Background(), patience) // A cleanup has no context of the test.
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
	await(t, func(ctx context.Context) error {
		if size, err := w.sizeOf3(ctx, ns); err != nil || size != 6 {
			return fmt.Errorf("a size of 3 is stored as %d: %w", size, err)
		}
		return nil
	})
}

// asker calls sizeOf3 again and again in several goroutines, and counts the answers.
type asker struct {
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu    sync.Mutex
	asked int
	sizes map[int32]int // number of answers, by size
	errs  []error
}

// ask starts the goroutines that call sizeOf3, and waits for some answers.
func (w *world) ask(t *testing.T, ns string, askers int) *asker {
	ctx, cancel := context.WithCancel(t.Context())
	a := &asker{cancel: cancel, sizes: map[int32]int{}}
	for range askers {
		a.asking.Go(func() {
			for ctx.Err() == nil {
				size, err := w.sizeOf3(context.WithoutCancel(ctx), ns)
				a.mu.Lock()
				a.asked++
				if err == nil {
					a.sizes[size]++
				} else {
					a.errs = append(a.errs, err)
				}
				a.mu.Unlock()
			}
		})
	}
	t.Cleanup(func() { a.end() })
	a.more(t, 2*askers)
	return a
}

// more waits for n more answers.
func (a *asker) more(t *testing.T, n int) {
	t.Helper()
	want := 0
	await(t, func(context.Context) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if want == 0 {
			want = a.asked + n
		}
		if a.asked < want {
			return fmt.Errorf("%d answers have arrived, want %d", a.asked, want)
		}
		return nil
	})
}

// end ends the goroutines. After that, the answers can be read.
func (a *asker) end() *asker {
	a.cancel()
	a.asking.Wait()
	return a
}

// check fails the test if a request has failed.
func (a *asker) check(t *testing.T) {
	t.Helper()
	if len(a.errs) > 0 {
		t.Errorf("%d of %d requests have failed, such as: %v", len(a.errs), a.asked, a.errs[0])
	}
}

// configurations are both webhook configurations with a name.
type configurations struct {
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
}

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

// authorityTemplate returns the template of a CA that is valid from and to these times from now.
func authorityTemplate(name string, from, to time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
}

// signed returns a certificate and its new key. The CA signs it; without one, it signs itself.
func signed(t *testing.T, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	must.Succeed(t, err)
	certificate, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	return certificate, key
}

func certificatePEM(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	must.Succeed(t, err)
	return text
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
	log := in.mustKubectl(t, "logs", "--namespace", ns, "attacker")
	t.Logf("%d valid requests, sizes %v, and the attacker's:\n%s", got.asked, got.sizes, log)
	if failed := got.asked - got.sizes[6]; got.asked < 100 || failed*100 > got.asked {
		got.check(t)
		t.Errorf("%d of %d valid requests were not answered in time, want no more than 1 %% of at least 100", failed, got.asked)
	}
	after := in.replicas(t)
	if len(after) != 1 || after[0].UID != manager.UID || after[0].Status.ContainerStatuses[0].RestartCount > 0 {
		t.Errorf("the replica was killed: %+v", after)
	}
}
