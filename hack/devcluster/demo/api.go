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
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// apiTimeout limits each wait for the API server.
const apiTimeout = 30 * time.Second

// api is the administrator's access to the API server. It makes changes with kubectl.
type api struct {
	cluster *cluster.Cluster
	kube    kubernetes.Interface
}

func newAPI(c *cluster.Cluster) (*api, error) {
	config := c.RESTConfig()
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	return &api{cluster: c, kube: kube}, nil
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

// apply applies files, and returns what kubectl calls the objects, such as "mycronjob.batch.wzj.kubebuilder.io/a". It retries after an
// error: discovery may list a resource some time after its definition is Established.
func (a *api) apply(ctx context.Context, files ...string) ([]string, error) {
	args := []string{"apply", "--server-side", "--output=name"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	var out []byte
	var lastErr error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, apiTimeout, true, func(ctx context.Context) (bool, error) {
		out, lastErr = a.kubectl(ctx, args...)
		return lastErr == nil, nil
	})
	if err != nil {
		return nil, cmp.Or(lastErr, err)
	}
	return strings.Fields(string(out)), nil
}

// pods returns the Pods of the examples.
func (a *api) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := a.kube.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list Pods: %w", err)
	}
	return list.Items, nil
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// troubles returns what kubectl prints about the Pods that have not succeeded, and the last warnings.
func (a *api) troubles(ctx context.Context) string {
	pods, podsErr := a.kubectl(ctx, "get", "pods", "--field-selector=status.phase!=Succeeded")
	events, eventsErr := a.kubectl(ctx, "events", "--types=Warning")
	warnings := strings.Split(strings.TrimSpace(string(events)), "\n")
	text := string(pods) + strings.Join(warnings[max(0, len(warnings)-10):], "\n")
	if err := errors.Join(podsErr, eventsErr); err != nil {
		text += err.Error()
	}
	return text
}

// writeKubeconfig writes a kubeconfig with a token of a ServiceAccount. The token expires after lifetime.
func (a *api) writeKubeconfig(ctx context.Context, namespace, name string, lifetime time.Duration, file string) error {
	seconds := int64(lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := a.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return a.cluster.WriteKubeconfig(file, token.Status.Token)
}
