// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gorilla "github.com/gorilla/websocket"
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
		"the Service has the port as a number": {[]runtime.Object{numbered, newPod("a", true)}, replica{namespace, "a", 9000, "", false}, ""},
		"no Service": {
			[]runtime.Object{newPod("a", true)}, replica{},
			"there is no Service glassback-inspect in namespace glassback-system; install artifacts/default-inspect",
		},
		"no ready Pod": {[]runtime.Object{service(), newPod("a", false)}, replica{}, "no Pod behind Service glassback-inspect is ready"},
		"no such port": {[]runtime.Object{unknownPort, newPod("a", true)}, replica{}, `pod a has no port called "page"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findReplica(t.Context(), fake.NewClientset(test.objects...), namespace, "glassback")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || errors.Is(err, errNotInstalled) != (name == "no Service") {
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
		"a created token":                                         {rest.Config{BearerToken: "own"}, false, nil, "created", ""},
		"creation is forbidden: no token":                         {rest.Config{BearerToken: "own"}, false, forbidden, "", needsRightOrFlag},
		"creation is forbidden, --send-own-token: the user's own": {rest.Config{BearerToken: "own"}, true, forbidden, "own", ""},
		"a password of the kubeconfig is not sent": {
			rest.Config{Username: "a", Password: "b"}, true, forbidden, "", "the kubeconfig has no token; " + needsRight,
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

// kubelet forwards a port as an API server and a kubelet do.
type kubelet struct {
	target  string              // an address; empty: nothing listens there
	status  int                 // what it answers instead, if it is not 0
	instead func(*gorilla.Conn) // what it does instead of forwarding
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.status != 0 {
		w.WriteHeader(k.status)
		fmt.Fprint(w, `{"kind": "Status", "message": "pods \"manager\" is forbidden"}`)
		return
	}
	if r.URL.Query().Get("ports") != "8444" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	upgrader := gorilla.Upgrader{Subprotocols: []string{channelProtocol}, WriteBufferSize: 1000} // A longer message has several frames.
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	if k.instead != nil {
		k.instead(conn)
		return
	}
	port := string(binary.LittleEndian.AppendUint16(nil, 8444))
	send(conn, dataChannel, port)
	send(conn, errorChannel, port)
	if k.target == "" {
		send(conn, errorChannel, "connection refused")
		return
	}
	target, err := net.Dial("tcp", k.target)
	if err != nil {
		panic(err)
	}
	defer target.Close()
	go func() {
		defer target.Close()
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				return
			}
			_, _ = target.Write(message[1:])
		}
	}()
	buffer := make([]byte, 400_000)
	for {
		n, err := target.Read(buffer)
		if err != nil {
			return
		}
		send(conn, dataChannel, "")
		send(conn, dataChannel, string(buffer[:n]))
	}
}

func send(conn *gorilla.Conn, channel byte, data string) {
	_ = conn.WriteMessage(gorilla.BinaryMessage, append([]byte{channel}, data...))
}

// forwarded returns a client of what is behind k.
func forwarded(t *testing.T, k *kubelet) *http.Client {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	forward, err := url.Parse(server.URL + "/api/v1/namespaces/glassback-system/pods/manager/portforward?ports=8444")
	must.Succeed(t, err)
	transport := tunnelTransport(&rest.Config{Host: server.URL}, forward)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestATunnelCarriesWhatIsSentBothWays(t *testing.T) {
	echo := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer echo.Close()
	client := forwarded(t, &kubelet{target: echo.Listener.Addr().String()})
	for _, size := range []int{5, 3 << 20} { // on the same connection
		sent := strings.Repeat("0123456789", size/10+1)[:size]
		response, err := client.Post("https://manager/", "text/plain", strings.NewReader(sent))
		must.Succeed(t, err)
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(got) != sent {
			t.Fatalf("%d bytes have come back of %d, error %v", len(got), len(sent), err)
		}
	}
}

func TestATunnelThatCannotBeOpenedSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		kubelet kubelet
		want    string
	}{
		"nothing listens in the Pod": {kubelet{}, "connection refused"},
		"the API server does not let one": {
			kubelet{status: http.StatusForbidden}, `forward its port: unable to upgrade streaming request: pods "manager" is forbidden`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := forwarded(t, &test.kubelet).Get("https://manager/")
			if err == nil {
				response.Body.Close()
			}
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("error %v, want one that ends with %q", err, test.want)
			}
		})
	}
}

// TestTheEndOfATunnel: what a server may not send is an error, and not data; only an end that the server announces is the end of the data.
func TestTheEndOfATunnel(t *testing.T) {
	for name, test := range map[string]struct {
		does func(*gorilla.Conn)
		want string
	}{
		"another channel":       {func(c *gorilla.Conn) { send(c, 5, "x") }, "there is no channel 5"},
		"messages of nothing":   {func(c *gorilla.Conn) { _ = c.WriteMessage(gorilla.BinaryMessage, nil); send(c, 0, "") }, "unexpected EOF"},
		"an end without notice": {func(*gorilla.Conn) {}, "unexpected EOF"},
		"an announced end": {func(c *gorilla.Conn) {
			_ = c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(gorilla.CloseNormalClosure, ""))
		}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := forwarded(t, &kubelet{instead: test.does}).Transport.(*http.Transport).DialContext(t.Context(), "", "")
			must.Succeed(t, err)
			defer conn.Close()
			read, err := conn.Read(make([]byte, 100))
			if err == nil || read > 0 || !strings.HasSuffix(err.Error(), test.want) || errors.Is(err, io.EOF) != (test.want == "EOF") {
				t.Errorf("%d bytes, error %v, want one that ends with %q", read, err, test.want)
			}
		})
	}
}

func TestClosingATunnelEndsWhoReads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	// The server must not answer before the test ends: an answer that overtakes the end of the connection is no error.
	silent := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-t.Context().Done()
	}))
	t.Cleanup(silent.Close)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://manager/", nil)
	must.Succeed(t, err)
	response, err := forwarded(t, &kubelet{target: silent.Listener.Addr().String()}).Do(request)
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
