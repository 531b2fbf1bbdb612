// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package components links Kubernetes itself: etcd, the control plane, kubectl, and what a node consists of, each as the main function that
// its own program has. Only the devcluster binary imports it; it takes minutes to compile and makes a binary of some 220 MB.
//
// All of them share one process image, never one process: a process runs one of them and exits.
package components
