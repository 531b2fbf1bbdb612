// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/artifacts/crd"
	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/clients"
	"github.com/glassback/glassback/pkg/crds"
	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/webhook"
)

func TestTheHealthOfTheOperator(t *testing.T) {
	pod := func(status corev1.PodStatus) []corev1.Pod {
		return []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: status}}
	}
	waits := func(reason, message string) []corev1.Pod {
		state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		return pod(corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}})
	}
	pulling := waits("ImagePullBackOff", "no such image")
	homeless := pod(corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"},
	}})
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
		"all are ready":        {managerOf(2, 2), nil, OK, "2 of 2 replicas are ready, image glassback:v1"},
		"one is not":           {managerOf(2, 1), pulling, Warning, "1 of 2 replicas are ready: p is ImagePullBackOff: no such image"},
		"none is":              {managerOf(2, 0), homeless, Failed, "0 of 2 replicas are ready: p: 0/1 nodes are available"},
		"there are to be none": {managerOf(0, 0), nil, Failed, "it is scaled to 0"},
		"new ones take over":   {rolling, waits("ContainerCreating", ""), Warning, "it is rolling out: 1 of 2 replicas are new"},
		"the new ones do not come": {stuckOne, pulling, Failed,
			"2 of 2 replicas are ready, but the rollout of new ones is stuck: p is ImagePullBackOff: no such image"},
		"several, and all of them lead": {crowd, nil, Failed, "2 of 2 replicas are ready, and all of them reconcile: they do not elect a leader"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := health(test.deployment, test.pods); got.State != test.want || got.Reason != test.reason {
				t.Errorf("got %+v, want %s, %q", got, test.want, test.reason)
			}
		})
	}
}

func TestTheLeaseOfTheOperator(t *testing.T) {
	now := time.Now()
	held := func(holder string, ago time.Duration) clients.Lease {
		return clients.LeaseOf(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago))),
		}}, now)
	}
	alone := managerOf(1, 1)
	alone.Spec.Template.Spec.Containers[0].Args = nil
	const start, logs = "start an operator, or delete the Lease", "the log says why no replica leads: kubectl logs -n "
	const none = "if no operator runs, start one; an operator without --leader-elect holds no Lease"
	for name, test := range map[string]struct {
		state                       clients.Lease
		electing, alone, no, before State
		reason, remedy              string // without a Deployment
	}{
		"none": {clients.Lease{}, Warning, Skipped, Skipped, OK, "no operator process holds it: there is no Lease", none},
		"held": {held("a", 2*time.Second), OK, OK, OK, Warning, "a, which has renewed it 2s ago", ""},
		"expired": {held("a", time.Minute), Failed, Warning, Warning, OK,
			"no operator process holds it: the last leader, a, has not renewed it for 1m0s", start},
	} {
		t.Run(name, func(t *testing.T) {
			elected := leaseAfter(test.state, managerOf(2, 2))
			for _, check := range []struct {
				name string
				got  Result
				want State
			}{
				{"a Deployment that elects a leader", elected, test.electing},
				{"a Deployment that does not", leaseAfter(test.state, alone), test.alone},
				{"no Deployment", leaseAfter(test.state, nil), test.no},
				{"before an installation", leaseBefore(test.state), test.before},
			} {
				if check.got.State != check.want {
					t.Errorf("%s: got %+v, want %s", check.name, check.got, check.want)
				}
			}
			if got := leaseAfter(test.state, nil); got.Reason != test.reason || got.Remedy != test.remedy {
				t.Errorf("got %+v", got)
			}
			if elected.State != OK && !strings.HasPrefix(elected.Remedy, logs) {
				t.Errorf("the remedy is %q", elected.Remedy)
			}
		})
	}
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

// An account that may not get CRDs asks for the resources that the API server serves.
func TestCRDsOfAnAccountThatMayNotGetThem(t *testing.T) {
	want := crds.All()[0]
	served := []*metav1.APIResourceList{{
		GroupVersion: want.Spec.Group + "/" + want.Spec.Versions[0].Name, APIResources: []metav1.APIResource{{Name: want.Spec.Names.Plural}},
	}}
	for name, test := range map[string]struct {
		served     []*metav1.APIResourceList
		err        error
		state, pre State
		reason     string
	}{
		"it is served":                   {served: served, state: OK, pre: OK, reason: "served"},
		"it is not served":               {state: Failed, pre: OK, reason: "it is not there"},
		"the API server does not answer": {err: errors.New("connection refused"), state: Failed, pre: Failed, reason: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, run := range []struct {
				args []string
				want State
			}{{nil, test.state}, {[]string{"--pre"}, test.pre}} {
				c := checkOf(t, run.args, nil)
				client := c.clients.Apiextensions.(*apiextensionsfake.Clientset)
				client.Resources = test.served
				client.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
				})
				if test.err != nil {
					client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
				}
				got := c.checkCRD(t.Context(), want)
				if got.State != run.want || len(run.args) == 0 && !strings.Contains(got.Reason, test.reason) {
					t.Errorf("with %q: %+v, want %s, %q", run.args, got, run.want, test.reason)
				}
			}
		})
	}
}

// Argo CD has Applications too: kubectl takes app for one of the two.
func TestNamesOfOtherResources(t *testing.T) {
	for name, test := range map[string]struct {
		served []*metav1.APIResourceList
		want   Result
	}{
		"ours alone, and those of Kubernetes": {
			served: []*metav1.APIResourceList{
				{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", SingularName: "pod", ShortNames: []string{"po"}}}},
				{GroupVersion: "app.aiops.org/v1", APIResources: []metav1.APIResource{{Name: "applications", ShortNames: []string{"app"}}}},
			},
			want: pass(""),
		},
		"Argo CD's, in two versions": {
			served: []*metav1.APIResourceList{
				{GroupVersion: "argoproj.io/v1alpha1", APIResources: []metav1.APIResource{
					{Name: "applications", SingularName: "application", ShortNames: []string{"app", "apps"}}, {Name: "applications/status"},
				}},
				{GroupVersion: "argoproj.io/v1", APIResources: []metav1.APIResource{
					{Name: "applications", SingularName: "application", ShortNames: []string{"app", "apps"}},
				}},
			},
			want: warn("others have them too: app, application, applications: applications.argoproj.io",
				"add the group: kubectl get applications.app.aiops.org"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checkOf(t, nil, nil)
			c.clients.Apiextensions.(*apiextensionsfake.Clientset).Resources = test.served
			if got := c.checkNames(t.Context()); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestTheBackupsOfRedis(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       State
	}{
		"none has ended":     {[]metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionFalse, Reason: "NotYet"}}, Skipped},
		"none is reported":   {nil, Skipped},
		"the last failed":    {[]metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionFalse, Reason: "Failed"}}, Failed},
		"the last succeeded": {[]metav1.Condition{{Type: redisv1.ConditionBackedUp, Status: metav1.ConditionTrue}}, OK},
	} {
		t.Run(name, func(t *testing.T) {
			rdc := &redisv1.RedisCluster{Status: redisv1.RedisClusterStatus{Conditions: test.conditions}}
			rdc.Namespace, rdc.Name, rdc.Spec.Backup = "default", "demo", &redisv1.Backup{}
			c := &checker{redis: []*redisv1.RedisCluster{rdc, {}}}
			checks := c.nodeChecks()
			if len(checks) != 3 || checks[1].ID != "redis/default/demo/backups" {
				t.Fatalf("the checks are %+v", checks)
			}
			if got := checks[1].Run(t.Context()); got.State != test.want {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

// A client outside of the cluster is told which addresses it does not reach.
func TestTheAnswersOfRedisFromOutside(t *testing.T) {
	rdc := &redisv1.RedisCluster{}
	rdc.Spec.Access = &redisv1.Access{External: &redisv1.ExternalAccess{Type: redisv1.ExternalNodePort}}
	rdc.Status.Nodes = []redisv1.Node{{Pod: "a-0", Address: "192.0.2.1:30000"}, {Pod: "a-1", Address: "[2001:db8::1]:30001"}}
	waiting := rdc.DeepCopy()
	waiting.Status.Nodes[1].Address = ""
	inside := rdc.DeepCopy()
	inside.Spec.Access = nil
	closed := errors.New("connect: refused")
	missed := func(pod, why string) Result {
		return Result{State: Warning, Reason: "x; from outside, not all answer: " + pod + ": " + why}
	}
	for name, test := range map[string]struct {
		rdc    *redisv1.RedisCluster
		before Result
		errs   map[int]error // by port
		want   Result
	}{
		"all answer":                     {rdc, pass("2 of 2 answer"), nil, pass("2 of 2 answer; from outside, 2 nodes answer")},
		"they answer only there":         {rdc, skip("no way"), nil, pass("no way; from outside, 2 nodes answer")},
		"one wants a password":           {rdc, pass(""), map[int]error{30000: redisnode.ErrPassword}, pass("from outside, 2 nodes answer")},
		"a failure stays":                {rdc, fail("none answers", "see them"), map[int]error{30000: closed}, fail("none answers", "see them")},
		"there is no access":             {inside, pass("2 of 2 answer"), map[int]error{30000: closed}, pass("2 of 2 answer")},
		"one is not reached from here":   {rdc, pass("x"), map[int]error{30001: closed}, missed("a-1", "connect: refused")},
		"one has no address until later": {waiting, pass("x"), nil, missed("a-1", "the node has no address outside of the cluster")},
	} {
		t.Run(name, func(t *testing.T) {
			got := reached(test.rdc, test.before, func(_ string, port int) error { return test.errs[port] })
			if got.State != test.want.State || got.Reason != test.want.Reason || (got.State == Warning && got.Remedy == "") {
				t.Errorf("got %+v, want %+v", got, test.want)
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
		"none, though there is an operator": {[]runtime.Object{managerOf(2, 2)}, "webhooks/registered", Warning, "there is no configuration"},
		"as they should be":                 {register(func(*mutating, *validating) {}), "webhooks/glassback/complete", OK, "10 webhooks"},
		"one is missing": {register(func(_ *mutating, v *validating) {
			v.Webhooks = v.Webhooks[1:]
		}), "webhooks/glassback/complete", Warning, "it has not got protect.apiexampleas"},
		"one calls another service": {register(func(m *mutating, _ *validating) {
			m.Webhooks[0].ClientConfig.Service.Namespace = "other"
		}), "webhooks/glassback/complete", Failed, "calls other/glassback-webhook, and not the Service glassback-system/glassback-webhook"},
		"the caBundle is empty": {register(func(*mutating, *validating) {}), "webhooks/glassback/trust", Failed, "has no caBundle"},
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
		"they refuse":             {errors.New(`admission webhook ` + mine + ` denied the request: RedisCluster "x" is invalid`), OK, ""},
		"no webhook was called":   {nil, Failed, "apply artifacts/webhook; see that it is for the namespace default"},
		"they are not trusted":    {errors.New(calling + "tls: failed to verify certificate: x509: unknown authority"), Failed, "caBundle"},
		"they do not answer":      {errors.New(calling + "context deadline exceeded"), Failed, "NetworkPolicies"},
		"another webhook refuses": {errors.New(`admission webhook "kyverno" denied the request: no`), Warning, "see what"},
		"no such namespace":       {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), Skipped, ""},
		"this account may not try": {
			apierrors.NewForbidden(resource, "", errors.New(`User "me" cannot create resource "redisclusters"`)), Skipped, "",
		},
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
	if got := c.checkInstances(t.Context()); got.State != Failed || !strings.HasPrefix(got.Reason, "a/4: ") ||
		!strings.HasSuffix(got.Remedy, "a to the operator's --ecs-own-credentials-namespaces") {
		t.Errorf("without the flag: %+v", got)
	}
	c.options.ECSOwnCredentials.Namespaces = []string{"a"}
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
