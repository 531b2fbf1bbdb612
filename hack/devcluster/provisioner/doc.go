// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner makes the PersistentVolumes of a cluster with a real node: a directory of the machine for each claim, gone with the
// claim. It is a process of its own, the component "provisioner", which the supervisor starts beside the others.
//
//	claim ──▶ scheduler picks the node ──▶ provision: DIR/<namespace>-<claim>-<volume> ──▶ PersistentVolume, bound to the node
//	claim deleted ──▶ volume Released ──▶ delete: the directory, then the PersistentVolume
//
// When to do which is the matter of sig-storage-lib-external-provisioner, which also tries again, and tells the claim of what failed in an
// event of reason ProvisioningFailed. This package says what a volume is, and what it cannot be.
//
// Provisioning and deleting may each be repeated at any time, as after a crash: a directory that is there already is taken, and one that is
// gone already was deleted.
package provisioner
