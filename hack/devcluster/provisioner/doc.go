// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner makes the PersistentVolumes of a cluster with a real node. Each claim gets a directory of the machine, which is
// deleted with the claim. The supervisor starts the provisioner as a process of its own, the component "provisioner".
//
//	claim ──▶ scheduler picks the node ──▶ provision: DIR/<volume> ──▶ PersistentVolume, bound to the node
//	claim deleted ──▶ volume Released ──▶ delete: the directory, then the PersistentVolume
//
// sig-storage-lib-external-provisioner decides when to provision and when to delete. It also retries, and reports an error by an event on
// the claim, with the reason ProvisioningFailed. This package creates and deletes the volumes, and rejects claims that it does not support.
//
// Both operations can be repeated at any time, for example after a crash: an existing directory is used, and a missing one counts as
// deleted.
package provisioner
