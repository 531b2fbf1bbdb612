// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package application runs Applications: each is a Deployment and the objects around it.
//
//	owns    Deployment, Service, Ingress, HTTPRoute, HorizontalPodAutoscaler and PodDisruptionBudget, with the Application's own name
//	reads   Application and these six children, from the caches; before its first write of a child, the live Application, unless
//	        it has written the status; with restartOn, the versions of the ConfigMaps and Secrets that the Pods name, from a loop.Poller
//	writes  the children by server-side apply, Application status, Event
//
// The spec says which of the six must exist. The controller deletes the children that the spec no longer requests, and
// reconciles the others. An error at one child does not stop the others.
//
// Its promises hold after every failure and every crash:
//
//   - The fields that the controller applies have the values of the spec, within the three limits in docs/application.md.
//     It leaves fields alone that others set: labels, annotations, a sidecar, a restart.
//   - An autoscaler, if there is one, sets the number of replicas. The handover to it never lowers the number: see replicas.
//   - An object that the Application does not control is never changed. The condition Conflict names it.
//   - With restartOn, another version of a ConfigMap or a Secret replaces the Pods. While a version is not known, nothing is written.
//   - A sync that finds nothing to change writes nothing. If only numbers and messages have changed, the status is written
//     once every minorEvery.
//
// A sync either writes children or reports. The watch events of the written children lead to the sync that reports. So in
// a burst of new Applications, all children are created before the first status is written. A status never describes a
// state that the caches do not show.
package application
