// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// keptAttributes makes the kernel send SIGTERM to a command when the thread of its keeper ends, also if the keeper is killed.
func keptAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
