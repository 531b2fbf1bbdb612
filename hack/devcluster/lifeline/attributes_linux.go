// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package lifeline

import "syscall"

// Attributes makes the kernel send a signal to a child when the thread that started the child ends, also if the process was killed. The
// caller locks the thread to its goroutine.
func Attributes(signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: signal}
}
