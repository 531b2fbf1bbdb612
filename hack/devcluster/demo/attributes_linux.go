// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// endWithParent makes the kernel send SIGTERM to a command when the thread of its keeper ends, also if the keeper is killed.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
