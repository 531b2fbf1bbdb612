// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

const (
	maxEnv         = 256
	maxEnvName     = 253
	maxEnvFrom     = 64
	maxPullSecrets = 16
)

var variable = regexp.MustCompile(`^[-._a-zA-Z][-._a-zA-Z0-9]*$`)

func validateEnv(path *field.Path, env []EnvVar) field.ErrorList {
	errs := duplicates(path, env, func(v EnvVar) string { return v.Name })
	return append(errs, validateEntries(path, env, maxEnv, validateVariable)...)
}

func validateVariable(path *field.Path, v EnvVar) field.ErrorList {
	errs := glassback.ValidateText(path.Child("name"), v.Name, maxEnvName, variable.MatchString,
		`must be letters, digits, "_", "-" and ".", and must not begin with a digit`)
	from := v.ValueFrom
	switch {
	case from == nil:
		return errs
	case v.Value != "":
		// The error does not quote the value: it may be a secret.
		return append(errs, field.Forbidden(path.Child("value"), "must have either value or valueFrom"))
	}
	return append(errs, exactlyOne(path.Child("valueFrom"), "configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef",
		from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil, from.FieldRef != nil, from.ResourceFieldRef != nil)...)
}

func validateEnvFrom(path *field.Path, from []corev1.EnvFromSource) field.ErrorList {
	return validateEntries(path, from, maxEnvFrom, func(path *field.Path, source corev1.EnvFromSource) field.ErrorList {
		return exactlyOne(path, "configMapRef and secretRef", source.ConfigMapRef != nil, source.SecretRef != nil)
	})
}

func validatePullSecrets(path *field.Path, secrets []corev1.LocalObjectReference) field.ErrorList {
	errs := duplicates(path, secrets, func(s corev1.LocalObjectReference) string { return s.Name })
	return append(errs, validateEntries(path, secrets, maxPullSecrets, func(path *field.Path, s corev1.LocalObjectReference) field.ErrorList {
		if s.Name == "" {
			return field.ErrorList{field.Required(path.Child("name"), "every entry must have the name of a Secret")}
		}
		return nil
	})...)
}

func (p *Probes) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, probe := range []struct {
		field string
		*Probe
	}{{"liveness", p.Liveness}, {"readiness", p.Readiness}, {"startup", p.Startup}} {
		if p := probe.Probe; p != nil {
			errs = append(errs, exactlyOne(path.Child(probe.field), "httpGet, tcpSocket, grpc and exec",
				p.HTTPGet != nil, p.TCPSocket != nil, p.GRPC != nil, p.Exec != nil)...)
		}
	}
	return errs
}

func exactlyOne(path *field.Path, of string, has ...bool) field.ErrorList {
	n := 0
	for _, is := range has {
		if is {
			n++
		}
	}
	if n == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d of them", n), "must have exactly one of "+of)}
}

// validateEntries returns the errors of the first invalid entry, as the rules of the schema do.
func validateEntries[T any](path *field.Path, entries []T, most int, validate func(*field.Path, T) field.ErrorList) field.ErrorList {
	if len(entries) > most {
		return field.ErrorList{field.TooMany(path, len(entries), most)}
	}
	for i, entry := range entries {
		if errs := validate(path.Index(i), entry); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// duplicates returns an error for the second entry of each name, as the API server does for
// the entries of a map list. It reads at most maxEnv entries, the limit of the longest list.
func duplicates[T any](path *field.Path, entries []T, name func(T) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]int{}
	for i, entry := range entries[:min(len(entries), maxEnv)] {
		if seen[name(entry)]++; seen[name(entry)] == 2 {
			errs = append(errs, field.Duplicate(path.Index(i), name(entry)))
		}
	}
	return errs
}
