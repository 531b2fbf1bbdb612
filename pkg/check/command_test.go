/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package check

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/artifacts/crd"
	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/crds"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/permissions"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/webhook"
)

func TestTheFlagsOfCheck(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"none": {nil, ""},
		"all of them": {[]string{
			"--pre", "-o", "json", "--timeout=3s", "-n", "a,b", "--controllers=-mycronjob,*", "--operator-namespace=x",
			"--leader-elect-resource-name=y", "--leader-elect-resource-namespace=z", "--webhooks=false", "--ecs-endpoint=http://127.0.0.1:1",
		}, ""},
		"an output that there is none of":  {[]string{"-o", "yaml"}, `--output must be text or json, not "yaml"`},
		"no time":                          {[]string{"--timeout=0"}, "--timeout must be from 1s to 10m, not 0s"},
		"a namespace that cannot be":       {[]string{"--operator-namespace=A"}, `--operator-namespace "A" is not the name of a namespace`},
		"another one":                      {[]string{"--namespace=A"}, `--namespace "A" is not the name of a namespace`},
		"none at all":                      {[]string{"--namespace="}, "--namespace must not be empty"},
		"a Lease that cannot be":           {[]string{"--leader-elect-resource-name=_"}, "is not the name of a Lease"},
		"a controller that is none":        {[]string{"--controllers=cron"}, `there is no "cron"`},
		"a URL without TLS":                {[]string{"--webhook-url=http://127.0.0.1:1"}, "--webhook-url must be https://HOST:PORT"},
		"an argument":                      {[]string{"pre"}, `unexpected argument "pre"`},
		"a flag that there is none of":     {[]string{"--install-crds"}, "unknown flag"},
		"a flag of the operator's logging": {[]string{"-v=2"}, "unknown shorthand flag"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.args, &strings.Builder{})
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestCheckSaysHowItIsUsed(t *testing.T) {
	var out, errs strings.Builder
	if code := Run(t.Context(), []string{"--help"}, &out, &errs); code != command.OK || !strings.Contains(out.String(), "--pre") ||
		errs.Len() > 0 {
		t.Errorf("--help: exit code %d, %q, %q", code, out.String(), errs.String())
	}
	out.Reset()
	if code := Run(t.Context(), []string{"--nonsense"}, &out, &errs); code != command.Usage ||
		errs.String() != "glassback: unknown flag: --nonsense\n" || out.Len() > 0 {
		t.Errorf("--nonsense: exit code %d, %q, %q", code, out.String(), errs.String())
	}
}

// checkOf returns a checker of a cluster that has these objects. Whoever it is may do nothing of
// what is in denied, as "verb resource".
func checkOf(t *testing.T, args []string, denied []string, objects ...runtime.Object) *checker {
	t.Helper()
	outOfTheCloud(t)
	var kube, own, crds []runtime.Object
	for _, o := range objects {
		switch o.(type) {
		case *apiextensionsv1.CustomResourceDefinition:
			crds = append(crds, o)
		case *ecsv1alpha1.ECSInstance:
			own = append(own, o)
		default:
			kube = append(kube, o)
		}
	}
	clientset := fake.NewClientset(kube...)
	answer := func(what *authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: !slices.Contains(denied, what.Verb+" "+what.Resource)}
	}
	clientset.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status = answer(review.Spec.ResourceAttributes)
		return true, review, nil
	})
	clientset.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		if slices.Contains(denied, "create subjectaccessreviews") {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", errors.New("no"))
		}
		if want := "system:serviceaccount:glassback-system:glassback"; review.Spec.User != want {
			t.Errorf("it asked for %s, want %s", review.Spec.User, want)
		}
		review.Status = answer(review.Spec.ResourceAttributes)
		return true, review, nil
	})
	return &checker{options: parseCheck(t, args...), user: "me", clients: &clients.Clients{
		Time: &clients.ServerTime{}, Kube: clientset,
		Glassback: glassbackfake.NewClientset(own...), Apiextensions: apiextensionsfake.NewClientset(crds...),
	}}
}

// outOfTheCloud sees to it that nothing is asked outside of this machine.
func outOfTheCloud(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN", "ROLE_ARN", "OIDC_PROVIDER_ARN", "OIDC_TOKEN_FILE", "ECS_METADATA",
		"CREDENTIALS_URI", "PROFILE",
	} {
		t.Setenv("ALIBABA_CLOUD_"+name, "")
	}
	t.Setenv("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "true")
	t.Setenv("HOME", t.TempDir())
}

// without runs the sections of c but for the cluster's, which a fake cannot answer.
func without(t *testing.T, c *checker) Report {
	t.Helper()
	sections := c.sections()
	sections = sections[1:]
	for i := range sections {
		sections[i].Needs = nil
	}
	return Runner{Limit: 10 * time.Second}.Run(t.Context(), sections)
}

// outcome returns that of the check id.
func outcome(t *testing.T, r Report, id string) Outcome {
	t.Helper()
	for _, o := range r.Outcomes() {
		if o.ID == id {
			return o
		}
	}
	t.Fatalf("there is no check %s in %+v", id, r)
	return Outcome{}
}

// definitions are the CRDs as a cluster has them.
func definitions(t *testing.T) []runtime.Object {
	t.Helper()
	all := crds.All()
	var objects []runtime.Object
	for _, d := range all {
		d := d.DeepCopy()
		d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		}
		d.Status.StoredVersions = []string{d.Spec.Versions[0].Name}
		objects = append(objects, d)
	}
	return objects
}

func TestEveryCheckHasAnIDOfItsOwn(t *testing.T) {
	for _, args := range [][]string{nil, {"--pre"}, {"--namespace=a,b"}} {
		report := without(t, checkOf(t, args, nil, append(definitions(t), managerOf(2, 2))...))
		seen := map[string]bool{}
		for _, o := range report.Outcomes() {
			if seen[o.ID] || o.ID == "" || o.Title == "" || strings.ContainsAny(o.ID, " \t") {
				t.Errorf("%q: the ID %q of %q is another one's, or none", args, o.ID, o.Title)
			}
			seen[o.ID] = true
			if (o.State == Failed || o.State == Warning) && (o.Reason == "" || o.Remedy == "") {
				t.Errorf("%q: %s is %s without a reason or a remedy", args, o.ID, o.State)
			}
		}
	}
}

// Checks name by ID the checks that they need. A wrong ID would go unnoticed.
func TestWhatIsNeededIsThere(t *testing.T) {
	c := checkOf(t, nil, nil)
	c.webhooks = []registeredWebhooks{{name: "x"}}
	sections := c.sections()
	known := map[string]bool{}
	for _, s := range sections {
		checks := s.Checks
		if s.More != nil {
			checks = slices.Concat(checks, s.More())
		}
		for _, c := range checks {
			for _, id := range slices.Concat(s.Needs, c.Needs) {
				if s.ID != "cluster" && !known[id] {
					t.Errorf("%s needs %s, which does not come before it", c.ID, id)
				}
			}
			known[c.ID] = true
		}
	}
}

func TestCRDs(t *testing.T) {
	all := crds.All()
	want := all[len(all)-1]
	for name, test := range map[string]struct {
		change      func(*apiextensionsv1.CustomResourceDefinition) // nil: there is none
		usable      State
		installable State
		reason      string // of usable
	}{
		"the desired definition": {func(*apiextensionsv1.CustomResourceDefinition) {}, OK, OK, "served, stored as v1"},
		"none":                   {nil, Failed, OK, "it is not there"},
		"an older one": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations[crd.AnnotationRevision] = "0" },
			Failed, OK, "it is older: revision 0"},
		"a newer one": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations[crd.AnnotationRevision] = "99" },
			Warning, Warning, "it is newer: revision 99"},
		"one without a revision": {func(c *apiextensionsv1.CustomResourceDefinition) { delete(c.Annotations, crd.AnnotationRevision) },
			Failed, Warning, "there is one that is not Glassback's"},
		"one that is being deleted": {func(c *apiextensionsv1.CustomResourceDefinition) { c.DeletionTimestamp = &metav1.Time{} },
			Failed, Failed, "it is being deleted"},
		"one that is not served yet": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.Conditions = nil },
			Failed, OK, "the API server does not serve it yet"},
		"one whose names are another one's": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Message: `"rdc" is already in use`},
			}
		}, Failed, OK, `its names are taken: "rdc" is already in use`},
		"one without the version": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Annotations[crd.AnnotationRevision], c.Spec.Versions[0].Served = "99", false
		}, Failed, Warning, "it does not serve the version v1"},
		"one with objects in a version that is not known": {
			func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v1beta1", "v1"} },
			Warning, Failed, "objects may still be stored as v1beta1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var have *apiextensionsv1.CustomResourceDefinition
			if test.change != nil {
				have = definitions(t)[len(all)-1].(*apiextensionsv1.CustomResourceDefinition)
				test.change(have)
			}
			if got := usable(want, have); got.State != test.usable || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("usable: %+v, want %s, %q", got, test.usable, test.reason)
			}
			if got := installable(want, have); got.State != test.installable {
				t.Errorf("installable: %+v, want %s", got, test.installable)
			}
		})
	}
}

// managerOf is the operator's Deployment.
func managerOf(replicas, ready int32) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "glassback", "app.kubernetes.io/component": "manager"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "glassback-system", Name: "glassback-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ServiceAccountName: "glassback", Containers: []corev1.Container{{Image: "glassback:v1", Args: []string{"--leader-elect"}}},
		}}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: ready, UpdatedReplicas: replicas},
	}
}

func TestTheHealthOfTheOperator(t *testing.T) {
	waiting := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
	}}}}
	homeless := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available",
	}}}}
	refused := managerOf(2, 0)
	refused.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "violates PodSecurity"},
	}
	rolling := managerOf(2, 2)
	rolling.Status.UpdatedReplicas = 1
	stuckOne := rolling.DeepCopy()
	stuckOne.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "exceeded its progress deadline"},
	}
	crowd := managerOf(2, 2)
	crowd.Spec.Template.Spec.Containers[0].Args = nil
	for name, test := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       State
		reason     string
	}{
		"all are ready": {managerOf(2, 2), nil, OK, "2 of 2 replicas are ready, image glassback:v1"},
		"one is not": {
			managerOf(2, 1), []corev1.Pod{waiting}, Warning, "1 of 2 replicas are ready: p is ImagePullBackOff: no such image",
		},
		"none is":              {managerOf(2, 0), []corev1.Pod{homeless}, Failed, "0 of 2 replicas are ready: p: 0/1 nodes are available"},
		"none may be":          {refused, nil, Failed, "0 of 2 replicas are ready: violates PodSecurity"},
		"there are to be none": {managerOf(0, 0), nil, Failed, "it is scaled to 0"},
		"new ones take over":   {rolling, nil, Warning, "it is rolling out: 1 of 2 replicas are new"},
		"the new ones do not come": {stuckOne, []corev1.Pod{waiting}, Failed,
			"2 of 2 replicas are ready, but the rollout of new ones is stuck: p is ImagePullBackOff: no such image"},
		"several, and all of them lead": {crowd, nil, Failed, "2 of 2 replicas are ready, and all of them work: it does not elect a leader"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := health(test.deployment, test.pods); got.State != test.want || got.Reason != test.reason {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

func TestWhatTheOperatorInTheClusterWorksWith(t *testing.T) {
	d := managerOf(2, 2)
	d.Spec.Template.Spec.Containers[0].Args = []string{
		"--leader-elect", "--leader-elect-resource-name=l", "--namespace=a", "--controllers=mycronjob", "--webhooks=false",
		"--ecs-endpoint=http://127.0.0.1:1",
	}
	o := parseCheck(t)
	o.adoptFrom(d)
	if !slices.Equal(o.Namespaces, []string{"a"}) || !slices.Equal(o.Controllers, []string{"mycronjob"}) || o.Webhooks ||
		o.ECSEndpoint != "http://127.0.0.1:1" || o.leaseName != "l" || o.leaseNamespace != "glassback-system" {
		t.Errorf("without flags: %+v", o)
	}
	o = parseCheck(t, "-n", "b", "--controllers=application", "--webhooks", "--ecs-endpoint=http://127.0.0.1:2",
		"--leader-elect-resource-name=m", "--leader-elect-resource-namespace=n")
	o.adoptFrom(d)
	if !slices.Equal(o.Namespaces, []string{"b"}) || !slices.Equal(o.Controllers, []string{"application"}) || !o.Webhooks ||
		o.ECSEndpoint != "http://127.0.0.1:2" || o.leaseName != "m" || o.leaseNamespace != "n" {
		t.Errorf("with flags: %+v", o)
	}
	d.Spec.Template.Spec.Containers[0].Args = []string{"--of-another-version"}
	o = parseCheck(t)
	if o.adoptFrom(d); len(o.Controllers) != len(permissions.ControllerNames()) {
		t.Errorf("of another version: %+v", o)
	}
}

func TestWhatTheOperatorBesideACheckWorksWith(t *testing.T) {
	for name, test := range map[string]struct {
		line   string
		adopts bool
	}{
		"the operator":           {"/glassback\x00--leader-elect\x00--namespace=a\x00", true},
		"one without arguments":  {"/glassback\x00", false},
		"another program":        {"/bin/sh\x00-c\x00sleep\x00", false},
		"one of another version": {"/glassback\x00--of-another-version\x00", false},
		"nothing":                {"", false},
	} {
		o := parseCheck(t)
		if got := o.adoptNeighbour([]byte(test.line)); got != test.adopts || slices.Equal(o.Namespaces, []string{"a"}) != test.adopts ||
			o.Lease.Elect != test.adopts {
			t.Errorf("%s: %t, %+v", name, got, o)
		}
	}
}

// TestAnInstallationOfCertManagerNeedsNoSecrets: cert-manager keeps them.
func TestAnInstallationOfCertManagerNeedsNoSecrets(t *testing.T) {
	d := managerOf(2, 2)
	d.Spec.Template.Spec.Containers[0].Args = []string{"--leader-elect", "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs"}
	c := &checker{options: parseCheck(t), deployment: d}
	c.options.adoptFrom(d)
	for _, w := range c.operatorWants() {
		if w.Group == admissionregistrationv1.GroupName || (w.Resource == "secrets" && w.Namespace == "glassback-system") {
			t.Errorf("it wants %s %s", w.Verbs, w)
		}
	}
}

func TestWhatALeaseSays(t *testing.T) {
	now := time.Now()
	lease := func(holder string, ago time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago))),
		}}
	}
	for name, test := range map[string]struct {
		lease                     *coordinationv1.Lease
		electing, outside, vacant State
	}{
		"none":                         {nil, Warning, Skipped, OK},
		"one that is held":             {lease("a", 2*time.Second), OK, OK, Warning},
		"one by a clock that is ahead": {lease("a", -time.Minute), OK, OK, Warning},
		"one that has expired":         {lease("a", time.Minute), Failed, Warning, OK},
		"one that was given up":        {lease("", time.Second), Warning, Skipped, OK},
	} {
		t.Run(name, func(t *testing.T) {
			l := tenureOf(test.lease, now)
			for _, of := range []struct {
				who  string
				got  Result
				want State
			}{
				{"an operator that elects", l.occupied(true), test.electing},
				{"one that does not", l.occupied(false), test.outside},
				{"one that is to be installed", l.vacant(), test.vacant},
			} {
				if of.got.State != of.want {
					t.Errorf("to %s it is %+v, want %s", of.who, of.got, of.want)
				}
			}
		})
	}
}

func TestPermissionsAreThoseOfWhoRunsTheOperator(t *testing.T) {
	const jobs = "permissions/*/jobs.batch"
	for name, test := range map[string]struct {
		args    []string
		denied  []string
		objects []runtime.Object
		user    string
		account string // what it says of whose they are
		id      string
		want    State
		reason  string
	}{
		"an operator that this account starts": {nil, nil, nil, "me", "those of me, as whom", jobs, OK, ""},
		"a verb that it may not": {nil, []string{"delete jobs", "watch jobs"}, nil, "me", "those of me", jobs, Failed,
			"not allowed to delete,watch; needed by mycronjob"},
		"what several controllers need is asked for once": {nil, []string{"delete services"}, nil, "me", "", "permissions/*/services", Failed,
			"not allowed to delete; needed by application, rediscluster"},
		"a namespace": {
			[]string{"-n", "a"}, []string{"list pods"}, nil, "me", "", "permissions/a/pods", Failed, "not allowed to list; needed by rediscluster",
		},
		"an operator in the cluster": {nil, []string{"create jobs"}, []runtime.Object{managerOf(2, 2)}, "me",
			"those of ServiceAccount glassback-system/glassback, as which", jobs, Failed, "not allowed to create; needed by mycronjob"},
		"and its own": {
			nil, nil, []runtime.Object{managerOf(2, 2)}, "me", "", "permissions/glassback-system/secrets:glassback-webhook-ca", OK, "",
		},
		"and by itself": {
			nil, []string{"create subjectaccessreviews"}, []runtime.Object{managerOf(2, 2)}, "system:serviceaccount:glassback-system:glassback",
			"those of this account", jobs, OK, "",
		},
		"an operator in the cluster, for a user who may not ask": {
			nil, []string{"create subjectaccessreviews"}, []runtime.Object{managerOf(2, 2)}, "me",
			"this account may not ask for them; it may: kubectl exec -n glassback-system deployment/glassback-manager -- /glassback check",
			jobs, Skipped, "",
		},
		"who installs": {[]string{"--pre"}, []string{"create clusterroles"}, nil, "me", "those of me, who installs",
			"permissions/*/clusterroles.rbac.authorization.k8s.io", Failed, "not allowed to create; needed by kubectl apply"},
		"who installs may grant what he has": {[]string{"--pre"}, []string{"escalate clusterroles"}, nil, "me", "", "permissions/grant", OK, ""},
		"who installs may grant what he has not got, if he may escalate": {
			[]string{"--pre"}, []string{"list secrets"}, nil, "me", "", "permissions/grant", OK, "",
		},
		"who installs may not grant what he has not got": {
			[]string{"--pre"}, []string{"escalate clusterroles", "list secrets"}, nil, "me", "", "permissions/grant", Failed,
			"it may not itself, and so cannot grant: list secrets; list secrets glassback-webhook-ca",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checkOf(t, test.args, test.denied, test.objects...)
			c.user = test.user
			report := without(t, c)
			if got := outcome(t, report, "permissions/account"); !strings.Contains(got.Reason, test.account) {
				t.Errorf("they are %q, want %q", got.Reason, test.account)
			}
			got := outcome(t, report, test.id)
			if got.State != test.want || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

// TestWhoInstallsNeedsWhatArtifactsHold compares with the manifests.
func TestWhoInstallsNeedsWhatArtifactsHold(t *testing.T) {
	known := map[string]bool{}
	for _, p := range slices.Concat(installedInCluster, installedInNamespace) {
		known[p.String()] = true
	}
	for _, dir := range []string{"crd", "rbac", "webhook", "manager"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "artifacts", dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(data), "\n---") {
				var object metav1.TypeMeta
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				gvk := object.GroupVersionKind()
				if gvk.Kind == "" || strings.HasSuffix(gvk.Group, "kustomize.config.k8s.io") {
					continue
				}
				plural, _ := meta.UnsafeGuessKindToResource(gvk)
				if p := (permissions.Permission{Group: plural.Group, Resource: plural.Resource}); !known[p.String()] {
					t.Errorf("%s has a %s: who installs needs %s", file, gvk.Kind, p)
				}
			}
		}
	}
}

// TestWhoInstallsCanGrantWhatArtifactsGrant compares with the roles.
func TestWhoInstallsCanGrantWhatArtifactsGrant(t *testing.T) {
	c := checkOf(t, nil, nil)
	known := map[string]bool{}
	for _, p := range c.granted() {
		for _, verb := range p.Verbs {
			known[verb+" "+p.String()] = true
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "artifacts", "rbac", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(file, "webhook_url_") {
			continue // It is not for an operator in the cluster.
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, rule := range role.Rules {
				for _, what := range rulePermissions(rule) {
					for _, verb := range what.Verbs {
						if !known[verb+" "+what.String()] && !known["* "+what.String()] {
							t.Errorf("%s: %s grants %s %s", file, role.Name, verb, what)
						}
					}
				}
			}
		}
	}
}

// rulePermissions are the permissions on resources that a rule grants.
func rulePermissions(rule rbacv1.PolicyRule) []permissions.Permission {
	var all []permissions.Permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resource, subresource, _ := strings.Cut(resource, "/")
			if len(rule.ResourceNames) == 0 {
				all = append(all, permissions.Permission{Group: group, Resource: resource, Subresource: subresource, Verbs: rule.Verbs})
			}
			for _, name := range rule.ResourceNames {
				all = append(all, permissions.Permission{Group: group, Resource: resource, Subresource: subresource, Name: name, Verbs: rule.Verbs})
			}
		}
	}
	return all
}

func TestWebhooksThatAreRegistered(t *testing.T) {
	service := types.NamespacedName{Namespace: "glassback-system", Name: webhook.ServiceName}
	type (
		mutating   = admissionregistrationv1.MutatingWebhookConfiguration
		validating = admissionregistrationv1.ValidatingWebhookConfiguration
	)
	register := func(change func(*mutating, *validating)) []runtime.Object {
		endpoint := webhook.ByService(service)
		m, v := endpoint.MutatingConfiguration(webhook.ConfigurationName), endpoint.ValidatingConfiguration(webhook.ConfigurationName)
		m.Labels, v.Labels = nil, nil
		change(m, v)
		return []runtime.Object{m, v}
	}
	for name, test := range map[string]struct {
		objects []runtime.Object
		id      string
		want    State
		reason  string
	}{
		"none, and no operator either":      {nil, "webhooks/registered", Skipped, "it knows of none"},
		"none, though there is an operator": {[]runtime.Object{managerOf(2, 2)}, "webhooks/registered", Warning, "there is no configuration"},
		"as they should be":                 {register(func(*mutating, *validating) {}), "webhooks/glassback/complete", OK, "10 webhooks"},
		"one is missing": {register(func(_ *mutating, v *validating) {
			v.Webhooks = v.Webhooks[1:]
		}), "webhooks/glassback/complete", Warning, "it has not got protect.apiexampleas"},
		"one calls another service": {register(func(m *mutating, _ *validating) {
			m.Webhooks[0].ClientConfig.Service.Namespace = "other"
		}), "webhooks/glassback/complete", Failed, "calls other/glassback-webhook, and not the Service glassback-system/glassback-webhook"},
		"the caBundle is empty": {register(func(*mutating, *validating) {}), "webhooks/glassback/trust", Failed, "has no caBundle"},
		"there is no Service":   {register(func(*mutating, *validating) {}), "webhooks/glassback/endpoints", Failed, "there is no Service"},
	} {
		t.Run(name, func(t *testing.T) {
			got := outcome(t, without(t, checkOf(t, nil, nil, test.objects...)), test.id)
			if got.State != test.want || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

func TestWhatADryRunShows(t *testing.T) {
	const mine = `"validate.redisclusters.bytewang123-redis.wzj.kubebuilder.io"`
	calling := `Internal error occurred: failed calling webhook "default.x": failed to call webhook: ` +
		`Post "https://127.0.0.1:9443/mutate?timeout=5s": `
	resource := schema.GroupResource{Group: "bytewang123-redis.wzj.kubebuilder.io", Resource: "redisclusters"}
	for name, test := range map[string]struct {
		err    error
		want   State
		remedy string
	}{
		"they refuse": {
			errors.New(`admission webhook ` + mine + ` denied the request: RedisCluster "x" is invalid: spec.addr`), OK, "",
		},
		"no webhook was called":   {nil, Failed, "apply artifacts/webhook; see that it is for the namespace default"},
		"they are not trusted":    {errors.New(calling + "tls: failed to verify certificate: x509: unknown authority"), Failed, "caBundle"},
		"they do not answer":      {errors.New(calling + "context deadline exceeded"), Failed, "NetworkPolicies"},
		"connection refused":      {errors.New(calling + "dial tcp 127.0.0.1:9443: connect: connection refused"), Failed, "a replica is ready"},
		"another webhook refuses": {errors.New(`admission webhook "kyverno" denied the request: no`), Warning, "see what"},
		"this account may not try": {
			apierrors.NewForbidden(resource, "", errors.New(`User "me" cannot create resource "redisclusters"`)), Skipped, "",
		},
		"no such namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), Skipped, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(test.err, "default"); got.State != test.want || !strings.Contains(got.Remedy, test.remedy) {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.remedy)
			}
		})
	}
}

func TestTheValidityOfACertificate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		before, after time.Duration
		want          State
		reason        string
	}{
		"young":                {-24 * time.Hour, 364 * 24 * time.Hour, OK, "until 2026-12-31, for 364 days"},
		"old, and not renewed": {-300 * 24 * time.Hour, 60 * 24 * time.Hour, Warning, "it expires on 2026-03-02, in 60 days"},
		"old, for hours":       {-100 * time.Hour, 5 * time.Hour, Warning, "it expires on 2026-01-01, in 5 hours"},
		"expired":              {-100 * time.Hour, -24 * time.Hour, Failed, "it has expired on 2025-12-31"},
		"not valid yet":        {time.Hour, 100 * time.Hour, Failed, "it is not valid before 2026-01-01T01:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			got := validity(&x509.Certificate{NotBefore: now.Add(test.before), NotAfter: now.Add(test.after)}, now)
			if got.State != test.want || got.Reason != test.reason {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

func TestTheAnswersOfRedis(t *testing.T) {
	well, unwell := nodeAnswer{pod: "p", view: &redisnode.View{StateOK: true}}, nodeAnswer{pod: "p", view: &redisnode.View{}}
	silent, locked := nodeAnswer{pod: "p", err: errors.New("connect: refused")}, nodeAnswer{pod: "p", err: redisnode.ErrPassword}
	for name, test := range map[string]struct {
		answers         []nodeAnswer
		inside, outside State
	}{
		"all are well":                  {[]nodeAnswer{well, well}, OK, OK},
		"none has an address":           {nil, Skipped, Skipped},
		"none can be reached":           {[]nodeAnswer{silent, silent}, Failed, Skipped},
		"one cannot be reached":         {[]nodeAnswer{well, silent}, Warning, Warning},
		"one takes no requests":         {[]nodeAnswer{well, unwell}, Warning, Warning},
		"all of them want to know more": {[]nodeAnswer{locked, locked}, Failed, OK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answered(test.answers, 2, true); got.State != test.inside {
				t.Errorf("inside: %+v, want %s", got, test.inside)
			}
			if got := answered(test.answers, 2, false); got.State != test.outside {
				t.Errorf("outside: %+v, want %s", got, test.outside)
			}
		})
	}
}

func TestEveryAccessKeyIsAskedAboutOnceForEachRegion(t *testing.T) {
	instance := func(name, secret, region string) *ecsv1alpha1.ECSInstance {
		ecs := &ecsv1alpha1.ECSInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		ecs.Spec.RegionID = region
		if secret != "" {
			ecs.Spec.CredentialsSecretRef = &ecsv1alpha1.SecretReference{Name: secret}
		}
		return ecs
	}
	c := checkOf(t, nil, nil, instance("1", "s", "cn-beijing"), instance("2", "s", "cn-beijing"), instance("3", "s", "cn-hangzhou"),
		instance("4", "", "cn-beijing"))
	if got := c.checkInstances(t.Context()); got.State != OK || got.Reason != "4 ECSInstances, and 3 access keys, each in one region" {
		t.Errorf("got %+v", got)
	}
	var ids []string
	for _, k := range c.keyChecks() {
		ids = append(ids, k.ID)
	}
	if want := []string{"cloud/own/cn-beijing", "cloud/a/s/cn-beijing", "cloud/a/s/cn-hangzhou"}; !slices.Equal(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
	if got := c.checkKey(t.Context(), cloudKey{"a", "s", "cn-beijing"}); got.State != Failed || got.Reason != "there is no such Secret" {
		t.Errorf("without the Secret: %+v", got)
	}
}

func TestNothingIsWritten(t *testing.T) {
	for _, args := range [][]string{nil, {"--pre"}} {
		c := checkOf(t, args, nil, append(definitions(t)[1:], managerOf(2, 2))...)
		without(t, c)
		var actions []clienttesting.Action
		for _, a := range []interface{ Actions() []clienttesting.Action }{
			c.clients.Kube.(*fake.Clientset), c.clients.Glassback.(*glassbackfake.Clientset), c.clients.Apiextensions.(*apiextensionsfake.Clientset),
		} {
			actions = append(actions, a.Actions()...)
		}
		for _, a := range actions {
			dryRun := false
			switch a := a.(type) {
			case clienttesting.PatchActionImpl:
				dryRun = slices.Equal(a.PatchOptions.DryRun, []string{metav1.DryRunAll})
			case clienttesting.CreateActionImpl:
				dryRun = slices.Equal(a.CreateOptions.DryRun, []string{metav1.DryRunAll}) || strings.HasSuffix(a.GetResource().Resource, "reviews")
			}
			if verb := a.GetVerb(); verb != "get" && verb != "list" && !dryRun {
				t.Errorf("%q: it did %s %s", args, verb, a.GetResource().Resource)
			}
		}
	}
}

func TestTheDocumentOfCheck(t *testing.T) {
	outOfTheCloud(t)
	var out, errs strings.Builder
	code := Run(t.Context(), []string{"-o", "json", "--kubeconfig", filepath.Join(t.TempDir(), "none")}, &out, &errs)
	var document struct {
		Schema, Version, State string
		Pre, Interrupted       bool
		Counts                 map[string]int
		Sections               []struct {
			ID, Title string
			Checks    []struct{ ID, Title, State, Reason, Remedy, Because string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &document); err != nil || code != command.Failed || errs.Len() > 0 {
		t.Fatalf("exit code %d, %v, stderr %q:\n%s", code, err, errs.String(), out.String())
	}
	first := document.Sections[0].Checks[0]
	if document.Schema != "glassback.dev/check/v1" || document.State != "failed" || document.Counts["failed"] != 1 ||
		document.Counts["ok"] != 0 ||
		first.ID != "cluster/configuration" || first.State != "failed" || document.Sections[1].Checks[0].Because != "cluster/configuration" {
		t.Errorf("got %+v", document)
	}
}
