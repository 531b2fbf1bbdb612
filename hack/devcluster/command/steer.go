// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	"github.com/glassback/glassback/hack/devcluster/state"
)

func newDown() *cobra.Command {
	return newCommand("down", "End a cluster and remove what it made in its directory",
		`End a cluster, alive or dead, and remove what it made in its directory; files of others stay. Returns when its last process is
gone.`,
		func(_ *cobra.Command, dir string, _ []string) error { return cluster.Remove(dir) })
}

func newStatus() *cobra.Command {
	return onCluster("status", "Show how the components are",
		"Show how the components are. The exit code is 0 only if all of them are ready.",
		func(cmd *cobra.Command, c *cluster.Cluster, _ []string) error {
			components, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if err := printStatus(cmd.OutOrStdout(), components); err != nil {
				return err
			}
			if i := slices.IndexFunc(components, func(c cluster.Component) bool { return !c.Ready }); i >= 0 {
				return fmt.Errorf("%s is not ready", components[i].Name)
			}
			return nil
		})
}

func printStatus(out io.Writer, components []cluster.Component) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tCONDITION\tREADY\tPID\tPORT\tMEMORY")
	for _, c := range components {
		ready, pid, port, memory := "no", "-", "-", "-"
		if c.Ready {
			ready = "yes"
		}
		if c.PID != 0 {
			pid = fmt.Sprint(c.PID)
		}
		if c.Port != 0 {
			port = fmt.Sprint(c.Port)
		}
		if c.RSS != 0 {
			memory = fmt.Sprintf("%d MiB", c.RSS>>20)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.Condition, ready, pid, port, memory)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

func newKill() *cobra.Command {
	var signal string
	cmd := onCluster("kill COMPONENT", "Kill a component; it stays dead until \"restart\"",
		`Kill a component and return when it is gone. It stays dead until "devcluster restart".
COMPONENT is one of `+componentNames+".",
		func(cmd *cobra.Command, c *cluster.Cluster, args []string) error {
			if signal == "TERM" {
				return c.Terminate(cmd.Context(), args[0])
			}
			return c.Kill(cmd.Context(), args[0])
		})
	cmd.Flags().StringVar(&signal, "signal", "KILL", "KILL, or TERM, which lets it finish what it is doing")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		given := signal
		if signal = strings.TrimPrefix(strings.ToUpper(given), "SIG"); signal != "KILL" && signal != "TERM" {
			return usagef("unknown signal %q: use KILL or TERM", given)
		}
		return nil
	}
	return cmd
}

func newRestart() *cobra.Command {
	return onCluster("restart COMPONENT", "Start a component again, killing it first if it runs",
		`Start a component again, on the same port and with the same data, after killing it if it runs. Returns when it is ready.
COMPONENT is one of `+componentNames+".",
		func(cmd *cobra.Command, c *cluster.Cluster, args []string) error {
			return c.Restart(cmd.Context(), args[0])
		})
}

func newLoad() *cobra.Command {
	return onCluster("load IMAGE.tar", "Give a real node the images of a tar archive",
		`Give a real node the images of a tar archive, as "docker save" writes it or in the OCI format, and print their names. An image that the
node has already by the same name is replaced; containers that run keep the old one.`,
		func(cmd *cobra.Command, c *cluster.Cluster, args []string) error {
			names, err := c.Load(cmd.Context(), args[0])
			for _, name := range names {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return err
		})
}

func newLogs() *cobra.Command {
	const own = "supervisor"
	cmd := newCommand("logs COMPONENT", "Print a component's log",
		`Print a component's log, also when the cluster is dead.
COMPONENT is one of `+componentNames+", "+own+".",
		func(cmd *cobra.Command, dir string, args []string) error {
			if _, err := state.Dir(dir).Load(); err != nil {
				return err
			}
			f, err := os.Open(state.Dir(dir).Log(args[0]))
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s has no log: it has not run in %s", args[0], dir)
			}
			if err != nil {
				return fmt.Errorf("open log: %w", err)
			}
			defer f.Close()
			if _, err := io.Copy(cmd.OutOrStdout(), f); err != nil {
				return fmt.Errorf("print log: %w", err)
			}
			return nil
		})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if slices.Equal(args, []string{own}) {
			return nil
		}
		return oneComponent(cmd, args)
	}
	return cmd
}
