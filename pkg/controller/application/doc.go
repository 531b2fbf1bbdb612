/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package application makes an Application into what runs it.
//
//	owns    Deployment, Service, Ingress, HorizontalPodAutoscaler and
//	        PodDisruptionBudget, all of the Application's own name
//	reads   Application and these, from the caches
//	writes  these by server-side apply, Application status, Event
//
// Which of the five there are follows from the spec. Those that it no longer asks
// for are deleted, and the others brought to what it says, each by itself: one that
// cannot be made does not hold up the rest (see package child).
//
// What it keeps, whatever fails and whenever it stops:
//
//   - The fields that it applies have the values that the spec gives them, within
//     the three limits that docs/application.md names. What others set beside them
//     stays: labels, annotations, a sidecar, a restart.
//   - The number of replicas is left to the autoscaler once there is one, and is
//     handed over without a dip: see replicas.
//   - An object that the Application does not control is never touched, but named
//     in the condition Conflict.
//   - Nothing is written when nothing has changed. Where only numbers and messages
//     have, the status is written every countsEvery.
//
// A sync either writes children that the caches show, or reports. What it wrote
// comes back by the watch, and leads to the sync that does report: so in a burst of
// new Applications, all of their children are made before the first status is
// written, and a status never tells of what the caches do not show yet.
package application
