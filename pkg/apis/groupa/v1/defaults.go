/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

import "strings"

// Default does nothing: every field may stay empty.
func (a *ApiExampleA) Default() {}

// Greeting returns what the ApiExampleA has to say.
func (a *ApiExampleA) Greeting() string {
	who := strings.TrimSpace(a.Spec.FirstName + " " + a.Spec.LastName)
	if who == "" {
		who = a.Spec.Foo
	}
	if who == "" {
		who = a.Name
	}
	return "Greetings to " + who
}

// ConfigMapName returns the name of the ConfigMap that holds the greeting.
func (a *ApiExampleA) ConfigMapName() string { return a.Name + "-greeting" }
