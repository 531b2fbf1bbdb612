// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	v1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/must"
)

// TestRefusals starts the operator with invalid settings. The operator prints one line that says what to do, and exits.
func TestRefusals(t *testing.T) {
	light.parallel(t)
	missing := filepath.Join(t.TempDir(), "none")
	broken := filepath.Join(t.TempDir(), "broken")
	must.Succeed(t, os.WriteFile(broken, []byte("not a kubeconfig"), 0o600))
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no flag names a cluster":       {nil, 1, "--kubeconfig FILE"},
		"the kubeconfig does not exist": {[]string{"--kubeconfig", missing}, 1, "give --kubeconfig a file that is there"},
		"the kubeconfig is broken":      {[]string{"--kubeconfig", broken}, 1, "cannot use the kubeconfig " + broken},
		"the server does not answer": {
			[]string{"--master", "http://" + freeAddress(t)}, 1, "cannot reach the API server at http://127.0.0.1:",
		},
		"an unknown flag":       {[]string{"--replicas=3"}, 2, "unknown flag: --replicas"},
		"an argument":           {[]string{"run"}, 2, `unexpected argument "run"`},
		"an unknown controller": {[]string{"--controllers=cron"}, 2, `there is no "cron"; there are `},
		"no controller": {
			[]string{"--controllers=*,-apiexamplea,-application,-ecsinstance,-mycronjob,-rediscluster"}, 2, "leaves no controller to run",
		},
		"no workers":             {[]string{"--workers=0"}, 2, "--workers must be from 1 to 1000"},
		"a namespace with a dot": {[]string{"--namespace=a.b"}, 2, `--namespace "a.b" is not the name of a namespace`},
		"an ECS with a path": {
			[]string{"--ecs-endpoint=http://127.0.0.1/ecs"}, 2,
			`--ecs-endpoint must be http://HOST:PORT or https://HOST:PORT, not "http://127.0.0.1/ecs"`,
		},
		"an unknown log format": {[]string{"--logging-format=xml"}, 2, "--logging-format must be text or json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectRefusal(t, launch(t, test.args...), test.code, test.want)
		})
	}
}

func expectRefusal(t *testing.T, o *operator, code int, want string) {
	t.Helper()
	if got := o.wait(60 * time.Second); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	lines := strings.Split(strings.TrimSpace(o.log.String()), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "glassback: ") || !strings.Contains(last, want) {
		t.Errorf("the last line is %q, want glassback: … %s", last, want)
	}
	for _, line := range lines[:len(lines)-1] {
		if strings.HasPrefix(line, "glassback: ") {
			t.Errorf("the operator printed another line: %q", line)
		}
	}
	cause := last[strings.LastIndex(last, ": ")+1:]
	if n := strings.Count(o.log.String(), cause); n != 1 {
		t.Errorf("the output has %q %d times:\n%s", cause, n, o.log.String())
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestStart tests the checks at the start one by one. The first cluster is empty.
func TestStart(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	crds := apiextensions.NewForConfigOrDie(w.config).ApiextensionsV1().CustomResourceDefinitions()
	const name = "mycronjobs.batch.wzj.kubebuilder.io"

	expectRefusal(t, launch(t, "--kubeconfig", w.Kubeconfig()), 1,
		"the cluster has no CRD apiexampleas.groupa.k8s.zhuang.com: start once with --install-crds")

	o := launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds", "--logging-format=json")
	o.waitFor("Started controller")
	if code := o.stop(); code != 0 || !strings.Contains(o.log.String(), `"msg":"Started controller"`) {
		t.Errorf("SIGTERM: exit code %d, want 0; and a log in JSON:\n%s", code, tail(o.log.String(), 5))
	}

	older := []byte(`{"metadata":{"annotations":{"glassback.dev/crd-revision":"0"}}}`)
	if _, err := crds.Patch(t.Context(), name, types.MergePatchType, older, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, launch(t, "--kubeconfig", w.Kubeconfig()), 1, "is older than this operator")
	newer := []byte(`{"metadata":{"annotations":{"glassback.dev/crd-revision":"99"}}}`)
	if _, err := crds.Patch(t.Context(), name, types.MergePatchType, newer, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds").waitFor("Started controller")
	if crd, err := crds.Get(t.Context(), name, metav1.GetOptions{}); err != nil || crd.Annotations["glassback.dev/crd-revision"] != "99" {
		t.Errorf("the operator replaced a newer CRD: revision %s, error %v", crd.Annotations["glassback.dev/crd-revision"], err)
	}

	shipped := w.account(t, "manager")
	expectRefusal(t, launch(t, "--kubeconfig", shipped), 1, "this account is not allowed to ")
	w.grantShippedRole(t)
	launch(t, "--kubeconfig", shipped).waitFor("Started controller")
	bad := w.forged(t)
	expectRefusal(t, launch(t, "--kubeconfig", bad), 1, "does not accept these credentials")
}

// TestStartWaitsForTheServer starts the operator while the API server is down.
func TestStartWaitsForTheServer(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	w.must(t, w.Kill(t.Context(), cluster.APIServer))
	o := launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds")
	o.waitFor("Waiting for the API server")
	w.must(t, w.Restart(t.Context(), cluster.APIServer))
	o.waitFor("Started controller")
	if code := o.stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d, want 0", code)
	}
}

// TestNamespaces runs the operator for two namespaces, with permissions in these only.
func TestNamespaces(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	launch(t, "--kubeconfig", w.Kubeconfig(), "--install-crds", "--controllers=mycronjob", "--namespace=default").waitFor("Started controller")
	config := w.account(t, "manager")
	var watched []string
	for range 2 {
		ns, err := w.kube.CoreV1().Namespaces().Create(t.Context(), namespaceObject(), metav1.CreateOptions{})
		must.Succeed(t, err)
		watched = append(watched, ns.Name)
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Rules: w.shippedRole(t).Rules}
		if _, err := w.kube.RbacV1().Roles(ns.Name).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "manager"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "manager"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "manager", Namespace: "default"}},
		}
		if _, err := w.kube.RbacV1().RoleBindings(ns.Name).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expectRefusal(t, launch(t, "--kubeconfig", config), 1, "in all namespaces (or restrict it with --namespace)")
	launch(t, "--kubeconfig", config, "--namespace", watched[0], "--namespace", watched[1]).waitFor("Started controller")
	for _, ns := range watched {
		w.create(t, ns, "sample", func(m *v1.MyCronJob) { m.Spec.IntervalSeconds = ptr.To[int32](1) })
	}
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		for _, ns := range watched {
			if jobs, err := w.jobsOf(ctx, ns, "sample"); err != nil || len(jobs) == 0 {
				return fmt.Errorf("no Jobs in namespace %s, error %v", ns, err)
			}
		}
		return nil
	})
}

// account creates a ServiceAccount, and returns a kubeconfig for it.
func (w *world) account(t testing.TB, name string) string {
	t.Helper()
	account, err := w.kube.CoreV1().ServiceAccounts("default").Create(t.Context(), serviceAccount(name), metav1.CreateOptions{})
	must.Succeed(t, err)
	token, err := w.kube.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must.Succeed(t, err)
	return w.kubeconfig(t, token.Status.Token)
}

// forged returns a kubeconfig with a token that the API server did not issue.
func (w *world) forged(t testing.TB) string { return w.kubeconfig(t, "forged") }

func (w *world) kubeconfig(t testing.TB, token string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: w.config.Host, CertificateAuthorityData: w.config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, clientcmd.WriteToFile(*config, file))
	return file
}

// shippedRole is the ClusterRole that is installed with the operator.
func (w *world) shippedRole(t testing.TB) *rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile("../../../artifacts/rbac/role.yaml")
	must.Succeed(t, err)
	role := &rbacv1.ClusterRole{}
	must.Succeed(t, yaml.UnmarshalStrict(data, role))
	return role
}

// grantShippedRole binds the shipped ClusterRole to the account manager.
func (w *world) grantShippedRole(t testing.TB) {
	t.Helper()
	role := w.shippedRole(t)
	if _, err := w.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "manager", Namespace: "default"}},
	}
	if _, err := w.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
