// Package command is devcluster's command line. It checks what it is given, calls package cluster and prints plain lines: progress and
// errors on standard error, results on standard output.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/supervisor"
)

// Exit codes. exec and kubectl end with the code of what they run.
const (
	exitOK          = 0
	exitFailed      = 1   // it did not work
	exitUsage       = 2   // it was not tried: bad flags or arguments
	exitInterrupted = 130 // Ctrl-C
)

const rootHelp = `devcluster is a local Kubernetes cluster in one binary: ` +
	`etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and a node.
The node is simulated (kwok: Pods run and Jobs complete without any container) or real (kubelet, containerd, kube-proxy, DNS).

Everything that belongs to a cluster is below its directory and listens on 127.0.0.1, or is in namespaces of its own, so that
clusters in different directories do not get into each other's way, and nothing of them is left on the machine.`

const rootExample = `  devcluster up --dir /tmp/a                                # returns when the node is Ready
  devcluster up --dir /tmp/b --node real                    # with containers: Linux, root, and what "make node" installs
  devcluster kubectl --dir /tmp/a -- get nodes
  devcluster exec --dir /tmp/a -- make integration          # with KUBECONFIG set, and kubectl in PATH
  devcluster load --dir /tmp/b image.tar                    # as "docker save" writes it
  devcluster kill --dir /tmp/a kube-apiserver               # stays dead until …
  devcluster restart --dir /tmp/a kube-apiserver            # … same port, same data
  devcluster down --dir /tmp/a`

// Main runs the command line and returns its exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// The components' libraries define global flags, which cobra would add to these commands.
	pflag.CommandLine = pflag.NewFlagSet("devcluster", pflag.ContinueOnError)
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage) || cluster.IsBadConfig(err):
		fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "devcluster: interrupted")
		return exitInterrupted
	default:
		fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
		return exitFailed
	}
}

// usageError is an error in what was typed.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "devcluster",
		Short:         "A local Kubernetes cluster in one binary",
		Long:          rootHelp,
		Example:       rootExample,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
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

// newProcess is a process that package cluster or a supervisor starts; it is of no use to anybody else. The directory is there for people
// who look at the list of processes.
func newProcess(name string, run func(io.Reader) int) *cobra.Command {
	return &cobra.Command{
		Use:    name + " DIR",
		Hidden: true,
		Args:   exactly("DIR"),
		Run:    func(cmd *cobra.Command, _ []string) { os.Exit(run(cmd.InOrStdin())) },
	}
}

// dirFlag adds --dir, which every command needs, and returns where its value will be. The value is absolute.
func dirFlag(cmd *cobra.Command) *string {
	dir := cmd.Flags().String("dir", "", "the cluster's directory (required)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if *dir == "" {
			return usagef("--dir is required: the cluster's directory, for example --dir /tmp/devcluster")
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("find directory: %w", err)
		}
		*dir = abs
		return nil
	}
	return dir
}

// exactly demands the given arguments, and says their names when they are missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(names) == 0 {
			return usagef("unexpected argument %q: see %s --help", args[0], cmd.CommandPath())
		}
		return usagef("it takes %s, and got %d arguments: see %s --help", strings.Join(names, " "), len(args), cmd.CommandPath())
	}
}
