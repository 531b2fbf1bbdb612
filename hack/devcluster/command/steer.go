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
	cmd := &cobra.Command{
		Use:   "down --dir D",
		Short: "End a cluster and remove what it made in its directory",
		Long: `End a cluster, alive or dead, and remove what it made in its directory; files of others stay. Returns when its last process is
gone.`,
		Args: exactly(),
	}
	dir := dirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cluster.Remove(*dir)
	}
	return cmd
}

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status --dir D",
		Short: "Show how the components are",
		Long:  "Show how the components are. The exit code is 0 only if all of them are ready.",
		Args:  exactly(),
	}
	dir := dirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := cluster.Open(*dir)
		if err != nil {
			return err
		}
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
	}
	return cmd
}

func printStatus(out io.Writer, components []cluster.Component) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tCONDITION\tREADY\tPID\tPORT\tMEMORY")
	for _, c := range components {
		ready, pid, memory := "no", "-", "-"
		if c.Ready {
			ready = "yes"
		}
		if c.PID != 0 {
			pid = fmt.Sprint(c.PID)
		}
		if c.RSS != 0 {
			memory = fmt.Sprintf("%d MiB", c.RSS>>20)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", c.Name, c.Condition, ready, pid, c.Port, memory)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

// componentNames is what COMPONENT may be.
var componentNames = strings.Join(state.AllComponents(), ", ")

func newKill() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kill --dir D COMPONENT",
		Short: "Kill a component; it stays dead until \"restart\"",
		Long: `Kill a component and return when it is gone. It stays dead until "devcluster restart".

COMPONENT is one of ` + componentNames + ".",
		Args: exactly("COMPONENT"),
	}
	dir := dirFlag(cmd)
	signal := cmd.Flags().String("signal", "KILL", "KILL, or TERM, which lets it finish what it is doing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkComponent(args[0]); err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.ToUpper(*signal), "SIG")
		if name != "KILL" && name != "TERM" {
			return usagef("unknown signal %q: KILL or TERM", *signal)
		}
		c, err := cluster.Open(*dir)
		if err != nil {
			return err
		}
		if name == "TERM" {
			return c.Terminate(cmd.Context(), args[0])
		}
		return c.Kill(cmd.Context(), args[0])
	}
	return cmd
}

func newRestart() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart --dir D COMPONENT",
		Short: "Start a component again, killing it first if it runs",
		Long: `Start a component again, on the same port and with the same data, after killing it if it runs. Returns when it is ready.

COMPONENT is one of ` + componentNames + ".",
		Args: exactly("COMPONENT"),
	}
	dir := dirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkComponent(args[0]); err != nil {
			return err
		}
		c, err := cluster.Open(*dir)
		if err != nil {
			return err
		}
		return c.Restart(cmd.Context(), args[0])
	}
	return cmd
}

func checkComponent(name string) error {
	if !slices.Contains(state.AllComponents(), name) {
		return usagef("unknown component %q: %s", name, componentNames)
	}
	return nil
}

func newLogs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs --dir D COMPONENT",
		Short: "Print a component's log",
		Long: `Print a component's log, also when the cluster is dead.

COMPONENT is one of ` + componentNames + ", supervisor.",
		Args: exactly("COMPONENT"),
	}
	dir := dirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] != "supervisor" {
			if err := checkComponent(args[0]); err != nil {
				return err
			}
		}
		if _, err := state.Dir(*dir).Load(); err != nil {
			return err
		}
		f, err := os.Open(state.Dir(*dir).Log(args[0]))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s has no log: it has not run in %s", args[0], *dir)
		}
		if err != nil {
			return fmt.Errorf("open log: %w", err)
		}
		defer f.Close()
		if _, err := io.Copy(cmd.OutOrStdout(), f); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
		return nil
	}
	return cmd
}
