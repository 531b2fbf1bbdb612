// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package components

import (
	"context"
	_ "embed" // for the configuration
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
)

// tuning lets kwok play more stages at once than its default of four, for hundreds of Jobs a second. Whoever gives kwok a configuration has
// to give all of it: the defaults are for those who give none.
//
//go:embed kwok.yaml
var tuning string

// runKwok runs kwok with its own stages, which make a Node Ready and renew that, run a Pod and complete a Job's Pod as soon as it sees
// them. kwok reads its configuration from the standard input, so the stages need no file that could be missing or changed.
func runKwok() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := kwokMain(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kwok: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func kwokMain(ctx context.Context) error {
	if err := feedStdin(strings.Join(kwokConfig(), "\n---\n")); err != nil {
		return err
	}
	os.Args = append(os.Args, "--config=-")
	// Kubernetes' libraries define global flags, which cobra would add to kwok's and of which --version collides.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ = log.InitFlags(ctx, flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		return fmt.Errorf("load configuration: %w", err)
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	return command.ExecuteContext(ctx)
}

func kwokConfig() []string {
	return []string{
		tuning, nodestages.DefaultNodeInit, heartbeat.DefaultNodeHeartbeat, podstages.DefaultPodReady, podstages.DefaultPodComplete,
		podstages.DefaultPodDelete,
	}
}

// feedStdin makes text the content of the standard input.
func feedStdin(text string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	// It fits into the pipe's buffer, so that writing it all before anybody reads does not block.
	if _, err := write.WriteString(text); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := write.Close(); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	os.Stdin = read
	return nil
}
