// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command is devcluster's command line. It checks its arguments, calls package cluster and prints plain lines: progress and
// errors on standard error, results on standard output.
package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/hack/devcluster/supervisor"
)

const rootHelp = `devcluster is a local Kubernetes cluster in one binary: ` +
	`etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and a node.
The node is simulated (kwok: Pods run and Jobs complete without any container) or real (kubelet, containerd, kube-proxy, DNS).

Everything that belongs to a cluster is below its directory and listens on 127.0.0.1, or is in namespaces of its own, so that
clusters in different directories do not get into each other's way, and nothing of them is left on the machine.`

const rootExample = `  devcluster up --dir /tmp/a                                # returns when the node is Ready
  devcluster up --dir /tmp/b --node real                    # with containers: Linux, root, and what "make node" installs
  devcluster kubectl --dir /tmp/a -- get nodes
  devcluster exec --dir /tmp/a -- make docs                 # with KUBECONFIG set, and kubectl in PATH
  devcluster load --dir /tmp/b image.tar                    # as "docker save" writes it
  devcluster kill --dir /tmp/a kube-apiserver               # stays dead until …
  devcluster restart --dir /tmp/a kube-apiserver            # … same port, same data
  devcluster down --dir /tmp/a`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use: "devcluster", Short: "A local Kubernetes cluster in one binary", Long: rootHelp, Example: rootExample,
		SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: see devcluster --help", args[0])
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v: see %s --help", err, cmd.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newUp(), newRun(), newDown(), newStatus(), newExec(), newKubectl(), newKill(), newRestart(), newLogs(), newLoad())
	root.AddCommand(
		newProcess("supervise", supervisor.Main),
		newProcess(supervisor.SandboxCommand, supervisor.MainSandbox),
		newProcess(supervisor.InsideCommand, supervisor.MainInside),
	)
	return root
}

// newProcess returns a hidden command for a process that package cluster or a supervisor starts. Its argument shows in a list of processes
// which cluster the process belongs to.
func newProcess(name string, run func(io.Reader) int) *cobra.Command {
	return &cobra.Command{
		Use:    name + " DIR",
		Hidden: true,
		Args:   exactly("DIR"),
		Run:    func(cmd *cobra.Command, _ []string) { os.Exit(run(cmd.InOrStdin())) },
	}
}

// newCommand returns a command that works on the directory of a cluster: use names its arguments. The directory is absolute.
func newCommand(use, short, long string, run func(cmd *cobra.Command, dir string, args []string) error) *cobra.Command {
	name, arguments, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use: strings.TrimSpace(name + " --dir D " + arguments), Short: short, Long: long, Args: exactly(strings.Fields(arguments)...),
	}
	if arguments == "COMPONENT" {
		cmd.Args = oneComponent
	}
	dir := cmd.Flags().String("dir", "", "the cluster's directory (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *dir == "" {
			return usagef("--dir is required: the cluster's directory, for example --dir /tmp/devcluster")
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("find directory: %w", err)
		}
		return run(cmd, abs, args)
	}
	return cmd
}

// onCluster is newCommand for a command that needs a running cluster.
func onCluster(use, short, long string, run func(cmd *cobra.Command, c *cluster.Cluster, args []string) error) *cobra.Command {
	return newCommand(use, short, long, func(cmd *cobra.Command, dir string, args []string) error {
		c, err := cluster.Open(dir)
		if err != nil {
			return err
		}
		return run(cmd, c, args)
	})
}

// componentNames are the valid values of COMPONENT.
var componentNames = strings.Join(state.AllComponents(), ", ")

// oneComponent returns an error unless the only argument is the name of a component.
func oneComponent(cmd *cobra.Command, args []string) error {
	if err := exactly("COMPONENT")(cmd, args); err != nil {
		return err
	}
	if !slices.Contains(state.AllComponents(), args[0]) {
		return usagef("unknown component %q: %s", args[0], componentNames)
	}
	return nil
}
