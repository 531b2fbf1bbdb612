// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sixth

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/glassback/glassback/pkg/child"
)

// observed is the state that one sync decides on.
type observed struct {
	service *corev1.Service
	// configMap belongs to the cache: do not change it.
	configMap child.Observed[*corev1.ConfigMap]
}

// observe reads the ConfigMap of a Service from the cache.
func (c *Controller) observe(_ context.Context, service *corev1.Service) (*observed, error) {
	return &observed{service: service, configMap: c.configMaps.Observe(service, configMapName(service))}, nil
}
