// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package supervisor

import "syscall"

// childAttributes puts a component into a process group of its own, so that Ctrl-C in a terminal does not end it: the supervisor does.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
