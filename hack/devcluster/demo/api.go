// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// apiTimeout limits each wait for the API server.
const apiTimeout = 30 * time.Second

// api is the administrator's access to the API server. It makes changes with kubectl.
type api struct {
	cluster *cluster.Cluster
	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func newAPI(c *cluster.Cluster) (*api, error) {
	config := c.RESTConfig()
	config.QPS = -1
	kube, err1 := kubernetes.NewForConfig(config)
	dyn, err2 := dynamic.NewForConfig(config)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("set up clients: %w", err)
	}
	return &api{cluster: c, config: config, kube: kube, dynamic: dyn}, nil
}

// kubectl runs kubectl and returns its output. The cache of kubectl is in the cluster's directory.
func (a *api) kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cache := "--cache-dir=" + filepath.Join(a.cluster.Dir(), "tmp", "kubectl")
	out, err := a.cluster.Command(ctx, "kubectl", append([]string{cache}, args...)...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// install applies the CustomResourceDefinitions and the operator's permissions.
func (a *api) install(ctx context.Context) error {
	crds := filepath.Join(artifacts, "crd")
	// The files are named one by one: kubectl apply -f does not accept kustomization.yaml, which is in the same directory.
	rbac := []string{"apply", "--server-side"}
	for _, name := range []string{
		"namespace.yaml", "service_account.yaml", "role.yaml", "role_binding.yaml", "webhook_url_role.yaml", "webhook_url_role_binding.yaml",
	} {
		rbac = append(rbac, "-f", filepath.Join(artifacts, "rbac", name))
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", crds}, {"wait", "--for=condition=Established", "--timeout=" + apiTimeout.String(), "-f", crds}, rbac,
	} {
		if _, err := a.kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// applyExamples applies all examples, and returns the objects with the fields that the API server set. It retries after an error:
// discovery may list a resource some time after its definition is Established.
func (a *api) applyExamples(ctx context.Context) ([]unstructured.Unstructured, error) {
	var out []byte
	var lastErr error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, apiTimeout, true, func(ctx context.Context) (bool, error) {
		out, lastErr = a.kubectl(ctx, "apply", "--server-side", "-o", "json", "-f", filepath.Join(artifacts, "examples"))
		return lastErr == nil, nil
	})
	if err != nil {
		return nil, cmp.Or(lastErr, err)
	}
	var list unstructured.UnstructuredList
	err = list.UnmarshalJSON(out)
	return list.Items, err
}

func (a *api) get(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return a.dynamic.Resource(resource).Namespace(object.GetNamespace()).Get(ctx, object.GetName(), metav1.GetOptions{})
}

// writeKubeconfig writes a kubeconfig with a token of a ServiceAccount. The token expires after lifetime.
func (a *api) writeKubeconfig(ctx context.Context, namespace, name string, lifetime time.Duration, file string) error {
	seconds := int64(lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := a.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["devcluster"] = &clientcmdapi.Cluster{
		Server:                   a.config.Host,
		CertificateAuthority:     a.config.CAFile,
		CertificateAuthorityData: a.config.CAData,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the kubeconfig of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return nil
}
