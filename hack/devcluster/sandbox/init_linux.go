// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
)

// endWait limits the time in which the command ends after its lifeline was closed. Then Init kills all processes of the sandbox.
const endWait = 20 * time.Second

// Init is process 1 of a sandbox. It makes the mounts and the network, and starts Config.Command. When the command has ended, Init kills
// all other processes and returns the command's exit code. It reads the Config from in; files is the number of files that Start passes on.
func Init(in io.Reader, files int) int {
	// With cgroup v2 this thread alone has the cgroup namespace that the command inherits.
	runtime.LockOSThread()
	var config Config
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		fmt.Fprintf(os.Stderr, "decode sandbox: %v\n", err)
		return failed
	}
	i := initial{config: config, files: files, remove: func() error { return RemoveCgroup(config.Cgroup) }}
	if parent := lifeline.Inherited(); parent != nil {
		go i.endWith(parent)
	}
	code, err := i.run()
	if err := errors.Join(err, i.removeCgroup()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return failed
	}
	return code
}

// initial is process 1.
type initial struct {
	config Config
	files  int

	mu     sync.Mutex
	remove func() error // removes the cgroup, by the paths that this process sees
	cmd    *exec.Cmd    // once it runs
	cut    *os.File     // the write end of its lifeline
	ended  bool         // the parent is gone: start fails
}

func (i *initial) removeCgroup() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.remove()
}

// endWith ends the sandbox when the parent is gone, even before the sandbox is complete.
func (i *initial) endWith(parent *os.File) {
	if !lifeline.ParentGone(parent) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	wait := time.Duration(0)
	if i.cmd != nil {
		i.cut.Close()
		wait = endWait
	}
	// If this process or the kernel hangs then, do not wait: when process 1 ends, the kernel kills the rest.
	time.AfterFunc(wait, func() {
		time.AfterFunc(removeWait, func() { os.Exit(failed) })
		_ = killAll(i.config.Cgroup)
		_ = i.removeCgroup()
		os.Exit(failed)
	})
}

// run makes the sandbox and runs the command. When all processes of the sandbox have ended, it returns the command's exit code.
func (i *initial) run() (int, error) {
	machine, err := i.enter()
	if err != nil {
		return 0, err
	}
	defer machine.Close()
	if err := i.start(machine); err != nil {
		return 0, err
	}
	status, err := reap(i.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	return status, killAll(i.config.Cgroup)
}

// enter makes the sandbox around this process, and returns /proc of the machine.
func (i *initial) enter() (*os.File, error) {
	// This stays /proc of the machine, after /proc of the sandbox is mounted over it.
	machine, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	// From here on, no mount reaches the machine. An unmount on the machine applies here too, so that the sandbox keeps no file system busy.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	remove, err := enterCgroup(i.config.Cgroup)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	i.remove = remove
	i.mu.Unlock()
	if err := i.config.mount(); err != nil {
		return nil, err
	}
	return machine, connect(i.config.Addresses)
}

// start starts the command.
func (i *initial) start(machine *os.File) error {
	input, err := memoryFile(i.config.Input)
	if err != nil {
		return err
	}
	defer input.Close()
	cmd := exec.Command(i.config.Command[0], i.config.Command[1:]...)
	cmd.Env = os.Environ()
	cmd.Stdin, cmd.Stderr = input, os.Stderr
	for fd := range i.files {
		cmd.ExtraFiles = append(cmd.ExtraFiles, lifeline.OpenInherited(3+fd, "inherited"))
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, machine)
	read, cut, err := lifeline.Attach(cmd)
	if err != nil {
		return err
	}
	defer read.Close()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return errors.New("its parent is gone")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", i.config.Command[0], err)
	}
	i.cmd, i.cut = cmd, cut
	return nil
}

// memoryFile returns a file in memory from which data can be read.
func memoryFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "input")
	if _, err := file.Write(data); err != nil {
		return nil, fmt.Errorf("write input: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("write input: %w", err)
	}
	return file, nil
}

// reap waits for every process that ends, as process 1 must. It returns the exit code of pid when pid has ended.
func reap(pid int) (int, error) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for processes: %w", err)
		case ended == pid && status.Exited():
			return status.ExitStatus(), nil
		case ended == pid:
			return 128 + int(status.Signal()), nil
		}
	}
}

// killAll kills every process of the sandbox but its own and waits until they are gone.
func killAll(cgroup string) error {
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill processes: %w", err)
	}
	if err := thaw(cgroup); err != nil {
		return err
	}
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("wait for processes: %w", err)
		}
	}
}
