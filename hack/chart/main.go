/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command chart writes those templates of artifacts/chart that say what other files
// below artifacts say: the CustomResourceDefinitions, what the webhooks are asked, and what
// the controllers may do. Its tests fail where they have come to differ, and hold the
// chart as a whole against artifacts/default.
//
//	cd hack/chart && go run .
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// artifacts is where the manifests are, seen from this module.
const artifacts = "../../artifacts"

func main() {
	if err := write(artifacts); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// write makes the templates anew. Those that are no longer made are deleted.
func write(artifacts string) error {
	templates, err := generate(artifacts)
	if err != nil {
		return err
	}
	present, err := generated(artifacts)
	if err != nil {
		return err
	}
	for path := range present {
		if _, made := templates[path]; !made {
			if err := os.Remove(filepath.Join(artifacts, path)); err != nil {
				return fmt.Errorf("remove a template that is no longer made: %w", err)
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
