// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/cloud/aliyun"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/fakeapi"
	"github.com/glassback/glassback/pkg/fields"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/report"
)

// secrets are values that must not be in any output.
var secrets = must.Secrets{
	"a password of Redis": "hunter2-of-redis", "an access key": "hunter2-of-ecs",
	"a variable": "hunter2-in-env", "a ConfigMap": "hunter2-in-data",
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1, CreationTimestamp: metav1.Now()}
}

// cluster returns an API server with an ApiExampleA, an Application and a MyCronJob. They are settled: their syncs write nothing.
func cluster(t *testing.T) *fakeapi.Server {
	t.Helper()
	s := fakeapi.New()
	app := &appv1.Application{ObjectMeta: named("web"), Spec: appv1.ApplicationSpec{Image: "nginx:1.28"}}
	app.Spec.Env = []appv1.EnvVar{{Name: "PASSWORD", Value: secrets["a variable"]}}
	cron := &mcjv1.MyCronJob{ObjectMeta: named("backup")}
	cron.Spec.Suspend, cron.Spec.IntervalSeconds = ptr.To(true), ptr.To[int32](3600)
	cron.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}},
	}
	s.Put(&groupav1.ApiExampleA{ObjectMeta: named("sample"), Spec: groupav1.ApiExampleASpec{FirstName: "Jimmy"}}, app, cron)
	for range 5 { // The last round must write nothing.
		s.Forget()
		for _, k := range kindsOf(t, s) {
			must.Succeed(t, k.fill(t.Context()))
			for _, object := range k.own.store.List() {
				controller := k.controller.(interface {
					Sync(context.Context, cache.ObjectName) (time.Duration, error)
				})
				if _, err := controller.Sync(t.Context(), cache.MetaObjectToName(object.(metav1.Object))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if requests := s.Requests(); slices.ContainsFunc(requests, fakeapi.Request.Writes) {
		t.Fatalf("the objects do not settle: %v", requests)
	}
	return s
}

// addCloud adds a RedisCluster and an ECSInstance, and the Secrets that they name.
func addCloud(s *fakeapi.Server) {
	key := []byte(secrets["an access key"])
	s.Put(
		&corev1.Secret{ObjectMeta: named("redis"), Data: map[string][]byte{"password": []byte(secrets["a password of Redis"])}},
		&corev1.Secret{ObjectMeta: named("aliyun"), Data: map[string][]byte{
			ecsv1alpha1.KeyAccessKeyID: []byte("id"), ecsv1alpha1.KeyAccessKeySecret: key,
		}},
		&redisv1.RedisCluster{ObjectMeta: named("cache"), Spec: redisv1.RedisClusterSpec{
			Addr: "10.0.0.1:6379", AuthSecretRef: &redisv1.SecretKeyReference{Name: "redis", Key: "password"},
		}},
		&ecsv1alpha1.ECSInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vm", Generation: 1, Finalizers: []string{ecsv1alpha1.Finalizer}},
			Spec: ecsv1alpha1.ECSInstanceSpec{
				RegionID: "cn-beijing", InstanceType: "ecs.g6.large", ImageID: "a.vhd",
				CredentialsSecretRef: &ecsv1alpha1.SecretReference{Name: "aliyun"},
			},
		},
	)
}

func clientsOf(s *fakeapi.Server) *clients.Clients {
	headers := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	headers.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		found, err := s.Kube().Invokes(action, &corev1.ConfigMap{})
		if err != nil {
			return true, nil, err
		}
		object := found.(metav1.Object)
		return true, &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()},
		}, nil
	})
	return &clients.Clients{Time: &clients.ServerTime{}, Kube: s.Kube(), Glassback: s.Glassback(), Metadata: headers, Gateway: s.Gateway()}
}

func kindsOf(t *testing.T, s *fakeapi.Server) []kind {
	t.Helper()
	cloud, err := aliyun.New(aliyun.Config{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := newKinds(clientsOf(s), cloud, &settings{namespace: "default", backupImage: "glassback/glassback:dev"})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// run runs plan, and checks that it sends no write and that its output has no secret.
func run(t *testing.T, s *fakeapi.Server, o settings) (int, string) {
	t.Helper()
	s.Forget()
	var stdout, stderr strings.Builder
	// No ECS listens at this endpoint.
	o.namespace, o.endpoint = "default", "http://127.0.0.1:1"
	code, err := o.run(t.Context(), clientsOf(s), &stdout, &stderr)
	must.Succeed(t, err)
	if requests := s.Requests(); slices.ContainsFunc(requests, fakeapi.Request.Writes) {
		t.Errorf("it made the requests %v", requests)
	}
	if leaks := secrets.In(stdout.String() + stderr.String()); len(leaks) > 0 {
		t.Error(leaks)
	}
	return code, stdout.String() + stderr.String()
}

func TestASettledClusterHasNothingToDo(t *testing.T) {
	code, out := run(t, cluster(t), settings{output: command.Text})
	const want = "OBJECT       PLAN\naea/sample   nothing to do\napp/web      nothing to do\nmcj/backup   nothing to do\n"
	if code != command.OK || out != want {
		t.Errorf("exit code %d, output\n%swant\n%s", code, out, want)
	}
	const none = "There are no objects of Glassback in namespace default.\n"
	if code, out := run(t, fakeapi.New(), settings{}); code != command.OK || out != none {
		t.Errorf("without objects: exit code %d, %q", code, out)
	}
}

func TestThePlanHasEachChange(t *testing.T) {
	s := cluster(t)
	web, greeting := cache.NewObjectName("default", "web"), cache.NewObjectName("default", "sample-greeting")
	fakeapi.Edit(s, web, "user", func(app *appv1.Application) {
		app.Generation++
		app.Spec.Image = "nginx:1.29"
	})
	fakeapi.Edit(s, greeting, "user", func(c *corev1.ConfigMap) { c.Data["greeting"] = secrets["a ConfigMap"] })
	fakeapi.Edit(s, cache.NewObjectName("default", "backup"), "user", func(m *mcjv1.MyCronJob) {
		m.Annotations = map[string]string{glassback.AnnotationPaused: "true"}
	})
	code, out := run(t, s, settings{allNamespaces: true})
	want := `
NAMESPACE   OBJECT       PLAN
default     aea/sample   update ConfigMap sample-greeting
                             data.greeting: changed, values not shown
default     app/web      update Deployment web
                             spec.template.spec.containers[app].image: nginx:1.28 → nginx:1.29
default     mcj/backup   nothing to do
                         note: paused
`
	if trimmed := regexp.MustCompile(` +\n`).ReplaceAllString("\n"+out, "\n"); code != somethingToDo || trimmed != want {
		t.Errorf("exit code %d, output%swant%s", code, trimmed, want)
	}
	code, out = run(t, s, settings{output: command.JSON})
	var got document
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != somethingToDo || got.Schema != schemaName || len(got.Objects) != 3 {
		t.Fatalf("exit code %d, error %v, output\n%s", code, err, out)
	}
	wantWrites := []report.Write{{Verb: "update", Kind: "Deployment", Name: "web", Fields: []fields.Field{
		{Path: "spec.template.spec.containers[app].image", Old: "nginx:1.28", New: "nginx:1.29"},
	}}}
	if o := got.Objects[1]; o.Kind != "Application" || o.Name != "web" || o.Settled || fmt.Sprint(o.Writes) != fmt.Sprint(wantWrites) ||
		!slices.Equal(o.Writes[0].Fields, wantWrites[0].Fields) {
		t.Errorf("got %+v", o)
	}
}

func TestOfflineSaysWhatIsIncomplete(t *testing.T) {
	s := cluster(t)
	addCloud(s)
	code, out := run(t, s, settings{offline: true})
	for _, line := range []string{
		"rdc/cache ", "create ConfigMap cache-", "incomplete: the redis-servers were not asked", "ecs/vm ", "incomplete: ECS was not asked",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("the output has no %q", line)
		}
	}
	if code != somethingToDo || t.Failed() {
		t.Errorf("exit code %d, output\n%s", code, out)
	}
	if requests := s.Requests(); slices.ContainsFunc(requests, func(r fakeapi.Request) bool { return r.Resource == "secrets" }) {
		t.Errorf("it read a Secret: %v", requests)
	}
}

// TestTheRoleInTheDocumentGrantsWhatPlanUses compares the ClusterRole in docs/plan.md with the requests of a plan for objects of all kinds.
func TestTheRoleInTheDocumentGrantsWhatPlanUses(t *testing.T) {
	s := cluster(t)
	addCloud(s)
	fakeapi.Edit(s, cache.NewObjectName("default", "web"), "user", func(a *appv1.Application) {
		a.Spec.RestartOn = []appv1.RestartSource{appv1.RestartOnConfigMaps}
		a.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "web"},
		}}}
	})
	if code, out := run(t, s, settings{}); code != command.Failed || !strings.Contains(out, "incomplete: ECS did not answer") {
		t.Errorf("without an answer of ECS: exit code %d, output\n%s", code, out)
	}
	text, err := os.ReadFile("../../docs/plan.md")
	must.Succeed(t, err)
	var role rbacv1.ClusterRole
	must.Succeed(t, yaml.Unmarshal(regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)[1], &role))
	granted, used := map[string]bool{}, map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted[verb+" "+resource] = true
			}
		}
	}
	for _, r := range s.Requests() {
		used[r.Verb+" "+r.Resource] = true
	}
	if !maps.Equal(granted, used) {
		t.Errorf("the document grants\n%v, the program uses\n%v", slices.Sorted(maps.Keys(granted)), slices.Sorted(maps.Keys(used)))
	}
}

func TestExitCode(t *testing.T) {
	settled, pending := Object{Settled: true}, Object{}
	failed, incomplete := Object{Error: "e"}, Object{Settled: true, Plan: report.Plan{Incomplete: "i"}}
	for sentence, test := range map[string]struct {
		objects []Object
		offline bool
		want    int
	}{
		"something to do":                    {[]Object{settled, pending, settled}, false, 2},
		"an error, and something to do":      {[]Object{pending, failed}, false, 1},
		"an incomplete plan is an error":     {[]Object{settled, incomplete}, false, 1},
		"with --offline, an incomplete plan": {[]Object{settled, incomplete}, true, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := (&settings{offline: test.offline}).exitCode(test.objects); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}

func TestTheCommandLine(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	for sentence, test := range map[string]struct {
		args []string
		code int
		want string // the prefix of the output
	}{
		"help":                 {[]string{"--help"}, 0, "Plan prints what"},
		"an unknown flag":      {[]string{"--no"}, 1, "glassback: unknown flag"},
		"an invalid namespace": {[]string{"-n", "A"}, 1, "glassback: --namespace \"A\" is not the name of a namespace"},
		"a missing kubeconfig": {[]string{"--kubeconfig", "/none"}, 1, "glassback: cannot read the kubeconfig"},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out strings.Builder
			if code := command.Execute(t.Context(), New(), test.args, &out, &out); code != test.code || !strings.HasPrefix(out.String(), test.want) {
				t.Errorf("exit code %d, %q", code, out.String())
			}
		})
	}
}

func TestTheClientsCannotWrite(t *testing.T) {
	o := settings{cluster: clients.Flags{Master: "http://127.0.0.1:1"}}
	c, err := o.connect()
	must.Succeed(t, err)
	_, createErr := c.Kube.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{}, metav1.CreateOptions{})
	app := &appv1.Application{ObjectMeta: named("a")}
	_, updateErr := c.Glassback.AppV1().Applications("default").UpdateStatus(t.Context(), app, metav1.UpdateOptions{})
	deleteErr := c.Apiextensions.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "a", metav1.DeleteOptions{})
	for verb, err := range map[string]error{"create": createErr, "update": updateErr, "delete": deleteErr} {
		if err == nil || !strings.Contains(err.Error(), "this client only reads") {
			t.Errorf("%s: error %v", verb, err)
		}
	}
}
