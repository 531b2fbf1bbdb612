// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// cgroupPrefix begins the name of every sandbox's cgroup. It shows users which program made the cgroup.
	cgroupPrefix = "devcluster-"
	// own is the cgroup of the sandbox's own processes with v2: v2 allows no process in a cgroup that has children.
	own = "own"
	// removeWait limits the time in which the kernel releases the cgroup of killed processes.
	removeWait = 10 * time.Second
)

// required are the controllers that a kubelet requires.
var required = []string{"cpu", "cpuset", "memory", "pids"}

// NewCgroup returns the name of a new sandbox's cgroup.
func NewCgroup() string { return cgroupPrefix + strings.ToLower(rand.Text()[:8]) }

// CgroupRoot returns the cgroupRoot of a kubelet in the sandbox.
func CgroupRoot(name string) string {
	if unified() {
		return "/"
	}
	return "/" + name
}

// unified reports whether the machine has only cgroup v2.
func unified() bool {
	var stat unix.Statfs_t
	return unix.Statfs(cgroupRoot, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchies returns the mount points of the cgroup hierarchies in which a sandbox has a cgroup: all of v1, or that of v2.
func hierarchies() ([]string, error) {
	kind := "cgroup"
	if unified() {
		kind = "cgroup2"
	}
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter(kind))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var paths []string
	for _, m := range mounts {
		if m.Mountpoint == cgroupRoot || strings.HasPrefix(m.Mountpoint, cgroupRoot+"/") {
			paths = append(paths, m.Mountpoint)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// checkCgroups returns an error if the machine's cgroups lack a controller or cannot be written to.
func checkCgroups() error {
	if unified() {
		delegated, err := controllers(filepath.Join(cgroupRoot, "cgroup.subtree_control"))
		if err != nil {
			return err
		}
		for _, c := range required {
			if !slices.Contains(delegated, c) {
				return fmt.Errorf("cgroup v2 does not hand down controller %q here: "+
					"on the machine itself, not in a container, echo +%s >%s/cgroup.subtree_control",
					c, c, cgroupRoot)
			}
		}
		return writable(cgroupRoot)
	}
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup"))
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	for _, c := range required {
		i := slices.IndexFunc(mounts, func(m *mountinfo.Info) bool { return slices.Contains(strings.Split(m.VFSOptions, ","), c) })
		if i < 0 {
			return fmt.Errorf("this machine has no cgroup controller %q below %s", c, cgroupRoot)
		}
		if err := writable(mounts[i].Mountpoint); err != nil {
			return err
		}
	}
	return nil
}

func writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return fmt.Errorf("%s cannot be written to: %w", dir, err)
	}
	return nil
}

func controllers(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read cgroup controllers: %w", err)
	}
	return strings.Fields(string(data)), nil
}

// makeCgroup makes the cgroup in every hierarchy.
func makeCgroup(name string) error {
	paths, err := hierarchies()
	if err != nil {
		return err
	}
	for _, path := range paths {
		dir := filepath.Join(path, name)
		// It exists where the same hierarchy is mounted twice.
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup: %w", err)
		}
		for file, value := range weight {
			if err := setExisting(filepath.Join(dir, file), value); err != nil {
				return fmt.Errorf("set the weight of the cgroup: %w", err)
			}
		}
		if unified() {
			continue
		}
		// With v1 nothing can run in a cgroup of the cpuset hierarchy until it has processors and memory.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(path, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), value, 0)
			}
			if err != nil {
				return fmt.Errorf("copy %s to cgroup: %w", file, err)
			}
		}
	}
	return nil
}

// weight gives all containers together as much CPU time as ten processes outside, with cgroup v1 and v2. By default, they get as much as
// one process: on a busy machine, probes of containers would then time out.
var weight = map[string]string{"cpu.shares": "10240", "cpu.weight": "1000"}

// setExisting writes to a file of a cgroup. Hierarchies without the controller of the file do not have it.
func setExisting(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// enterCgroup makes the cgroup the root of the cgroups that the calling thread and its children see. It returns a func that removes the
// cgroup when this process is the last in it. With v1, the sandbox's own processes are not moved: only containers are in the cgroup.
func enterCgroup(name string) (remove func() error, err error) {
	if !unified() {
		return func() error { return RemoveCgroup(name) }, hideV2()
	}
	// Open the machine's cgroups and this process's present cgroup while they are visible. Both are needed to leave and remove the cgroup. The
	// kernel checks a move against the cgroup namespace in which the file was opened.
	machine, err := os.Open(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("open cgroups: %w", err)
	}
	out, err := openCurrent()
	if err != nil {
		return nil, err
	}
	if err := moveInto(filepath.Join(cgroupRoot, name)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_, _ = out.WriteString("0") // leave, so that the cgroup can be removed at once; if this fails, Wait removes it later
		}
	}()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return nil, fmt.Errorf("make cgroup namespace: %w", err)
	}
	// Unmount first: the kernel refuses to mount a cgroup file system over itself, even with another root.
	if err := unix.Unmount(cgroupRoot, unix.MNT_DETACH); err != nil {
		return nil, fmt.Errorf("unmount cgroups: %w", err)
	}
	if err := unix.Mount("cgroup", cgroupRoot, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, fmt.Errorf("mount cgroups: %w", err)
	}
	if err := delegate(); err != nil {
		return nil, err
	}
	return func() error {
		if _, err := out.WriteString("0"); err == nil {
			return removeFrom(name, filepath.Join("/proc/self/fd", strconv.Itoa(int(machine.Fd()))))
		}
		return nil // the former cgroup is gone: Wait removes this one
	}, nil
}

// hideV2 covers the v2 hierarchy that a machine with v1 may also have. crun refuses to run with both if v2 has a controller. The directory
// stays, and crun makes entries in it: they are in a file system of the sandbox.
func hideV2() error {
	return cover(cgroupRoot+"/unified", func(string) ([]string, error) { return nil, nil })
}

// openCurrent opens cgroup.procs of the cgroup that this process is in, with v2. A write moves processes into that cgroup.
func openCurrent() (*os.File, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find own cgroup: %w", err)
	}
	path := strings.TrimPrefix(strings.TrimSpace(string(data)), "0::")
	file, err := os.OpenFile(filepath.Join(cgroupRoot, path, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open own cgroup: %w", err)
	}
	return file, nil
}

// moveInto moves this process into a cgroup of v2.
func moveInto(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("enter cgroup: %w", err)
	}
	return nil
}

// delegate enables all controllers of the root cgroup for the cgroups below it.
func delegate() error {
	if err := os.Mkdir(filepath.Join(cgroupRoot, own), 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := moveInto(filepath.Join(cgroupRoot, own)); err != nil {
		return err
	}
	available, err := controllers(filepath.Join(cgroupRoot, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range available {
		err := os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte("+"+c), 0)
		if err != nil && slices.Contains(required, c) {
			return fmt.Errorf("enable cgroup controller %s: %w", c, err)
		}
	}
	return nil
}

// RemoveCgroup removes the cgroup of a sandbox whose processes have ended, if it exists.
func RemoveCgroup(name string) error {
	if !strings.HasPrefix(name, cgroupPrefix) || strings.Contains(name, "/") {
		return fmt.Errorf("remove cgroup: %q is not the name of a sandbox's", name)
	}
	paths, err := hierarchies()
	if err != nil {
		return err
	}
	return removeFrom(name, paths...)
}

// removeFrom removes the cgroup from hierarchies.
func removeFrom(name string, paths ...string) error {
	deadline := time.Now().Add(removeWait)
	var failures []error
	for _, path := range paths {
		err := removeTree(filepath.Join(path, name))
		for errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
			err = removeTree(filepath.Join(path, name))
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("remove cgroup: %w", err))
		}
	}
	return errors.Join(failures...)
}

// thaw resumes the processes of a sandbox's frozen cgroup, which a killed crun may leave behind. With v1, SIGKILL does not end frozen
// processes.
func thaw(name string) error {
	paths, err := hierarchies()
	if err != nil {
		return err
	}
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(path, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "freezer.state" {
				err = os.WriteFile(path, []byte("THAWED"), 0)
			}
			return ignoreGone(err)
		})
		if err != nil {
			return fmt.Errorf("thaw cgroup: %w", err)
		}
	}
	return nil
}

// removeTree removes a cgroup and those below it. The kernel removes the files in them.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return ignoreGone(unix.Rmdir(dir))
}

// ignoreGone returns nil for the error that a cgroup no longer exists: two processes may remove it at the same time.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
