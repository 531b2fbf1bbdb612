// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

const (
	maxImage       = 1024
	maxPath        = 1024
	maxReplicas    = 10000
	maxPort        = 65535
	maxUtilization = 1000
	maxAnnotations = 64

	// annotationClass is the annotation for the class of an Ingress, from before spec had a field for it.
	annotationClass = "kubernetes.io/ingress.class"

	hostLabel = `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`
)

var (
	hostName  = regexp.MustCompile(`^([*][.])?` + hostLabel + `([.]` + hostLabel + `)*$`)
	ipAddress = regexp.MustCompile(`^[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+$`)
	urlPath   = regexp.MustCompile(`^/[-A-Za-z0-9._~!$&()*+,;=:@%/']*$`)
	// notAPrefix matches what the API server rejects in an Ingress path of type Prefix:
	// pkg/apis/networking/validation in Kubernetes.
	notAPrefix = regexp.MustCompile(`//|/[.][.]?(/|$)|%2[fF]`)
	share      = regexp.MustCompile(`^([0-9]{1,2}|100)%$`)
)

// Validate returns the errors of a, or nil. The argument is the object that a replaces:
// it is not used, because no field of an Application is immutable.
//
// It has the same rules as the schema, and also names the entry of a list that is invalid.
// Only the schema checks how a quantity is written.
//
// The API server may reject a Deployment or a Service for other reasons, when the controller
// applies it: then the condition Degraded has its message.
func (a *Application) Validate(_ *Application) field.ErrorList {
	var errs field.ErrorList
	if len(validation.IsDNS1035Label(a.Name)) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), a.Name,
			`must be a DNS label of no more than 63 characters that begins with a letter, like "shop": its Service has the same`))
	}
	return append(errs, a.Spec.validate(field.NewPath("spec"))...)
}

func (s *ApplicationSpec) validate(path *field.Path) field.ErrorList {
	errs := validateImage(path.Child("image"), s.Image)
	errs = append(errs, glassback.ValidateRange(path.Child("replicas"), s.Replicas, 0, maxReplicas)...)
	errs = append(errs, glassback.ValidateRange(path.Child("port"), s.Port, 1, maxPort)...)
	errs = append(errs, validateEnv(path.Child("env"), s.Env)...)
	errs = append(errs, validateEnvFrom(path.Child("envFrom"), s.EnvFrom)...)
	errs = append(errs, glassback.ValidateResources(path.Child("resources"), s.Resources)...)
	if s.Probes != nil {
		errs = append(errs, s.Probes.validate(path.Child("probes"))...)
	}
	errs = append(errs, validatePullSecrets(path.Child("imagePullSecrets"), s.ImagePullSecrets)...)
	errs = append(errs, s.Service.validate(path.Child("service"))...)
	errs = append(errs, s.Ingress.validate(path.Child("ingress"))...)
	if !ptr.Deref(s.Service.Enabled, true) && ptr.Deref(s.Ingress.Enabled, true) {
		errs = append(errs, field.Invalid(path.Child("ingress", "enabled"), true,
			"an Ingress needs the Service: where service.enabled is false, ingress.enabled must be false too"))
	}
	if s.Autoscaling != nil {
		errs = append(errs, s.Autoscaling.validate(path.Child("autoscaling"))...)
	}
	if s.PDB != nil {
		errs = append(errs, s.PDB.validate(path.Child("pdb"))...)
	}
	return errs
}

func validateImage(path *field.Path, image string) field.ErrorList {
	if image == "" {
		return field.ErrorList{field.Required(path, `say which image to run, like "nginx:1.27"`)}
	}
	return glassback.ValidateText(path, image, maxImage, glassback.ImageName.MatchString,
		`must be the name of an image, like "nginx:1.27" or "ghcr.io/owner/app:v1": without spaces, and in lower case but for the tag`)
}

func (s *Service) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	types := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}
	if !slices.Contains(types, s.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), s.Type, types))
	}
	errs = append(errs, glassback.ValidateRange(path.Child("port"), s.Port, 1, maxPort)...)
	return append(errs, validateAnnotations(path.Child("annotations"), s.Annotations)...)
}

func (i *Ingress) validate(path *field.Path) field.ErrorList {
	errs := glassback.ValidateObjectName(path.Child("className"), i.ClassName, "an IngressClass", "nginx")
	errs = append(errs, glassback.ValidateText(path.Child("host"), i.Host, validation.DNS1123SubdomainMaxLength,
		func(host string) bool { return hostName.MatchString(host) && !ipAddress.MatchString(host) },
		`must be a host name in lower case, like "shop.example.com" or "*.example.com": without scheme, port and path, and not an IP address`)...)
	errs = append(errs, glassback.ValidateText(path.Child("path"), i.Path, maxPath,
		func(path string) bool { return urlPath.MatchString(path) && !notAPrefix.MatchString(path) },
		`must be the path of a URL, like "/shop": it begins with "/", and has no "//", "/./", "/../" or "%2F", no spaces, and no "?" or "#"`)...)
	if i.TLS != nil {
		errs = append(errs, glassback.ValidateObjectName(path.Child("tls", "secretName"), i.TLS.SecretName, "a Secret", "shop-tls")...)
	}
	annotations := path.Child("annotations")
	if value, ok := i.Annotations[annotationClass]; ok {
		errs = append(errs, field.Invalid(annotations.Key(annotationClass), value, "set className instead of "+annotationClass))
	}
	return append(errs, validateAnnotations(annotations, i.Annotations)...)
}

func (a *Autoscaling) validate(path *field.Path) field.ErrorList {
	errs := glassback.ValidateRange(path.Child("maxReplicas"), &a.MaxReplicas, 1, maxReplicas)
	errs = append(errs, glassback.ValidateRange(path.Child("minReplicas"), a.MinReplicas, 1, maxReplicas)...)
	if low := ptr.Deref(a.MinReplicas, DefaultMinReplicas); a.MaxReplicas >= 1 && low <= maxReplicas && low > a.MaxReplicas {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), low, "must not be more than maxReplicas"))
	}
	cpu, memory := path.Child("targetCPUUtilizationPercentage"), path.Child("targetMemoryUtilizationPercentage")
	errs = append(errs, glassback.ValidateRange(cpu, a.TargetCPUUtilizationPercentage, 1, maxUtilization)...)
	return append(errs, glassback.ValidateRange(memory, a.TargetMemoryUtilizationPercentage, 1, maxUtilization)...)
}

func (b *DisruptionBudget) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if b.MinAvailable != nil && b.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), b.MaxUnavailable.String(),
			"minAvailable and maxUnavailable exclude each other: set one of them"))
	}
	for _, limit := range []struct {
		field string
		value *intstr.IntOrString
	}{{"minAvailable", b.MinAvailable}, {"maxUnavailable", b.MaxUnavailable}} {
		if v := limit.value; v != nil && (v.Type == intstr.Int && v.IntVal < 0 || v.Type == intstr.String && !share.MatchString(v.StrVal)) {
			errs = append(errs, field.Invalid(path.Child(limit.field), v.String(),
				`must be a number that is not negative, or a share from "0%" to "100%"`))
		}
	}
	return errs
}

func validateAnnotations(path *field.Path, annotations map[string]string) field.ErrorList {
	if len(annotations) > maxAnnotations {
		return field.ErrorList{field.TooMany(path, len(annotations), maxAnnotations)}
	}
	return nil
}
