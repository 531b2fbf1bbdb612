// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/hack/devcluster/cli"
	"github.com/glassback/glassback/hack/devcluster/images"
)

const baseHelp = `Make the images that a real node of devcluster starts with, busybox, nginx, redis and pause, of Debian's packages, as
apt-get gets them. Images that are up to date are left alone, and so are those of which the packages cannot be had: once they are
made, all of this works without a network.`

const binaryHelp = `Make an image of one static program on nothing but the files that programs expect: users, /tmp and this machine's
certificates. It runs as user 65532. The result is an archive as "docker load" and "devcluster load" read it.`

func main() {
	os.Exit(cli.Run(newRoot(), os.Args[1:], func(error) bool { return false }))
}

func newRoot() *cobra.Command {
	root := cli.New("mkimage", "Makes container images without a registry and without Docker")
	root.AddCommand(newBase(), newBinary())
	return root
}

func newBase() *cobra.Command {
	cmd := &cobra.Command{
		Use: "base --store DIR --pause FILE", Short: "Make the images that a real node starts with", Long: baseHelp, Args: cli.Exactly(),
	}
	store := cmd.Flags().String("store", "", "directory of the images (required)")
	pause := cmd.Flags().String("pause", "", "the program of hack/devcluster/pause, built with CGO_ENABLED=0 (required)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *store == "" || *pause == "" {
			return cli.Usagef("--store and --pause are required: for example, mkimage base --store bin/images --pause bin/tools/pause")
		}
		return base{store: images.Store(*store), pause: *pause, out: cmd.OutOrStdout()}.make(cmd.Context())
	}
	return cmd
}

func newBinary() *cobra.Command {
	cmd := &cobra.Command{
		Use: "binary --name NAME[:TAG] --output IMAGE.tar FILE", Short: "Make an image of one static program", Long: binaryHelp,
		Args: cli.Exactly("FILE"),
	}
	var b binary
	cmd.Flags().StringVar(&b.name, "name", "", "the image's name (required)")
	cmd.Flags().StringVar(&b.output, "output", "", "the archive to make (required)")
	cmd.Flags().StringVar(&b.entrypoint, "entrypoint", "", "where the program is in the image (default /, and the name of FILE)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if b.name == "" || b.output == "" {
			return cli.Usagef("--name and --output are required: see mkimage binary --help")
		}
		b.program = args[0]
		return b.make()
	}
	return cmd
}
