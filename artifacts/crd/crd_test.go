// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

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
			t.Errorf("the CRD changed: raise %s in pkg/apis/… and update revisions.txt: %s", crd.AnnotationRevision, want)
			continue
		}
		t.Errorf("update revisions.txt: %s", want)
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

func TestAllReturnsEveryFileInTheOrderOfNames(t *testing.T) {
	crds, err := crd.All()
	must.Succeed(t, err)
	files := definitions(t)
	if len(crds) != len(files) {
		t.Errorf("All returns %d definitions, but there are %d files", len(crds), len(files))
	}
	last := ""
	for _, definition := range crds {
		if definition.Name <= last {
			t.Errorf("%s comes after %s", definition.Name, last)
		}
		last = definition.Name
		file := definition.Spec.Group + "_" + definition.Spec.Names.Plural + ".yaml"
		if !bytes.Contains(files[file], []byte("name: "+definition.Name)) {
			t.Errorf("%s is not in %s", definition.Name, file)
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
