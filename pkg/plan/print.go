// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/glassback/glassback/pkg/command"
)

// maxFields is how many fields of a write the table shows. The other forms of output have all of them.
const maxFields = 12

// printTable prints the objects, each with the lines of its plan.
func printTable(stdout io.Writer, objects []Object, allNamespaces bool) error {
	table := tabwriter.NewWriter(stdout, 6, 4, 3, ' ', 0)
	row := func(namespace, object, text string) {
		line := object + "\t" + command.Printable(text)
		if allNamespaces {
			line = namespace + "\t" + line
		}
		fmt.Fprintln(table, line)
	}
	row("NAMESPACE", "OBJECT", "PLAN")
	for _, object := range objects {
		namespace, name := object.Namespace, object.short+"/"+object.Name
		for _, text := range object.lines() {
			row(namespace, name, text)
			namespace, name = "", ""
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// lines returns the plan of an object, or why there is none, as lines of text.
func (o *Object) lines() []string {
	if o.Error != "" {
		return []string{"error: " + o.Error}
	}
	return o.Plan.Lines(maxFields)
}
