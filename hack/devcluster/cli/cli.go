// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli holds the common part of the command lines of devcluster and mkimage: exit codes, errors in one line, and arguments.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	ok          = 0
	failed      = 1   // the command failed
	usage       = 2   // bad flags or arguments: the command did nothing
	interrupted = 130 // Ctrl-C
)

// usageError is an error in the command line.
type usageError struct{ error }

// Usagef returns an error in the command line.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// New returns a program without any command.
func New(name, short string) *cobra.Command {
	root := &cobra.Command{
		Use:           name,
		Short:         short,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("unknown command %q: see %s --help", args[0], name)
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usagef("%v: see %s --help", err, cmd.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// Run runs a program until it ends or gets a signal, prints its error, and returns the exit code. The code is usage for an error of Usagef,
// and for an error for which isUsage returns true.
func Run(root *cobra.Command, args []string, isUsage func(error) bool) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	root.SetArgs(args)
	err, code := root.ExecuteContext(ctx), failed
	_, mistyped := errors.AsType[usageError](err)
	switch {
	case err == nil:
		return ok
	case mistyped || isUsage(err):
		code = usage
	case ctx.Err() != nil:
		err, code = errors.New("interrupted"), interrupted
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
	return code
}

// Exactly returns a function that returns an error unless a command gets one argument for each of the names.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(names) == 0 && len(args) > 0:
			return Usagef("unexpected argument %q: see %s --help", args[0], cmd.CommandPath())
		case len(args) != len(names):
			return Usagef("it takes %s, and got %d arguments: see %s --help", strings.Join(names, " "), len(args), cmd.CommandPath())
		}
		return nil
	}
}
