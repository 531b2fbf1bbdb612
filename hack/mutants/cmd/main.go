// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants takes each guard of docs/architecture.md out of the code, and runs the test that must fail then: see
// package mutants. Run it in the root of the repository.
//
//	mutants [-only REGEXP]
//
// Its exit code is 0 if every test fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"

	"github.com/glassback/glassback/hack/mutants"
)

func main() {
	only := flag.String("only", "", "run the mutants whose table, promise, effect, file or tests match this regular expression")
	flag.Parse()
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	selected, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	return mutants.Run(ctx, root, selected, os.Stdout)
}
