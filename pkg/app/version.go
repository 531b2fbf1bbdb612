/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"fmt"
	"runtime"
)

// What the Makefile stamps with -ldflags -X.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

func versionLine() string {
	return fmt.Sprintf("glassback %s (commit %s, built %s, %s %s/%s)",
		version, commit, date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
