// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

// Version returns the version of this build, such as "v0.2.0", or "dev".
func Version() string { return version }

// Commit returns the commit that this build is of, or "unknown".
func Commit() string { return commit }

// Info is all that is known of a build. Later versions only add fields.
type Info struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"` // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns all that is known of this build.
func Get() Info {
	return Info{"glassback.dev/version/v1", version, commit, date, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// String returns the build in one line.
func (i Info) String() string {
	return fmt.Sprintf("glassback %s (commit %s, built %s, %s %s)", i.Version, i.Commit, i.Date, i.Go, i.Platform)
}
