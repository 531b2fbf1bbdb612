// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/must"
)

func TestTheAPIServerTakesEveryDefinition(t *testing.T) {
	if len(servers(t)) == 0 {
		t.Error("there are none")
	}
}

// A plain kubectl apply keeps the whole definition in an annotation, in JSON.
func TestADefinitionFitsIntoTheAnnotationOfAPlainApply(t *testing.T) {
	const limit = 256 << 10 // apimachinery's validation.TotalAnnotationSizeLimitB
	for name, data := range definitions(t) {
		encoded, err := yaml.YAMLToJSON(data)
		must.Succeed(t, err)
		if len(encoded) > limit*9/10 {
			t.Errorf("%s has %d bytes in JSON: %d are possible, and some room must be left", name, len(encoded), limit)
		}
	}
}

// revisions.txt says which revision of a definition its spec is: each line is
//
//	<name> <revision> <sha256 of the spec as canonical JSON, without descriptions>
//
// A blank line is between two lines, so that a patch of one has no other one as its context.
func TestADefinitionThatChangesGetsANewRevision(t *testing.T) {
	recorded := map[string]string{}
	data, err := os.ReadFile("revisions.txt")
	must.Succeed(t, err)
	for _, line := range slices.DeleteFunc(strings.Split(string(data), "\n"), func(s string) bool { return s == "" }) {
		name, _, _ := strings.Cut(line, " ")
		if recorded[name] != "" {
			t.Errorf("revisions.txt has two lines for %s", name)
		}
		recorded[name] = line
	}
	for _, data := range definitions(t) {
		name, revision, sum := fingerprint(t, data)
		want := fmt.Sprintf("%s %d %s", name, revision, sum)
		got := recorded[name]
		delete(recorded, name)
		if got == want {
			continue
		}
		var was int
		if _, err := fmt.Sscanf(strings.TrimPrefix(got, name), "%d", &was); err == nil && revision <= was {
			want = fmt.Sprintf("%s %d %s", name, was+1, sum)
			t.Errorf("the CRD changed: raise %s in pkg/apis/… and update artifacts/crd/revisions.txt: %s", crd.AnnotationRevision, want)
			continue
		}
		t.Errorf("update artifacts/crd/revisions.txt: %s", want)
	}
	for name := range recorded {
		t.Errorf("revisions.txt has a line for %s, which is not there", name)
	}
}

// fingerprint returns a definition's name, its revision and the sum of its spec without
// descriptions: another wording is no reason for an operator to refuse an older definition.
func fingerprint(t *testing.T, data []byte) (name string, revision int, sum string) {
	t.Helper()
	var definition struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec any `json:"spec"` // of maps, whose keys json.Marshal sorts
	}
	must.Succeed(t, yaml.Unmarshal(data, &definition))
	revision, err := strconv.Atoi(definition.Metadata.Annotations[crd.AnnotationRevision])
	if err != nil || revision < 1 {
		t.Fatalf("%s: %s must be a positive number: %v", definition.Metadata.Name, crd.AnnotationRevision, err)
	}
	withoutDescriptions(definition.Spec)
	spec, err := json.Marshal(definition.Spec)
	must.Succeed(t, err)
	return definition.Metadata.Name, revision, fmt.Sprintf("%x", sha256.Sum256(spec))
}

// withoutDescriptions removes every description from value. A property that is called description is a map, and stays.
func withoutDescriptions(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			withoutDescriptions(element)
		}
	case map[string]any:
		if _, text := value["description"].(string); text {
			delete(value, "description")
		}
		for _, element := range value {
			withoutDescriptions(element)
		}
	}
}

func definitions(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

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
