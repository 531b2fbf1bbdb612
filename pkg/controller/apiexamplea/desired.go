// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
)

// greetingKey is the key in the ConfigMap's data.
const greetingKey = "greeting"

// configMap returns the fields of the ConfigMap that the operator owns, including the greeting.
func configMap(example *v1.ApiExampleA) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(example.ConfigMapName(), example.Namespace).
		WithLabels(map[string]string{v1.LabelApiExampleA: example.Name}).
		WithOwnerReferences(child.Reference(example, kind)).
		WithData(map[string]string{greetingKey: example.Greeting()})
}
