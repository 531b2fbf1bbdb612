//go:build !linux

package main

import "syscall"

// operatorAttributes are none: only Linux can tie a process to the one that started it.
func operatorAttributes() *syscall.SysProcAttr { return nil }
