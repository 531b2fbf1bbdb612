package main

import (
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs with a time zone, and time zones in CEL, also where the system has no zone files

	"github.com/glassback/glassback/hack/devcluster/command"
	"github.com/glassback/glassback/hack/devcluster/components"
	"github.com/glassback/glassback/hack/devcluster/lifeline"
)

func main() {
	if run := components.Main(filepath.Base(os.Args[0])); run != nil {
		lifeline.ExitWithParent()
		run()
		return
	}
	os.Exit(command.Main(os.Args[1:]))
}
