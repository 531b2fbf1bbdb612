// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mkimage makes container images where there is neither a registry to pull from nor Docker to build with.
//
//	main         the command line
//	├─ base      which images a real node starts with, and whether those in a store are up to date
//	│  ├─ image  makes one of them
//	│  ├─ debian unpacks Debian's packages, which are what they are made of
//	│  └─ elf    finds the libraries that a program needs among those packages
//	├─ binary    an image of one static program
//	└─ tree      files that become a layer: the same files always become the same layer
//
// It must not link Kubernetes, so that it builds in seconds.
package main
