// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// Exit codes. exec and kubectl end with the exit code of their program.
const (
	ok          = 0
	failed      = 1   // the command failed
	usage       = 2   // bad flags or arguments: the command did nothing
	interrupted = 130 // Ctrl-C
)

// usageError is an error in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the command line until it ends or gets a signal, prints its error in one line, and returns its exit code.
func Main(args []string) int {
	// The components' libraries define global flags, which cobra would add to these commands.
	pflag.CommandLine = pflag.NewFlagSet("devcluster", pflag.ContinueOnError)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err, code := root.ExecuteContext(ctx), failed
	_, mistyped := errors.AsType[usageError](err)
	switch {
	case err == nil:
		return ok
	case mistyped || cluster.IsBadConfig(err):
		code = usage
	case ctx.Err() != nil:
		err, code = errors.New("interrupted"), interrupted
	}
	fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
	return code
}

// exactly returns a function that returns an error unless a command gets one argument for each of the names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(names) == 0 && len(args) > 0:
			return usagef("unexpected argument %q: see %s --help", args[0], cmd.CommandPath())
		case len(args) != len(names):
			return usagef("it takes %s, and got %d arguments: see %s --help", strings.Join(names, " "), len(args), cmd.CommandPath())
		}
		return nil
	}
}
