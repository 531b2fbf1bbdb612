// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
)

// These methods return the informers of built-in resources: of one object, or of all objects with a label. Without a label, it is the
// informer of all objects.

// Pods returns the informer of Pods.
func (i *Informers) Pods(label string) coreinformers.PodInformer {
	client := i.clients.Kube.CoreV1().Pods(i.Namespace)
	return builtIn(i, &corev1.Pod{}, corev1.Resource("pods"), selector{label: label}, client).Core().V1().Pods()
}

// Claims returns the informer of PersistentVolumeClaims.
func (i *Informers) Claims(label string) coreinformers.PersistentVolumeClaimInformer {
	client := i.clients.Kube.CoreV1().PersistentVolumeClaims(i.Namespace)
	return builtIn(i, &corev1.PersistentVolumeClaim{}, corev1.Resource("persistentvolumeclaims"), selector{label: label}, client).
		Core().V1().PersistentVolumeClaims()
}

// ConfigMaps returns the informer of ConfigMaps.
func (i *Informers) ConfigMaps(label string) coreinformers.ConfigMapInformer {
	client := i.clients.Kube.CoreV1().ConfigMaps(i.Namespace)
	return builtIn(i, &corev1.ConfigMap{}, corev1.Resource("configmaps"), selector{label: label}, client).Core().V1().ConfigMaps()
}

// Services returns the informer of Services.
func (i *Informers) Services(label string) coreinformers.ServiceInformer {
	client := i.clients.Kube.CoreV1().Services(i.Namespace)
	return builtIn(i, &corev1.Service{}, corev1.Resource("services"), selector{label: label}, client).Core().V1().Services()
}

// Jobs returns the informer of Jobs.
func (i *Informers) Jobs(label string) batchinformers.JobInformer {
	client := i.clients.Kube.BatchV1().Jobs(i.Namespace)
	return builtIn(i, &batchv1.Job{}, batchv1.Resource("jobs"), selector{label: label}, client).Batch().V1().Jobs()
}

// Deployments returns the informer of Deployments.
func (i *Informers) Deployments(label string) appsinformers.DeploymentInformer {
	client := i.clients.Kube.AppsV1().Deployments(i.Namespace)
	return builtIn(i, &appsv1.Deployment{}, appsv1.Resource("deployments"), selector{label: label}, client).Apps().V1().Deployments()
}

// Ingresses returns the informer of Ingresses.
func (i *Informers) Ingresses(label string) networkinginformers.IngressInformer {
	client := i.clients.Kube.NetworkingV1().Ingresses(i.Namespace)
	return builtIn(i, &networkingv1.Ingress{}, networkingv1.Resource("ingresses"), selector{label: label}, client).
		Networking().V1().Ingresses()
}

// NetworkPolicies returns the informer of NetworkPolicies.
func (i *Informers) NetworkPolicies(label string) networkinginformers.NetworkPolicyInformer {
	client := i.clients.Kube.NetworkingV1().NetworkPolicies(i.Namespace)
	return builtIn(i, &networkingv1.NetworkPolicy{}, networkingv1.Resource("networkpolicies"), selector{label: label}, client).
		Networking().V1().NetworkPolicies()
}

// Autoscalers returns the informer of HorizontalPodAutoscalers.
func (i *Informers) Autoscalers(label string) autoscalinginformers.HorizontalPodAutoscalerInformer {
	client := i.clients.Kube.AutoscalingV2().HorizontalPodAutoscalers(i.Namespace)
	return builtIn(i, &autoscalingv2.HorizontalPodAutoscaler{},
		autoscalingv2.Resource("horizontalpodautoscalers"), selector{label: label}, client).
		Autoscaling().V2().HorizontalPodAutoscalers()
}

// Budgets returns the informer of PodDisruptionBudgets.
func (i *Informers) Budgets(label string) policyinformers.PodDisruptionBudgetInformer {
	client := i.clients.Kube.PolicyV1().PodDisruptionBudgets(i.Namespace)
	return builtIn(i, &policyv1.PodDisruptionBudget{}, policyv1.Resource("poddisruptionbudgets"), selector{label: label}, client).
		Policy().V1().PodDisruptionBudgets()
}

// Secret returns the informer of the Secret with a name.
func (i *Informers) Secret(name string) coreinformers.SecretInformer {
	client := i.clients.Kube.CoreV1().Secrets(i.Namespace)
	return builtIn(i, &corev1.Secret{}, corev1.Resource("secrets"), onlyObject(name), client).Core().V1().Secrets()
}

// ConfigMap returns the informer of the ConfigMap with a name.
func (i *Informers) ConfigMap(name string) coreinformers.ConfigMapInformer {
	client := i.clients.Kube.CoreV1().ConfigMaps(i.Namespace)
	return builtIn(i, &corev1.ConfigMap{}, corev1.Resource("configmaps"), onlyObject(name), client).Core().V1().ConfigMaps()
}

// Lease returns the informer of the Lease with a name.
func (i *Informers) Lease(name string) coordinationinformers.LeaseInformer {
	client := i.clients.Kube.CoordinationV1().Leases(i.Namespace)
	return builtIn(i, &coordinationv1.Lease{}, coordinationv1.Resource("leases"), onlyObject(name), client).Coordination().V1().Leases()
}

// MutatingWebhookConfiguration returns the informer of the MutatingWebhookConfiguration with a name.
func (i *Informers) MutatingWebhookConfiguration(name string) admissioninformers.MutatingWebhookConfigurationInformer {
	client := i.clients.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	return builtIn(i, &admissionregistrationv1.MutatingWebhookConfiguration{},
		admissionregistrationv1.Resource("mutatingwebhookconfigurations"), onlyObject(name), client).
		Admissionregistration().V1().MutatingWebhookConfigurations()
}

// ValidatingWebhookConfiguration returns the informer of the ValidatingWebhookConfiguration with a name.
func (i *Informers) ValidatingWebhookConfiguration(name string) admissioninformers.ValidatingWebhookConfigurationInformer {
	client := i.clients.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return builtIn(i, &admissionregistrationv1.ValidatingWebhookConfiguration{},
		admissionregistrationv1.Resource("validatingwebhookconfigurations"), onlyObject(name), client).
		Admissionregistration().V1().ValidatingWebhookConfigurations()
}
