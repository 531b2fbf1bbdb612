// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = `Release makes the files of a release, and publishes them. Run it by "make release" and "make publish".

Usage:
  release make    --version v1.2.3 --commit HASH --date TIME [flags]
  release publish --version v1.2.3 [flags]
  release image   --image NAME:TAG --output IMAGE.tar PROGRAM

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run runs a command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	r := &release{platforms: platforms, out: out}
	var date, only, dist, output string
	var dryRun bool
	flags.StringVar(&r.root, "source", ".", "the checkout")
	flags.StringVar(&dist, "dist", "dist", "the directory of the files")
	flags.StringVar(&r.version, "version", "", "the version, as in v1.2.3")
	flags.StringVar(&r.commit, "commit", "", "the commit")
	flags.StringVar(&date, "date", "", "the date of the commit, as in 2006-01-02T15:04:05Z")
	flags.StringVar(&r.image, "image", defaultImage, "the name of the image, without a tag except for the command image")
	flags.StringVar(&output, "output", "", "the archive that the command image makes, for docker load")
	flags.StringVar(&r.baseURL, "base-url", home+"/releases/download", "the files will be at BASE-URL/VERSION/NAME")
	flags.StringVar(&r.key, "key", "", "a PEM file with the Ed25519 key that signs the checksums")
	flags.BoolVar(&r.unsigned, "unsigned", false, "make a release without a signature")
	flags.StringVar(&only, "platforms", "", "platforms to build for, separated by commas (default: all)")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be published")
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command := args[0]
	if !strings.HasPrefix(command, "-") {
		args = args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if only != "" {
		r.platforms = slices.DeleteFunc(slices.Clone(platforms), func(p platform) bool {
			return !slices.Contains(strings.Split(only, ","), p.String())
		})
	}
	switch command {
	case "make":
		var err error
		if r.date, err = time.Parse(time.RFC3339, date); err != nil {
			return fmt.Errorf("--date: %w", err)
		}
		if dist, err = filepath.Abs(dist); err != nil {
			return err
		}
		return r.make(ctx, dist)
	case "image":
		return r.programArchive(flags.Arg(0), output)
	case "publish":
		return (&publication{source: r.source, image: r.image, dist: dist, dryRun: dryRun, gh: runGitHub, out: out}).run(ctx)
	}
	return fmt.Errorf("there is no command %q: see release --help", command)
}
