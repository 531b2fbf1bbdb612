// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
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

// TestRolesOfUsers: the built-in roles view, edit and admin include what the shipped roles allow, and nobody but the operator writes a
// status.
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
			if is.Labels["rbac.authorization.k8s.io/aggregate-to-"+role.builtIn] != "true" {
				t.Errorf("%s has the labels %v, and is no part of %s", is.Name, is.Labels, role.builtIn)
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
