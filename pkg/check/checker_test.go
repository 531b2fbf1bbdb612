// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	celenv "k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/artifacts/crd"
	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/command"
	glassbackfake "github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/must"
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
	return Runner{Limit: 5 * time.Minute}.Run(t.Context(), sections)
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

func TestEveryCheckHasAnIDOfItsOwnAndWritesNothing(t *testing.T) {
	for _, args := range [][]string{nil, {"--pre"}, {"--namespace=a,b"}} {
		c := checkOf(t, args, nil, append(definitions(t)[1:], managerOf(2, 2))...)
		seen := map[string]bool{}
		for _, o := range without(t, c).Outcomes() {
			if seen[o.ID] || o.ID == "" || o.Title == "" || strings.ContainsAny(o.ID, " \t") {
				t.Errorf("%q: the ID %q of %q is another one's, or none", args, o.ID, o.Title)
			}
			seen[o.ID] = true
			if (o.State == Failed || o.State == Warning) && (o.Reason == "" || o.Remedy == "") {
				t.Errorf("%q: %s is %s without a reason or a remedy", args, o.ID, o.State)
			}
		}
		for _, a := range slices.Concat(c.clients.Kube.(*fake.Clientset).Actions(), c.clients.Glassback.(*glassbackfake.Clientset).Actions(),
			c.clients.Apiextensions.(*apiextensionsfake.Clientset).Actions()) {
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
	o = parseCheck(t, "-A")
	if o.adoptFrom(d); !slices.Equal(o.Namespaces, []string{""}) {
		t.Errorf("of all namespaces: %+v", o)
	}
	d.Spec.Template.Spec.Containers[0].Args = []string{"--of-another-version"}
	o = parseCheck(t)
	if o.adoptFrom(d); len(o.Controllers) != len(kinds.Names()) {
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

// An API server takes new rules only if the version before it knows them too, to which it could be set back.
func TestTheOldestServerIsTheOldestThatTakesTheRules(t *testing.T) {
	oldest := utilversion.MustParseGeneric(oldestServer)
	before := func(v *utilversion.Version) *utilversion.Version {
		return utilversion.MajorMinor(v.Major(), v.Minor()-1)
	}
	if errs := ruleErrors(t, before(oldest)); len(errs) > 0 {
		t.Errorf("v%s refuses rules: %v", oldestServer, errs[0])
	}
	if errs := ruleErrors(t, before(before(oldest))); len(errs) == 0 {
		t.Errorf("v%s takes all rules too", before(oldest))
	}
}

// ruleErrors are what keeps the rules of the CRDs from being compiled with what a version knows.
func ruleErrors(t *testing.T, known *utilversion.Version) []error {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	definitions, err := crd.All()
	must.Succeed(t, err)
	var errs []error
	for _, definition := range definitions {
		props := &apiextensions.JSONSchemaProps{}
		must.Succeed(t, scheme.Convert(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil))
		root, err := structural.NewStructural(props)
		must.Succeed(t, err)
		compile := structural.Visitor{Structural: func(s *structural.Structural) bool {
			declared := model.SchemaDeclType(s, s == root || s.XEmbeddedResource)
			results, err := cel.Compile(s, declared, celconfig.PerCallLimit, celenv.MustBaseEnvSet(known), cel.NewExpressionsEnvLoader())
			if err != nil {
				errs = append(errs, err)
			}
			for _, result := range results {
				if result.Error != nil {
					errs = append(errs, result.Error)
				}
			}
			return false
		}}
		compile.Visit(root)
	}
	return errs
}

// server is an API server of a few paths.
func server(t *testing.T, answers map[string]func(http.ResponseWriter)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "glassback-check/") {
			t.Errorf("%s was asked for by %q, which an audit log does not tell from the operator", r.URL.Path, r.UserAgent())
		}
		w.Header().Set("Content-Type", "application/json")
		if answer := answers[r.URL.Path]; answer != nil {
			answer(w)
			return
		}
		status(http.StatusNotFound, metav1.StatusReasonNotFound, "not found")(w)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func status(code int32, reason metav1.StatusReason, message string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(int(code))
		json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		})
	}
}

func text(code int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func whoami(name string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectReview", APIVersion: "authentication.k8s.io/v1"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: name}},
		})
	}
}

func TestTheWayToTheAPIServer(t *testing.T) {
	const who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	version, well, me := text(200, `{"gitVersion":"v1.37.2"}`), text(200, "ok"), whoami("me")
	for name, test := range map[string]struct {
		answers map[string]func(http.ResponseWriter)
		states  string
		reason  string // of the first that is not ok
	}{
		"all is well": {map[string]func(http.ResponseWriter){"/version": version, who: me, "/readyz": well}, "ok ok ok ok ok ok", ""},
		"credentials that are not accepted": {
			map[string]func(http.ResponseWriter){
				"/version": status(401, metav1.StatusReasonUnauthorized, "Unauthorized"),
				who:        status(401, metav1.StatusReasonUnauthorized, "Unauthorized"),
			},
			"ok ok failed skipped skipped ok", "does not accept them",
		},
		"credentials that the API server does not know": {
			map[string]func(http.ResponseWriter){
				"/version": version, who: status(403, metav1.StatusReasonForbidden, `User "system:anonymous" cannot create`),
			},
			"ok ok failed skipped skipped ok", "there are none: the API server takes this for system:anonymous",
		},
		"a server that is not ready": {
			map[string]func(http.ResponseWriter){
				"/version": version,
				who:        me,
				"/readyz":  text(500, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]informer-sync failed: x\nreadyz check failed"),
			},
			"ok ok ok failed ok ok", "it says that these are not well: etcd, informer-sync",
		},
		"an account that may not ask whether it is ready": {
			map[string]func(http.ResponseWriter){"/version": version, who: me, "/readyz": status(403, metav1.StatusReasonForbidden, "forbidden")},
			"ok ok ok ok ok ok", "",
		},
		"a server that is too old": {
			map[string]func(http.ResponseWriter){"/version": text(200, `{"gitVersion":"v1.24.0"}`), who: me, "/readyz": well},
			"ok ok ok ok failed ok", "it is v1.24.0, which does not know what the rules of the CRDs say",
		},
		"some other server": {
			map[string]func(http.ResponseWriter){}, "ok failed skipped skipped skipped skipped", "there is no API server of Kubernetes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := parseCheck(t, "--master", server(t, test.answers))
			c := &checker{options: o}
			report := Runner{Limit: 5 * time.Minute}.Run(t.Context(), []Section{{Checks: c.clusterChecks()}})
			var states []string
			reason := ""
			for _, outcome := range report.Outcomes() {
				states = append(states, string(outcome.State))
				if outcome.State != OK && reason == "" {
					reason = outcome.Reason
				}
			}
			if got := strings.Join(states, " "); got != test.states || !strings.Contains(reason, test.reason) {
				t.Errorf("got %s, %q, want %s, %q", got, reason, test.states, test.reason)
			}
		})
	}
}

func parseCheck(t *testing.T, args ...string) *settings {
	t.Helper()
	o := &settings{}
	c := o.command()
	must.Succeed(t, errors.Join(c.ParseFlags(args), c.PreRunE(c, nil)))
	return o
}

func TestRightsNeedNoCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", "/none")
	for name, test := range map[string]struct {
		args   []string
		code   int
		stdout string
	}{
		"a table":     {[]string{"--pre", "--rights"}, command.OK, "RESOURCE "},
		"a document":  {[]string{"--pre", "--rights", "-o", "json"}, command.OK, "{\n  \"schema\": \"glassback.dev/rights/v1\","},
		"without pre": {[]string{"--rights"}, command.Usage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout strings.Builder
			code := command.Execute(t.Context(), New(), test.args, &stdout, io.Discard)
			if code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) {
				t.Errorf("exit code %d, %q", code, stdout.String())
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
		"an operator in the cluster": {nil, []string{"create jobs"}, []runtime.Object{managerOf(2, 2)}, "me",
			"those of ServiceAccount glassback-system/glassback, as which", jobs, Failed, "not allowed to create; needed by mycronjob"},
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
			[]string{"--pre"}, []string{"get secrets"}, nil, "me", "", "permissions/grant", OK, "",
		},
		"who installs may not grant what he has not got": {
			[]string{"--pre"}, []string{"escalate clusterroles", "get secrets"}, nil, "me", "", "permissions/grant", Failed,
			"it may not itself, and so cannot grant: get secrets; get secrets glassback-webhook-ca",
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

// manifests returns the objects in files of artifacts, by the file.
func manifests(t *testing.T, pattern string) map[string][]rbacv1.ClusterRole {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "artifacts", pattern))
	must.Succeed(t, err)
	all := map[string][]rbacv1.ClusterRole{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		for document := range strings.SplitSeq(string(data), "\n---") {
			var object rbacv1.ClusterRole // Of others only the kind matters.
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[file] = append(all[file], object)
		}
	}
	return all
}

func TestWhoInstallsNeedsWhatArtifactsHold(t *testing.T) {
	known := map[string]bool{}
	for _, p := range slices.Concat(installedInCluster, installedInNamespace) {
		known[p.String()] = true
	}
	for _, dir := range []string{"crd", "rbac", "webhook", "manager"} {
		for file, objects := range manifests(t, dir+"/*.yaml") {
			for _, object := range objects {
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

func TestWhoInstallsCanGrantWhatArtifactsGrant(t *testing.T) {
	c := checkOf(t, nil, nil)
	known := map[string]bool{}
	for _, p := range c.granted() {
		for _, verb := range p.Verbs {
			known[verb+" "+p.String()] = true
		}
	}
	for file, roles := range manifests(t, "rbac/*.yaml") {
		if strings.Contains(file, "webhook_url_") {
			continue // It is not for an operator in the cluster.
		}
		for _, role := range roles {
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
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, name := range names {
				all = append(all, permissions.Permission{Group: group, Resource: resource, Subresource: subresource, Name: name, Verbs: rule.Verbs})
			}
		}
	}
	return all
}
