// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

func newLoad() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load --dir D IMAGE.tar",
		Short: "Give a real node the images of a tar archive",
		Long: `Give a real node the images of a tar archive, as "docker save" writes it or in the OCI format, ` +
			`and print their names. An image that the
node has already by the same name is replaced; containers that run keep the old one.`,
		Args: exactly("IMAGE.tar"),
	}
	dir := dirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := cluster.Open(*dir)
		if err != nil {
			return err
		}
		names, err := c.Load(cmd.Context(), args[0])
		for _, name := range names {
			fmt.Fprintln(cmd.OutOrStdout(), name)
		}
		return err
	}
	return cmd
}
