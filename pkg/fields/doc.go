// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fields compares the fields of values, by their names in JSON, and knows which of them may be shown.
//
//	Paths, Between   two versions of an object in a cache    causes, the page, glassback why
//	Diff, DiffOwned  what is, and what a write would make    glassback plan, glassback replay
//	Encode           what a sync observed and decided        recordings
//
// shown.go has all rules of redaction.
package fields
