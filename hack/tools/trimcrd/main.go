// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command trimcrd drops, below some fields of a CRD that controller-gen made, the descriptions and the rules about updates:
//
//	trimcrd FILE spec.jobTemplate spec.env.valueFrom
//
// A Job template brings some 600 KB of descriptions of the built-in types along. With them a CRD is too large for the annotation of a plain
// kubectl apply, and the API server would publish them once more; kubectl explain job has them.
//
// It also bounds the exponents of quantities. controller-gen's pattern allows "1e1.5", which no client can parse, and "1e-99999999", which
// takes minutes: one such object would stop every informer. For the same reason it bounds the numbers of an intstr.IntOrString: no client
// can decode 2147483648.
package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: trimcrd FILE FIELD.PATH...")
		os.Exit(2)
	}
	if err := trim(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "trimcrd:", err)
		os.Exit(1)
	}
}

func trim(file string, paths []string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return fmt.Errorf("parse %s: %w", file, err)
	}
	versions, _ := crd["spec"].(map[string]any)["versions"].([]any)
	for _, v := range versions {
		root := v.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		for _, path := range paths {
			schema := lookUp(root, path)
			if schema == nil {
				return fmt.Errorf("%s has no field %s", file, path)
			}
			for key, value := range schema {
				if key != "description" {
					trimSchema(value)
				}
			}
		}
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("render %s: %w", file, err)
	}
	return os.WriteFile(file, append([]byte("---\n"), bytes.TrimPrefix(out, []byte("---\n"))...), 0o644)
}

// lookUp returns the schema of a field, or nil. The fields of a list are those of its items.
func lookUp(schema map[string]any, path string) map[string]any {
	for name := range strings.SplitSeq(path, ".") {
		if items, list := schema["items"].(map[string]any); list {
			schema = items
		}
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[name].(map[string]any)
	}
	return schema
}

// trimSchema removes the descriptions of every schema below node, and the
// rules that compare with the old value: they make parts of a Job immutable, and
// a template is not a Job. A field that is itself called description is a
// schema, not a text, and stays.
func trimSchema(node any) {
	switch n := node.(type) {
	case map[string]any:
		if _, text := n["description"].(string); text {
			delete(n, "description")
		}
		if rules, ok := n[validations].([]any); ok {
			rules = slices.DeleteFunc(rules, comparesWithOld)
			if n[validations] = rules; len(rules) == 0 {
				delete(n, validations)
			}
		}
		if pattern, text := n["pattern"].(string); text {
			n["pattern"] = strings.Replace(pattern, anyExponent, shortExponent, 1)
		} else if n[intOrString] == true {
			n["minimum"], n["maximum"] = math.MinInt32, math.MaxInt32
		}
		for _, child := range n {
			trimSchema(child)
		}
	case []any:
		for _, child := range n {
			trimSchema(child)
		}
	}
}

// How controller-gen's pattern of a quantity ends, and how it should.
const (
	anyExponent   = `([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+)))`
	shortExponent = `([eE](\+|-)?[0-9]{1,2})`
)

const (
	validations = "x-kubernetes-validations"
	intOrString = "x-kubernetes-int-or-string"
)

func comparesWithOld(rule any) bool {
	r, _ := rule.(map[string]any)
	text, _ := r["rule"].(string)
	return strings.Contains(text, "oldSelf")
}
