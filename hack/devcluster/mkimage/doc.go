// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mkimage makes container images without a registry and without Docker.
//
//	main         the command line
//	├─ base      the images that a new real node has, and whether those of a store are up to date
//	│  ├─ image  makes one of them
//	│  ├─ debian unpacks the Debian packages in an image
//	│  └─ elf    finds the libraries that a program needs among those packages
//	├─ binary    an image of one static program
//	└─ tree      files of a layer: the same files always give the same layer
//
// It must not link Kubernetes, so that it builds in seconds.
package main
