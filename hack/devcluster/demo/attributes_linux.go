// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// keptAttributes has the kernel stop what is kept when the thread that started it ends: when its keeper is killed.
func keptAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
