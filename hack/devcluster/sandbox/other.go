// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"io"
	"os"
)

// errLinux says that there are no sandboxes on this system.
var errLinux = errors.New("it needs Linux")

// Sandbox is a running sandbox.
type Sandbox struct {
	Init    int
	Network uint64
}

// Check says in one line what this machine or this process lacks for a sandbox.
func Check() error { return errLinux }

// NewCgroup returns the name of a new sandbox's cgroup.
func NewCgroup() string { return "" }

// CgroupRoot returns what a kubelet in the sandbox calls its cgroup.
func CgroupRoot(string) string { return "" }

// RemoveCgroup removes the cgroup of a sandbox whose processes are gone, if it is there.
func RemoveCgroup(string) error { return errLinux }

// Start starts a sandbox.
func Start(Config, []string, []*os.File) (*Sandbox, error) { return nil, errLinux }

// Init is process 1 of a sandbox.
func Init(io.Reader, int) int { return failed }

// Enter moves the calling thread into the network of a running sandbox.
func Enter(int, uint64, string) error { return errLinux }

// Stop tells what runs in the sandbox to end.
func (s *Sandbox) Stop() {}

// Kill ends the sandbox at once.
func (s *Sandbox) Kill() {}

// Wait waits until the sandbox has ended.
func (s *Sandbox) Wait() error { return errLinux }

// Outcome returns the exit code of what ran in the sandbox.
func (s *Sandbox) Outcome() (int, error) { return failed, errLinux }

// Where returns what Enter needs to find the sandbox.
func Where(*os.File) (int, uint64, error) { return 0, 0, errLinux }

// MachinePID returns the process id that a process of the sandbox has on the machine.
func MachinePID(*os.File, int) int { return 0 }

// CanOverlay reports whether file systems can be laid over each other.
func CanOverlay(string) bool { return false }

// Kill ends a sandbox.
func Kill(int, uint64, string) error { return errLinux }
