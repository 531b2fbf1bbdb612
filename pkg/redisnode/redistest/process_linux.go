// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const canLift = true

// starts are the processes that starter is to start.
var starts = make(chan func())

// starter runs the thread that starts all servers, which the kernel kills when that
// thread ends: see PR_SET_PDEATHSIG in prctl(2). It is one that never ends before the
// test program does. No Cleanup runs when that panics, is killed, or times out.
var starter = sync.OnceFunc(func() {
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
})

func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	starter()
	started := make(chan error)
	starts <- func() { started <- cmd.Start() }
	return <-started
}

// liftFileLimit raises the soft limit to the hard one, which every user may.
func liftFileLimit(pid int) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil)
}
