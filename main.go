// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command glassback is a Kubernetes operator that uses client-go without
// controller-runtime. README.md introduces it, and package app wires it.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/glassback/glassback/pkg/app"
	"github.com/glassback/glassback/pkg/backup"
	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/completion"
	"github.com/glassback/glassback/pkg/options"
	"github.com/glassback/glassback/pkg/plan"
	"github.com/glassback/glassback/pkg/playback"
	"github.com/glassback/glassback/pkg/replay"
	"github.com/glassback/glassback/pkg/status"
	"github.com/glassback/glassback/pkg/version"
	"github.com/glassback/glassback/pkg/why"
)

// program is one of the programs of this binary. It returns the exit code of the process.
type program func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// commands are the programs beside the operator, by their names.
var commands = map[string]program{
	"check": check.Run, "why": why.Run, "trace": why.Trace, "status": status.Run, "plan": plan.Run, "replay": replay.Run,
	"inspect": playback.Run, "backup": backup.Run, "restore": backup.RunRestore,
	"version": printVersion, "completion": completion.Run,
}

// completions say how the words of each command are completed.
var completions = map[string]completion.Command{
	"check":      {Flags: check.Flags},
	"why":        {Flags: why.Flags, Objects: true},
	"trace":      {Flags: why.TraceFlags, Objects: true, Everywhere: true},
	"status":     {Flags: status.Flags},
	"plan":       {Flags: plan.Flags},
	"replay":     {Flags: replay.Flags},
	"inspect":    {Flags: playback.Flags},
	"backup":     {Flags: backup.Flags},
	"restore":    {Flags: backup.RestoreFlags},
	"version":    {Flags: func() *pflag.FlagSet { return versionFlags(new(string)) }},
	"completion": {Args: completion.Shells},
}

// The names under which kubectl runs this binary: as a plugin, and to complete the words of the plugin.
const (
	plugin         = "kubectl-glassback"
	pluginComplete = "kubectl_complete-glassback"
)

const pluginUsage = `Glassback explains what its operator does, and checks whether it can work.

Usage:
  kubectl glassback status [-n NAMESPACE | -A]    list the objects of all five kinds, those that are not ready first
  kubectl glassback why KIND/NAME                 ask the operator why it has synced an object
  kubectl glassback trace [KIND]                  show what passes through the operator
  kubectl glassback check                         check the cluster and the installation
  kubectl glassback plan [-n NAMESPACE | -A]      print what this version would do with the objects, and do nothing
  kubectl glassback replay FILE...                decide again on what an operator has recorded
  kubectl glassback inspect FILE...               serve the page from what an operator has recorded
  kubectl glassback backup FLAGS                  save the data of a RedisCluster, as the operator's Jobs do
  kubectl glassback restore FLAGS                 add the data of a backup to a RedisCluster, as the operator's Jobs do
  kubectl glassback version                       print the version
  kubectl glassback completion SHELL              print the completion script for bash, zsh or fish

Each has --help. Under the name glassback, the same program is the operator too.
`

func main() {
	run, args := choose(os.Args[0], os.Args[1:])
	os.Exit(run(app.SignalContext(), args, os.Stdout, os.Stderr))
}

// choose returns the program that a command line asks for, and its arguments. Without the name of a command it is the operator, unless
// kubectl runs this binary.
func choose(name string, args []string) (program, []string) {
	called := strings.TrimSuffix(filepath.Base(name), ".exe")
	switch {
	case called == pluginComplete:
		return completePlugin, args
	case len(args) > 0 && args[0] == completion.Request:
		return complete, args[1:]
	case len(args) > 0 && commands[args[0]] != nil:
		return commands[args[0]], args[1:]
	case called == plugin:
		return helpPlugin, args
	}
	return app.Run, args
}

// complete prints words for a shell.
func complete(ctx context.Context, args []string, stdout, _ io.Writer) int {
	all := maps.Clone(completions)
	all[""] = completion.Command{Flags: options.Flags}
	return completion.Complete(ctx, all, args, stdout)
}

// completePlugin prints words for kubectl. The plugin has no flags of the operator.
func completePlugin(ctx context.Context, args []string, stdout, _ io.Writer) int {
	return completion.Complete(ctx, completions, args, stdout)
}

// helpPlugin prints the commands of the plugin. Any argument other than a request for help is an error.
func helpPlugin(_ context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] != "--help" && args[0] != "-h" && args[0] != "help" {
		fmt.Fprintf(stderr, "glassback: kubectl glassback has no command %q: see kubectl glassback --help\n", command.Printable(args[0]))
		return command.Usage
	}
	fmt.Fprint(stdout, pluginUsage)
	return command.OK
}

const versionUsage = `Version prints the version of this program. It asks no cluster.

Usage:
  glassback version [-o FORM]

Flags:
`

func versionFlags(output *string) *pflag.FlagSet {
	flags := command.Flags("glassback version")
	command.AddOutput(flags, output, command.Text, command.JSON, command.YAML)
	return flags
}

// printVersion prints the version.
func printVersion(_ context.Context, args []string, stdout, stderr io.Writer) int {
	var output string
	flags := versionFlags(&output)
	err := command.Parse(flags, args, versionUsage, stdout)
	if err == nil {
		err = command.CheckNoArgs(flags)
	}
	if err != nil {
		return command.Reject(stderr, err)
	}
	if output == command.Text {
		fmt.Fprintln(stdout, version.Get())
	} else if err := command.Print(stdout, output, version.Get()); err != nil {
		return command.Fail(stderr, err)
	}
	return command.OK
}
