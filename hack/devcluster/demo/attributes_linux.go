package main

import "syscall"

// operatorAttributes has the kernel stop the operator when the thread that started it ends: when its keeper is killed.
func operatorAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
