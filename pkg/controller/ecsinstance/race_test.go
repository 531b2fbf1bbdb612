//go:build race

/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecsinstance

// With the race detector, a world takes several times as long. A race shows in few worlds: all have the same goroutines. "make unit"
// runs the usual number without it.
func init() { *runs = 40 }
