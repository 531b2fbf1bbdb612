// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import (
	"errors"
	"io"
	"os"
)

// errLinux means that there are no sandboxes on this system.
var errLinux = errors.New("it needs Linux")

// Sandbox is a running sandbox.
type Sandbox struct {
	Init    int
	Network uint64
}

// Check returns an error of one line if this machine or this process cannot make a sandbox.
func Check() error { return errLinux }

// NewCgroup returns the name of a new sandbox's cgroup.
func NewCgroup() string { return "" }

// CgroupRoot returns the cgroupRoot of a kubelet in the sandbox.
func CgroupRoot(string) string { return "" }

// RemoveCgroup removes the cgroup of a sandbox whose processes have ended, if it exists.
func RemoveCgroup(string) error { return errLinux }

// Start starts a sandbox.
func Start(Config, []string, []*os.File) (*Sandbox, error) { return nil, errLinux }

// Init is process 1 of a sandbox.
func Init(io.Reader, int) int { return failed }

// Enter moves the calling thread into the network of a running sandbox.
func Enter(int, uint64, string) error { return errLinux }

// Stop makes the sandbox end.
func (s *Sandbox) Stop() {}

// Kill ends the sandbox at once.
func (s *Sandbox) Kill() {}

// Wait waits until the sandbox has ended.
func (s *Sandbox) Wait() error { return errLinux }

// Outcome returns the exit code of the program in the sandbox.
func (s *Sandbox) Outcome() (int, error) { return failed, errLinux }

// Current returns the process id of Init and the network namespace of the sandbox that the calling process runs in.
func Current(*os.File) (int, uint64, error) { return 0, 0, errLinux }

// MachinePID returns the process id on the machine of a process of the sandbox.
func MachinePID(*os.File, int) int { return 0 }

// CanOverlay reports whether an overlay can be mounted.
func CanOverlay(string) bool { return false }

// Kill ends a sandbox.
func Kill(int, uint64, string) error { return errLinux }
