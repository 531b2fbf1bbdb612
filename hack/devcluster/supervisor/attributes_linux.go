package supervisor

import "syscall"

// childAttributes puts a component into a process group of its own, out of reach of a terminal's Ctrl-C: the supervisor ends it. The kernel
// kills it when the thread that started it ends (see run.live).
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
