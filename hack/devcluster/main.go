// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs and CEL need time zones, and the system may have no zone files

	"github.com/glassback/glassback/hack/devcluster/command"
	"github.com/glassback/glassback/hack/devcluster/components"
	"github.com/glassback/glassback/hack/devcluster/lifeline"
)

func main() {
	if run := components.Main(filepath.Base(os.Args[0])); run != nil {
		lifeline.ExitWithParent() // a component of a cluster must not outlive its supervisor
		run()
		return
	}
	os.Exit(command.Main(os.Args[1:]))
}
