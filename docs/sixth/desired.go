/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package sixth

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/glassback/glassback/pkg/child"
)

// configMapName follows from the Service alone: whoever crashes finds it again.
func configMapName(service *corev1.Service) string { return service.Name + "-address" }

// configMap is the ConfigMap that holds the address: the fields of it that are
// Glassback's. It is nil if the Service does not ask for one.
func configMap(service *corev1.Service) *corev1ac.ConfigMapApplyConfiguration {
	if _, asks := asking(service); !asks {
		return nil
	}
	return corev1ac.ConfigMap(configMapName(service), service.Namespace).
		WithLabels(map[string]string{LabelService: service.Name}).
		WithOwnerReferences(child.Reference(service, kind)).
		WithData(address(service))
}

// address is made for envFrom. The names of ports are lower-case DNS labels, so that
// no two become one.
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
