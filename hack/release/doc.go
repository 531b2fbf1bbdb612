// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes the files of a release, and publishes them.
//
//	main             the command line
//	├─ release       the order in which the files are made
//	│  ├─ build      the programs, one for each platform
//	│  ├─ licenses   the modules that the programs contain, and their licences
//	│  ├─ archive    tar files whose bytes depend on their content and on one date alone
//	│  ├─ image      the image for all platforms, as an archive of an OCI layout
//	│  ├─ manifests  install.yaml in each variant, the chart, the examples, the kubectl plugin; which files name the version
//	│  ├─ sbom       SPDX documents
//	│  └─ provenance the in-toto statement, the checksums and their signature
//	└─ publish       pushes the image, and uploads the files to GitHub
//
// The same commit, version and Go toolchain result in the same bytes, on every machine and in every directory: all dates are that of the
// commit, and the certificates of the image are those of a Go module. It needs no network if the module cache has the modules.
package main
