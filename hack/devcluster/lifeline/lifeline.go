// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifeline ends a process when its parent has ended, also if the parent was killed.
//
// The parent keeps the write end of a pipe and the child inherits the read end. No other process has the write end, so the kernel closes it
// when the parent exits, is killed or crashes, and the child reads the end of the file. This needs no polling, does not confuse a reused
// process id with the parent, and works on every Unix.
package lifeline

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// env names the environment variable with the file descriptor of the child's read end.
const env = "DEVCLUSTER_LIFELINE"

// firstExtra is the file descriptor of exec.Cmd.ExtraFiles[0] in the child.
const firstExtra = 3

// Attach makes cmd inherit the read end of a new pipe. cmd must have its Env set and must not be started yet. After a successful Start,
// the caller closes read. The child ends when write is closed or the caller's process ends.
func Attach(cmd *exec.Cmd) (read, write *os.File, err error) {
	read, write, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("create lifeline: %w", err)
	}
	cmd.Env = append(cmd.Env, env+"="+strconv.Itoa(firstExtra+len(cmd.ExtraFiles)))
	cmd.ExtraFiles = append(cmd.ExtraFiles, read)
	return read, write, nil
}

// Inherited returns the read end that this process was started with, or nil if it was started without. Children of this process do not
// get it.
func Inherited() *os.File {
	value := os.Getenv(env)
	if value == "" {
		return nil
	}
	os.Unsetenv(env)
	fd, err := strconv.Atoi(value)
	if err != nil {
		return nil
	}
	return OpenInherited(fd, "lifeline")
}

// OpenInherited opens a file descriptor that this process was started with. Children of this process do not get it, and Close interrupts
// a Read.
func OpenInherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// detached is the byte that a parent writes before it closes its end, if the child should outlive it.
const detached = 'D'

// Detach lets the child at the other end of the lifeline outlive this process, and closes write.
func Detach(write *os.File) error {
	_, err := write.Write([]byte{detached})
	if closeErr := write.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("detach lifeline: %w", err)
	}
	return nil
}

// ParentGone waits until the parent is gone and returns true, or until the parent detaches or read is closed and returns false.
func ParentGone(read *os.File) bool {
	var b [1]byte
	n, err := read.Read(b[:])
	if n == 1 && b[0] == detached {
		return false
	}
	return !errors.Is(err, os.ErrClosed)
}

// ExitWithParent starts a goroutine that ends this process when its parent is gone, at once and without cleanup. It does nothing in a
// process that was started without a lifeline.
func ExitWithParent() {
	read := Inherited()
	if read == nil {
		return
	}
	go func() {
		if ParentGone(read) {
			os.Exit(1)
		}
	}()
}
