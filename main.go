/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command glassback is a Kubernetes operator put together from client-go's own
// parts, in plain sight. See README.md, and pkg/app for how it is wired.
package main

import (
	"os"

	"github.com/glassback/glassback/pkg/app"
)

func main() {
	os.Exit(app.Run(app.SignalContext(), os.Args[1:], os.Stdout, os.Stderr))
}
