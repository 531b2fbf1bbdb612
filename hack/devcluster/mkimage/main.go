// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/hack/devcluster/images"
)

// Exit codes.
const (
	exitFailed      = 1   // it did not work
	exitUsage       = 2   // it was not tried: bad flags or arguments
	exitInterrupted = 130 // Ctrl-C
)

const baseHelp = `Make the images that a real node of devcluster starts with, busybox, nginx, redis and pause, of Debian's packages, as
apt-get gets them. Images that are up to date are left alone, and so are those of which the packages cannot be had: once they are
made, all of this works without a network.`

const binaryHelp = `Make an image of one static program on nothing but the files that programs expect: users, /tmp and this machine's
certificates. It runs as user 65532. The result is an archive as "docker load" and "devcluster load" read it.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := newRoot().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	var usage usageError
	switch {
	case err == nil:
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "mkimage: %v\n", err)
		os.Exit(exitUsage)
	case interrupted:
		fmt.Fprintln(os.Stderr, "mkimage: interrupted")
		os.Exit(exitInterrupted)
	default:
		fmt.Fprintf(os.Stderr, "mkimage: %v\n", err)
		os.Exit(exitFailed)
	}
}

// usageError is an error in what was typed.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "mkimage",
		Short:         "Makes container images without a registry and without Docker",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: see mkimage --help", args[0])
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v: see %s --help", err, cmd.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newBase(), newBinary())
	return root
}

func newBase() *cobra.Command {
	cmd := &cobra.Command{Use: "base --store DIR --pause FILE", Short: "Make the images that a real node starts with", Long: baseHelp}
	store := cmd.Flags().String("store", "", "directory of the images (required)")
	pause := cmd.Flags().String("pause", "", "the program of hack/devcluster/pause, built with CGO_ENABLED=0 (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument %q: see mkimage base --help", args[0])
		}
		if *store == "" || *pause == "" {
			return usagef("--store and --pause are required: for example, mkimage base --store bin/images --pause bin/tools/pause")
		}
		return base{store: images.Store(*store), pause: *pause, out: cmd.OutOrStdout()}.make(cmd.Context())
	}
	return cmd
}

func newBinary() *cobra.Command {
	cmd := &cobra.Command{
		Use: "binary --name NAME[:TAG] --output IMAGE.tar FILE", Short: "Make an image of one static program", Long: binaryHelp,
	}
	var b binary
	cmd.Flags().StringVar(&b.name, "name", "", "the image's name (required)")
	cmd.Flags().StringVar(&b.output, "output", "", "the archive to make (required)")
	cmd.Flags().StringVar(&b.entrypoint, "entrypoint", "", "where the program is in the image (default /, and the name of FILE)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("it takes FILE, and got %d arguments: see mkimage binary --help", len(args))
		}
		if b.name == "" || b.output == "" {
			return usagef("--name and --output are required: see mkimage binary --help")
		}
		b.program = args[0]
		return b.make()
	}
	return cmd
}
