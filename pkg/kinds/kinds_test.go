// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"
	"testing"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/must"
)

// TestEachDefinitionHasADescriptor: without one, no part of the operator would know the objects, and no error would report it. What the
// descriptor repeats of the definition must be the same.
func TestEachDefinitionHasADescriptor(t *testing.T) {
	definitions, err := crd.All()
	must.Succeed(t, err)
	described := slices.Collect(Custom())
	if len(definitions) != len(described) {
		t.Errorf("there are %d definitions, and descriptors of %d custom resources", len(definitions), len(described))
	}
	for _, definition := range definitions {
		names, version := definition.Spec.Names, definition.Spec.Versions[0]
		i := slices.IndexFunc(described, func(d *descriptor.Descriptor) bool { return d.Kind == names.Kind })
		if i < 0 {
			t.Errorf("%s has no descriptor", definition.Name)
			continue
		}
		d := described[i]
		if d.Group != definition.Spec.Group || d.Version != version.Name || d.Custom.Plural != names.Plural ||
			!slices.Equal(names.ShortNames, []string{d.Custom.Short}) {
			t.Errorf("%s is %+v", definition.Name, d)
		}
		if scales := version.Subresources.Scale != nil; d.Custom.Webhook.Replicas != nil && !scales {
			t.Errorf("%s has no subresource scale", definition.Name)
		}
		if d.Decisions.Name != d.Kind {
			t.Errorf("the decisions for %s are those for %q", d.Kind, d.Decisions.Name)
		}
	}
}

func TestTheTableIsSorted(t *testing.T) {
	if !slices.IsSorted(Names()) {
		t.Errorf("the controllers are %q", Names())
	}
}
