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

// Where returns what Enter needs to find the sandbox that the calling process, a child of its Init, is in. machine is /proc of the machine.
func Where(machine *os.File) (pid int, network uint64, err error) {
	if pid, err = field(machine, "self/status", "PPid"); err != nil {
		return 0, 0, err
	}
	network, err = networkOf(os.Getpid())
	return pid, network, err
}

// MachinePID returns the process id that a process of the sandbox has on the machine, whose /proc is given; 0 if it is gone.
func MachinePID(machine *os.File, pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	// What /proc says of a descriptor of a process names the process as it is called where that /proc is from.
	found, err := field(machine, "self/fdinfo/"+strconv.Itoa(fd), "Pid")
	if err != nil {
		return 0
	}
	return found
}

// field returns the value of a line "name: number" of a file below dir.
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

// CanOverlay reports whether file systems can be laid over each other with what changes in dir, which not every file system allows.
func CanOverlay(dir string) bool {
	trial, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(trial) }() // it is in the cluster's directory, and goes with it
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
