// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"os"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/must"
)

// stateMetrics is the part of a configuration of kube-state-metrics that artifacts/prometheus uses:
// https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/extend/customresourcestate-metrics.md
type stateMetrics struct {
	Kind string `json:"kind"`
	Spec struct {
		Resources []struct {
			GroupVersionKind metav1.GroupVersionKind `json:"groupVersionKind"`
			MetricNamePrefix string                  `json:"metricNamePrefix"`
			LabelsFromPath   map[string][]string     `json:"labelsFromPath"`
			ErrorLogV        int                     `json:"errorLogV"`
			Metrics          []struct {
				Name string `json:"name"`
				Help string `json:"help"`
				Each struct {
					Type  string       `json:"type"`
					Gauge *stateMetric `json:"gauge"`
					Info  *stateMetric `json:"info"`
				} `json:"each"`
			} `json:"metrics"`
		} `json:"resources"`
	} `json:"spec"`
}

type stateMetric struct {
	Path           []string            `json:"path"`
	LabelsFromPath map[string][]string `json:"labelsFromPath"`
	ValueFrom      []string            `json:"valueFrom"`
	NilIsZero      bool                `json:"nilIsZero"`
}

// metadata has the fields of metadata that the API server sets: a definition does not list them.
var metadata = apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
	"name": {Type: "string"}, "namespace": {Type: "string"}, "generation": {Type: "integer"},
	"creationTimestamp": {Type: "string", Format: "date-time"},
}}

// schemaAt returns the schema of the field at a path, or nil if there is none. The path of a field in a list does not name the items.
func schemaAt(schema *apiextensionsv1.JSONSchemaProps, path []string) *apiextensionsv1.JSONSchemaProps {
	for _, field := range path {
		if schema.Type == "array" {
			schema = schema.Items.Schema
		}
		next, known := schema.Properties[field]
		if !known {
			return nil
		}
		schema = &next
	}
	return schema
}

// TestKubeStateMetricsReadsFieldsThatExist looks for every path of the configuration in the definitions.
func TestKubeStateMetricsReadsFieldsThatExist(t *testing.T) {
	data, err := os.ReadFile("../prometheus/kube_state_metrics.yaml")
	must.Succeed(t, err)
	var config stateMetrics
	must.Succeed(t, yaml.UnmarshalStrict(data, &config))
	all, err := crd.All()
	must.Succeed(t, err)
	if config.Kind != "CustomResourceStateMetrics" || len(config.Spec.Resources) != len(all) {
		t.Errorf("it is a %s with %d resources, want %d", config.Kind, len(config.Spec.Resources), len(all))
	}
	for _, r := range config.Spec.Resources {
		t.Run(r.GroupVersionKind.Kind, func(t *testing.T) {
			at := slices.IndexFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool {
				return metav1.GroupVersionKind{
					Group: d.Spec.Group, Version: d.Spec.Versions[0].Name, Kind: d.Spec.Names.Kind,
				} == r.GroupVersionKind
			})
			if at < 0 {
				t.Fatalf("no definition is for %v", r.GroupVersionKind)
			}
			schema := all[at].Spec.Versions[0].Schema.OpenAPIV3Schema.DeepCopy()
			all = slices.Delete(all, at, at+1) // Each kind is there once.
			schema.Properties["metadata"] = metadata
			look := func(metric string, from *apiextensionsv1.JSONSchemaProps, path []string) *apiextensionsv1.JSONSchemaProps {
				found := schemaAt(from, path)
				if found == nil {
					t.Errorf("%s: there is no field %q", metric, path)
				}
				return found
			}
			for _, path := range r.LabelsFromPath {
				look("labels", schema, path)
			}
			names := map[string]bool{}
			for _, m := range r.Metrics {
				each := m.Each.Gauge
				if m.Each.Type == "Info" {
					each = m.Each.Info
				}
				if each == nil || (m.Each.Gauge == nil) == (m.Each.Info == nil) || m.Help == "" || names[m.Name] {
					t.Fatalf("%s is there twice, has no help, or is no %q", m.Name, m.Each.Type)
				}
				names[m.Name] = true
				from := look(m.Name, schema, each.Path)
				if from == nil {
					continue
				}
				for _, path := range each.LabelsFromPath {
					look(m.Name, from, path)
				}
				value := look(m.Name, from, each.ValueFrom)
				if number := value != nil && (value.Type == "integer" || value.Format == "date-time"); number != (m.Each.Type == "Gauge") {
					t.Errorf("%s is a %s, and its value a %s", m.Name, m.Each.Type, value.Type)
				}
			}
			if !names["condition_info"] {
				t.Error("its conditions are not there")
			}
		})
	}
}
