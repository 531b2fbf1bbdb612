// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package apiexamplea

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	"github.com/glassback/glassback/pkg/child"
)

// observed is the state that one sync decides on.
type observed struct {
	example *v1.ApiExampleA
	// configMap belongs to the cache: do not change it.
	configMap child.Observed[*corev1.ConfigMap]
	now       time.Time
}

// observe reads the ConfigMap of an ApiExampleA from the cache.
func (c *Controller) observe(_ context.Context, example *v1.ApiExampleA) (*observed, error) {
	return &observed{
		example:   example,
		configMap: c.configMaps.Observe(example, example.ConfigMapName()),
		now:       c.clock.Now(),
	}, nil
}
