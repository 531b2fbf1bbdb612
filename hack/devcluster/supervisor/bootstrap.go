// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/hack/devcluster/provisioner"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// Identities that Kubernetes' bootstrap policy does not know: the names of users and of their ClusterRoles and ClusterRoleBindings.
const (
	kwokUser    = "devcluster:kwok"
	corednsUser = "devcluster:coredns"
	// kubeletClient is the user as which the API server sends requests to a kubelet.
	kubeletClient = "devcluster:kube-apiserver"
)

// usablePoll is the interval of requests while the supervisor waits for the cluster to be usable.
const usablePoll = 20 * time.Millisecond

// bootstrap creates the objects in a new cluster that its components and users need.
type bootstrap struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	config  configuration
}

func newBootstrap(c configuration) (*bootstrap, error) {
	config, err := clientcmd.BuildConfigFromFlags("", state.Dir(c.Spec.Dir).Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	config.QPS = -1
	client, clientErr := kubernetes.NewForConfig(config)
	objects, dynamicErr := dynamic.NewForConfig(config)
	if err := errors.Join(clientErr, dynamicErr); err != nil {
		return nil, fmt.Errorf("make clients: %w", err)
	}
	return &bootstrap{client: client, dynamic: objects, config: c}, nil
}

// create creates the objects of a manifest that the components of the nodes need, such as their permissions. It does not change existing
// objects.
func (b *bootstrap) create(ctx context.Context) error {
	manifest := ""
	var err error
	switch b.config.Spec.Node {
	case state.NodeSimulated:
		manifest, err = b.config.render("config/manifests/simulated.yaml")
	case state.NodeReal:
		manifest, err = b.config.render("config/manifests/real.yaml")
		manifest += "---\n" + provisioner.Manifest
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096); err == nil; {
		object := &unstructured.Unstructured{}
		if err = decoder.Decode(&object.Object); err == nil {
			err = b.ensure(ctx, object)
		}
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("create objects of the node: %w", err)
	}
	return nil
}

// ensure creates an object unless it exists. It retries while the namespace is missing: kube-system appears a moment after the API server
// is ready.
func (b *bootstrap) ensure(ctx context.Context, object *unstructured.Unstructured) error {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	for {
		_, err := b.dynamic.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("create %s: %w (%w)", object.GetName(), context.Cause(ctx), err)
		case <-time.After(usablePoll):
		}
	}
}

// waitUsable waits until Pods can be created in namespace default and, if there are nodes, scheduled. Admission rejects Pods until the
// ServiceAccount of the namespace exists.
func (b *bootstrap) waitUsable(ctx context.Context) error {
	for {
		missing := b.missing(ctx)
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cluster to be usable: %w (%s)", context.Cause(ctx), missing)
		case <-time.After(usablePoll):
		}
	}
}

// missing returns what the cluster still lacks, or "" if it is usable.
func (b *bootstrap) missing(ctx context.Context) string {
	if _, err := b.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{}); err != nil {
		return "namespace default: " + err.Error()
	}
	managed := b.config.Spec.Has(state.ControllerManager)
	if managed {
		_, err := b.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return "ServiceAccount default: " + err.Error()
		}
	}
	if b.config.Spec.Nodes == 0 {
		return ""
	}
	nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "nodes: " + err.Error()
	}
	if len(nodes.Items) < b.config.Spec.Nodes {
		return fmt.Sprintf("%d of %d nodes", len(nodes.Items), b.config.Spec.Nodes)
	}
	for _, node := range nodes.Items {
		if !nodeReady(&node) {
			return "node " + node.Name + " is not Ready"
		}
		if managed && len(node.Spec.Taints) > 0 {
			return "node " + node.Name + " is tainted " + node.Spec.Taints[0].ToString()
		}
	}
	return ""
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
