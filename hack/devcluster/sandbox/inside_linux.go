// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Current returns the process id of Init and the inode of the network namespace of the sandbox that the calling process runs in. The
// caller must be a child of Init. Enter needs both values. machine is /proc of the machine.
func Current(machine *os.File) (pid int, network uint64, err error) {
	if pid, err = field(machine, "self/status", "PPid"); err != nil {
		return 0, 0, err
	}
	network, err = networkOf(os.Getpid())
	return pid, network, err
}

// MachinePID returns the process id on the machine of a process of the sandbox; 0 if the process has ended. machine is /proc of the
// machine.
func MachinePID(machine *os.File, pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	// The fdinfo of a pidfd shows the process id in the process namespace of the /proc from which it is read.
	found, err := field(machine, "self/fdinfo/"+strconv.Itoa(fd), "Pid")
	if err != nil {
		return 0
	}
	return found
}

// field returns the number from the line "name: number" of a file in dir.
func field(dir *os.File, path, name string) (int, error) {
	fd, err := unix.Openat(int(dir.Fd()), path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open /proc/%s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read /proc/%s: %w", path, err)
	}
	return 0, fmt.Errorf("read /proc/%s: %w", path, io.ErrUnexpectedEOF)
}

// CanOverlay reports whether the file system of dir supports an overlay with its directories there. Some file systems do not.
func CanOverlay(dir string) bool {
	trial, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(trial) }() // if this fails, it is removed with the cluster's directory
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if os.Mkdir(filepath.Join(trial, name), 0o700) != nil {
			return false
		}
	}
	options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", trial, trial, trial)
	merged := filepath.Join(trial, "merged")
	if unix.Mount("overlay", merged, "overlay", 0, options) != nil {
		return false
	}
	return unix.Unmount(merged, 0) == nil
}
