// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Warnings returns nil: nothing that is valid in an ApiExampleA is unwise.
func (a *ApiExampleA) Warnings() []string { return nil }
