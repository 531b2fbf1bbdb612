// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestValidatePodTemplate(t *testing.T) {
	with := func(template PodTemplate) *RedisCluster {
		return valid(func(s *RedisClusterSpec) { s.PodTemplate = &template })
	}
	for name, test := range map[string]verdict{
		"an empty one is valid": {with(PodTemplate{}), ""},
		"additions are valid": {with(PodTemplate{
			Labels: map[string]string{"team": "shop"}, Annotations: map[string]string{"app": "any"},
			SecurityContext:  &corev1.PodSecurityContext{},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			Containers:       []corev1.Container{{Name: "exporter"}}, InitContainers: []corev1.Container{{Name: "init"}},
			Volumes: []corev1.Volume{{Name: "cache"}}, Env: []corev1.EnvVar{{Name: "TZ"}},
		}), ""},
		"a label of the operator": {
			with(PodTemplate{Labels: map[string]string{LabelApp: "cache"}}), "spec.podTemplate.labels[app]: Forbidden: the operator sets it"},
		"the label by which the operator finds the Pod": {with(PodTemplate{Labels: map[string]string{LabelRedisCluster: "other"}}),
			"spec.podTemplate.labels[bytewang123-redis.wzj.kubebuilder.io/rediscluster]: Forbidden: the operator sets it"},
		"the annotation of the operator": {with(PodTemplate{Annotations: map[string]string{GroupName + "/revision": "1"}}),
			"spec.podTemplate.annotations[bytewang123-redis.wzj.kubebuilder.io/revision]: Forbidden: the operator sets it"},
		"the container of the operator": {with(PodTemplate{Containers: []corev1.Container{{Name: "redis"}}}),
			"spec.podTemplate.containers[redis]: Forbidden: the operator sets it"},
		"an init container with its name": {with(PodTemplate{InitContainers: []corev1.Container{{Name: "redis"}}}),
			"spec.podTemplate.initContainers[redis]: Forbidden: the operator sets it"},
		"a volume of the operator": {with(PodTemplate{Volumes: []corev1.Volume{{Name: "data"}}}),
			"spec.podTemplate.volumes[data]: Forbidden: the operator sets it"},
		"a variable of the scripts": {with(PodTemplate{Env: []corev1.EnvVar{{Name: "POD_IP"}}}),
			"spec.podTemplate.env[POD_IP]: Forbidden: the operator sets it"},
		"a variable that the scripts may use later": {with(PodTemplate{Env: []corev1.EnvVar{{Name: "GLASSBACK_TLS"}}}),
			"spec.podTemplate.env[GLASSBACK_TLS]: Forbidden: the operator sets it"},
		"two containers with one name": {with(PodTemplate{Containers: []corev1.Container{{Name: "a"}, {Name: "a"}}}),
			`spec.podTemplate.containers[1]: Duplicate value: "a"`},
		"a Secret without a name": {with(PodTemplate{ImagePullSecrets: []corev1.LocalObjectReference{{}}}),
			`spec.podTemplate.imagePullSecrets: Invalid value: "": every entry must have the name of a Secret`},
		"too many containers": {with(PodTemplate{Containers: make([]corev1.Container, maxContainers+1)}),
			"spec.podTemplate.containers: Too many: 17: must have at most 16 items"},
		"as many labels as possible are valid": {with(PodTemplate{Labels: numbered(maxMetadata)}), ""},
		"too many labels":                      {with(PodTemplate{Labels: numbered(maxMetadata + 1)}), "spec.podTemplate.labels: Too many: 65"},
	} {
		t.Run(name, test.run)
	}
}

// numbered returns so many labels.
func numbered(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint("label-", i)] = "value"
	}
	return all
}
