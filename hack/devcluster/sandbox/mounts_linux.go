// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// opened are directories in which the sandbox can make entries that the machine does not see. The sandbox sees all entries of the machine
// there.
var opened = []string{"/var/lib", "/var/log"}

// hidden are directories with sockets of the machine's services. In the sandbox, they contain only the entries that must be visible.
var hidden = []string{"/run"}

// mount makes the mounts of the sandbox. Mounts in its mount namespace must not propagate to the machine.
func (c Config) mount() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// These file systems show the IPC namespace of this process.
	for dir, kind := range map[string]string{"/dev/shm": "tmpfs", "/dev/mqueue": "mqueue"} {
		if err := unix.Mount(kind, dir, kind, unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	for _, dir := range opened {
		if err := cover(dir, entries); err != nil {
			return err
		}
	}
	for _, dir := range hidden {
		if err := cover(dir, func(string) ([]string, error) { return below(dir, c.Visible), nil }); err != nil {
			return err
		}
	}
	for _, b := range c.Binds {
		if err := bindDirectory(b.Source, b.Target); err != nil {
			return err
		}
	}
	if err := c.protectSettings(); err != nil {
		return err
	}
	// In the sandbox, however, mounts are shared: containers see the volumes that a kubelet mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

// entries returns the names in a directory.
func entries(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", err)
	}
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names, nil
}

// below returns those of the paths that are below dir, relative to it.
func below(dir string, paths []string) []string {
	var found []string
	for _, path := range paths {
		if rel, ok := strings.CutPrefix(path, dir+"/"); ok {
			found = append(found, rel)
		}
	}
	return found
}

// cover mounts an empty tmpfs over dir, and binds into it the old entries that keep returns.
func cover(dir string, keep func(string) ([]string, error)) error {
	old, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer old.Close()
	names, err := keep(dir)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("cover %s: %w", dir, err)
	}
	for _, name := range names {
		from := filepath.Join("/proc/self/fd", strconv.Itoa(int(old.Fd())), name)
		if err := show(from, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("keep %s: %w", filepath.Join(dir, name), err)
		}
	}
	return nil
}

// show makes from visible at to: it binds a file or a directory, and copies a symbolic link. It does nothing if from has just been removed.
func show(from, to string) error {
	err := showThere(from, to)
	if _, gone := os.Lstat(from); errors.Is(gone, fs.ErrNotExist) {
		return nil
	}
	return err
}

func showThere(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case fs.ModeDir:
		err = os.MkdirAll(to, 0o755)
	default:
		err = os.WriteFile(to, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
}

func bindDirectory(source, target string) error {
	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}

// protectSettings makes the kernel's settings for the whole machine read-only, and covers those in c.Settings with files.
func (c Config) protectSettings() error {
	const (
		settings = "/proc/sys"
		network  = "/net" // below settings: these belong to the network namespace
		files    = "/run/sandbox"
		readOnly = files + "/proc"
	)
	if err := os.MkdirAll(readOnly, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	// This file system is read-only itself, and not only its mount: crun makes the mount of a volume writable. See checkKernel.
	if err := unix.Mount("proc", readOnly, "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount a read-only /proc: %w", err)
	}
	if err := unix.Mount(settings+network, readOnly+"/sys"+network, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", settings+network, err)
	}
	if err := unix.Mount(readOnly+"/sys", settings, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", settings, err)
	}
	if err := unix.Unmount(readOnly, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the read-only /proc: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(c.Settings)) {
		file := filepath.Join(files, strings.ReplaceAll(path, "/", "."))
		if err := os.WriteFile(file, []byte(c.Settings[path]+"\n"), 0o644); err != nil {
			return fmt.Errorf("write setting: %w", err)
		}
		if err := unix.Mount(file, filepath.Join(settings, path), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover setting %s: %w", path, err)
		}
	}
	return nil
}
