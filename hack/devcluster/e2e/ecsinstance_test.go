// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/recording"
	"github.com/glassback/glassback/pkg/recording/recordtest"
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
	for name, test := range map[string]func(*testing.T, *cloud){
		"the seed's sample, from kubectl apply to kubectl delete, while the operator is killed": testSampleInstance,
		"a recording has no credentials, and can be replayed":                                   testRecording,
	} {
		t.Run(name, func(t *testing.T) { test(t, simulate(t, w, account)) })
	}
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
		"--ecs-own-credentials-namespaces", c.ns,
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

// becomes waits until the condition Ready of an ECSInstance has a reason, for its present generation, and its status describes the only
// instance of ECS.
func (c *cloud) becomes(t *testing.T, name, reason string) v1alpha1.ECSInstanceStatus {
	t.Helper()
	var s v1alpha1.ECSInstanceStatus
	await(t, func(ctx context.Context) error {
		ecs, err := c.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s = ecs.Status
		if is := meta.FindStatusCondition(s.Conditions, glassback.ConditionReady); is == nil || is.Reason != reason ||
			is.ObservedGeneration != ecs.Generation {
			return fmt.Errorf("ECSInstance %s is not %s: %+v", name, reason, s)
		}
		all, err := c.instances(ctx)
		want := instance{s.InstanceID, ecs.Spec.InstanceName, ecs.Spec.RegionID, s.State, s.InstanceType, c.ns + "/" + name}
		if err != nil || len(all) != 1 || all[want.owner] != want {
			return fmt.Errorf("ECS has %+v, want %+v: %w", all, want, err)
		}
		return nil
	})
	return s
}

// testSampleInstance kills the operator before each change. The next process finds the instance, and makes no other.
func testSampleInstance(t *testing.T, c *cloud) {
	kubectl := func(args ...string) string { return c.mustKubectl(t, append(args, "--namespace", c.ns)...) }
	const name = "ecsinstance-sample"
	first := c.operate(t)
	if out := kubectl("apply", "-f", examplesDir+"ecsinstance.yaml"); !strings.HasSuffix(out, "/"+name+" created\n") {
		t.Errorf("kubectl printed %s", out)
	}
	s := c.becomes(t, name, "Running")
	if s.InstanceID == "" || len(s.PrivateIPs) != 1 || s.IP != s.PrivateIPs[0] || s.ZoneID == "" || s.CreationTime == nil ||
		s.AccountID == "" {
		t.Errorf("status %+v", s)
	}
	want := []string{name, s.InstanceID, "Running", "ecs.g6.large", "cn-beijing", s.IP, "True", "Running"}
	if row := strings.Fields(kubectl("get", "ecs", "--no-headers")); len(row) != len(want)+1 || !slices.Equal(row[:len(want)], want) {
		t.Errorf("kubectl get ecs printed %q, want %q and the age", row, want)
	}
	first.kill()
	kubectl("patch", "ecs", name, "--type=merge", "-p", `{"spec":{"powerState":"Stopped"}}`)
	second := c.operate(t)
	c.becomes(t, name, "Stopped")
	second.kill()
	kubectl("delete", "ecs", name, "--wait=false")
	third := c.operate(t)
	kubectl("wait", "ecs/"+name, "--for=delete", "--timeout=5m")
	if all, err := c.instances(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("ECS still has %+v (%v)", all, err)
	}
	created := slices.DeleteFunc(c.calls(), func(call string) bool { return !strings.HasPrefix(call, "CreateInstance ") })
	if len(created) != 1 || !strings.Contains(created[0], s.InstanceID) {
		t.Errorf("ECS has got the calls %q, want one for %s", created, s.InstanceID)
	}
	if code := third.stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}
	logs := first.log.String() + second.log.String() + third.log.String()
	for _, found := range (must.Secrets{"the access key ID": cloudKeyID, "its secret": cloudKeySecret}).In(logs) {
		t.Errorf("the log of the operator contains %s", found)
	}
}

// testRecording records objects of all kinds with credentials in every place, and kills the operator. The recording has decisions of each
// kind and no credential. When the same program replays it, the decisions are the same.
func testRecording(t *testing.T, c *cloud) {
	secrets := must.Secrets{
		"the operator's access key ID": cloudKeyID, "the operator's access secret": cloudKeySecret,
		"user data": "#!/bin/sh\necho e2e-hunter2-in-recorded-user-data\n", "a password of Redis": "e2e-recorded-horse-battery",
		"a variable": "e2e-recorded-value-of-a-variable", "an argument": "--password=e2e-recorded-argument",
		"a header": "Bearer e2e-recorded-token-of-a-probe", "an annotation": "e2e-recorded-annotation-of-others",
		"a tag": "e2e-recorded-value-of-a-tag", "a directive": "e2e-recorded-directive-of-redis",
	}
	dir := filepath.Join(t.TempDir(), "recording")
	operator := c.operate(t, "--controllers=*", "--record", dir)
	for name, data := range map[string]map[string]string{
		"script": {"userData": secrets["user data"]}, "protected": {"password": secrets["a password of Redis"]},
	} {
		_, err := c.kube.CoreV1().Secrets(c.ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data},
			metav1.CreateOptions{})
		c.must(t, err)
	}
	annotations := map[string]string{"example.com/note": secrets["an annotation"]}
	app := artifact[appv1.Application](t, "examples/application.yaml")
	app.Annotations, app.Spec.Args = annotations, []string{secrets["an argument"]}
	app.Spec.Env = []appv1.EnvVar{{Name: "PASSWORD", Value: secrets["a variable"]}}
	app.Spec.Probes = &appv1.Probes{Liveness: &appv1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Port: intstr.FromString(appv1.PortName), HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: secrets["a header"]}},
	}}}}
	_, err := c.glassback.AppV1().Applications(c.ns).Create(t.Context(), app, metav1.CreateOptions{})
	c.must(t, err)
	cron := artifact[mcjv1.MyCronJob](t, "examples/mycronjob.yaml")
	cron.Annotations = annotations
	container := &cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	container.Args, container.Env = []string{secrets["an argument"]}, []corev1.EnvVar{{Name: "PASSWORD", Value: secrets["a variable"]}}
	_, err = c.glassback.BatchV1().MyCronJobs(c.ns).Create(t.Context(), cron, metav1.CreateOptions{})
	c.must(t, err)
	rdc := artifact[redisv1.RedisCluster](t, "examples/rediscluster.yaml")
	rdc.Spec.AuthSecretRef = &redisv1.SecretKeyReference{Name: "protected", Key: "password"}
	rdc.Spec.Config = map[string]redisv1.ConfigValue{"proc-title-template": redisv1.ConfigValue(secrets["a directive"])}
	_, err = c.glassback.RedisV1().RedisClusters(c.ns).Create(t.Context(), rdc, metav1.CreateOptions{})
	c.must(t, err)
	c.mustKubectl(t, "apply", "--namespace", c.ns, "-f", examplesDir+"apiexamplea.yaml")
	ecs := artifact[v1alpha1.ECSInstance](t, "examples/ecsinstance.yaml")
	ecs.Spec.UserDataSecretRef = &v1alpha1.SecretKeyReference{Name: "script", Key: "userData"}
	ecs.Spec.Tags = map[string]v1alpha1.TagValue{"note": secrets["a tag"]}
	_, err = c.glassback.AlibabacloudV1alpha1().ECSInstances(c.ns).Create(t.Context(), ecs, metav1.CreateOptions{})
	c.must(t, err)
	c.becomes(t, ecs.Name, "Running")
	await(t, func(context.Context) error { return hasDecisions(dir) })
	operator.kill()

	files, err := recording.Files([]string{dir})
	c.must(t, err)
	var all strings.Builder
	for _, name := range files {
		all.Write(recordtest.Text(t, name))
	}
	text := all.String()
	for _, line := range []string{`"stage":{`, `"overview":{`} { // the page needs these
		if !strings.Contains(text, line) {
			t.Errorf("the recording has no line with %s", line)
		}
	}
	for _, leak := range secrets.In(text) {
		t.Errorf("the recording contains %s", leak)
	}
	out, err := exec.Command(binary(t), "replay", dir).CombinedOutput()
	if err != nil {
		t.Errorf("glassback replay: %v\n%s", err, out)
	}
	t.Logf("%d bytes of JSON\n%s", len(text), out)
}

// hasDecisions returns an error unless the recording has several decisions of each kind.
func hasDecisions(dir string) error {
	decisions := map[string]int{}
	files, err := recording.Files([]string{dir})
	for _, file := range files {
		err = errors.Join(err, recording.Read(file, func(_ *recording.Header, _ int, r *recording.Record) error {
			if len(r.Plan) > 0 {
				decisions[r.Kind]++
			}
			return nil
		}))
	}
	for _, kind := range []string{"ApiExampleA", "Application", "MyCronJob", "RedisCluster", "ECSInstance"} {
		if decisions[kind] < 2 {
			err = errors.Join(err, fmt.Errorf("the recording has %d decisions of the kind %s", decisions[kind], kind))
		}
	}
	return err
}
