// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package glassback has the names that all resources of Glassback share, and the types and rules of fields that several of them have.
package glassback

// Name is the name of the operator: as the field manager of its writes, and as the
// source of its events.
const Name = "glassback"

// Condition types that every resource has.
const (
	// ConditionReady is True while the object matches its spec.
	ConditionReady = "Ready"
	// ConditionProgressing is True while the operator, or an object that it created,
	// works towards the spec.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while there is a problem that a user should look at.
	ConditionDegraded = "Degraded"
)

// Domain is the domain of annotations that every resource has, or several.
const Domain = "glassback.dev"

// AnnotationPaused with the value "true" on a custom resource makes the operator leave
// that object alone.
const AnnotationPaused = Domain + "/paused"

// AnnotationDeletionProtection with the value "true" on a custom resource makes the
// webhooks reject the deletion of that object.
const AnnotationDeletionProtection = Domain + "/deletion-protection"
