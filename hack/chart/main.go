// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chart generates the templates of artifacts/chart that repeat other files below artifacts: CustomResourceDefinitions, webhooks,
// rights and alerts. Its tests fail if a template is out of date, and compare the whole chart with artifacts/default.
//
//	cd hack/chart && go run .
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// artifacts is the path of the manifests from this module.
const artifacts = "../../artifacts"

func main() {
	if err := write(artifacts); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// write writes the templates, and removes those that are no longer generated.
func write(artifacts string) error {
	templates, err := generate(artifacts)
	if err != nil {
		return err
	}
	present, err := existing(artifacts)
	if err != nil {
		return err
	}
	for path := range present {
		if _, ok := templates[path]; !ok {
			if err := os.Remove(filepath.Join(artifacts, path)); err != nil {
				return fmt.Errorf("remove a template: %w", err)
			}
		}
	}
	for path, text := range templates {
		if present[path] == text {
			continue
		}
		file := filepath.Join(artifacts, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make a directory for a template: %w", err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write a template: %w", err)
		}
	}
	return nil
}
