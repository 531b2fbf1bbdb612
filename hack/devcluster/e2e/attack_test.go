// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
)

// memoryLimit is the limit of the shipped Deployment.
const memoryLimit = 256 << 20

// attackEnv names an environment variable for how long TestOneNamespaceAttacksTheOthers attacks.
const attackEnv = "GLASSBACK_ATTACK"

// TestOneNamespaceAttacksTheOthers lets one namespace do at once what a user of a namespace can do to stop or starve the operator: Redis
// nodes that send hostile answers, large objects with the labels of the operator, many ECSInstances with Secrets, thousands of objects
// whose syncs fail, and random tokens at the metrics port. The operator runs on, within the memory of the shipped Deployment. Meanwhile
// objects of another namespace become Ready, each slot of its MyCronJob has one Job or is counted as missed, and the metrics are scraped.
// The test prints how long each took, and how many slots were missed: these depend on the machine.
func TestOneNamespaceAttacksTheOthers(t *testing.T) {
	light.parallel(t)
	lasts := 20 * time.Second
	if text := os.Getenv(attackEnv); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", attackEnv, err)
		}
	}
	// Nothing runs the Pods, so that the test can say where their Redis nodes are.
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	w.operate(t, "--install-crds").kill()
	victim, metrics := simulate(t, w, w.Kubeconfig()), freeAddress(t)
	attacker := &attacker{world: w, t: t, ns: w.bareNamespace(t)}
	attacker.prepare()
	args := []string{
		"--kubeconfig", w.Kubeconfig(), "--leader-elect", "--leader-elect-resource-namespace=default",
		"--ecs-endpoint", victim.url, "--metrics-bind-address", metrics,
		"--health-probe-bind-address", "0",
	}
	cmd := exec.Command(binary(t), args...)
	cmd.Env = append(withoutCloud(), "GOMEMLIMIT="+strconv.Itoa(memoryLimit))
	o := follow(t, cmd, args)
	o.waitFor("Started controller")
	scraper := w.scraper(t)
	audit := w.audit(t, victim.ns)
	w.create(t, victim.ns, "on-time")

	ctx, end := context.WithTimeout(t.Context(), lasts)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { attacker.answerPods(ctx) })
	running.Go(func() { attacker.rewrite(ctx) })
	running.Go(func() { attacker.guessTokens(ctx, metrics) })
	var greetings, instances, scrapes []time.Duration
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprint("fair-", n)
		greetings = append(greetings, victim.greets(t, name))
		if n%10 == 0 {
			instances = append(instances, victim.starts(t, name))
			scrapes = append(scrapes, scraped(t, metrics, scraper))
		}
	}
	running.Wait()
	w.runs(t, audit, []string{"on-time"})
	audit.check(t, "on-time")
	t.Logf("for %s beside %s\n%d ApiExampleAs were Ready after %s\n%d ECSInstances ran after %s\n%d scrapes took %s",
		lasts, attacker.said(), len(greetings), spread(greetings), len(instances), spread(instances), len(scrapes), spread(scrapes))
	if !o.running() {
		t.Fatalf("the operator has ended: %v", o.waitErr)
	}
	peak := peakOf(t, o.cmd.Process.Pid)
	t.Logf("at its peak, the operator had %d MiB", peak>>20)
	if info, err := buildinfo.ReadFile(binary(t)); err != nil || peak > memoryLimit && !slices.ContainsFunc(info.Settings, withRace) {
		t.Errorf("that is more than the %d MiB of the shipped Deployment: it would have been killed (%v)", memoryLimit>>20, err)
	}
	for _, line := range []string{"panic", "fatal error"} {
		if strings.Contains(o.log.String(), line) {
			t.Errorf("the log of the operator has %q", line)
		}
	}
}

// withRace reports whether a program detects races, which takes several times the memory.
func withRace(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" }

// spread describes times: half of them were not longer than the first one.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "-"
	}
	slices.Sort(times)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%s in the median, %s at most", round(times[len(times)/2]), round(times[len(times)-1]))
}

// peakOf returns the largest memory that a process has had, in bytes.
func peakOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.Succeed(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest + " -")[0])
	must.Succeed(t, err)
	return kib << 10
}

// greets creates an ApiExampleA, and returns how long it took to become Ready.
func (c *cloud) greets(t *testing.T, name string) time.Duration {
	t.Helper()
	began := time.Now()
	client := c.glassback.GroupaV1().ApiExampleAs(c.ns)
	_, err := client.Create(t.Context(), &groupav1.ApiExampleA{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must.Succeed(t, err)
	await(t, func(ctx context.Context) error {
		a, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil || !meta.IsStatusConditionTrue(a.Status.Conditions, glassback.ConditionReady) {
			return fmt.Errorf("ApiExampleA %s is not Ready: %+v, %w", name, a.Status, err)
		}
		return nil
	})
	return time.Since(began)
}

// starts creates an ECSInstance with a Secret of its own, and returns how long it took until its instance ran.
func (c *cloud) starts(t *testing.T, name string) time.Duration {
	t.Helper()
	began := time.Now()
	_, err := c.kube.CoreV1().Secrets(c.ns).Create(t.Context(), accessKey(name, cloudKeyID, cloudKeySecret), metav1.CreateOptions{})
	must.Succeed(t, err)
	client := c.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns)
	_, err = client.Create(t.Context(), instanceWith(name), metav1.CreateOptions{})
	must.Succeed(t, err)
	await(t, func(ctx context.Context) error {
		i, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil || !meta.IsStatusConditionTrue(i.Status.Conditions, glassback.ConditionReady) {
			return fmt.Errorf("ECSInstance %s is not Ready: %+v, %w", name, i.Status, err)
		}
		return nil
	})
	return time.Since(began)
}

func accessKey(name, id, secret string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"accessKeyID": id, "accessKeySecret": secret},
	}
}

// instanceWith returns the ECSInstance of the seed, with the access key of the Secret of its name.
func instanceWith(name string) *v1alpha1.ECSInstance {
	return &v1alpha1.ECSInstance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ECSInstanceSpec{
		ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", InstanceType: "ecs.g6.large", RegionID: "cn-beijing", InstanceName: name,
		CredentialsSecretRef: &v1alpha1.SecretReference{Name: name},
	}}
}

// scraper returns the token of an account that may read the metrics.
func (w *world) scraper(t *testing.T) string {
	t.Helper()
	const name = "scraper"
	_, err := w.kube.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), serviceAccount(name), metav1.CreateOptions{})
	must.Succeed(t, err)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
	}}
	_, err = w.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	must.Succeed(t, err)
	_, err = w.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: metav1.NamespaceDefault}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	return w.token(t, metav1.NamespaceDefault, name)
}

// insecure is a client that does not ask who answers.
var insecure = &http.Client{Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 16, //nolint:gosec // The test has started what answers.
}, Timeout: time.Minute}

// get asks for the metrics with a token, and returns the status.
func get(ctx context.Context, address, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := insecure.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// scraped reads the metrics, and returns how long it took until they were there.
func scraped(t *testing.T, address, token string) time.Duration {
	t.Helper()
	began := time.Now()
	await(t, func(ctx context.Context) error {
		if status, err := get(ctx, address, token); err != nil || status != http.StatusOK {
			return fmt.Errorf("the metrics answer %d, %w", status, err)
		}
		return nil
	})
	return time.Since(began)
}

// attacker is a user of one namespace.
type attacker struct {
	*world
	t  *testing.T
	ns string

	port                      int // of its Redis nodes
	connections, pods, tokens atomic.Int64
}

// The attacker's objects.
const (
	hostileClusters  = 20
	largeObjects     = 120
	failingObjects   = 1500
	hostileInstances = 300
)

// said says what the attacker did.
func (a *attacker) said() string {
	return fmt.Sprintf("%d RedisClusters (%d Pods with an address, %d connections), %d objects of 1 MB, %d ECSInstances, "+
		"%d objects that fail, %d random tokens", hostileClusters, a.pods.Load(), a.connections.Load(), largeObjects,
		hostileInstances, failingObjects, a.tokens.Load())
}

// prepare creates the attacker's objects. A quota makes the syncs of its ApiExampleAs fail.
func (a *attacker) prepare() {
	ctx, large := a.t.Context(), strings.Repeat("x", 1_000_000)
	a.listen()
	_, err := a.kube.CoreV1().ServiceAccounts(a.ns).Create(ctx, serviceAccount("default"), metav1.CreateOptions{})
	must.Succeed(a.t, err)
	a.each(largeObjects, func(name string) error {
		_, err := a.kube.CoreV1().ConfigMaps(a.ns).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{redisv1.LabelRedisCluster: "x"}},
			Data:       map[string]string{"a": large},
		}, metav1.CreateOptions{})
		return err
	})
	a.each(hostileClusters, func(name string) error {
		rdc := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "r" + name}}
		rdc.Spec.Addr = fmt.Sprint("192.168.1.10:", a.port)
		_, err := a.glassback.RedisV1().RedisClusters(a.ns).Create(ctx, rdc, metav1.CreateOptions{})
		return err
	})
	a.each(hostileInstances, func(name string) error {
		_, err1 := a.kube.CoreV1().Secrets(a.ns).Create(ctx, accessKey(name, "LTAI"+name, name), metav1.CreateOptions{})
		_, err2 := a.glassback.AlibabacloudV1alpha1().ECSInstances(a.ns).Create(ctx, instanceWith(name), metav1.CreateOptions{})
		return errors.Join(err1, err2)
	})
	a.each(failingObjects, func(name string) error {
		_, err := a.glassback.GroupaV1().ApiExampleAs(a.ns).Create(ctx, &groupav1.ApiExampleA{ObjectMeta: metav1.ObjectMeta{Name: "f" + name}},
			metav1.CreateOptions{})
		return err
	})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("1")},
	}}
	_, err = a.kube.CoreV1().ResourceQuotas(a.ns).Create(ctx, quota, metav1.CreateOptions{})
	must.Succeed(a.t, err)
}

// each calls create for n names, some at once.
func (a *attacker) each(n int, create func(name string) error) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := create(fmt.Sprint("a", i)); err != nil {
					a.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if a.t.Failed() {
		a.t.FailNow()
	}
}

// hostileAnswers are what its Redis nodes send, each on another connection. After the last byte, nothing comes, or the last byte for ever.
var hostileAnswers = []struct {
	text    string
	forever bool
}{
	{"$9223372036854775806\r\n", false}, {"$100000000000\r\n", false}, {"*1000000000\r\n", false}, {"%1000000000\r\n", false},
	{strings.Repeat("*1\r\n", 100_000), false}, {"$1073741824\r\n ", true}, {"+x", true}, {"-", true}, {"", false},
	{"$2097152\r\n" + strings.Repeat(" ", 2<<20) + "\r\n", false}, {strings.Repeat("$-1\r\n", 100_000), false},
}

// listen begins to answer at the addresses of its Pods.
func (a *attacker) listen() {
	for i := range 6 {
		l, err := net.Listen("tcp", net.JoinHostPort(podAddress(i), strconv.Itoa(a.port)))
		must.Succeed(a.t, err)
		a.port = l.Addr().(*net.TCPAddr).Port
		a.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go a.answer(conn)
			}
		}()
	}
}

func podAddress(i int) string { return fmt.Sprint("127.0.1.", i+1) }

func (a *attacker) answer(conn net.Conn) {
	defer conn.Close()
	with := hostileAnswers[int(a.connections.Add(1))%len(hostileAnswers)]
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	request := make([]byte, 1<<10)
	if _, err := conn.Read(request); err != nil {
		return
	}
	_, err := io.WriteString(conn, with.text)
	more := bytes.Repeat([]byte(with.text[max(0, len(with.text)-1):]), 64<<10)
	for err == nil && with.forever {
		_, err = conn.Write(more)
	}
	_, _ = io.Copy(io.Discard, conn) // until the operator or the deadline closes it
}

// answerPods gives each Pod of the RedisClusters an address, as a kubelet would.
func (a *attacker) answerPods(ctx context.Context) {
	for ctx.Err() == nil {
		pods, err := a.kube.CoreV1().Pods(a.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Status.PodIP != "" || ctx.Err() != nil {
				continue
			}
			ordinal, err := strconv.Atoi(pod.Name[strings.LastIndexByte(pod.Name, '-')+1:])
			if err != nil {
				continue // It is not of a RedisCluster.
			}
			pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, podAddress(ordinal%6)
			pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			if _, err := a.kube.CoreV1().Pods(a.ns).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err == nil {
				a.pods.Add(1)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// rewrite changes the large objects, so that the operator receives them again and again.
func (a *attacker) rewrite(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		_, _ = a.kube.CoreV1().ConfigMaps(a.ns).Update(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("a", 1+n%largeObjects), Labels: map[string]string{redisv1.LabelRedisCluster: fmt.Sprint("x", n%20)},
			}, Data: map[string]string{"a": strings.Repeat(strconv.Itoa(n%10), 1_000_000)},
		}, metav1.UpdateOptions{})
		time.Sleep(500 * time.Millisecond) // The history of etcd grows by a MB with each.
	}
}

// guessTokens asks for the metrics with random tokens.
func (a *attacker) guessTokens(ctx context.Context, address string) {
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = get(ctx, address, fmt.Sprintf("%x", rand.Uint64()))
				a.tokens.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	all.Wait()
}
