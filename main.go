// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command glassback is a Kubernetes operator that uses client-go without
// controller-runtime. README.md introduces it, and package app wires it.
package main

import (
	"os"

	"github.com/glassback/glassback/pkg/app"
	"github.com/glassback/glassback/pkg/cli"
)

func main() {
	os.Exit(cli.Run(app.SignalContext(), os.Args[0], os.Args[1:], os.Stdout, os.Stderr))
}
