/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package sixth

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/glassback/glassback/pkg/child"
)

// observed is what one sync sees of a Service's ConfigMap. It is the cache's own:
// nobody may change it.
type observed = child.Seen[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]

func (c *Controller) observe(service *corev1.Service) observed {
	return c.configMaps.Observe(service, configMapName(service))
}
