// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package application has the children and the status of an Application, for the two participants that are not Glassback: they
// create the same objects as the Application controller, with the same fields, status and conditions.
//
// It supports the fields of the spec that the scenarios use: image, command, args, replicas, port, service and ingress.
package application

import (
	"cmp"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// Kind is the kind of the owner.
var Kind = v1.SchemeGroupVersion.WithKind("Application")

// Deployment sets the fields of d that the Application specifies. It leaves other fields alone, such as those that the API
// server defaults, so that a Deployment that is as specified does not change.
func Deployment(app *v1.Application, d *appsv1.Deployment) {
	setMeta(app, d)
	d.Spec.Replicas = app.Spec.Replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector(app)}
	setLabels(app, &d.Spec.Template.ObjectMeta)
	pod := &d.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		pod.Containers = make([]corev1.Container, 1)
	}
	c := &pod.Containers[0]
	c.Name, c.Image, c.Command, c.Args = "app", app.Spec.Image, app.Spec.Command, app.Spec.Args
	c.Ports = []corev1.ContainerPort{{Name: v1.PortName, ContainerPort: *app.Spec.Port, Protocol: corev1.ProtocolTCP}}
}

// Service sets the fields of s that the Application specifies.
func Service(app *v1.Application, s *corev1.Service) {
	setMeta(app, s)
	setAnnotations(s, app.Spec.Service.Annotations)
	s.Spec.Type, s.Spec.Selector = app.Spec.Service.Type, selector(app)
	if len(s.Spec.Ports) != 1 {
		s.Spec.Ports = make([]corev1.ServicePort, 1)
	}
	p := &s.Spec.Ports[0]
	p.Name, p.Protocol, p.Port, p.TargetPort = v1.PortName, corev1.ProtocolTCP, app.Spec.ServicePort(), intstr.FromString(v1.PortName)
}

// Ingress sets the fields of i that the Application specifies.
func Ingress(app *v1.Application, i *networkingv1.Ingress) {
	setMeta(app, i)
	spec := &app.Spec.Ingress
	setAnnotations(i, spec.Annotations)
	i.Spec.IngressClassName = spec.ClassName
	i.Spec.Rules = []networkingv1.IngressRule{{Host: spec.Host, IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
			Path: spec.Path, PathType: ptr.To(networkingv1.PathTypePrefix),
			Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: app.Name, Port: networkingv1.ServiceBackendPort{Number: app.Spec.ServicePort()},
			}},
		}}},
	}}}
	i.Spec.TLS = nil
	if spec.TLS != nil {
		i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{spec.Host}, SecretName: spec.TLS.SecretName}}
	}
}

func setMeta(app *v1.Application, child metav1.Object) {
	child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(app, Kind)})
	setLabels(app, child)
}

func setLabels(app *v1.Application, child metav1.Object) {
	child.SetLabels(with(child.GetLabels(), map[string]string{
		v1.LabelApplication: app.Name, "app.kubernetes.io/name": app.Name, "app.kubernetes.io/managed-by": glassback.Name,
	}))
}

func setAnnotations(child metav1.Object, annotations map[string]string) {
	if len(annotations) > 0 {
		child.SetAnnotations(with(child.GetAnnotations(), annotations))
	}
}

// with adds entries to a map, which may be nil, and returns it.
func with(all, more map[string]string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}

func selector(app *v1.Application) map[string]string {
	return map[string]string{v1.LabelApplication: app.Name}
}

// Status returns the status of an Application whose children are as specified. d is its Deployment.
func Status(app *v1.Application, d *appsv1.Deployment) v1.ApplicationStatus {
	s := *app.Status.DeepCopy()
	s.ObservedGeneration = app.Generation
	s.Replicas, s.UpdatedReplicas = d.Status.Replicas, d.Status.UpdatedReplicas
	s.ReadyReplicas, s.AvailableReplicas = d.Status.ReadyReplicas, d.Status.AvailableReplicas
	s.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector(app)})
	s.URL = "http://" + app.Spec.Ingress.Host
	if app.Spec.Ingress.TLS != nil {
		s.URL = "https://" + app.Spec.Ingress.Host
	}
	s.Resources = []v1.ResourceReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: app.Name},
		{APIVersion: "v1", Kind: "Service", Name: app.Name},
		{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: app.Name},
	}
	set := func(kind string, status bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, ObservedGeneration: app.Generation, Reason: reason, Message: message}
		if status {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	count := fmt.Sprintf("Pods: %d wanted, %d available", ptr.Deref(d.Spec.Replicas, 1), d.Status.AvailableReplicas)
	available, progressing := condition(d, appsv1.DeploymentAvailable), condition(d, appsv1.DeploymentProgressing)
	complete := d.Status.ObservedGeneration >= d.Generation && d.Generation > 0 &&
		progressing.Reason == "NewReplicaSetAvailable" && d.Status.UpdatedReplicas == d.Status.Replicas
	isAvailable := available.Status == corev1.ConditionTrue
	if complete && isAvailable {
		set(glassback.ConditionReady, true, "RolledOut", count)
	} else {
		set(glassback.ConditionReady, false, "RolloutInProgress", count)
	}
	set(glassback.ConditionDegraded, false, "AsExpected", "Nothing is wrong")
	set(glassback.ConditionProgressing, !complete, cmp.Or(progressing.Reason, waiting),
		cmp.Or(progressing.Message, "The Deployment's controller has not seen its latest version yet"))
	set(v1.ConditionAvailable, isAvailable, cmp.Or(available.Reason, waiting),
		cmp.Or(available.Message, "The Deployment's controller has not reported yet whether enough Pods are available"))
	set(v1.ConditionConflict, false, "NoConflict", "No object of another owner is in the way")
	return s
}

const waiting = "WaitingForDeployment"

// condition returns a condition of a Deployment; the zero one if it has none of this type.
func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}

// JobSpec returns the spec of the Jobs of both participants in the scenarios of MyCronJobs.
func JobSpec() batchv1.JobSpec {
	return batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure,
		Containers:    []corev1.Container{{Name: "hello", Image: "busybox", Args: []string{"/bin/sh", "-c", "date"}}},
	}}}
}
