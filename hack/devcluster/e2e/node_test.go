// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/webhook"
	"github.com/glassback/glassback/pkg/webhook/certificate"
)

// patience limits one step of a test, while other tests run on the same machine.
const patience = 5 * time.Minute

// TestNodeRunsTheOperator runs two replicas of the operator in Pods with its own image. They have no kubeconfig, the shipped permissions,
// and webhooks behind the shipped Service. The Application of the seed serves its page, and a Job of the MyCronJob prints its text. A
// rollout fails no request, and no replica crashes.
func TestNodeRunsTheOperator(t *testing.T) {
	heavy.parallel(t)
	n := onNode(t)
	n.installShipped(t, 2, nil, "-v=2")
	n.trusted(t)
	n.called(t, n.ns)
	here := "--namespace=" + n.ns
	n.mustKubectl(t, "apply", here, "-f", examplesDir+"mycronjob.yaml", "-f", examplesDir+"application.yaml")
	n.prints(t, `[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d UTC 20\d\d\nHello from the Kubernetes cluster\n`)
	n.mustKubectl(t, "delete", here, "-f", examplesDir+"mycronjob.yaml")
	n.mustKubectl(t, "wait", here, "--for=condition=Ready", "app/application-sample", "--timeout="+patience.String())
	// A Service leads to a Pod only some time after the Pod is ready. The script does not use wget -T, which crashes in Debian's busybox.
	n.createPod(t, "client", shell("busybox", "until wget -q -O- http://application-sample:8080; do sleep 1; done"))
	n.prints(t, "Welcome to nginx!")

	answers := n.ask(t, n.ns, 2)
	n.mustKubectl(t, "rollout", "restart", here, "deployment/glassback")
	n.mustKubectl(t, "rollout", "status", here, "deployment/glassback") // ends with the rollout
	await(t, func(ctx context.Context) error {
		pods, err := n.kube.CoreV1().Pods(n.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=glassback"})
		if err != nil || len(pods.Items) != 2 {
			return fmt.Errorf("the operator has %d Pods, %w", len(pods.Items), err)
		}
		for _, pod := range pods.Items {
			if c := pod.Status.ContainerStatuses[0]; c.RestartCount > 0 {
				t.Fatalf("the operator was restarted: %+v", c.LastTerminationState)
			}
		}
		return nil
	})
	got := answers.end()
	got.check(t)
	if got.sizes[3] > 0 || got.sizes[6] == 0 {
		t.Errorf("sizes of 3 are stored as %v, want 6", got.sizes)
	}
}

// installShipped runs replicas of the operator in Pods, for the test's namespace only, and waits until they serve webhooks.
func (n *node) installShipped(t *testing.T, replicas int32, env []corev1.EnvVar, args ...string) {
	t.Helper()
	archive := filepath.Join(filepath.Dir(binary(t)), "glassback.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("find bin/glassback.tar, run make image first: %v", err)
	}
	images, err := n.Load(t.Context(), archive)
	if err != nil || len(images) == 0 {
		t.Fatalf("load %s: %v, %v", archive, images, err)
	}
	n.operate(t).stop() // This operator installs the CRDs: the Pods have no permission for that.
	n.grantShipped(t, "glassback")
	service := n.registerShipped(t)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "glassback"}}, Spec: corev1.PodSpec{
		ServiceAccountName: "glassback",
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "glassback", Image: images[0], ImagePullPolicy: corev1.PullIfNotPresent, Env: env,
			Args: append([]string{"--namespace", n.ns}, args...), // Other tests have operators for their own namespaces.
			ReadinessProbe: &corev1.Probe{ // The Service leads only to ready Pods.
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9443)}},
				PeriodSeconds: 1,
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
	maps.Copy(template.Labels, service.Spec.Selector)
	deployments := n.kube.AppsV1().Deployments(n.ns)
	_, err = deployments.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "glassback"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "glassback"}}, Template: template,
	}}, metav1.CreateOptions{})
	n.must(t, err)
	await(t, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "glassback", metav1.GetOptions{})
		if err != nil || d.Status.AvailableReplicas != replicas {
			return fmt.Errorf("the operator's Deployment: %+v, %w", d.Status, err)
		}
		return nil
	})
}

// grantShipped creates a ServiceAccount with the shipped roles. The ClusterRole and its binding belong to no namespace: they are deleted
// when the test ends.
func (n *node) grantShipped(t *testing.T, account string) {
	t.Helper()
	n.mustKubectl(t, "create", "serviceaccount", account, "--namespace="+n.ns)
	rbac, subject := n.kube.RbacV1(), "--serviceaccount="+n.ns+":"+account
	own := artifact[rbacv1.Role](t, "rbac/webhook_role.yaml")
	own.Namespace = ""
	_, err := rbac.Roles(n.ns).Create(t.Context(), own, metav1.CreateOptions{})
	n.must(t, err)
	n.mustKubectl(t, "create", "rolebinding", own.Name, "--namespace="+n.ns, "--role="+own.Name, subject)
	role := n.shippedRole(t)
	role.Name += "-" + n.ns // Other tests use other names.
	_, err = rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	n.must(t, err)
	n.mustKubectl(t, "create", "clusterrolebinding", role.Name, "--clusterrole="+role.Name, subject)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		bindingErr := rbac.ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{})
		roleErr := rbac.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})
		if err := errors.Join(bindingErr, roleErr); err != nil {
			t.Error(err)
		}
	})
}

// registerShipped creates the shipped Service and webhook configurations, and returns the Service. The configurations belong to no
// namespace and need their fixed name. They apply to the test's namespace only, and are deleted when the test ends.
func (n *node) registerShipped(t *testing.T) *corev1.Service {
	t.Helper()
	service := artifact[corev1.Service](t, "webhook/service.yaml")
	service.Namespace = ""
	service, err := n.kube.CoreV1().Services(n.ns).Create(t.Context(), service, metav1.CreateOptions{})
	n.must(t, err)
	c := configurations{
		artifact[admissionregistrationv1.MutatingWebhookConfiguration](t, "webhook/mutating.yaml"),
		artifact[admissionregistrationv1.ValidatingWebhookConfiguration](t, "webhook/validating.yaml"),
	}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.ns}}
	for i := range c.mutating.Webhooks {
		w := &c.mutating.Webhooks[i]
		w.ClientConfig.Service.Namespace, w.NamespaceSelector = n.ns, here
	}
	for i := range c.validating.Webhooks {
		w := &c.validating.Webhooks[i]
		w.ClientConfig.Service.Namespace, w.NamespaceSelector = n.ns, here
	}
	t.Cleanup(func() { n.unregister(t, webhook.ConfigurationName) })
	n.must(t, n.register(t.Context(), c))
	return service
}

// artifact reads a file of artifacts with one object.
func artifact[T any](t *testing.T, file string) *T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../artifacts", file))
	must.Succeed(t, err)
	object := new(T)
	must.Succeed(t, yaml.UnmarshalStrict(data, object))
	return object
}

// trusted waits until every webhook has the caBundle of the Secret, and returns the Secret.
func (n *node) trusted(t *testing.T) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	await(t, func(ctx context.Context) (err error) {
		if secret, err = n.kube.CoreV1().Secrets(n.ns).Get(ctx, certificate.SecretName, metav1.GetOptions{}); err != nil {
			return err
		}
		c, err := n.getConfigurations(ctx, webhook.ConfigurationName)
		if err != nil {
			return err
		}
		for _, bundle := range c.bundles() {
			if len(bundle) == 0 || !bytes.Equal(bundle, secret.Data["ca.crt"]) {
				return fmt.Errorf("a caBundle is\n%sbut the Secret has\n%s", bundle, secret.Data["ca.crt"])
			}
		}
		return nil
	})
	return secret
}

// shell is a Pod that runs a shell script once. Its grace period is short: the script is process 1 of its container, which ignores SIGTERM.
func shell(image, script string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers:                    []corev1.Container{{Name: "shell", Image: image, Command: []string{"/bin/sh", "-c", script}}},
	}
}

func (n *node) createPod(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	_, err := n.kube.CoreV1().Pods(n.ns).Create(t.Context(), pod, metav1.CreateOptions{})
	n.must(t, err)
}

// prints waits until a Pod of the namespace has printed a text that matches.
func (n *node) prints(t *testing.T, text string) {
	t.Helper()
	pattern := regexp.MustCompile(text)
	await(t, func(ctx context.Context) error {
		pods, err := n.kube.CoreV1().Pods(n.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items { // The Pod of a Job may have been deleted since.
			log, err := n.kube.CoreV1().Pods(n.ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
			if err == nil && pattern.Match(log) {
				return nil
			}
		}
		return fmt.Errorf("none of %d Pods has printed %s", len(pods.Items), text)
	})
}
