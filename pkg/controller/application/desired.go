// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/child"
)

// The builders below return the fields of each child that the operator owns: only what the spec requests, so that other
// clients can set all other fields. They return nil for a child that the spec does not request.

// deployment returns the Deployment that runs the image. existing is the Deployment, and hpa the autoscaler; nil if there is none. sources
// is the sum of the sources of restartOn; "" without one.
func deployment(app *v1.Application, existing *appsv1.Deployment, hpa *autoscalingv2.HorizontalPodAutoscaler, sources string,
) *appsv1ac.DeploymentApplyConfiguration {
	spec := appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).WithTemplate(template(app, sources))
	spec.Replicas = replicas(app, existing, hpa)
	return appsv1ac.Deployment(app.Name, app.Namespace).
		WithLabels(labels(app)).WithOwnerReferences(child.Reference(app, kind)).WithSpec(spec)
}

// template returns the template of the Pods. Without spec.podTemplate it has no field that only spec.podTemplate needs: a field that
// is new in the operator must not replace the Pods of Applications that exist.
func template(app *v1.Application, sources string) *corev1ac.PodTemplateSpecApplyConfiguration {
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(app)}}
	if t := app.Spec.PodTemplate; t != nil {
		t.AddTo(&pod.ObjectMeta, &pod.Spec, selector(app))
		pod.Spec.AutomountServiceAccountToken = t.AutomountServiceAccountToken
		// The API server sets each of these two fields to the other one. So the name goes only with both.
		pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	}
	if sources != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationSources, sources)
	}
	for _, secret := range app.Spec.ImagePullSecrets {
		if !slices.Contains(pod.Spec.ImagePullSecrets, secret) {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, secret)
		}
	}
	template := corev1ac.PodTemplateSpec()
	convert(pod, template)
	template.Spec.Containers = slices.Insert(template.Spec.Containers, 0, *container(&app.Spec))
	setDefaults(template.Spec)
	return template
}

// setDefaults sets what the API server defaults below fields that are atomic: the operator owns these as a whole, so it must apply those
// values too. It also sets what only an owner can remove again: the value of an empty variable, and the emptyDir of a volume without a
// source.
func setDefaults(pod *corev1ac.PodSpecApplyConfiguration) {
	field := func(ref *corev1ac.ObjectFieldSelectorApplyConfiguration) {
		if ref != nil && ref.APIVersion == nil {
			ref.WithAPIVersion("v1")
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for i := range c.Env {
			switch e := &c.Env[i]; {
			case e.ValueFrom != nil:
				field(e.ValueFrom.FieldRef)
			case e.Value == nil:
				e.WithValue("")
			}
		}
	}
	files := func(items []corev1ac.DownwardAPIVolumeFileApplyConfiguration) {
		for _, item := range items {
			field(item.FieldRef)
		}
	}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.VolumeSourceApplyConfiguration == (corev1ac.VolumeSourceApplyConfiguration{}) {
			v.WithEmptyDir(corev1ac.EmptyDirVolumeSource())
		}
		if v.DownwardAPI != nil {
			files(v.DownwardAPI.Items)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.DownwardAPI != nil {
				files(source.DownwardAPI.Items)
			}
			if token := source.ServiceAccountToken; token != nil && token.ExpirationSeconds == nil {
				token.WithExpirationSeconds(60 * 60)
			}
			if certificate := source.PodCertificate; certificate != nil && certificate.MaxExpirationSeconds == nil {
				certificate.WithMaxExpirationSeconds(24 * 60 * 60)
			}
		}
	}
}

// replicas returns the number of Pods to apply, or nil if another client owns the field.
//
// With an autoscaler, the operator applies the present value as long as it owns the field. If it did not apply the field, the field would
// have no owner, and the API server would default it to 1. When the autoscaler changes the number, it becomes the owner of the field, and
// the operator no longer applies it. If the cache does not show that change yet, the apply fails with a conflict, because it carries the
// resourceVersion in the cache. All of this also holds for an autoscaler that the spec no longer requests, until it is gone.
func replicas(app *v1.Application, existing *appsv1.Deployment, hpa *autoscalingv2.HorizontalPodAutoscaler) *int32 {
	autoscaling, n := app.Spec.Autoscaling, *app.Spec.Replicas
	switch {
	case autoscaling == nil && hpa == nil:
		return &n
	case existing == nil && hpa != nil:
		if wanted := hpa.Status.DesiredReplicas; wanted > 0 {
			n = wanted // The Deployment was deleted.
		}
	case existing == nil:
	case !ownsReplicas(existing):
		return nil
	default:
		n = ptr.Deref(existing.Spec.Replicas, n)
	}
	if autoscaling == nil {
		return &n
	}
	return within(autoscaling, n)
}

func ownsReplicas(d *appsv1.Deployment) bool { return child.Owns(d, "spec", "replicas") }

// within returns the number closest to n within the limits of the autoscaler. The number is never 0: an autoscaler does not
// scale a Deployment with 0 replicas.
func within(a *v1.Autoscaling, n int32) *int32 {
	return ptr.To(max(*a.MinReplicas, min(n, a.MaxReplicas)))
}

func container(spec *v1.ApplicationSpec) *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().WithName("app").WithImage(spec.Image).
		WithPorts(corev1ac.ContainerPort().WithName(v1.PortName).WithContainerPort(*spec.Port).WithProtocol(corev1.ProtocolTCP)).
		WithCommand(spec.Command...).WithArgs(spec.Args...)
	probes := ptr.Deref(spec.Probes, v1.Probes{})
	for _, field := range []struct {
		given    bool
		from, to any
	}{
		{len(spec.Env) > 0, spec.Env, &c.Env},
		{len(spec.EnvFrom) > 0, spec.EnvFrom, &c.EnvFrom},
		{spec.Resources != nil, spec.Resources, &c.Resources},
		{spec.SecurityContext != nil, spec.SecurityContext, &c.SecurityContext},
		{len(spec.VolumeMounts) > 0, spec.VolumeMounts, &c.VolumeMounts},
		{probes.Liveness != nil, probes.Liveness, &c.LivenessProbe},
		{probes.Readiness != nil, probes.Readiness, &c.ReadinessProbe},
		{probes.Startup != nil, probes.Startup, &c.StartupProbe},
	} {
		if field.given {
			convert(field.from, field.to)
		}
	}
	return c
}

// convert converts a value of the API to its apply configuration. Both have the same JSON, so there is no error.
func convert(from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err)
	}
}

// service returns the Service of the Pods.
func service(app *v1.Application) *corev1ac.ServiceApplyConfiguration {
	s := &app.Spec.Service
	if !*s.Enabled {
		return nil
	}
	return corev1ac.Service(app.Name, app.Namespace).
		WithLabels(labels(app)).WithAnnotations(s.Annotations).WithOwnerReferences(child.Reference(app, kind)).
		WithSpec(corev1ac.ServiceSpec().WithType(s.Type).WithSelector(selector(app)).WithPorts(
			corev1ac.ServicePort().WithName(v1.PortName).WithProtocol(corev1.ProtocolTCP).
				WithPort(app.Spec.ServicePort()).WithTargetPort(intstr.FromString(v1.PortName))))
}

// ingress returns the Ingress of the Service.
func ingress(app *v1.Application) *networkingv1ac.IngressApplyConfiguration {
	i := &app.Spec.Ingress
	if !*i.Enabled {
		return nil
	}
	backend := networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().
		WithName(app.Name).WithPort(networkingv1ac.ServiceBackendPort().WithNumber(app.Spec.ServicePort())))
	spec := networkingv1ac.IngressSpec().
		WithRules(networkingv1ac.IngressRule().WithHost(i.Host).WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(
			networkingv1ac.HTTPIngressPath().WithPath(i.Path).WithPathType(networkingv1.PathTypePrefix).WithBackend(backend))))
	if *i.ClassName != "" {
		spec.WithIngressClassName(*i.ClassName)
	}
	if i.TLS != nil {
		spec.WithTLS(networkingv1ac.IngressTLS().WithHosts(i.Host).WithSecretName(i.TLS.SecretName))
	}
	return networkingv1ac.Ingress(app.Name, app.Namespace).
		WithLabels(labels(app)).WithAnnotations(i.Annotations).WithOwnerReferences(child.Reference(app, kind)).WithSpec(spec)
}

// route returns the HTTPRoute of the Service. Its lists are atomic, so it has all fields that the API server would default.
func route(app *v1.Application) *gatewayv1ac.HTTPRouteApplyConfiguration {
	g, i := app.Spec.Gateway, &app.Spec.Ingress
	if g == nil {
		return nil
	}
	parent := gatewayv1ac.ParentReference().WithGroup(gatewayv1.GroupName).WithKind("Gateway").WithName(gatewayv1.ObjectName(g.Name))
	if g.Namespace != "" {
		parent.WithNamespace(gatewayv1.Namespace(g.Namespace))
	}
	if g.SectionName != "" {
		parent.WithSectionName(gatewayv1.SectionName(g.SectionName))
	}
	return gatewayv1ac.HTTPRoute(app.Name, app.Namespace).
		WithLabels(labels(app)).WithOwnerReferences(child.Reference(app, kind)).
		WithSpec(gatewayv1ac.HTTPRouteSpec().WithParentRefs(parent).WithHostnames(gatewayv1.Hostname(i.Host)).WithRules(
			gatewayv1ac.HTTPRouteRule().
				WithMatches(gatewayv1ac.HTTPRouteMatch().WithPath(
					gatewayv1ac.HTTPPathMatch().WithType(gatewayv1.PathMatchPathPrefix).WithValue(i.Path))).
				WithBackendRefs(gatewayv1ac.HTTPBackendRef().WithGroup("").WithKind("Service").
					WithName(gatewayv1.ObjectName(app.Name)).WithPort(app.Spec.ServicePort()).WithWeight(1))))
}

// autoscaler returns the HorizontalPodAutoscaler of the Deployment.
func autoscaler(app *v1.Application) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	a := app.Spec.Autoscaling
	if a == nil {
		return nil
	}
	cpu, memory := a.TargetCPUUtilizationPercentage, a.TargetMemoryUtilizationPercentage
	if cpu == nil && memory == nil {
		cpu = ptr.To[int32](v1.DefaultCPUUtilizationPercentage)
	}
	spec := autoscalingv2ac.HorizontalPodAutoscalerSpec().
		WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().WithAPIVersion("apps/v1").WithKind("Deployment").WithName(app.Name)).
		WithMinReplicas(*a.MinReplicas).WithMaxReplicas(a.MaxReplicas)
	for _, target := range []struct {
		resource corev1.ResourceName
		percent  *int32
	}{{corev1.ResourceCPU, cpu}, {corev1.ResourceMemory, memory}} {
		if target.percent != nil {
			spec.WithMetrics(autoscalingv2ac.MetricSpec().WithType(autoscalingv2.ResourceMetricSourceType).
				WithResource(autoscalingv2ac.ResourceMetricSource().WithName(target.resource).
					WithTarget(autoscalingv2ac.MetricTarget().WithType(autoscalingv2.UtilizationMetricType).WithAverageUtilization(*target.percent))))
		}
	}
	return autoscalingv2ac.HorizontalPodAutoscaler(app.Name, app.Namespace).
		WithLabels(labels(app)).WithOwnerReferences(child.Reference(app, kind)).WithSpec(spec)
}

// budget returns the PodDisruptionBudget of the Pods.
func budget(app *v1.Application) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	p := app.Spec.PDB
	if p == nil {
		return nil
	}
	spec := policyv1ac.PodDisruptionBudgetSpec().WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app)))
	switch {
	case p.MinAvailable != nil:
		spec.WithMinAvailable(*p.MinAvailable)
	case p.MaxUnavailable != nil:
		spec.WithMaxUnavailable(*p.MaxUnavailable)
	default:
		spec.WithMaxUnavailable(intstr.FromInt32(1))
	}
	return policyv1ac.PodDisruptionBudget(app.Name, app.Namespace).
		WithLabels(labels(app)).WithOwnerReferences(child.Reference(app, kind)).WithSpec(spec)
}

// selector returns the labels that select the Pods. They can never change: a Deployment's selector is immutable.
func selector(app *v1.Application) map[string]string {
	return map[string]string{v1.LabelApplication: app.Name}
}

func labels(app *v1.Application) map[string]string {
	return map[string]string{
		v1.LabelApplication:            app.Name,
		"app.kubernetes.io/name":       app.Name,
		"app.kubernetes.io/managed-by": glassback.Name,
	}
}
