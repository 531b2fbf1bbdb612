// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mkimage makes the images that a real node of devcluster starts with: busybox, nginx and redis of Debian's packages, and pause.
// Images that are up to date are left alone, and so are those of which the packages are not available: once they are made, all of this
// works without a network.
//
//	base      the images, and whether those of a store are up to date
//	├─ image  makes one of them
//	├─ debian unpacks the Debian packages in an image
//	├─ elf    finds the libraries that a program needs among those packages
//	└─ tree   files of a layer: the same files always give the same layer
//
// It must not link Kubernetes, so that it builds in seconds.
package main
