// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/hack/devcluster/cli"
	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/hack/devcluster/supervisor"
)

func newExec() *cobra.Command {
	cmd := onCluster("exec", "Run a command for which this cluster is the current one",
		`Run a command with KUBECONFIG set to the cluster's, and with a kubectl of the cluster's version first in PATH. If the node is real, the
command runs in the cluster's network: it reaches Services and Pods, also by their names, and nothing else. This process becomes the
command: its signals and its exit code are the command's.`,
		func(_ *cobra.Command, c *cluster.Cluster, args []string) error {
			// The command is searched in the same PATH that it gets.
			path := state.Dir(c.Dir()).Path("bin") + string(os.PathListSeparator) + os.Getenv("PATH")
			if err := os.Setenv("PATH", path); err != nil {
				return fmt.Errorf("set PATH: %w", err)
			}
			binary, err := exec.LookPath(args[0])
			if err != nil {
				return fmt.Errorf("find command: %w", err)
			}
			return become(binary, args, c)
		})
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Usagef("no command: devcluster exec --dir D -- COMMAND…")
		}
		return nil
	}
	return passOn(cmd, "COMMAND…")
}

func newKubectl() *cobra.Command {
	cmd := onCluster("kubectl", "Run kubectl on a cluster", "Run the kubectl of the cluster's version on it.",
		func(_ *cobra.Command, c *cluster.Cluster, args []string) error {
			binary, err := supervisor.BinaryPath()
			if err != nil {
				return err
			}
			return become(binary, append([]string{"kubectl"}, args...), c)
		})
	cmd.Args = cobra.ArbitraryArgs
	return passOn(cmd, "ARGUMENTS…")
}

// passOn makes cmd pass on everything after its first argument, also flags.
func passOn(cmd *cobra.Command, arguments string) *cobra.Command {
	cmd.Use += " -- " + arguments
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// become replaces this process by another program, which uses the cluster.
func become(binary string, args []string, c *cluster.Cluster) error {
	runtime.LockOSThread() // This thread becomes the program.
	if err := c.Enter(); err != nil {
		return err
	}
	env := []string{"KUBECONFIG=" + c.Kubeconfig()}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != "KUBECONFIG" && !(c.Real() && slices.Contains(proxies, strings.ToLower(name))) {
			env = append(env, v)
		}
	}
	return fmt.Errorf("run %s: %w", args[0], syscall.Exec(binary, args, env))
}

// proxies are the variables with the address of a proxy. The network of a real node cannot reach one.
var proxies = []string{"http_proxy", "https_proxy", "all_proxy"}
