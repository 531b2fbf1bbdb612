//go:build unix && !linux

package supervisor

import "syscall"

// childAttributes puts a component into a process group of its own, out of reach of a terminal's Ctrl-C: the supervisor ends it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
