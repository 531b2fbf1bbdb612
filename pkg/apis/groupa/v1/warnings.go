/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package v1

// Warnings returns what is legal but unwise about a valid ApiExampleA with defaults:
// nothing is.
func (a *ApiExampleA) Warnings() []string { return nil }
