/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	maxEnv         = 256
	maxEnvFrom     = 64
	maxPullSecrets = 16

	oneSource    = "must have exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef"
	oneReference = "must have exactly one of configMapRef and secretRef, with a name"
	oneHandler   = "must have exactly one of httpGet, tcpSocket, grpc and exec"
)

var (
	// variable is a name of an environment variable that every API server takes: older
	// ones take no others. They refuse ".", and what begins with "..", besides.
	variable = regexp.MustCompile(`^[-._a-zA-Z][-._a-zA-Z0-9]{0,127}$`)
	// secretName is wider than objectName: the schema's rule goes by characters, and
	// does not look at what is between two dots.
	secretName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)

	podFields = sets.New("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	containerResources = sets.New("limits.cpu", "limits.memory", "limits.ephemeral-storage",
		"requests.cpu", "requests.memory", "requests.ephemeral-storage")
	divisors = sets.New("0", "1m", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")

	// fractional are the resources that need not be whole numbers.
	fractional = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
)

// validateEnv blames the first entry that is wrong, and every name that is there
// twice.
func validateEnv(path *field.Path, env []corev1.EnvVar) field.ErrorList {
	if len(env) > maxEnv {
		return field.ErrorList{field.TooMany(path, len(env), maxEnv)}
	}
	errs := duplicates(path, env, func(v corev1.EnvVar) string { return v.Name })
	for i := range env {
		if err := validateVariable(path.Index(i), &env[i]); err != nil {
			return append(errs, err)
		}
	}
	return errs
}

func validateVariable(path *field.Path, v *corev1.EnvVar) *field.Error {
	switch {
	case !variable.MatchString(v.Name) || v.Name == "." || strings.HasPrefix(v.Name, ".."):
		return field.Invalid(path.Child("name"), v.Name,
			`must be 1 to 128 letters, digits, "_", "-" and ".", the first neither a digit nor ".."`)
	case v.ValueFrom == nil:
		return nil
	case v.Value != "":
		return field.Invalid(path.Child("value"), v.Value, "must have either value or valueFrom")
	}
	return validateSource(path.Child("valueFrom"), v.ValueFrom)
}

func validateSource(path *field.Path, from *corev1.EnvVarSource) *field.Error {
	if from.FileKeyRef != nil {
		return field.Forbidden(path.Child("fileKeyRef"), oneSource+": an Application has no volumes")
	}
	if n := count(from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil, from.FieldRef != nil, from.ResourceFieldRef != nil); n != 1 {
		return field.Invalid(path, fmt.Sprintf("%d of them", n), oneSource)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		return validateKey(path.Child("configMapKeyRef"), ref.Name, ref.Key)
	}
	if ref := from.SecretKeyRef; ref != nil {
		return validateKey(path.Child("secretKeyRef"), ref.Name, ref.Key)
	}
	if ref := from.FieldRef; ref != nil {
		path := path.Child("fieldRef")
		if ref.APIVersion != "" && ref.APIVersion != "v1" {
			return field.NotSupported(path.Child("apiVersion"), ref.APIVersion, []string{"v1"})
		}
		if !podFields.Has(ref.FieldPath) && !strings.HasPrefix(ref.FieldPath, "metadata.labels[") && !strings.HasPrefix(ref.FieldPath, "metadata.annotations[") {
			return field.NotSupported(path.Child("fieldPath"), ref.FieldPath, append(sets.List(podFields), "metadata.labels['<KEY>']", "metadata.annotations['<KEY>']"))
		}
		return nil
	}
	path = path.Child("resourceFieldRef")
	if resource := from.ResourceFieldRef.Resource; !containerResources.Has(resource) {
		return field.NotSupported(path.Child("resource"), resource, sets.List(containerResources))
	}
	if divisor := from.ResourceFieldRef.Divisor.String(); !divisors.Has(divisor) {
		return field.NotSupported(path.Child("divisor"), divisor, sets.List(divisors))
	}
	return nil
}

func validateKey(path *field.Path, name, key string) *field.Error {
	switch {
	case name == "":
		return field.Required(path.Child("name"), "")
	case key == "":
		return field.Required(path.Child("key"), "")
	}
	return nil
}

// validateEnvFrom blames the first entry that is wrong.
func validateEnvFrom(path *field.Path, from []corev1.EnvFromSource) field.ErrorList {
	if len(from) > maxEnvFrom {
		return field.ErrorList{field.TooMany(path, len(from), maxEnvFrom)}
	}
	for i, source := range from {
		path := path.Index(i)
		switch {
		case (source.ConfigMapRef != nil) == (source.SecretRef != nil):
			return field.ErrorList{field.Invalid(path, source.Prefix, oneReference)}
		case source.ConfigMapRef != nil && source.ConfigMapRef.Name == "":
			return field.ErrorList{field.Required(path.Child("configMapRef", "name"), oneReference)}
		case source.SecretRef != nil && source.SecretRef.Name == "":
			return field.ErrorList{field.Required(path.Child("secretRef", "name"), oneReference)}
		}
	}
	return nil
}

// validatePullSecrets blames the first entry that is wrong, and every name that is
// there twice.
func validatePullSecrets(path *field.Path, secrets []corev1.LocalObjectReference) field.ErrorList {
	if len(secrets) > maxPullSecrets {
		return field.ErrorList{field.TooMany(path, len(secrets), maxPullSecrets)}
	}
	errs := duplicates(path, secrets, func(s corev1.LocalObjectReference) string { return s.Name })
	for i, secret := range secrets {
		if !secretName.MatchString(secret.Name) {
			return append(errs, field.Invalid(path.Index(i).Child("name"), secret.Name, "cannot be the name of a Secret"))
		}
	}
	return errs
}

func validateResources(path *field.Path, r *corev1.ResourceRequirements) field.ErrorList {
	if r == nil {
		return nil
	}
	errs := validateQuantities(path.Child("limits"), r.Limits)
	errs = append(errs, validateQuantities(path.Child("requests"), r.Requests)...)
	for _, name := range fractional {
		request, requested := r.Requests[name]
		limit, limited := r.Limits[name]
		if requested && limited && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), request.String(), "must not be more than in limits"))
		}
	}
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("claims"), "must be empty: an Application has no resourceClaims"))
	}
	return errs
}

func validateQuantities(path *field.Path, quantities corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		quantity := quantities[name]
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "must not be negative"))
		} else if _, whole := quantity.AsInt64(); !whole && !slices.Contains(fractional, name) {
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(),
				"resources other than cpu, memory and ephemeral-storage must be whole numbers"))
		}
	}
	return errs
}

func (p *Probes) validate(path *field.Path) field.ErrorList {
	errs := validateProbe(path.Child("liveness"), p.Liveness, true)
	errs = append(errs, validateProbe(path.Child("readiness"), p.Readiness, false)...)
	return append(errs, validateProbe(path.Child("startup"), p.Startup, true)...)
}

// validateProbe takes restarts to be whether the container restarts when the probe
// fails.
func validateProbe(path *field.Path, p *corev1.Probe, restarts bool) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := validateHandler(path, &p.ProbeHandler)
	for _, number := range []struct {
		field string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if number.value < 0 {
			errs = append(errs, field.Invalid(path.Child(number.field), number.value, "must not be negative"))
		}
	}
	if restarts && p.SuccessThreshold > 1 {
		errs = append(errs, field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "can only be 1"))
	}
	if grace := p.TerminationGracePeriodSeconds; grace != nil && !restarts {
		errs = append(errs, field.Forbidden(path.Child("terminationGracePeriodSeconds"), "goes with the other probes only"))
	} else if ptr.Deref(grace, 1) < 1 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *grace, "must be at least 1"))
	}
	return errs
}

func validateHandler(path *field.Path, h *corev1.ProbeHandler) field.ErrorList {
	var errs field.ErrorList
	if n := count(h.HTTPGet != nil, h.TCPSocket != nil, h.GRPC != nil, h.Exec != nil); n != 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%d of them", n), oneHandler))
	} else if h.Exec != nil && len(h.Exec.Command) == 0 {
		errs = append(errs, field.Required(path.Child("exec", "command"), ""))
	}
	if get := h.HTTPGet; get != nil {
		path := path.Child("httpGet")
		errs = append(errs, validateProbePort(path.Child("port"), get.Port)...)
		schemes := []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}
		if get.Scheme != "" && !slices.Contains(schemes, get.Scheme) {
			errs = append(errs, field.NotSupported(path.Child("scheme"), get.Scheme, schemes))
		}
	}
	if h.TCPSocket != nil {
		errs = append(errs, validateProbePort(path.Child("tcpSocket", "port"), h.TCPSocket.Port)...)
	}
	if h.GRPC != nil {
		errs = append(errs, inRange(path.Child("grpc", "port"), &h.GRPC.Port, 1, maxPort)...)
	}
	return errs
}

func validateProbePort(path *field.Path, port intstr.IntOrString) field.ErrorList {
	if port.Type == intstr.Int && port.IntVal >= 1 && port.IntVal <= maxPort || port.Type == intstr.String && port.StrVal == PortName {
		return nil
	}
	return field.ErrorList{field.Invalid(path, port.String(), fmt.Sprintf(
		"must be a number from 1 to %d, without quotes, or %q, which stands for spec.port", maxPort, PortName))}
}

// duplicates blames the second of the entries of a name, as the API server does
// with the entries of a map list.
func duplicates[T any](path *field.Path, entries []T, name func(T) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]int{}
	for i, entry := range entries {
		if seen[name(entry)]++; seen[name(entry)] == 2 {
			errs = append(errs, field.Duplicate(path.Index(i), name(entry)))
		}
	}
	return errs
}

func count(set ...bool) int {
	n := 0
	for _, is := range set {
		if is {
			n++
		}
	}
	return n
}
