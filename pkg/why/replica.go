// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// The names of the objects in artifacts/inspect, in the operator's namespace.
const (
	serviceName = "glassback-inspect"
	accountName = "glassback-inspector"
)

// replica is a Pod of the operator.
type replica struct {
	namespace, name string
	port            int32  // of the page
	leader          string // the holder of the Lease; "" if there is none, or this account may not read it
	leads           bool   // whether this replica leads; others sync nothing
}

// errNotInstalled is the error of findReplica if the cluster has no operator that answers.
var errNotInstalled = errors.New("no operator with a page is installed")

// findReplica returns the replica that holds the Lease with that name. If none does, it returns any ready replica.
func findReplica(ctx context.Context, kube kubernetes.Interface, namespace, leaseName string) (*replica, error) {
	service, err := kube.CoreV1().Services(namespace).Get(ctx, serviceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: there is no Service %s in namespace %s; install artifacts/default-inspect, "+
			"or set inspect.enabled of the chart; start an operator outside of a cluster with --inspect-bind-address; "+
			"or name the operator with --operator-namespace or --address",
			errNotInstalled, serviceName, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("get Service %s%s: %w", serviceName, remedy(err, namespace), err)
	}
	if len(service.Spec.Ports) == 0 || len(service.Spec.Selector) == 0 {
		return nil, fmt.Errorf("the Service %s has no ports, or selects no Pods: apply artifacts/default-inspect again", serviceName)
	}
	selected := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()}
	pods, err := kube.CoreV1().Pods(namespace).List(ctx, selected)
	if err != nil {
		return nil, fmt.Errorf("list the Pods of Service %s%s: %w", serviceName, remedy(err, namespace), err)
	}
	leader := ""
	// Without the Lease, or the right to read it, any replica that is ready will do.
	if lease, err := kube.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{}); err == nil {
		leader = ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	return choose(pods.Items, service.Spec.Ports[0].TargetPort, leader)
}

// remedy returns advice for err if the user lacks a permission.
func remedy(err error, namespace string) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	return fmt.Sprintf(" (an administrator can bind you to Role %s in namespace %s)", accountName, namespace)
}

// choose returns the leader's Pod, or otherwise a ready Pod.
func choose(pods []corev1.Pod, target intstr.IntOrString, leader string) (*replica, error) {
	var chosen *corev1.Pod
	leads := false
	for n := range pods {
		pod := &pods[n]
		// The operator's identity has this form: see identity in pkg/app.
		if leads = leader == pod.Name+"_"+string(pod.UID); leads {
			chosen = pod
			break
		}
		if chosen == nil && ready(pod) {
			chosen = pod
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("no Pod behind Service %s is ready: see glassback check", serviceName)
	}
	port, err := portOf(chosen, target)
	if err != nil {
		return nil, err
	}
	return &replica{namespace: chosen.Namespace, name: chosen.Name, port: port, leader: leader, leads: leads}, nil
}

func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// portOf returns the number of a Pod's port.
func portOf(pod *corev1.Pod, target intstr.IntOrString) (int32, error) {
	if target.Type == intstr.Int {
		return target.IntVal, nil
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == target.StrVal {
				return port.ContainerPort, nil
			}
		}
	}
	return 0, fmt.Errorf("pod %s has no port called %q: it serves no page; apply artifacts/default-inspect again, "+
		"which sets --inspect-bind-address", pod.Name, target.StrVal)
}

// clientIn returns a client of a replica, through the API server. It sends the Pod a token of ServiceAccount glassback-inspector. If the
// API server does not allow the caller to create one, clientIn returns an error; with sendOwn it sends the token of config instead.
func clientIn(ctx context.Context, config *rest.Config, kube kubernetes.Interface, pod *replica, sendOwn bool) (*client, error) {
	token, err := tokenFor(ctx, config, kube, pod.namespace, sendOwn)
	if err != nil {
		return nil, err
	}
	forward := kube.CoreV1().RESTClient().Get().Namespace(pod.namespace).Resource("pods").Name(pod.name).SubResource("portforward").
		Param("ports", strconv.Itoa(int(pod.port))).URL()
	return &client{base: "https://" + pod.name, token: token, http: http.Client{Transport: tunnelTransport(config, forward)}}, nil
}

// tokenFor returns a token that the operator accepts: a token of the ServiceAccount that can only read the page. The caller's own token
// would give the Pod all permissions of the caller. So tokenFor returns it only with sendOwn, and only if the caller may not create a token
// of the ServiceAccount.
func tokenFor(ctx context.Context, config *rest.Config, kube kubernetes.Interface, namespace string, sendOwn bool) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	made, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, accountName, request, metav1.CreateOptions{})
	switch {
	case err == nil:
		return made.Status.Token, nil
	case !apierrors.IsForbidden(err):
		return "", fmt.Errorf("create a token for ServiceAccount %s: %w", accountName, err)
	case !sendOwn:
		return "", fmt.Errorf("you need the right to create serviceaccounts/token of %s%s; "+
			"or send the Pod the token of your kubeconfig, with --send-own-token: %w",
			accountName, remedy(err, namespace), err)
	}
	own, ownErr := ownToken(config)
	if ownErr != nil {
		return "", fmt.Errorf("read the token of the kubeconfig: %w", ownErr)
	}
	if own == "" {
		return "", fmt.Errorf("--send-own-token: the kubeconfig has no token; you need the right to create serviceaccounts/token of %s%s: %w",
			accountName, remedy(err, namespace), err)
	}
	return own, nil
}

// ownToken returns the token of requests with config, or "" if they have none.
func ownToken(config *rest.Config) (string, error) {
	seen := &witness{}
	wrapped, err := rest.HTTPWrappersForConfig(config, seen)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequest(http.MethodGet, config.Host, nil)
	if err != nil {
		return "", err
	}
	response, err := wrapped.RoundTrip(request)
	if err != nil && !errors.Is(err, errWitness) {
		return "", err
	}
	if response != nil {
		_ = response.Body.Close() // The response has no body.
	}
	scheme, token, _ := strings.Cut(seen.authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	return token, nil
}

// witness records the credentials of a request, and does not send it.
type witness struct{ authorization string }

var errWitness = errors.New("nothing is sent")

func (w *witness) RoundTrip(request *http.Request) (*http.Response, error) {
	w.authorization = request.Header.Get("Authorization")
	return nil, errWitness
}
