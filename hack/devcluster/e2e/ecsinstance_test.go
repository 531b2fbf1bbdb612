// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/leaktest"
)

// The operator's own access key in these tests. No output may contain its ID or its secret.
const (
	cloudKeyID     = "LTAIe2eOwnAccessKey"
	cloudKeySecret = "e2e-own-secret-of-the-access-key"
)

// TestECSInstances runs the operator with the shipped Role. Another process simulates ECS.
func TestECSInstances(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	account := w.shippedAccount(t)
	quiet := settledInstances(t, simulate(t, w, account))
	t.Run("meanwhile", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *cloud){
			"the seed's sample, from kubectl apply to kubectl delete":                                testSampleInstance,
			"one instance for each object, and none after deletion, whenever the operator is killed": testKilledOperator,
			"fields that ECS cannot change are immutable":                                            testImmutableFields,
			"credentials that are created late, and wrong credentials":                               testCredentials,
			"a recording has no credentials, and can be replayed":                                    testRecording,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, simulate(t, w, account))
			})
		}
	})
	t.Run("a settled instance costs one call a minute, and no write", quiet)
}

// cloud is a running bin/ecssim, and a namespace whose operators call it.
type cloud struct {
	*world
	account   string // kubeconfig
	ns        string
	url       string
	simulator *operator
}

// simulate starts a simulator in which instances start and stop within a second.
func simulate(t *testing.T, w *world, account string) *cloud {
	t.Helper()
	args := []string{"--bind-address", "127.0.0.1:0", "--speed", "20", "--account", cloudKeyID + ":" + cloudKeySecret}
	simulator := begin(t, "ecssim", exec.Command(built(t, "ECSSIM_BIN", "bin/ecssim", "make ecssim"), args...), nil)
	simulator.waitFor("glassback --ecs-endpoint ")
	url := regexp.MustCompile(`http://\S+:\d+`).FindString(simulator.log.String())
	return &cloud{world: w, account: account, ns: w.bareNamespace(t), url: url, simulator: simulator}
}

// operate runs the operator for the namespace of the test with the highest log level, and waits until its controllers have started.
func (c *cloud) operate(t *testing.T, args ...string) *operator {
	t.Helper()
	args = append([]string{
		"--kubeconfig", c.account, "--namespace", c.ns, "--ecs-endpoint", c.url, "--controllers", "ecsinstance", "-v=10",
	}, args...)
	cmd := exec.Command(binary(t), args...)
	cmd.Env = withCloud()
	o := follow(t, cmd, args)
	o.waitFor("Started controller")
	return o
}

// withCloud returns the environment with the operator's own access key.
func withCloud() []string {
	return append(withoutCloud(), "ALIBABA_CLOUD_ACCESS_KEY_ID="+cloudKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET="+cloudKeySecret)
}

// instance is an instance on the simulator's page.
type instance struct{ id, name, region, state, kind, owner string }

var instanceRow = regexp.MustCompile(`<tr(?: class="gone")?>` + strings.Repeat(`<td>([^<]*)</td>`, 6) + `</tr>`)

// instances returns the instances that are not released, by owner. It returns an error if an owner has two instances.
func (c *cloud) instances(ctx context.Context) (map[string]instance, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	all := map[string]instance{}
	for _, row := range instanceRow.FindAllStringSubmatch(string(page), -1) {
		for i := range row {
			row[i] = html.UnescapeString(row[i])
		}
		is := instance{row[1], row[2], row[3], row[4], row[5], row[6]}
		if is.state == "Released" {
			continue
		}
		if other, twice := all[is.owner]; twice {
			return nil, fmt.Errorf("%s has two instances, %+v and %+v", is.owner, other, is)
		}
		all[is.owner] = is
	}
	return all, nil
}

// calls returns the simulator's lines for its calls without the time, such as "CreateInstance cn-beijing i-2ze… OK".
func (c *cloud) calls() []string {
	var calls []string
	for line := range strings.Lines(c.simulator.log.String()) {
		if _, call, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasSuffix(call, " OK") {
			calls = append(calls, call)
		}
	}
	return calls
}

// made returns the IDs of all instances that ECS has ever created.
func (c *cloud) made() []string {
	ids := map[string]bool{}
	for _, call := range c.calls() {
		if fields := strings.Fields(call); fields[0] == "CreateInstance" {
			ids[fields[2]] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

func (c *cloud) get(ctx context.Context, name string) (*v1alpha1.ECSInstance, error) {
	return c.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Get(ctx, name, metav1.GetOptions{})
}

// make creates an ECSInstance like the seed's sample.
func (c *cloud) make(t *testing.T, name string, change ...func(*v1alpha1.ECSInstanceSpec)) {
	t.Helper()
	ecs := artifact[v1alpha1.ECSInstance](t, "examples/ecsinstance.yaml")
	ecs.Name = name
	for _, f := range change {
		f(&ecs.Spec)
	}
	_, err := c.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Create(t.Context(), ecs, metav1.CreateOptions{})
	c.must(t, err)
}

func (c *cloud) delete(t *testing.T, name string) {
	t.Helper()
	c.must(t, c.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// is returns an error unless an ECSInstance has a condition with the reason, for its present generation.
func (c *cloud) is(ctx context.Context, name, condition, reason string) error {
	ecs, err := c.get(ctx, name)
	if err != nil {
		return err
	}
	if is := meta.FindStatusCondition(ecs.Status.Conditions, condition); is == nil || is.Reason != reason ||
		is.ObservedGeneration != ecs.Generation {
		return fmt.Errorf("ECSInstance %s is not %s %s: %+v", name, condition, reason, ecs.Status)
	}
	return nil
}

func (c *cloud) becomes(t *testing.T, patience time.Duration, name, condition, reason string) {
	t.Helper()
	begun := time.Now()
	eventually(t, patience, func(ctx context.Context) error { return c.is(ctx, name, condition, reason) })
	t.Logf("%s is %s %s after %s", name, condition, reason, time.Since(begun).Round(10*time.Millisecond))
}

// released waits until an ECSInstance no longer exists.
func (c *cloud) released(t *testing.T, patience time.Duration, name string) {
	t.Helper()
	eventually(t, patience, func(ctx context.Context) error {
		if ecs, err := c.get(ctx, name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("ECSInstance %s still exists (%w): %+v", name, err, ecs)
		}
		return nil
	})
}

// one fails the test unless an ECSInstance has exactly one instance, and its status describes this instance.
func (c *cloud) one(t *testing.T, name string) *v1alpha1.ECSInstance {
	t.Helper()
	ecs, err := c.get(t.Context(), name)
	c.must(t, err)
	all, err := c.instances(t.Context())
	c.must(t, err)
	is, s := all[c.ns+"/"+name], ecs.Status
	if want := (instance{s.InstanceID, ecs.Spec.InstanceName, ecs.Spec.RegionID, s.State, s.InstanceType, c.ns + "/" + name}); is != want ||
		is.id == "" {
		t.Errorf("ECS has %+v, want %+v", is, want)
	}
	return ecs
}

func testSampleInstance(t *testing.T, c *cloud) {
	traces := newTraceService(t)
	o := c.operate(t, "--otlp-endpoint", traces.url)
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := c.kubectl(t, append(args, "--namespace", c.ns)...)
		if err != nil {
			t.Fatalf("kubectl: %v\n%s", err, out)
		}
		return out
	}
	const name = "ecsinstance-sample"
	if out := kubectl("apply", "-f", examples+"ecsinstance.yaml"); !strings.HasSuffix(out, "/"+name+" created\n") {
		t.Errorf("kubectl printed %s", out)
	}
	c.becomes(t, time.Minute, name, glassback.ConditionReady, "Running")
	s := c.one(t, name).Status
	if len(s.PrivateIPs) != 1 || s.IP != s.PrivateIPs[0] || s.ZoneID == "" || s.CreationTime == nil || s.AccountID == "" {
		t.Errorf("status %+v", s)
	}
	want := []string{name, s.InstanceID, "Running", "ecs.g6.large", "cn-beijing", s.IP, "True", "Running"}
	if row := strings.Fields(kubectl("get", "ecs", "--no-headers")); len(row) != len(want)+1 || !slices.Equal(row[:len(want)], want) {
		t.Errorf("kubectl get ecs printed %q, want %q and the age", row, want)
	}

	kubectl("patch", "ecs", name, "--type=merge", "-p", `{"spec":{"powerState":"Stopped"}}`)
	c.becomes(t, time.Minute, name, glassback.ConditionReady, "Stopped")
	c.one(t, name)

	kubectl("delete", "ecs", name, "--timeout=60s")
	c.released(t, time.Second, name)
	c.none(t)
	if made := c.made(); !slices.Equal(made, []string{s.InstanceID}) {
		t.Errorf("ECS has created %q, want only %q", made, s.InstanceID)
	}
	if code := o.stop(); code != 0 { // The operator sends the last spans when it stops.
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}
	traces.check(t, name)
}

// testKilledOperator kills the operator about once a second. Meanwhile it creates objects, deletes half of them as soon as their instance
// exists, and at last deletes the others.
func testKilledOperator(t *testing.T, c *cloud) {
	const objects = 20
	name := func(i int) string { return fmt.Sprintf("sample-%d", i) }
	c.watch(t)
	kills := 0
	o := c.operate(t)
	// while calls do while no operator runs.
	while := func(do func()) {
		time.Sleep(rand.N(time.Second)) // The operator dies at a random moment.
		o.kill()
		kills++
		do()
		o = c.operate(t)
	}
	made, begun := 0, map[string]bool{}
	for len(begun) < objects/2 {
		while(func() {
			if made < objects {
				c.make(t, name(made))
				made++
			}
		})
		if made < objects {
			c.make(t, name(made))
			made++
		}
		for i := 0; i < made; i += 2 {
			ecs, err := c.get(t.Context(), name(i))
			if err == nil && ecs.Status.State != "" && ecs.DeletionTimestamp == nil {
				c.delete(t, name(i))
				begun[name(i)] = true
			}
		}
	}
	for i := 1; i < objects; i += 2 {
		eventually(t, time.Minute, func(ctx context.Context) error { return c.is(ctx, name(i), glassback.ConditionReady, "Running") })
		c.one(t, name(i))
	}
	for i := 1; i < objects; i += 4 {
		c.delete(t, name(i))
		while(func() {
			if i+2 < objects {
				c.delete(t, name(i+2))
			}
		})
	}
	for i := range objects {
		// An operator that starts does not know that ECS has accepted a deletion. So it removes the finalizer only when polls have not
		// shown the instance for two minutes.
		c.released(t, 3*time.Minute, name(i))
	}
	c.none(t)
	if made := c.made(); len(made) != objects {
		t.Errorf("ECS has created %d instances for %d objects: %q", len(made), objects, made)
	}
	t.Logf("the operator was killed %d times", kills)
}

// watch fails the test if an object ever has two instances. It checks again and again until the test ends.
func (c *cloud) watch(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if _, err := c.instances(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			<-tick.C
		}
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
}

// none fails the test if ECS has an instance that is not released.
func (c *cloud) none(t *testing.T) {
	t.Helper()
	if all, err := c.instances(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("ECS still has %+v (%v)", all, err)
	}
}

func testImmutableFields(t *testing.T, c *cloud) {
	c.operate(t)
	const name = "sample"
	c.make(t, name)
	c.becomes(t, time.Minute, name, glassback.ConditionReady, "Running")
	before := c.one(t, name)
	const refusal = `The ECSInstance "sample" is invalid: spec.%s: Forbidden: cannot be changed while there is an instance: ` +
		`make another ECSInstance, or delete this one first` + "\n"
	patch := func(spec string) string {
		t.Helper()
		out, _ := c.kubectl(t, "patch", "ecs", name, "--namespace", c.ns, "--type=merge", "-p", `{"spec":{`+spec+`}}`)
		return out
	}
	for field, value := range map[string]string{
		"regionID":                `"cn-hangzhou"`,
		"imageID":                 `"aliyun_3_x64_20G_alibase_20240528.vhd"`,
		"zoneID":                  `"cn-beijing-h"`,
		"vSwitchID":               `"vsw-2ze0xtnw3c7uhcdm2aqy1"`,
		"internetMaxBandwidthOut": `5`,
		"disks":                   `{"system":{"sizeGiB":40}}`,
		"keyPairName":             `"operations"`,
		"userDataSecretRef":       `{"name":"script"}`,
		"adoptInstanceID":         `"` + before.Status.InstanceID + `"`,
	} {
		if got, want := patch(`"`+field+`":`+value), fmt.Sprintf(refusal, field); got != want {
			t.Errorf("kubectl printed\n%swant\n%s", got, want)
		}
	}
	if got, want := patch(`"powerState":"Paused"`),
		`spec.powerState: Unsupported value: "Paused": supported values: "Running", "Stopped"`; !strings.Contains(got, want) {
		t.Errorf("kubectl printed\n%swant\n%s", got, want)
	}
	patch(`"instanceName":"renamed","tags":{"team":"web"}`)
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		all, err := c.instances(ctx)
		if err != nil || all[c.ns+"/"+name].name != "renamed" {
			return fmt.Errorf("the instance is not renamed: %+v (%w)", all, err)
		}
		return c.is(ctx, name, glassback.ConditionReady, "Running")
	})
	if after := c.one(t, name); after.Status.InstanceID != before.Status.InstanceID {
		t.Errorf("the object has another instance: %+v", after.Status)
	}
}

func testCredentials(t *testing.T, c *cloud) {
	const (
		name   = "sample"
		script = "#!/bin/sh\necho e2e-user-data\n"
		wrong  = "e2e-wrong-secret-of-the-access-key"
	)
	o := c.operate(t)
	c.make(t, name, func(s *v1alpha1.ECSInstanceSpec) {
		s.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "account"}
		s.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: "script"}
	})
	degraded := func(reason string) {
		t.Helper()
		c.becomes(t, 10*time.Second, name, glassback.ConditionDegraded, reason)
		c.must(t, c.is(t.Context(), name, v1alpha1.ConditionStalled, reason))
	}
	degraded("SecretMissing")
	// Before the instance exists, all fields are mutable.
	_, err := c.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"regionID":"cn-hangzhou"}}`), metav1.PatchOptions{})
	c.must(t, err)
	c.secret(t, "script", map[string]string{"userData": script})
	c.secret(t, "account", map[string]string{v1alpha1.KeyAccessKeyID: cloudKeyID, v1alpha1.KeyAccessKeySecret: wrong})
	degraded("CredentialsRefused")
	c.secret(t, "account", map[string]string{v1alpha1.KeyAccessKeyID: "LTAIe2eNobodysKey", v1alpha1.KeyAccessKeySecret: cloudKeySecret})
	c.simulator.waitFor(" InvalidAccessKeyId.NotFound") // The operator uses the new key at once.
	degraded("CredentialsRefused")
	if made := c.made(); len(made) > 0 {
		t.Errorf("ECS has created %q", made)
	}
	c.secret(t, "account", map[string]string{v1alpha1.KeyAccessKeyID: cloudKeyID, v1alpha1.KeyAccessKeySecret: cloudKeySecret})
	c.becomes(t, 30*time.Second, name, glassback.ConditionReady, "Running")
	c.one(t, name)

	// Without valid credentials the operator cannot delete the instance.
	c.secret(t, "account", map[string]string{v1alpha1.KeyAccessKeyID: cloudKeyID, v1alpha1.KeyAccessKeySecret: wrong})
	degraded("CredentialsRefused")
	c.delete(t, name)
	degraded("CredentialsRefused")
	said := c.said(t, name)
	c.secret(t, "account", map[string]string{v1alpha1.KeyAccessKeyID: cloudKeyID, v1alpha1.KeyAccessKeySecret: cloudKeySecret})
	c.released(t, time.Minute, name)
	c.none(t)

	said["the log"] = o.log.String()
	secrets := leaktest.Secrets{
		"the access key ID": cloudKeyID, "its secret": cloudKeySecret, "a wrong secret": wrong,
		"a wrong access key ID": "LTAIe2eNobodysKey", "user data": script,
	}
	for where, text := range said {
		if !strings.Contains(text, c.ns+"/"+name) && !strings.Contains(text, "CredentialsRefused") {
			t.Errorf("%s is empty: the test has checked nothing of it", where)
		}
		for _, found := range secrets.In(text) {
			t.Errorf("%s contains %s", where, found)
		}
	}
}

// secret creates a Secret, or changes its data.
func (c *cloud) secret(t *testing.T, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	secrets := c.kube.CoreV1().Secrets(c.ns)
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	c.must(t, err)
}

// said returns the texts about an ECSInstance that every user can read: its status and its events.
func (c *cloud) said(t *testing.T, name string) map[string]string {
	t.Helper()
	ecs, err := c.get(t.Context(), name)
	c.must(t, err)
	status, err := yaml.Marshal(ecs)
	c.must(t, err)
	events, err := c.kube.CoreV1().Events(c.ns).List(t.Context(), metav1.ListOptions{})
	c.must(t, err)
	var lines []string
	for i := range events.Items {
		lines = append(lines, eventLine(&events.Items[i]))
	}
	return map[string]string{"the status": string(status), "an event": strings.Join(lines, "\n")}
}

// settledInstances creates instances and waits until they are settled. It returns a test of all requests from then on.
func settledInstances(t *testing.T, c *cloud) func(*testing.T) {
	t.Helper()
	const (
		objects = 20
		lasting = 67 * time.Second // a little longer than the longest interval between two calls
	)
	spy := c.spy(t, c.account)
	c.operate(t, "--kubeconfig", spy.kubeconfig)
	for i := range objects {
		c.make(t, fmt.Sprintf("sample-%d", i))
	}
	eventually(t, time.Minute, func(ctx context.Context) error {
		for i := range objects {
			if err := c.is(ctx, fmt.Sprintf("sample-%d", i), glassback.ConditionReady, "Running"); err != nil {
				return err
			}
		}
		return nil
	})
	settled(t, 30*time.Second, 3*time.Second, spy.requests) // The operator sends events in the background.
	spy.forget()
	before, begun := len(c.calls()), time.Now()
	return func(t *testing.T) {
		time.Sleep(time.Until(begun.Add(lasting))) // the time that is checked
		requests, looks, lasted := spy.requests(), c.calls()[before:], time.Since(begun)
		if len(requests) > 0 {
			t.Errorf("the operator sent these requests to the API server: %v", requests)
		}
		for _, call := range looks {
			if !strings.HasPrefix(call, "DescribeInstances cn-beijing i-") { // A line names only the first instance of the call.
				t.Errorf("the operator called ECS: %s", call)
			}
		}
		// The interval between two calls is a minute plus or minus a tenth. Other tests may run for minutes before this one continues.
		least, most := int(lasted/lasting), int(lasted/(54*time.Second))+1
		if len(looks) < least || len(looks) > most {
			t.Errorf("in %s, the operator made %d calls about %d instances, want %d to %d", lasted, len(looks), objects, least, most)
		}
		if made := c.made(); len(made) != objects {
			t.Errorf("ECS has created %d instances for %d objects", len(made), objects)
		}
	}
}
