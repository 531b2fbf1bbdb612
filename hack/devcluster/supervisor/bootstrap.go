package supervisor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/glassback/glassback/hack/devcluster/state"
)

// kwokUser is kwok's identity, and the name of its ClusterRole and ClusterRoleBinding.
const kwokUser = "devcluster:kwok"

// nodePrefix and an ordinal from 1 make the name of a simulated node.
const nodePrefix = "devcluster-"

// usablePoll is how often the API is asked whether the cluster is usable.
const usablePoll = 20 * time.Millisecond

// bootstrap puts into a new cluster what its components and its users rely on.
type bootstrap struct {
	client kubernetes.Interface
	spec   state.Spec
}

func newBootstrap(dir state.Dir, spec state.Spec) (*bootstrap, error) {
	config, err := clientcmd.BuildConfigFromFlags("", dir.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &bootstrap{client: client, spec: spec}, nil
}

// create creates kwok's permissions and the nodes. What is there already stays as it is.
func (b *bootstrap) create(ctx context.Context) error {
	if !b.spec.Has(state.Kwok) {
		return nil
	}
	create := metav1.CreateOptions{}
	_, err := b.client.RbacV1().ClusterRoles().Create(ctx, kwokRole(), create)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterRole %s: %w", kwokUser, err)
	}
	_, err = b.client.RbacV1().ClusterRoleBindings().Create(ctx, kwokBinding(), create)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterRoleBinding %s: %w", kwokUser, err)
	}
	for i := range b.spec.Nodes {
		node := simulatedNode(nodePrefix + strconv.Itoa(i+1))
		_, err = b.client.CoreV1().Nodes().Create(ctx, node, create)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create Node %s: %w", node.Name, err)
		}
	}
	return nil
}

// forgetLeases deletes the nodes' leases. Each life of kwok has an identity of its own, and leaves a node alone for the forty seconds that
// the lease of an earlier one lasts; a real kubelet finds its own lease.
func (b *bootstrap) forgetLeases(ctx context.Context) error {
	leases := b.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete node leases: %w", err)
	}
	return nil
}

// waitUsable waits until Pods can be created in namespace default and, if there are nodes, scheduled: before its ServiceAccount exists,
// admission refuses them.
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

// missing says what the cluster still lacks; nothing when it is usable.
func (b *bootstrap) missing(ctx context.Context) string {
	if _, err := b.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{}); err != nil {
		return "namespace default: " + err.Error()
	}
	managed := b.spec.Has(state.ControllerManager)
	if managed {
		_, err := b.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return "ServiceAccount default: " + err.Error()
		}
	}
	if !b.spec.Has(state.Kwok) {
		return ""
	}
	nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "nodes: " + err.Error()
	}
	if len(nodes.Items) < b.spec.Nodes {
		return fmt.Sprintf("%d of %d nodes", len(nodes.Items), b.spec.Nodes)
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

// simulatedNode returns a Node that takes whatever is put on it.
func simulatedNode(name string) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("10Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
		corev1.ResourcePods:             resource.MustParse("100000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
				"type":                 "kwok",
			},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}

func kwokRole() *rbacv1.ClusterRole {
	rule := func(group, verbs string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbSets[verbs]}
	}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: kwokUser},
		Rules: []rbacv1.PolicyRule{
			rule("", "read", "nodes"),
			rule("", "status", "nodes/status", "pods/status"),
			rule("", "own", "pods", "events"),
			rule("coordination.k8s.io", "own", "leases"),
		},
	}
}

var verbSets = map[string][]string{
	"read":   {"get", "list", "watch"},
	"status": {"patch", "update"},
	"own":    {"create", "delete", "get", "list", "patch", "update", "watch"},
}

func kwokBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: kwokUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: kwokUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kwokUser}},
	}
}
