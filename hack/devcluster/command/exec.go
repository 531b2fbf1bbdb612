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

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/hack/devcluster/supervisor"
)

func newExec() *cobra.Command {
	cmd := onCluster("exec", "Run a command that uses this cluster",
		`Run a command. KUBECONFIG is that of the cluster, and a kubectl of the cluster's version comes first in PATH. If the node is
real, the command runs in the cluster's network. It can connect to Services and Pods, also by name, and to nothing else. The command
replaces this process: it gets the signals of this process, and its exit code becomes the exit code of this process.`,
		func(_ *cobra.Command, c *cluster.Cluster, args []string) error {
			// LookPath must search the PATH that the command gets.
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
			return usagef("no command: devcluster exec --dir D -- COMMAND…")
		}
		return nil
	}
	return passOn(cmd, "COMMAND…")
}

func newKubectl() *cobra.Command {
	cmd := onCluster("kubectl", "Run kubectl on a cluster", "Run kubectl on the cluster. Its version is that of the cluster.",
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

// passOn makes cmd accept arguments after "--". It stops the parsing of flags at the first argument, so that COMMAND can have flags.
func passOn(cmd *cobra.Command, arguments string) *cobra.Command {
	cmd.Use += " -- " + arguments
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// become replaces this process by another program, which uses the cluster.
func become(binary string, args []string, c *cluster.Cluster) error {
	runtime.LockOSThread() // Enter moves only this thread into the cluster's network. Exec keeps this thread.
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

// proxies are environment variables with the address of a proxy, in lower case. A command in the network of a real node cannot reach a
// proxy.
var proxies = []string{"http_proxy", "https_proxy", "all_proxy"}
