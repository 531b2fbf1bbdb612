// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

// Default does nothing: every field may stay empty.
func (a *ApiExampleA) Default() {}

// Greeting returns the greeting of the ApiExampleA.
func (a *ApiExampleA) Greeting() string {
	name := strings.TrimSpace(a.Spec.FirstName + " " + a.Spec.LastName)
	if name == "" {
		name = a.Spec.Foo
	}
	if name == "" {
		name = a.Name
	}
	return "Greetings to " + name
}

// ConfigMapName returns the name of the ConfigMap that holds the greeting.
func (a *ApiExampleA) ConfigMapName() string { return a.Name + "-greeting" }
