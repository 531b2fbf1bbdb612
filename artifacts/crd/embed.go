// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the CustomResourceDefinitions in the binary, as
// hack/update-codegen.sh makes them from pkg/apis.
package crd

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// AnnotationRevision is on every CustomResourceDefinition. Its number grows
// whenever the definition changes, so that of two the newer one can be told.
const AnnotationRevision = "glassback.dev/crd-revision"

// All returns the definitions, in the order of their names. It fails only if a file in the binary cannot be parsed.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("list embedded CRDs: %w", err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		data, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read embedded CRD %s: %w", entry.Name(), err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("parse embedded CRD %s: %w", entry.Name(), err)
		}
		crds = append(crds, crd)
	}
	// The files come in the order of their groups.
	slices.SortFunc(crds, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return crds, nil
}
