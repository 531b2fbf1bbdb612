// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import "syscall"

// childAttributes puts a component into a process group of its own, so that Ctrl-C in a terminal does not end it: the supervisor does. The
// kernel kills the component when the thread that started it ends (see run.live).
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
