// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// typed returns an object as a value of its Go type.
func typed[T any](t *testing.T, o object) *T {
	t.Helper()
	data, err := json.Marshal(o)
	succeed(t, err)
	value := new(T)
	succeed(t, json.Unmarshal(data, value))
	return value
}

// TestTheObjectsOfAnInstallationFitTogether checks what no API server checks: labels, selectors, ports, and that an update keeps all
// replicas. TestTheChartInstallsWhatKustomizeDoes shows that the chart has the same objects.
func TestTheObjectsOfAnInstallationFitTogether(t *testing.T) {
	for dir, others := range map[string][]string{
		"default": nil, "default-certmanager": nil, "namespaced": {"default"}, // other namespaces that have objects
	} {
		t.Run(dir, func(t *testing.T) {
			all := kustomize(t, dir)
			deployment := typed[appsv1.Deployment](t, all["Deployment/glassback-manager"])
			pod, container := labels.Set(deployment.Spec.Template.Labels), deployment.Spec.Template.Spec.Containers[0]
			open := map[string]bool{}
			selects := func(name string, selector map[string]string, ports ...intstr.IntOrString) {
				t.Helper()
				if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
					t.Errorf("%s selects %v, but the Pod has the labels %v", name, selector, pod)
				}
				for _, port := range ports {
					if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool {
						return port == intstr.FromString(p.Name) || port == intstr.FromInt32(p.ContainerPort)
					}) {
						t.Errorf("%s has the port %s, but the Pod has the ports %v", name, port.String(), container.Ports)
					}
				}
			}
			for name, o := range all {
				ns := o.text("metadata", "namespace")
				switch o.text("kind") {
				case "CustomResourceDefinition":
					continue // controller-gen gives it no labels
				case "Namespace":
					for _, mode := range []string{"enforce", "audit", "warn"} {
						if level := o.text("metadata", "labels", "pod-security.kubernetes.io/"+mode); level != "restricted" {
							t.Errorf("%s: the namespace demands %q", mode, level)
						}
					}
				case "Service":
					for _, port := range typed[corev1.Service](t, o).Spec.Ports {
						selects(name, typed[corev1.Service](t, o).Spec.Selector, port.TargetPort)
					}
				case "NetworkPolicy":
					policy := typed[networkingv1.NetworkPolicy](t, o)
					for _, rule := range policy.Spec.Ingress {
						for _, port := range rule.Ports {
							selects(name, policy.Spec.PodSelector.MatchLabels, *port.Port)
							open[port.Port.String()] = true
						}
					}
				case "PodDisruptionBudget":
					budget := typed[policyv1.PodDisruptionBudget](t, o)
					if selects(name, budget.Spec.Selector.MatchLabels); budget.Spec.MinAvailable != nil {
						t.Errorf("%s: %+v", name, budget.Spec)
					}
				}
				if ns != "" && ns != namespace && !slices.Contains(others, ns) {
					t.Errorf("%s is in namespace %s", name, ns)
				}
				if o.text("metadata", "labels", "app.kubernetes.io/name") != "glassback" {
					t.Errorf("%s has no label app.kubernetes.io/name=glassback: users find and delete objects by it", name)
				}
			}
			if len(open) != len(container.Ports) {
				t.Errorf("network policies allow the ports %v, but the Pod has the ports %v", open, container.Ports)
			}
			if s := deployment.Spec.Strategy.RollingUpdate; *deployment.Spec.Replicas != 2 || s.MaxUnavailable.IntValue() != 0 {
				t.Errorf("the strategy for %d replicas is %+v", *deployment.Spec.Replicas, s)
			}
			if r := container.Resources; r.Limits.Memory().IsZero() || r.Requests.Cpu().IsZero() || !r.Limits.Cpu().IsZero() {
				t.Errorf("the Pod has the resources %+v, want a limit of memory and none of CPU", r)
			}
			for path, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
				if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path {
					t.Errorf("the probe of %s is %v", path, probe)
				}
			}
		})
	}
}

// TestRolesOfUsers: the built-in roles view, edit and admin include what the shipped roles allow, but for instances, which cost money; and
// nobody but the operator writes a status.
func TestRolesOfUsers(t *testing.T) {
	all, read := kustomize(t, "default"), []string{"get", "list", "watch"}
	for kind, scales := range map[string]bool{
		"apiexamplea": false, "application": true, "ecsinstance": false, "mycronjob": false, "rediscluster": true,
	} {
		for _, role := range []struct {
			name, builtIn string
			verbs         []string // of the objects
			scale         []string
		}{
			{"viewer", "view", read, []string{"get"}},
			{"editor", "edit", append([]string{"create", "delete", "patch", "update"}, read...), []string{"get", "patch", "update"}},
			{"admin", "admin", []string{"*"}, []string{"get", "patch", "update"}},
		} {
			is := typed[rbacv1.ClusterRole](t, all["ClusterRole/glassback-"+kind+"-"+role.name])
			_, part := is.Labels["rbac.authorization.k8s.io/aggregate-to-"+role.builtIn]
			if part != (kind != "ecsinstance" || role.name == "viewer") {
				t.Errorf("%s has the labels %v; is it part of %s? %t", is.Name, is.Labels, role.builtIn, part)
			}
			want := map[string][]string{"": role.verbs, "/status": {"get"}}
			if scales {
				want["/scale"] = role.scale
			}
			for _, rule := range is.Rules {
				subresource := strings.TrimPrefix(rule.Resources[0], kind+"s")
				slices.Sort(rule.Verbs)
				if verbs := slices.Sorted(slices.Values(want[subresource])); len(rule.Resources) != 1 || !slices.Equal(rule.Verbs, verbs) {
					t.Errorf("%s: %v, want the verbs %v", is.Name, rule, verbs)
				}
				delete(want, subresource)
			}
			if len(want) > 0 {
				t.Errorf("%s does not grant %v", is.Name, want)
			}
		}
	}
}

// TestTheCertManagerVariantMountsTheCertificate: with cert-manager, the operator uses cert-manager's certificate, and has no permissions
// for a CA of its own.
func TestTheCertManagerVariantMountsTheCertificate(t *testing.T) {
	all := kustomize(t, "default-certmanager")
	pod := typed[appsv1.Deployment](t, all["Deployment/glassback-manager"]).Spec.Template.Spec
	certificate, container := all["Certificate/glassback-webhook"].text("spec", "secretName"), pod.Containers[0]
	if len(pod.Volumes) != 1 || pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != certificate ||
		!slices.Contains(container.Args, "--webhook-cert-path="+container.VolumeMounts[0].MountPath) {
		t.Errorf("the volumes are %v, mounted as %v, and the arguments are %v", pod.Volumes, container.VolumeMounts, container.Args)
	}
	for name, o := range all {
		if strings.Contains(name, "WebhookConfiguration/") && o.text("metadata", "annotations", "cert-manager.io/inject-ca-from") == "" {
			t.Errorf("the caBundle of %s stays empty: it has no annotation of cert-manager", name)
		}
		if name == "Role/glassback-webhook" || strings.Contains(fmt.Sprint(o["rules"]), "admissionregistration.k8s.io") {
			t.Errorf("%s is for a CA, or allows to write the caBundle", name)
		}
	}
}

// TestTheServiceMonitorFindsTheMetrics: the labels and the port in the ServiceMonitor are those of the Service.
func TestTheServiceMonitorFindsTheMetrics(t *testing.T) {
	all := kustomize(t, "default")
	monitor := typed[monitoringv1.ServiceMonitor](t, kustomize(t, "prometheus")["ServiceMonitor/glassback"])
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	succeed(t, err)
	service := typed[corev1.Service](t, all["Service/glassback-metrics"])
	other := typed[corev1.Service](t, all["Service/glassback-webhook"])
	if !selector.Matches(labels.Set(service.Labels)) || selector.Matches(labels.Set(other.Labels)) {
		t.Errorf("the ServiceMonitor selects %s, but the Services have the labels %v and %v", selector, service.Labels, other.Labels)
	}
	if monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor names the port %s, and the Service has %v", monitor.Spec.Endpoints[0].Port, service.Spec.Ports)
	}
}

// kustomize returns the output of "kustomize build" for a directory below artifacts.
func kustomize(t *testing.T, dir string) objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(artifacts, dir))
	succeed(t, err)
	text, err := built.AsYaml()
	succeed(t, err)
	return parse(t, string(text))
}

// withoutHelm removes the fields that only the chart adds to objects, and checks that they exist.
func withoutHelm(t *testing.T, all objects) {
	t.Helper()
	for name, o := range all {
		labels, _ := o.field("metadata", "labels").(map[string]any)
		for label, want := range map[string]string{
			"helm.sh/chart": "glassback-", "app.kubernetes.io/instance": "glassback",
			"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "",
		} {
			if value, _ := labels[label].(string); !strings.HasPrefix(value, want) || value == "" {
				t.Errorf("%s has the label %s=%q", name, label, value)
			}
			delete(labels, label)
		}
		if o.text("kind") != "CustomResourceDefinition" {
			continue
		}
		annotations, _ := o.field("metadata", "annotations").(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s is deleted with the release", name)
		}
		delete(annotations, "helm.sh/resource-policy")
		if len(labels) == 1 { // controller-gen gives none, and one finds them by it
			delete(o["metadata"].(map[string]any), "labels")
		}
	}
}

// operators are the objects that the chart has, so that an uninstall deletes them, and that the operator creates with the manifests.
var operators = []string{"Lease/glassback", "Secret/glassback-webhook-ca", "ConfigMap/glassback-ca"}

// What the operator would make itself the chart has, so that no uninstall leaves it behind;
// kubectl deletes it with the namespace, which is Helm's own matter.
func TestTheChartInstallsWhatKustomizeDoes(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		dirs   []string
		own    []string // objects that the chart alone has
	}{
		"as they are": {
			"", []string{"default"}, operators,
		},
		"with certificates from cert-manager": {
			"webhooks: {certManager: {enabled: true}}", []string{"default-certmanager"}, []string{"Lease/glassback"},
		},
		"in one namespace": {
			"watchNamespaces: [default]", []string{"namespaced"}, operators,
		},
		"with the page": {
			"inspect: {enabled: true}", []string{"default-inspect"}, operators,
		},
		"with what the Prometheus operator needs": {
			"metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
			[]string{"default", "prometheus"}, operators,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := objects{}
			for _, dir := range test.dirs {
				maps.Copy(want, kustomize(t, dir))
			}
			delete(want, "Namespace/"+namespace)
			delete(want, "ConfigMap/glassback-dashboard") // docs/metrics.md says how to import it
			got := render(t, test.values)
			for _, own := range test.own {
				if got[own] == nil {
					t.Errorf("there is no %s", own)
				}
				delete(got, own)
			}
			withoutHelm(t, got)
			for _, all := range []objects{got, want} {
				image := container(all, "Deployment/glassback-manager")
				image["image"], _, _ = strings.Cut(fmt.Sprint(image["image"]), ":")
				args := image["args"].([]any)
				args[0], _, _ = strings.Cut(fmt.Sprint(args[0]), ":") // --backup-image
			}
			for _, change := range changes(want, got) {
				t.Errorf("kustomize → Helm: %s", change)
			}
		})
	}
}

// container returns the only container of a Deployment.
func container(all objects, deployment string) map[string]any {
	list, _ := all[deployment].field("spec", "template", "spec", "containers").([]any)
	only, _ := list[0].(map[string]any)
	return only
}

// changes tells how one set of objects differs from another, a line for each field, sorted.
func changes(from, to objects) []string {
	var all []string
	for name, o := range from {
		if to[name] == nil {
			all = append(all, "- "+name)
			continue
		}
		before, after := map[string]string{}, map[string]string{}
		flatten(before, "", map[string]any(o))
		flatten(after, "", map[string]any(to[name]))
		for path, value := range before {
			switch now, still := after[path]; {
			case !still:
				all = append(all, fmt.Sprintf("~ %s %s: %s → none", name, path, value))
			case now != value:
				all = append(all, fmt.Sprintf("~ %s %s: %s → %s", name, path, value, now))
			}
		}
		for path, value := range after {
			if _, before := before[path]; !before {
				all = append(all, fmt.Sprintf("~ %s %s: none → %s", name, path, value))
			}
		}
	}
	for name := range to {
		if from[name] == nil {
			all = append(all, "+ "+name)
		}
	}
	slices.Sort(all)
	return all
}

// entry returns the identity of a list's entry: its name or port, if it has one. The identity of a rule is its resources.
func entry(i int, m map[string]any) any {
	if m["resources"] != nil && m["verbs"] != nil {
		return fmt.Sprint(m["apiGroups"], m["resources"], m["verbs"])
	}
	if ports, ok := m["ports"].([]any); ok && m["name"] == nil {
		m, _ = ports[0].(map[string]any)
	}
	for _, by := range []string{"name", "port"} {
		if value, has := m[by]; has {
			return value
		}
	}
	return i
}

// flat returns whether no field of m has fields.
func flat(m map[string]any) bool {
	for _, value := range m {
		list, _ := value.([]any)
		for _, v := range append(list, value) {
			if _, is := v.(map[string]any); is {
				return false
			}
		}
	}
	return true
}

// flatten writes the fields of an object, by their paths. An entry of a list that has plain fields only is one value.
func flatten(into map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			flatten(into, strings.TrimPrefix(path+"."+key, "."), v)
		}
		if len(value) == 0 {
			into[path] = "{}"
		}
	case []any:
		var plain []string
		for i, v := range value {
			m, isMap := v.(map[string]any)
			if !isMap {
				plain = append(plain, fmt.Sprint(v))
				continue
			}
			at := fmt.Sprintf("%s[%v]", path, entry(i, m))
			if flat(m) {
				into[at] = fmt.Sprint(m)
			} else {
				flatten(into, at, m)
			}
		}
		if plain != nil || len(value) == 0 {
			into[path] = "[" + strings.Join(plain, " ") + "]"
		}
	default:
		into[path] = fmt.Sprint(value)
	}
}

// testPod is the Pod that "helm test" runs.
const testPod = "glassback-test"

// testHook returns the Pod that "helm test" runs. It fails the test if a release has another hook.
func testHook(t *testing.T, values string) object {
	t.Helper()
	r, err := install(t, values)
	succeed(t, err)
	if len(r.Hooks) != 1 {
		t.Fatalf("there are %d hooks, want 1", len(r.Hooks))
	}
	return decode(t, r.Hooks[0].Manifest)
}

// TestEveryPodIsRestricted has each Pod that artifacts and the chart install.
func TestEveryPodIsRestricted(t *testing.T) {
	specs := map[string]*corev1.PodSpec{}
	add := func(source string, installed objects) {
		for name, o := range installed {
			if o.field("spec", "template", "spec") != nil {
				specs[source+" "+name] = &typed[appsv1.Deployment](t, o).Spec.Template.Spec
			}
		}
	}
	for _, dir := range []string{"default", "default-certmanager", "default-inspect", "namespaced"} {
		add(dir, kustomize(t, dir))
	}
	for _, values := range []string{"", "inspect: {enabled: true}", minimalValues} {
		add("the chart with "+values, render(t, values))
		specs["the test of the chart with "+values] = &typed[corev1.Pod](t, testHook(t, values)).Spec
	}
	if len(specs) != 10 {
		t.Fatalf("there are %d specs of Pods, want 10", len(specs))
	}
	for name, spec := range specs {
		if s := spec.SecurityContext; !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s may run as root, or has no seccomp profile: %+v", name, s)
		}
		if spec.HostNetwork || spec.HostPID || spec.HostIPC {
			t.Errorf("%s shares its node: %+v", name, spec)
		}
		for _, v := range spec.Volumes {
			if v.HostPath != nil {
				t.Errorf("%s has the volume %+v", name, v)
			}
		}
		for _, c := range append(spec.InitContainers, spec.Containers...) {
			s := c.SecurityContext
			if !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.Capabilities.Add != nil || *s.AllowPrivilegeEscalation ||
				s.Privileged != nil || s.SeccompProfile != nil || !*s.ReadOnlyRootFilesystem {
				t.Errorf("a container of %s has %+v", name, s)
			}
		}
	}
}

// TestTheTestPodChecksTheOperatorOfTheRelease compares the arguments of the test Pod with the values. The test Pod has no permission
// to read the operator's flags from its Deployment, so the chart passes these flags to the check.
func TestTheTestPodChecksTheOperatorOfTheRelease(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"default values":  {"", "[check]"},
		"one controller":  {"controllers: [mycronjob]", "[check --controllers=mycronjob]"},
		"some namespaces": {"watchNamespaces: [a, b]", "[check --namespace=a,b]"},
		"a simulated ECS": {"ecsEndpoint: http://ecs:80", "[check --ecs-endpoint=http://ecs:80]"},
		"own credentials": {"ecsOwnCredentials: {namespaces: [a, b], allow: [adopt]}",
			"[check --ecs-own-credentials-namespaces=a,b --ecs-own-credentials-allow=adopt]"},
		"no webhooks":       {"webhooks: {enabled: false}", "[check --webhooks=false]"},
		"with cert-manager": {"webhooks: {certManager: {enabled: true}}", "[check --webhooks=false]"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := typed[corev1.Pod](t, testHook(t, test.values))
			if got := fmt.Sprint(pod.Spec.Containers[0].Args); got != test.want {
				t.Errorf("it runs %s, want %s", got, test.want)
			}
			manager := typed[appsv1.Deployment](t, render(t, test.values)["Deployment/glassback-manager"]).Spec.Template.Spec
			if pod.Spec.ServiceAccountName != manager.ServiceAccountName || !reflect.DeepEqual(pod.Spec.SecurityContext, manager.SecurityContext) ||
				!maps.Equal(pod.Spec.NodeSelector, manager.NodeSelector) {
				t.Errorf("the test Pod has %+v, which the operator has not", pod.Spec)
			}
			if pod.Name != testPod || pod.Labels["app.kubernetes.io/component"] == "manager" {
				t.Errorf("the Services and the policies of the operator select it: %v", pod.ObjectMeta)
			}
		})
	}
}

func TestArtifactHubListsEveryCRDAndTheVersion(t *testing.T) {
	metadata := load(t).Metadata
	var crds []struct{ Kind, Version, Name, DisplayName, Description string }
	var images []struct{ Image string }
	for key, list := range map[string]any{"crds": &crds, "images": &images} {
		succeed(t, yaml.Unmarshal([]byte(metadata.Annotations["artifacthub.io/"+key]), list))
	}
	var got, want []string
	for _, crd := range crds {
		got = append(got, crd.Kind+" "+crd.Version+" "+crd.Name)
	}
	for _, o := range kustomize(t, "crd") {
		versions, _ := o.field("spec", "versions").([]any)
		version := object(versions[0].(map[string]any))
		want = append(want, o.text("spec", "names", "kind")+" "+version.text("name")+" "+o.text("metadata", "name"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s lists %q, want %q", filepath.Join(chartDir, "Chart.yaml"), got, want)
	}
	if len(images) != 1 || images[0].Image != "ghcr.io/glassback/glassback:"+metadata.AppVersion ||
		metadata.AppVersion != "v"+metadata.Version {
		t.Errorf("images %v, version %s, appVersion %s", images, metadata.Version, metadata.AppVersion)
	}
}
