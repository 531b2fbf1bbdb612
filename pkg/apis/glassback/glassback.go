/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package glassback holds the names that all resources of Glassback have in
// common.
package glassback

// Name is the operator's: the manager of the fields that it writes, and the source
// of its events.
const Name = "glassback"

// Condition types that every resource has.
const (
	// ConditionReady is True while all is as the spec says.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the operator, or what it made, is on the
	// way there.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while something is wrong that a person should look
	// at.
	ConditionDegraded = "Degraded"
)

// AnnotationPaused on any object of Glassback has the operator leave that object
// alone, if its value is "true".
const AnnotationPaused = "glassback.dev/paused"

// AnnotationDeletionProtection on any object of Glassback has the webhooks refuse to
// delete that object, if its value is "true".
const AnnotationDeletionProtection = "glassback.dev/deletion-protection"
