// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/pkg/must"
)

const (
	operatorNamespace = "glassback-system"
	nameLabel         = "app.kubernetes.io/name" // label of all shipped objects
)

// installs are the directories of artifacts that are complete installations. Each has a list of further namespaces in which it has objects,
// beside the operator's own namespace.
var installs = map[string][]string{"default": nil, "default-certmanager": nil, "namespaced": {"default"}}

// rendered is the output of kustomize for a directory of artifacts.
type rendered []*unstructured.Unstructured

// render returns the output of hack/render.sh with these arguments: a directory and an image.
func render(t *testing.T, args ...string) []byte {
	t.Helper()
	return renderFrom(t, root, args...)
}

// renderFrom does the same as render, in a checkout.
func renderFrom(t *testing.T, checkout string, args ...string) []byte {
	t.Helper()
	binary, err := cluster.FindBinary()
	must.Succeed(t, err)
	kubectl := filepath.Join(t.TempDir(), "kubectl") // With this name, the program works as kubectl.
	must.Succeed(t, os.Symlink(binary, kubectl))
	at := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	cmd := exec.CommandContext(t.Context(), filepath.Join(checkout, "hack", "render.sh"), slices.Insert(slices.Clone(args), at, kubectl)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("render %v: %v: %s", args, err, complaints.String())
	}
	return out
}

func objects(t *testing.T, manifests []byte) rendered {
	t.Helper()
	var all rendered
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		must.Succeed(t, yaml.Unmarshal(document, &object.Object))
		if object.GetKind() == "" || object.GetName() == "" {
			t.Fatalf("a document is not an object:\n%s", document)
		}
		all = append(all, object)
	}
	return all
}

// of returns the objects of a kind, decoded into their type. It fails the test if an object has a field that the type does not have.
func of[T any](t *testing.T, all rendered, kind string) []*T {
	t.Helper()
	var found []*T
	for _, object := range all {
		if object.GetKind() != kind {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found = append(found, typed)
	}
	return found
}

func TestManifests(t *testing.T) {
	for directory, namespaces := range installs {
		t.Run(directory, func(t *testing.T) {
			all := objects(t, render(t, directory, "registry.example:5000/glassback:v1"))
			deployments := of[appsv1.Deployment](t, all, "Deployment")
			if len(deployments) != 1 {
				t.Fatalf("the manifests have %d Deployments, want 1", len(deployments))
			}
			if image := deployments[0].Spec.Template.Spec.Containers[0].Image; image != "registry.example:5000/glassback:v1" {
				t.Errorf("the image is %s", image)
			}
			checkObjects(t, all, append(slices.Clone(namespaces), operatorNamespace))
			checkBindings(t, all)
			checkPod(t, deployments[0])
			checkSelectors(t, all, deployments[0])
		})
	}
}

// checkObjects checks the properties that every object must have.
func checkObjects(t *testing.T, all rendered, namespaces []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, object := range all {
		id := fmt.Sprintf("%s %s/%s", object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
		if seen[id] {
			t.Errorf("the manifests have %s twice", id)
		}
		seen[id] = true
		switch kind := object.GetKind(); kind {
		case "CustomResourceDefinition":
			continue
		case "Namespace", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			if object.GetNamespace() != "" {
				t.Errorf("%s has a namespace", id)
			}
		default:
			if !slices.Contains(namespaces, object.GetNamespace()) {
				t.Errorf("%s is not in %v", id, namespaces)
			}
		}
		if object.GetLabels()[nameLabel] != "glassback" {
			t.Errorf("%s has no label %s=glassback: users find and delete objects by it", id, nameLabel)
		}
	}
}

// checkBindings checks that the roles and the subjects of bindings exist.
func checkBindings(t *testing.T, all rendered) {
	t.Helper()
	exists := func(kind, namespace, name string) bool {
		return slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == kind && o.GetNamespace() == namespace && o.GetName() == name
		})
	}
	bindings := of[rbacv1.RoleBinding](t, all, "RoleBinding")
	bindings = append(bindings, of[rbacv1.RoleBinding](t, all, "ClusterRoleBinding")...)
	if len(bindings) == 0 {
		t.Error("the manifests have no bindings")
	}
	for _, b := range bindings {
		namespace := b.Namespace
		if b.RoleRef.Kind == "ClusterRole" {
			namespace = ""
		}
		if !exists(b.RoleRef.Kind, namespace, b.RoleRef.Name) {
			t.Errorf("%s %s/%s refers to %v, which does not exist", b.Kind, b.Namespace, b.Name, b.RoleRef)
		}
		for _, s := range b.Subjects {
			if !exists(s.Kind, s.Namespace, s.Name) {
				t.Errorf("%s %s/%s has the subject %v, which does not exist", b.Kind, b.Namespace, b.Name, s)
			}
		}
	}
}

// checkPod checks the Pod template of the Deployment. The API server checks some rules only for Pods: TestManifestsAreAccepted creates
// Pods.
func checkPod(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if !labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) {
		t.Errorf("the Deployment selects %v, but its Pods have the labels %v", d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
	}
	if s := d.Spec.Strategy.RollingUpdate; *d.Spec.Replicas != 2 || s.MaxUnavailable.IntValue() != 0 || s.MaxSurge.IntValue() != 1 {
		t.Errorf("the strategy for %d replicas is %+v", *d.Spec.Replicas, s)
	}
	container := pod.Containers[0]
	for name, ok := range map[string]bool{
		"a writable root file system":    *container.SecurityContext.ReadOnlyRootFilesystem,
		"no memory limit":                !container.Resources.Limits.Memory().IsZero(),
		"no CPU request":                 !container.Resources.Requests.Cpu().IsZero(),
		"a CPU limit":                    container.Resources.Limits.Cpu().IsZero(),
		"a priority class":               pod.PriorityClassName == "",
		"an image that is always pulled": container.ImagePullPolicy == corev1.PullIfNotPresent,
	} {
		if !ok {
			t.Errorf("the Pod has %s", name)
		}
	}
	for name, probe := range map[string]*corev1.Probe{
		"/healthz at the start": container.StartupProbe, "/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe,
	} {
		path, _, _ := strings.Cut(name, " ")
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || !has(container, probe.HTTPGet.Port) {
			t.Errorf("the probe %s is %v", name, probe)
		}
	}
	for _, c := range pod.TopologySpreadConstraints {
		if !labels.SelectorFromSet(c.LabelSelector.MatchLabels).Matches(labels.Set(d.Spec.Template.Labels)) ||
			c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			t.Errorf("the topology spread constraint of the Pods is %v", c)
		}
	}
}

// has reports whether the container has the port with this name or number.
func has(c corev1.Container, port intstr.IntOrString) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
		return port == intstr.FromString(p.Name) || port == intstr.FromInt32(p.ContainerPort)
	})
}

// checkSelectors checks the objects that select the Pods. Their selectors must match the Pods, and their ports must be the Pod's ports.
func checkSelectors(t *testing.T, all rendered, d *appsv1.Deployment) {
	t.Helper()
	pod := labels.Set(d.Spec.Template.Labels)
	container := d.Spec.Template.Spec.Containers[0]
	services := of[corev1.Service](t, all, "Service")
	for _, s := range services {
		for _, port := range s.Spec.Ports {
			if !labels.SelectorFromSet(s.Spec.Selector).Matches(pod) || !has(container, port.TargetPort) {
				t.Errorf("Service %s: port %v, selector %v; the Pod has labels %v, ports %v", s.Name, port, s.Spec.Selector, pod, container.Ports)
			}
		}
	}
	policies := of[networkingv1.NetworkPolicy](t, all, "NetworkPolicy")
	var open []intstr.IntOrString
	for _, p := range policies {
		if !labels.SelectorFromSet(p.Spec.PodSelector.MatchLabels).Matches(pod) || len(p.Spec.PodSelector.MatchLabels) == 0 {
			t.Errorf("NetworkPolicy %s selects %v, but the Pod has the labels %v", p.Name, p.Spec.PodSelector, pod)
		}
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				open = append(open, *port.Port)
				if !has(container, *port.Port) {
					t.Errorf("NetworkPolicy %s allows the port %v, but the Pod has the ports %v", p.Name, port, container.Ports)
				}
			}
		}
	}
	if len(open) != len(container.Ports) {
		t.Errorf("network policies allow the ports %v, but the Pod has the ports %v", open, container.Ports)
	}
	budgets := of[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget")
	for _, b := range budgets {
		if !labels.SelectorFromSet(b.Spec.Selector.MatchLabels).Matches(pod) || b.Spec.MinAvailable != nil {
			t.Errorf("PodDisruptionBudget %s: %+v", b.Name, b.Spec)
		}
	}
	if len(services) != 2 || len(policies) != 1 || len(budgets) != 1 {
		t.Errorf("%d Services, %d NetworkPolicies, %d PodDisruptionBudgets", len(services), len(policies), len(budgets))
	}
}

// TestTheNamespacedVariantAgrees: the arguments, the roles and the webhooks name the same namespaces.
func TestTheNamespacedVariantAgrees(t *testing.T) {
	all := objects(t, render(t, "namespaced", "glassback:v1"))
	deployment := of[appsv1.Deployment](t, all, "Deployment")[0]
	var named []string
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if value, ok := strings.CutPrefix(arg, "--namespace="); ok {
			named = strings.Split(value, ",")
		}
	}
	if len(named) == 0 {
		t.Fatal("the arguments do not restrict the operator to namespaces")
	}
	var granted []string
	for _, role := range of[rbacv1.Role](t, all, "Role") {
		if role.Name == "glassback-manager" {
			granted = append(granted, role.Namespace)
		}
	}
	if !slices.Equal(granted, named) {
		t.Errorf("the operator works in %v, but has permissions in %v", named, granted)
	}
	asked := 0
	for _, object := range all {
		hooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		must.Succeed(t, err)
		for _, hook := range hooks {
			asked++
			expressions, _, err := unstructured.NestedSlice(hook.(map[string]any), "namespaceSelector", "matchExpressions")
			if err != nil || len(expressions) != 1 {
				t.Fatalf("%s: %v %v", object.GetKind(), expressions, err)
			}
			expression := expressions[0].(map[string]any)
			values, _, err := unstructured.NestedStringSlice(expression, "values")
			if err != nil || expression["key"] != corev1.LabelMetadataName || expression["operator"] != "In" || !slices.Equal(values, named) {
				t.Errorf("the operator works in %v, but a webhook is for %v", named, expression)
			}
		}
	}
	if asked < 2 {
		t.Errorf("the configurations have %d webhooks", asked)
	}
	if out, err := exec.Command("grep", "-c", "NAMESPACES[:,]",
		"../../../artifacts/namespaced/kustomization.yaml").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "3" {
		t.Errorf("the lines with NAMESPACES are: %s", out)
	}
}

// TestTheCertManagerVariantMountsTheCertificate: with cert-manager, the operator uses cert-manager's certificate, and has no permissions
// for a CA of its own.
func TestTheCertManagerVariantMountsTheCertificate(t *testing.T) {
	all := objects(t, render(t, "default-certmanager", "glassback:v1"))
	pod := of[appsv1.Deployment](t, all, "Deployment")[0].Spec.Template.Spec
	container := pod.Containers[0]
	if len(pod.Volumes) != 1 || pod.Volumes[0].Secret == nil || len(container.VolumeMounts) != 1 ||
		container.VolumeMounts[0].Name != pod.Volumes[0].Name ||
		!slices.Contains(container.Args, "--webhook-cert-path="+container.VolumeMounts[0].MountPath) {
		t.Fatalf("the volumes are %v, mounted as %v, and the arguments are %v", pod.Volumes, container.VolumeMounts, container.Args)
	}
	var names []string
	for _, object := range all {
		if secret, _, err := unstructured.NestedString(object.Object, "spec", "secretName"); err == nil && object.GetKind() == "Certificate" &&
			secret == pod.Volumes[0].Secret.SecretName {
			names, _, err = unstructured.NestedStringSlice(object.Object, "spec", "dnsNames")
			must.Succeed(t, err)
		}
		if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") && object.GetAnnotations()["cert-manager.io/inject-ca-from"] == "" {
			t.Errorf("the caBundle of the %s stays empty: the object has no annotation of cert-manager", object.GetKind())
		}
	}
	for _, service := range of[corev1.Service](t, all, "Service") {
		if name := service.Name + "." + service.Namespace + ".svc"; !slices.Contains(names, name) {
			t.Errorf("the certificate has the names %v, but not %s", names, name)
		}
	}
	roles := of[rbacv1.Role](t, all, "Role")
	for _, role := range append(roles, of[rbacv1.Role](t, all, "ClusterRole")...) {
		if role.Name == "glassback-webhook" {
			t.Errorf("the manifests have the %s for a CA", role.Kind)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, "admissionregistration.k8s.io") {
				t.Errorf("%s %s may write the caBundle", role.Kind, role.Name)
			}
		}
	}
}

func TestImages(t *testing.T) {
	const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for image, want := range map[string]string{
		"glassback":                         "glassback:latest",
		"glassback/glassback:dev":           "glassback/glassback:dev",
		"localhost:5000/glassback":          "localhost:5000/glassback:latest",
		"localhost:5000/a/b:v1.2.3":         "localhost:5000/a/b:v1.2.3",
		"localhost:5000/a/b@" + digest:      "localhost:5000/a/b@" + digest,
		"registry.example/a:v1.0@" + digest: "registry.example/a:v1.0@" + digest,
	} {
		all := objects(t, render(t, "--without-crds", "default", image))
		if got := of[appsv1.Deployment](t, all, "Deployment")[0].Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("IMG=%s: the image is %s, want %s", image, got, want)
		}
	}
}

func TestUndeployDeletesAllButTheDefinitions(t *testing.T) {
	all, rest := objects(t, render(t, "default", "x")), objects(t, render(t, "--without-crds", "default", "x"))
	definitions := 0
	for _, object := range all {
		if object.GetKind() == "CustomResourceDefinition" {
			definitions++
		}
	}
	for _, object := range rest {
		if object.GetKind() == "CustomResourceDefinition" {
			t.Errorf("undeploy would delete the definition %s, and all of its objects", object.GetName())
		}
	}
	files, err := filepath.Glob("../../../artifacts/crd/*.yaml")
	if err != nil || definitions != len(files) || len(rest) != len(all)-definitions {
		t.Errorf("%d of %d objects stay, and there are %d definitions in %d files: %v", len(all)-len(rest), len(all),
			definitions, len(files), err)
	}
}

// TestManifestsAreAccepted installs the shipped manifests on a real API server with its controllers.
func TestManifestsAreAccepted(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{})
	apply := func(t *testing.T, manifests rendered, args ...string) {
		t.Helper()
		var all bytes.Buffer
		for _, object := range manifests {
			data, err := yaml.Marshal(object.Object)
			w.must(t, err)
			all.WriteString("---\n")
			all.Write(data)
		}
		file := filepath.Join(t.TempDir(), "install.yaml") // kubectl splits a file name at a comma
		w.must(t, os.WriteFile(file, all.Bytes(), 0o600))
		out, err := w.kubectl(t, append([]string{"apply", "-f", file}, args...)...)
		if err != nil || strings.Contains(out, "Warning") {
			t.Fatalf("apply %v: %v\n%s", args, err, out)
		}
	}
	t.Run("by a client-side apply: the objects fit into its annotation", func(t *testing.T) {
		apply(t, objects(t, render(t, "default", "glassback:v1")))
	})
	t.Run("by a server-side apply after that", func(t *testing.T) {
		apply(t, objects(t, render(t, "default", "glassback:v2")), "--server-side", "--force-conflicts")
	})
	t.Run("with the Pod security that the namespace demands", func(t *testing.T) {
		eventually(t, time.Minute, func(ctx context.Context) error {
			d, err := w.kube.AppsV1().Deployments(operatorNamespace).Get(ctx, "glassback-manager", metav1.GetOptions{})
			if err != nil || d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas != 2 || d.Status.UpdatedReplicas != 2 {
				return fmt.Errorf("the Deployment is %+v, error %v", d.Status, err)
			}
			return nil
		})
		namespace, err := w.kube.CoreV1().Namespaces().Get(t.Context(), operatorNamespace, metav1.GetOptions{})
		w.must(t, err)
		for _, mode := range []string{"enforce", "audit", "warn"} {
			if level := namespace.Labels["pod-security.kubernetes.io/"+mode]; level != "restricted" {
				t.Errorf("%s: the namespace demands %q", mode, level)
			}
		}
	})
	t.Run("with permissions added to the built-in roles for users", func(t *testing.T) { testUserRoles(t, w) })
	for directory := range installs {
		t.Run(directory+" by a dry run", func(t *testing.T) {
			known := slices.DeleteFunc(objects(t, render(t, directory, "glassback:v1")), func(o *unstructured.Unstructured) bool {
				return o.GroupVersionKind().Group == "cert-manager.io" // This API group is not installed.
			})
			apply(t, known, "--server-side", "--force-conflicts", "--dry-run=server")
		})
	}
	t.Run("namespaced: the operator has permissions in that namespace only", func(t *testing.T) {
		apply(t, objects(t, render(t, "namespaced", "glassback:v1")), "--server-side", "--force-conflicts")
		user := "system:serviceaccount:" + operatorNamespace + ":glassback"
		w.may(t, user, "default", "create", "batch", "jobs", "", true)
		w.may(t, user, "default", "get", "", "secrets", "", true)
		for _, ns := range []string{"kube-system", operatorNamespace} {
			w.may(t, user, ns, "create", "batch", "jobs", "", false)
			w.may(t, user, ns, "get", "", "secrets", "", false)
		}
		w.may(t, user, operatorNamespace, "create", "coordination.k8s.io", "leases", "", true)
		w.may(t, user, "", "create", "authentication.k8s.io", "tokenreviews", "", true)
	})
}

// testUserRoles binds users to the built-in roles. The shipped roles extend these.
func testUserRoles(t *testing.T, w *world) {
	ns := w.namespace(t)
	for _, role := range []string{"admin", "edit", "view"} {
		_, err := w.kube.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		}, metav1.CreateOptions{})
		w.must(t, err)
	}
	for group, resource := range map[string]string{
		"groupa.k8s.zhuang.com": "apiexampleas", "app.aiops.org": "applications", "alibabacloud.zhouzhengxi.com": "ecsinstances",
		"batch.wzj.kubebuilder.io": "mycronjobs", "bytewang123-redis.wzj.kubebuilder.io": "redisclusters",
	} {
		w.may(t, "view", ns, "watch", group, resource, "", true)
		w.may(t, "view", ns, "get", group, resource, "status", true)
		w.may(t, "view", ns, "create", group, resource, "", false)
		w.may(t, "edit", ns, "create", group, resource, "", true)
		w.may(t, "edit", ns, "delete", group, resource, "", true)
		w.may(t, "edit", ns, "deletecollection", group, resource, "", false)
		w.may(t, "edit", ns, "update", group, resource, "status", false)
		w.may(t, "admin", ns, "deletecollection", group, resource, "", true)
		scales := resource == "applications" || resource == "redisclusters"
		w.may(t, "view", ns, "get", group, resource, "scale", scales)
		w.may(t, "view", ns, "patch", group, resource, "scale", false)
		w.may(t, "edit", ns, "patch", group, resource, "scale", scales)
		w.may(t, "admin", ns, "update", group, resource, "scale", scales)
		w.may(t, "admin", "default", "get", group, resource, "", false)
	}
}

// may waits until the API server allows a request of a user, or forbids it if want is false.
func (w *world) may(t *testing.T, user, ns, verb, group, resource, subresource string, want bool) {
	t.Helper()
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		review, err := w.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: ns, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
			}},
		}, metav1.CreateOptions{})
		if err == nil && review.Status.Allowed != want {
			err = fmt.Errorf("in namespace %q, %s may %s %s.%s %s: %t", ns, user, verb, resource, group, subresource, review.Status.Allowed)
		}
		return err
	})
}

// TestTheServiceMonitorFindsTheMetrics: the labels and the port in the ServiceMonitor are those of the Service. The Secret of package
// certificate has the key that the ServiceMonitor names.
func TestTheServiceMonitorFindsTheMetrics(t *testing.T) {
	monitor := *artifact[struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []struct {
				Port            string `json:"port"`
				Path            string `json:"path"`
				Scheme          string `json:"scheme"`
				BearerTokenFile string `json:"bearerTokenFile"`
				TLSConfig       struct {
					ServerName string `json:"serverName"`
					CA         struct {
						Secret corev1.SecretKeySelector `json:"secret"`
					} `json:"ca"`
				} `json:"tlsConfig"`
			} `json:"endpoints"`
		} `json:"spec"`
	}](t, "prometheus/service_monitor.yaml")
	service := artifact[corev1.Service](t, "manager/metrics_service.yaml")
	other := artifact[corev1.Service](t, "webhook/service.yaml")
	selector := labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels)
	if !selector.Matches(labels.Set(service.Labels)) || selector.Matches(labels.Set(other.Labels)) {
		t.Errorf("the ServiceMonitor selects %s, but the Services have the labels %v and %v", selector, service.Labels, other.Labels)
	}
	if monitor.Namespace != service.Namespace || len(monitor.Spec.Endpoints) != 1 {
		t.Fatalf("the ServiceMonitor is in %s and has %d endpoints", monitor.Namespace, len(monitor.Spec.Endpoints))
	}
	endpoint := monitor.Spec.Endpoints[0]
	if endpoint.Port != service.Spec.Ports[0].Name || endpoint.Scheme != "https" || endpoint.BearerTokenFile == "" ||
		endpoint.TLSConfig.ServerName != service.Name+"."+service.Namespace+".svc" ||
		endpoint.TLSConfig.CA.Secret.Name != "glassback-webhook-ca" || endpoint.TLSConfig.CA.Secret.Key != "ca.crt" {
		t.Errorf("the endpoint of the ServiceMonitor is %+v", endpoint)
	}
}
