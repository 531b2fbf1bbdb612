// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package components

import (
	"context"
	_ "embed" // for the configuration
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
)

// options is the configuration of kwok. With it, kwok plays more Pod stages at once than its default of four: enough for hundreds of Jobs
// a second. The file must set every option that is needed: kwok uses its defaults only if it gets no configuration at all.
//
//go:embed kwok.yaml
var options string

// runKwok runs kwok with its default stages. They make each Node Ready and renew its heartbeat, run each Pod, and complete the Pods of
// Jobs, without a delay. kwok reads its configuration from the standard input, so the stages need no file that could be missing or
// changed.
func runKwok(ctx context.Context) error {
	if err := feedStdin(strings.Join(kwokConfig(), "\n---\n")); err != nil {
		return err
	}
	os.Args = append(os.Args, "--config=-")
	// Kubernetes' libraries define global flags. Cobra would add them to the flags of kwok, where --version would be defined twice.
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

// kwokConfig returns the YAML documents that kwok reads: its options, and its default stages.
func kwokConfig() []string {
	return []string{
		options, nodestages.DefaultNodeInit, heartbeat.DefaultNodeHeartbeat, podstages.DefaultPodReady, podstages.DefaultPodComplete,
		podstages.DefaultPodDelete,
	}
}

// feedStdin replaces the standard input with a pipe that contains text.
func feedStdin(text string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	// The text fits into the buffer of the pipe. So the write does not block, although nothing reads yet.
	if _, err := write.WriteString(text); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := write.Close(); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	os.Stdin = read
	return nil
}
