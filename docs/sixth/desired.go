// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/glassback/glassback/pkg/child"
)

// configMapName returns the name of the ConfigMap. It follows from the Service alone, so that an operator finds the
// ConfigMap again after a crash.
func configMapName(service *corev1.Service) string { return service.Name + "-address" }

// configMap returns the fields of the ConfigMap that the operator owns: the address among them.
func configMap(service *corev1.Service) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(configMapName(service), service.Namespace).
		WithLabels(map[string]string{LabelService: service.Name}).
		WithOwnerReferences(child.Reference(service, kind)).
		WithData(address(service))
}

// address returns the data of the ConfigMap, for envFrom. Two ports never get the same key: their names are lower-case
// DNS labels.
func address(service *corev1.Service) map[string]string {
	data := map[string]string{"HOST": service.Name + "." + service.Namespace + ".svc"}
	for _, port := range service.Spec.Ports {
		name := "PORT"
		if port.Name != "" {
			name += "_" + strings.ToUpper(strings.ReplaceAll(port.Name, "-", "_"))
		}
		data[name] = strconv.Itoa(int(port.Port))
	}
	return data
}
