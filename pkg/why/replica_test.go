// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
)

const namespace = "glassback-system"

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "glassback"},
			Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("inspect")}},
		},
	}
}

func newPod(name string, isReady bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": "glassback"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "metrics", ContainerPort: 8443}, {Name: "inspect", ContainerPort: 8444},
		}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func lease(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "glassback"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)},
	}
}

func TestFindReplica(t *testing.T) {
	numbered := service()
	numbered.Spec.Ports[0].TargetPort = intstr.FromInt32(9000)
	unknownPort := service()
	unknownPort.Spec.Ports[0].TargetPort = intstr.FromString("page")
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    replica
		err     string
	}{
		"the leader": {
			[]runtime.Object{service(), newPod("a", true), newPod("b", true), lease("b_uid-of-b")},
			replica{namespace, "b", 8444, "b_uid-of-b", true}, "",
		},
		"the leader, even if it is not ready": {
			[]runtime.Object{service(), newPod("a", true), newPod("b", false), lease("b_uid-of-b")},
			replica{namespace, "b", 8444, "b_uid-of-b", true}, "",
		},
		"a ready Pod, if the holder of the Lease is gone and a new Pod has its name": {
			[]runtime.Object{service(), newPod("a", false), newPod("b", true), lease("b_uid-of-another")},
			replica{namespace, "b", 8444, "b_uid-of-another", false}, "",
		},
		"a ready Pod, if there is no leader": {
			[]runtime.Object{service(), newPod("a", false), newPod("b", true)}, replica{namespace, "b", 8444, "", false}, "",
		},
		"the Service has the port as a number": {
			[]runtime.Object{numbered, newPod("a", true)}, replica{namespace, "a", 9000, "", false}, "",
		},
		"no Service": {
			[]runtime.Object{newPod("a", true)}, replica{},
			"there is no Service glassback-inspect in namespace glassback-system; install artifacts/default-inspect",
		},
		"no ready Pod": {
			[]runtime.Object{service(), newPod("a", false)}, replica{}, "no Pod behind Service glassback-inspect is ready",
		},
		"a Pod without the port": {
			[]runtime.Object{unknownPort, newPod("a", true)}, replica{}, `pod a has no port called "page"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findReplica(t.Context(), fake.NewClientset(test.objects...), namespace, "glassback")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || *got != test.want {
				t.Errorf("%+v, error %v, want %+v", got, err, test.want)
			}
		})
	}
}

// findReplica returns errNotInstalled if there is no Service, but not if only the Pods are missing.
func TestErrNotInstalled(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{"no Service": nil, "no Pods": {service()}} {
		_, err := findReplica(t.Context(), fake.NewClientset(objects...), namespace, "glassback")
		if got, want := errors.Is(err, errNotInstalled), len(objects) == 0; got != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The manifests contain the Service that findReplica gets. Their Role grants all requests of findReplica and tokenFor.
func TestManifests(t *testing.T) {
	read := func(name string, into any) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "inspect", name))
		must.Succeed(t, err)
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			t.Fatalf("parse %s: %v", name, err)
		}
	}
	manifest, account := &corev1.Service{}, &corev1.ServiceAccount{}
	role, clusterRole, binding := &rbacv1.Role{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	read("service.yaml", manifest)
	read("service_account.yaml", account)
	read("role.yaml", role)
	read("cluster_role.yaml", clusterRole)
	read("cluster_role_binding.yaml", binding)
	pod := newPod("manager", true)
	pod.Labels = manifest.Spec.Selector
	kube := fake.NewClientset(manifest, pod, lease("manager_uid-of-manager"))
	kube.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.TokenRequest{}, nil
	})
	found, err := findReplica(t.Context(), kube, namespace, "glassback")
	if err != nil || !found.leads || found.port != manifest.Spec.Ports[0].Port {
		t.Errorf("%+v, error %v", found, err)
	}
	if _, err := tokenFor(t.Context(), &rest.Config{}, kube, namespace, false); err != nil {
		t.Error(err)
	}
	for _, action := range kube.Actions() {
		name := ""
		switch action := action.(type) {
		case clienttesting.GetAction:
			name = action.GetName()
		case clienttesting.CreateActionImpl:
			name = action.Name
		}
		if !allows(role.Rules, action.GetVerb(), action.GetResource().Resource, action.GetSubresource(), name) {
			t.Errorf("the Role does not grant %s %s/%s %s", action.GetVerb(), action.GetResource().Resource, action.GetSubresource(), name)
		}
	}
	if rules := clusterRole.Rules; len(rules) != 1 || !slices.Equal(rules[0].NonResourceURLs, []string{"/inspect/*"}) ||
		!slices.Equal(rules[0].Verbs, []string{"get"}) {
		t.Errorf("the ClusterRole grants %v, want only get of /inspect/*", rules)
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: accountName, Namespace: namespace}
	if account.Name != subject.Name || account.Namespace != subject.Namespace || binding.RoleRef.Name != clusterRole.Name ||
		len(binding.Subjects) != 1 || binding.Subjects[0] != subject || role.Name != accountName {
		t.Errorf("the ClusterRoleBinding binds %v to %v, want ServiceAccount %s", binding.Subjects, binding.RoleRef, accountName)
	}
}

// allows reports whether a rule allows a verb on a resource with this name.
func allows(rules []rbacv1.PolicyRule, verb, resource, subresource, name string) bool {
	if subresource != "" {
		resource += "/" + subresource
	}
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, verb) && slices.Contains(r.Resources, resource) &&
			(r.ResourceNames == nil || name == "" || slices.Contains(r.ResourceNames, name))
	})
}

// tokenFor creates a token of ServiceAccount glassback-inspector. If that is forbidden, and the user has set --send-own-token, it returns
// the token of the kubeconfig, which is the user's own.
func TestTokenFor(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, accountName, errors.New("no"))
	noAccount := apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, accountName)
	const (
		needsRight = "you need the right to create serviceaccounts/token of glassback-inspector (an administrator can bind you to Role " +
			"glassback-inspector in namespace glassback-system)"
		needsRightOrFlag = needsRight + "; or send the Pod the token of your kubeconfig, with --send-own-token"
	)
	for name, test := range map[string]struct {
		config  rest.Config
		sendOwn bool
		err     error
		want    string
		fails   string
	}{
		"a created token": {rest.Config{BearerToken: "own"}, false, nil, "created", ""},
		"a created token, also with --send-own-token":             {rest.Config{BearerToken: "own"}, true, nil, "created", ""},
		"creation is forbidden: no token":                         {rest.Config{BearerToken: "own"}, false, forbidden, "", needsRightOrFlag},
		"creation is forbidden, and the kubeconfig has no token":  {rest.Config{}, false, forbidden, "", needsRightOrFlag},
		"creation is forbidden, --send-own-token: the user's own": {rest.Config{BearerToken: "own"}, true, forbidden, "own", ""},
		"a password of the kubeconfig is not sent": {
			rest.Config{Username: "a", Password: "b"}, true, forbidden, "", "the kubeconfig has no token; " + needsRight,
		},
		"--send-own-token, but the kubeconfig has no token": {rest.Config{}, true, forbidden, "", "the kubeconfig has no token; " + needsRight},
		"there is no ServiceAccount": {
			rest.Config{BearerToken: "own"}, false, noAccount, "", "create a token for ServiceAccount glassback-inspector",
		},
		"there is no ServiceAccount, even with --send-own-token": {
			rest.Config{BearerToken: "own"}, true, noAccount, "", "create a token for ServiceAccount glassback-inspector",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			kube.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "created"}}, test.err
			})
			read := false
			test.config.Host = "https://127.0.0.1:6443"
			test.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				read = true
				return next
			})
			got, err := tokenFor(t.Context(), &test.config, kube, namespace, test.sendOwn)
			if got != test.want || (test.fails == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("token %q, error %v", got, err)
			}
			if read && !test.sendOwn {
				t.Error("the credentials of the kubeconfig were read")
			}
		})
	}
}

// ownToken also returns a token that a credential plugin adds to requests.
func TestOwnTokenOfACredentialPlugin(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:6443"}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r.Header.Set("Authorization", "Bearer from-a-plugin")
			return next.RoundTrip(r)
		})
	})
	if got, err := ownToken(config); got != "from-a-plugin" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
