// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command trimcrd makes a CRD of controller-gen smaller. Below the fields with these paths, it removes the descriptions and the validation
// rules about updates:
//
//	trimcrd FILE spec.jobTemplate spec.env.valueFrom
//
// A Job template contains the descriptions of built-in types, some 600 KB. With them, a CRD does not fit into the annotation of a plain
// kubectl apply, and the API server would publish them twice. Users find them with kubectl explain job.
//
// trimcrd also limits the exponents of quantities. controller-gen's pattern allows "1e1.5", which no client can parse. It also allows
// "1e-99999999", which takes minutes to parse. One object with such a value would stop every informer. For the same reason trimcrd limits
// the numbers of an intstr.IntOrString: no client can decode 2147483648. It removes their anyOf, which says the same as
// x-kubernetes-int-or-string: a number with a fraction, such as "cpu: 0.5", then has one error instead of four. The metadata of a template
// can have a creationTimestamp of null.
package main

import (
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
	return os.WriteFile(file, append([]byte("---\n"), out...), 0o644)
}

// lookUp returns the schema of a field, or nil. In a path, the name of a list stands for its items.
func lookUp(schema map[string]any, path string) map[string]any {
	for name := range strings.SplitSeq(path, ".") {
		if items, isList := schema["items"].(map[string]any); isList {
			schema = items
		}
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[name].(map[string]any)
	}
	return schema
}

// trimSchema changes node and every schema below it. It removes descriptions, and rules that compare with the old value: these make parts
// of a Job immutable, but a template may change. It limits exponents and numbers. A property with the name description stays: its value is
// a schema and not a string.
func trimSchema(node any) {
	switch n := node.(type) {
	case map[string]any:
		if _, isText := n["description"].(string); isText {
			delete(n, "description")
		}
		if rules, isList := n[validations].([]any); isList {
			rules = slices.DeleteFunc(rules, comparesWithOld)
			if n[validations] = rules; len(rules) == 0 {
				delete(n, validations)
			}
		}
		if n[intOrString] == true {
			delete(n, "anyOf")
		}
		if pattern, isText := n["pattern"].(string); isText {
			n["pattern"] = strings.Replace(pattern, anyExponent, shortExponent, 1)
		} else if n[intOrString] == true {
			n["minimum"], n["maximum"] = math.MinInt32, math.MaxInt32
		}
		acceptNull(n["metadata"])
		for _, child := range n {
			trimSchema(child)
		}
	case []any:
		for _, child := range n {
			trimSchema(child)
		}
	}
}

// acceptNull lets the metadata of a template have "creationTimestamp: null", as kubectl prints it with --dry-run. schema is of a property
// with the name metadata, or nil.
func acceptNull(schema any) {
	metadata, _ := schema.(map[string]any)
	if properties, _ := metadata["properties"].(map[string]any); properties["labels"] != nil {
		properties["creationTimestamp"] = map[string]any{"type": "string", "format": "date-time", "nullable": true}
	}
}

// The exponent in controller-gen's pattern of a quantity, and its replacement with at most two digits.
const (
	anyExponent   = `([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+)))`
	shortExponent = `([eE](\+|-)?[0-9]{1,2})`
)

const (
	validations = "x-kubernetes-validations"
	intOrString = "x-kubernetes-int-or-string"
)

// comparesWithOld reports whether a validation rule uses the old value.
func comparesWithOld(rule any) bool {
	r, _ := rule.(map[string]any)
	text, _ := r["rule"].(string)
	return strings.Contains(text, "oldSelf")
}
