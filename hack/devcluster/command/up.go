// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/supervisor"
)

const upHelp = `Start a cluster and return when it is usable: the API server is ready, Pods can be created in namespace default, and the
nodes are Ready. The cluster then runs until "devcluster down".

The directory is created, or reused if it holds a cluster that is dead. If you press Ctrl-C before the cluster is usable,
the cluster ends and its files are removed.`

const runHelp = `Start a cluster, and run in the foreground until Ctrl-C or SIGTERM. The cluster ends with this process, even
if SIGKILL ends this process. The files of the cluster are removed.`

// startFlags are the flags of up and run.
type startFlags struct {
	config cluster.Config
	args   []string
	quiet  bool
}

// newStart returns a command that starts a cluster, and then calls after.
func newStart(
	use, short, long string, start func(context.Context, cluster.Config) (*cluster.Cluster, error),
	after func(context.Context, *cluster.Cluster) error,
) *cobra.Command {
	var f startFlags
	cmd := newCommand(use, short, long, func(cmd *cobra.Command, dir string, _ []string) error {
		started := time.Now()
		config, err := f.complete(cmd, dir)
		if err != nil {
			return err
		}
		c, err := start(cmd.Context(), config)
		if err != nil {
			return err
		}
		if !f.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "cluster is ready after %.1fs\n", time.Since(started).Seconds())
		}
		fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", shellQuote(c.Kubeconfig()))
		return after(cmd.Context(), c)
	})
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.config.Node, "node", "",
		`kind of node: "simulated" (kwok; the default), "real" (runs containers; Linux and root) or "none" (etcd and the API server alone)`)
	flags.IntVar(&f.config.Nodes, "nodes", 0, "number of nodes (default 1; 0 with --node=none)")
	flags.IntVar(&f.config.APIPort, "api-port", 0, "port of the API server on 127.0.0.1 (default a free port)")
	flags.StringSliceVar(&f.config.Components, "components", nil,
		"run only these: a list of etcd,kube-apiserver,kube-controller-manager,kube-scheduler,kwok (not with a real node)")
	flags.StringVar(&f.config.Images, "images", "", "image store of a real node (default the directory \"images\" next to this program)")
	flags.StringArrayVar(&f.args, "arg", nil, "an extra argument for a component, such as kube-apiserver=--v=4; may be repeated")
	flags.DurationVar(&f.config.Timeout, "timeout", cluster.DefaultTimeout, "the longest time until the cluster is usable")
	flags.BoolVar(&f.quiet, "quiet", false, "print no progress")
	return cmd
}

func newUp() *cobra.Command {
	return newStart("up", "Start a cluster that runs until \"down\"", upHelp, cluster.StartDetached,
		func(context.Context, *cluster.Cluster) error { return nil })
}

func newRun() *cobra.Command {
	return newStart("run", "Start a cluster that ends with this process", runHelp, cluster.Start, waitAndStop)
}

// closeFilesOnExec makes sure that the cluster does not inherit the open files that this process got from its parent, such as locks. The
// cluster may outlive both processes.
func closeFilesOnExec() error {
	files, err := os.ReadDir("/dev/fd")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list open files: %w", err)
	}
	for _, file := range files {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > int(os.Stderr.Fd()) {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// complete returns the configuration that the flags ask for.
func (f *startFlags) complete(cmd *cobra.Command, dir string) (cluster.Config, error) {
	config := f.config
	if err := closeFilesOnExec(); err != nil {
		return config, err
	}
	config.Dir = dir
	if config.Timeout <= 0 {
		return config, usagef("--timeout %s: want a positive duration, such as 2m", config.Timeout)
	}
	if cmd.Flags().Changed("api-port") && config.APIPort == 0 {
		return config, usagef("--api-port 0: want 1 to 65535, or no --api-port for a free port")
	}
	if cmd.Flags().Changed("components") && len(config.Components) == 0 {
		return config, usagef("--components is empty: want at least etcd")
	}
	var err error
	if config.ExtraArgs, err = extraArgs(f.args); err != nil {
		return config, err
	}
	if config.Binary, err = supervisor.BinaryPath(); err != nil {
		return config, err
	}
	if !f.quiet {
		config.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	}
	return config, nil
}

// extraArgs groups arguments of the form component=argument by component.
func extraArgs(given []string) (map[string][]string, error) {
	extra := map[string][]string{}
	for _, arg := range given {
		component, value, ok := strings.Cut(arg, "=")
		if !ok || !strings.HasPrefix(value, "-") {
			return nil, usagef("--arg %s: want component=--flag=value, such as kube-apiserver=--v=4", arg)
		}
		extra[component] = append(extra[component], value)
	}
	return extra, nil
}

// waitAndStop waits until ctx is cancelled, and stops the cluster. It returns an error if the cluster ends before ctx
// is cancelled.
func waitAndStop(ctx context.Context, c *cluster.Cluster) error {
	err := c.Wait(ctx)
	if stopErr := c.Stop(); stopErr != nil {
		return stopErr
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// shellQuote quotes s for a shell, unless the shell reads s unchanged.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
