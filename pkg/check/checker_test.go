// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/clients"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/permissions"
)

// checkOf returns a checker of a cluster that has these objects. Whoever it is may do nothing of what is in denied, as "verb resource".
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
