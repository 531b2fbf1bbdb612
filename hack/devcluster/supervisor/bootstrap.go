package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/hack/devcluster/provisioner"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// Identities that Kubernetes' bootstrap policy does not know: the names of users and of their ClusterRoles and ClusterRoleBindings.
const (
	kwokUser    = "devcluster:kwok"
	corednsUser = "devcluster:coredns"
	// kubeletClient is the API server when it asks a kubelet.
	kubeletClient = "devcluster:kube-apiserver"
)

// nodePrefix and an ordinal from 1 make the name of a node.
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

// create creates what the components of the nodes need: their permissions, and what they act on. What is there already stays as it is.
func (b *bootstrap) create(ctx context.Context) error {
	switch b.spec.Node {
	case state.NodeSimulated:
		return b.createSimulated(ctx)
	case state.NodeReal:
		return b.createReal(ctx)
	}
	return nil
}

func (b *bootstrap) createSimulated(ctx context.Context) error {
	rbac := b.client.RbacV1()
	err := errors.Join(
		ensure(ctx, rbac.ClusterRoles().Create, kwokRole()),
		ensure(ctx, rbac.ClusterRoleBindings().Create, binding(kwokUser, kwokUser)),
	)
	for i := range b.spec.Nodes {
		err = errors.Join(err, ensure(ctx, b.client.CoreV1().Nodes().Create, simulatedNode(nodePrefix+strconv.Itoa(i+1))))
	}
	return err
}

func (b *bootstrap) createReal(ctx context.Context) error {
	rbac, system := b.client.RbacV1(), metav1.NamespaceSystem
	return errors.Join(
		ensure(ctx, rbac.ClusterRoleBindings().Create, binding("system:kubelet-api-admin", kubeletClient)),
		ensure(ctx, rbac.ClusterRoles().Create, corednsRole()),
		ensure(ctx, rbac.ClusterRoleBindings().Create, binding(corednsUser, corednsUser)),
		ensure(ctx, b.client.CoreV1().Services(system).Create, dnsService()),
		ensure(ctx, b.client.DiscoveryV1().EndpointSlices(system).Create, dnsEndpoints()),
		ensure(ctx, rbac.ClusterRoles().Create, provisioner.Role()),
		ensure(ctx, rbac.ClusterRoleBindings().Create, provisioner.Binding()),
		ensure(ctx, b.client.StorageV1().StorageClasses().Create, provisioner.StorageClass()),
	)
}

// ensure creates an object unless it is there. The namespace of the system comes a moment after the API server is ready: it is waited for.
func ensure[T metav1.Object](ctx context.Context, create func(context.Context, T, metav1.CreateOptions) (T, error), object T) error {
	for {
		_, err := create(ctx, object, metav1.CreateOptions{})
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
	if b.spec.Nodes == 0 {
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
		},
	}
}

var verbSets = map[string][]string{
	"read":   {"get", "list", "watch"},
	"status": {"patch", "update"},
	"own":    {"create", "delete", "get", "list", "patch", "update", "watch"},
}

func corednsRole() *rbacv1.ClusterRole {
	rule := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}
	}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: corednsUser},
		Rules:      []rbacv1.PolicyRule{rule("", "namespaces", "pods", "services"), rule(discoveryv1.GroupName, "endpointslices")},
	}
}

// binding returns what gives a ClusterRole to a user.
func binding(role, user string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
}

// dnsName is the name that the Service of a cluster's DNS has everywhere, whatever serves it.
const dnsName = "kube-dns"

func dnsService() *corev1.Service {
	port := func(name string, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: dnsPort, Protocol: protocol}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: dnsName, Labels: map[string]string{"k8s-app": dnsName}},
		Spec: corev1.ServiceSpec{
			ClusterIP: dnsIP,
			Ports:     []corev1.ServicePort{port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP)},
		},
	}
}

// dnsEndpoints leads the Service to CoreDNS, which is no Pod.
func dnsEndpoints() *discoveryv1.EndpointSlice {
	port := func(name string, protocol corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: ptr.To(int32(dnsPort)), Protocol: &protocol}
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: dnsName, Labels: map[string]string{discoveryv1.LabelServiceName: dnsName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{realNodeIP}}},
		Ports:       []discoveryv1.EndpointPort{port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP)},
	}
}
