// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter moves the calling thread, which must be locked to its goroutine, into the network of a running sandbox. A program that the thread
// then executes sees resolv as /etc/resolv.conf. pid is the process id of the sandbox's Init, and network the inode of its network
// namespace.
func Enter(pid int, network uint64, resolv string) error {
	file, err := os.Open(networkFile(pid))
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("stat network namespace: %w", err)
	}
	if info.Sys().(*syscall.Stat_t).Ino != network {
		return errors.New("enter network namespace: pid has another one now")
	}
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	// Like "ip netns exec": a mount namespace for one file.
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	real, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return nil // without the file, there is nothing to mount over
	}
	if err := unix.Mount(resolv, real, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount resolv.conf: %w", err)
	}
	return nil
}
