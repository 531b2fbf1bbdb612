// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/glassback/glassback/pkg/command"
)

func (o *settings) print(stdout io.Writer, r *Result) error {
	if o.output != command.Text && o.output != "" {
		return command.Print(stdout, o.output, r)
	}
	if len(r.Counts) == 0 {
		fmt.Fprintf(stdout, "There are no decisions in these recordings, which have %d syncs.\n", r.Syncs)
		return nil
	}
	slices.Sort(r.Recorded)
	fmt.Fprintf(stdout, "Syncs: %d, from %s to %s, recorded by %s, replayed by %s\n",
		r.Syncs, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339), command.Printable(strings.Join(r.Recorded, ", ")), r.Version)
	if r.Dropped > 0 {
		fmt.Fprintf(stdout, "Syncs that were not recorded, since the disk was too slow: %d\n", r.Dropped)
	}
	fmt.Fprintln(stdout)
	if err := r.printCounts(stdout); err != nil {
		return err
	}
	for i := range r.Different {
		r.Different[i].print(stdout, "differs")
	}
	for i := range r.NotComparable {
		r.NotComparable[i].print(stdout, "not comparable")
	}
	return nil
}

func (r *Result) printCounts(stdout io.Writer) error {
	table := tabwriter.NewWriter(stdout, 6, 4, 3, ' ', 0)
	fmt.Fprintln(table, "KIND\tPOLICY\tSAME\tDIFFERENT\tNOT COMPARABLE")
	for _, c := range r.Counts {
		policy := command.Printable(c.Policy)
		if policy == "" {
			policy = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\n", command.Printable(c.Kind), policy, c.Same, c.Different, c.NotComparable)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// print prints a decision: which one, why there was a sync, and the fields that differ. The other forms of output have what was observed.
func (d *Decision) print(stdout io.Writer, how string) {
	line := func(format string, args ...any) {
		fmt.Fprintln(stdout, command.Printable(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintln(stdout)
	line("%s %s/%s %s at %s (%s, line %d)", d.Kind, d.Namespace, d.Name, how, d.Time.Format(time.RFC3339Nano), d.File, d.Line)
	for _, c := range d.Causes {
		line("    because    %s %s %s", c.Verb, c.Kind, c.Name)
	}
	for _, field := range d.Fields {
		line("    %s", field)
	}
	line("    observed   %s", d.Observed)
	line("    recorded   %s", d.Recorded)
	if d.Error == "" {
		line("    replayed   %s", d.Replayed)
	} else {
		line("    error      %s", d.Error)
	}
	if len(d.Missing) > 0 {
		line("    The recording does not have: %s", strings.Join(d.Missing, ", "))
	}
}
