/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Command glassback is a Kubernetes operator put together from client-go's own
// parts, in plain sight. See README.md, and pkg/app for how it is wired.
package main

import (
	"context"
	"io"
	"os"

	"github.com/glassback/glassback/pkg/app"
	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/why"
)

// commands are the programs of this binary beside the operator, by their names.
var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
	"check": check.Run, "why": why.Run, "trace": why.Trace,
}

func main() {
	run, args := app.Run, os.Args[1:]
	if len(args) > 0 && commands[args[0]] != nil {
		run, args = commands[args[0]], args[1:]
	}
	os.Exit(run(app.SignalContext(), args, os.Stdout, os.Stderr))
}
