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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
)

// endWait is how long what runs in a sandbox may take to end when it is told to.
const endWait = 20 * time.Second

// Init is process 1 of a sandbox: it makes the rest of it, starts Config.Command, whose exit code it returns, and ends all that is left. It
// reads the Config from in; files is how many Start passes on.
func Init(in io.Reader, files int) int {
	// With cgroup v2 this thread alone has the cgroup namespace that the command inherits.
	runtime.LockOSThread()
	parent := lifeline.Inherited()
	code, err := initialise(in, files, parent)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return failed
	}
	return code
}

func initialise(in io.Reader, files int, parent *os.File) (int, error) {
	var config Config
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		return 0, fmt.Errorf("decode sandbox: %w", err)
	}
	// It stays that of the machine, where the next /proc is that of the sandbox.
	machine, err := os.Open("/proc")
	if err != nil {
		return 0, fmt.Errorf("open /proc: %w", err)
	}
	defer machine.Close()
	// Nothing reaches the machine's mounts from here on, nor the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("make mounts private: %w", err)
	}
	removeCgroup, err := enterCgroup(config.Cgroup)
	if err != nil {
		return 0, err
	}
	if err := config.mount(); err != nil {
		return 0, err
	}
	if err := connect(config.Address); err != nil {
		return 0, err
	}
	cmd, cut, err := config.command(files, machine)
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", config.Command[0], err)
	}
	if parent != nil {
		go func() {
			if lifeline.ParentGone(parent) {
				cut.Close()
				time.AfterFunc(endWait, func() { _ = cmd.Process.Kill() })
			}
		}()
	}
	status, err := reap(cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := killAll(); err != nil {
		return 0, err
	}
	return status, removeCgroup()
}

// command returns what runs in the sandbox, and the other end of its lifeline.
func (c Config) command(files int, machine *os.File) (*exec.Cmd, *os.File, error) {
	input, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("create pipe: %w", err)
	}
	if _, err := write.Write(c.Input); err != nil {
		return nil, nil, fmt.Errorf("write input: %w", err)
	}
	if err := write.Close(); err != nil {
		return nil, nil, fmt.Errorf("write input: %w", err)
	}
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Env = os.Environ()
	cmd.Stdin, cmd.Stderr = input, os.Stderr
	for fd := range files {
		cmd.ExtraFiles = append(cmd.ExtraFiles, lifeline.OpenInherited(3+fd, "inherited"))
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, machine)
	_, cut, err := lifeline.Attach(cmd)
	return cmd, cut, err
}

// reap waits for every process that ends, as process 1 must, until the given one has, and returns its exit code.
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
func killAll() error {
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill processes: %w", err)
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
