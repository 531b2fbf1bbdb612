// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of glassback: the operator, and the commands beside it. Help, completion, the plugin of kubectl and
// docs/flags.md come from it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/pkg/app"
	"github.com/glassback/glassback/pkg/backup"
	"github.com/glassback/glassback/pkg/check"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/inspect"
	"github.com/glassback/glassback/pkg/plan"
	"github.com/glassback/glassback/pkg/replay"
	"github.com/glassback/glassback/pkg/status"
	"github.com/glassback/glassback/pkg/version"
	"github.com/glassback/glassback/pkg/why"
)

// The names under which kubectl runs this binary: as a plugin, and to complete the words of the plugin.
const (
	plugin         = "kubectl-glassback"
	pluginComplete = "kubectl_complete-glassback"
)

// Run runs the command line of a process, and returns its exit code. binary is the name of the binary, with or without a directory.
func Run(ctx context.Context, binary string, args []string, stdout, stderr io.Writer) int {
	root := New()
	switch strings.TrimSuffix(filepath.Base(binary), ".exe") {
	case plugin:
		root = newPlugin()
	case pluginComplete:
		root, args = newPlugin(), append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return command.Execute(ctx, root, args, stdout, stderr)
}

// New returns the operator, with all commands.
func New() *cobra.Command { return withCommands(app.New()) }

// newPlugin returns the plugin of kubectl. It has the same commands, and never runs the operator.
func newPlugin() *cobra.Command {
	return withCommands(&cobra.Command{
		Use: "glassback", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl glassback"},
		Long: "Glassback explains what its operator does, and checks whether it can work.\n\n" +
			"Under the name glassback, the same program is the operator too.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	})
}

func withCommands(root *cobra.Command) *cobra.Command {
	root.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%s has no command %q: see %[1]s --help", c.CommandPath(), args[0])
		}
		return nil
	}
	root.AddCommand(
		check.New(), why.New(), why.NewTrace(), status.New(), plan.New(), replay.New(), inspect.NewPlayback(), backup.New(), backup.NewRestore(),
		newVersion(), newCompletion(root),
	)
	return root
}

func newVersion() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "version", Short: "print the version", Long: "Version prints the version of this program. It asks no cluster.",
		Args: command.NoArgs,
		RunE: command.Run(func(_ context.Context, stdout, _ io.Writer) error {
			if output != command.Text {
				return command.Print(stdout, output, version.Get())
			}
			_, err := fmt.Fprintln(stdout, version.Get())
			return err
		}),
	}
	command.AddOutput(c, &output, command.Text, command.JSON, command.YAML)
	return c
}

const completionLong = `Completion prints the script by which a shell completes command lines of glassback. That for bash needs the package
bash-completion.

For bash:  source <(glassback completion bash)
For zsh:   source <(glassback completion zsh)
For fish:  glassback completion fish | source

For kubectl glassback, kubectl needs this program under the name kubectl_complete-glassback in a directory of PATH.`

func newCompletion(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "print the completion script for bash, zsh or fish", Long: completionLong,
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			switch strings.Join(args, " ") {
			case "bash":
				return root.GenBashCompletionV2(c.OutOrStdout(), true)
			case "zsh":
				return root.GenZshCompletion(c.OutOrStdout())
			case "fish":
				return root.GenFishCompletion(c.OutOrStdout(), true)
			}
			return errors.New("say which shell: glassback completion bash|zsh|fish")
		},
	}
}
