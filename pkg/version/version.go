/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package version says which build of glassback this is.
package version

import (
	"fmt"
	"runtime"
)

// The Makefile and the Dockerfile set these with -ldflags -X.
var (
	version = "dev"
	commit  = "unknown"
	date    = "unknown"
)

// Version returns the version of this build, such as "v1.0.0", or "dev".
func Version() string { return version }

// Commit returns the commit that this build is of, or "unknown".
func Commit() string { return commit }

// Line returns all that is known of this build, in one line.
func Line() string {
	return fmt.Sprintf("glassback %s (commit %s, built %s, %s %s/%s)",
		version, commit, date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
