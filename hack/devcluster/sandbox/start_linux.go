// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
)

// Check says in one line what this machine or this process lacks for a sandbox.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root")
	}
	if err := checkCgroups(); err != nil {
		return err
	}
	// Whether namespaces may be made is a matter of capabilities, of security modules and of kernel settings: trying is the only way to know.
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("this process may not make namespaces (%w): it needs CAP_SYS_ADMIN", err)
	}
	return nil
}

// namespaces are those of a sandbox. The host's name and shared memory are among what a Pod may have of its node.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// Sandbox is a running sandbox.
type Sandbox struct {
	// Init is the process id of its process 1 on the machine, Network the inode of its network namespace.
	Init    int
	Network uint64

	cgroup string
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	alive  *os.File
}

// Start starts a sandbox. args are the arguments with which the running binary calls Init; files are passed on to Config.Command.
func Start(config Config, args []string, files []*os.File) (*Sandbox, error) {
	input, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode sandbox: %w", err)
	}
	if err := makeCgroup(config.Cgroup); err != nil {
		return nil, errors.Join(err, RemoveCgroup(config.Cgroup))
	}
	s := &Sandbox{cgroup: config.Cgroup, stderr: &bytes.Buffer{}}
	s.cmd = exec.Command("/proc/self/exe", args...)
	s.cmd.Args[0] = os.Args[0]
	s.cmd.Env = os.Environ()
	s.cmd.Dir = "/"
	s.cmd.Stdin, s.cmd.Stderr = bytes.NewReader(input), s.stderr
	s.cmd.WaitDelay = time.Second
	s.cmd.ExtraFiles = files
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	read, write, err := lifeline.Attach(s.cmd)
	if err != nil {
		return nil, errors.Join(err, RemoveCgroup(config.Cgroup))
	}
	defer read.Close()
	s.alive = write
	if err := s.cmd.Start(); err != nil {
		write.Close()
		return nil, errors.Join(fmt.Errorf("start sandbox: %w", err), RemoveCgroup(config.Cgroup))
	}
	s.Init = s.cmd.Process.Pid
	if s.Network, err = networkOf(s.Init); err != nil {
		s.Kill()
		return nil, errors.Join(err, s.Wait())
	}
	return s, nil
}

// networkOf returns the inode of a process's network namespace.
func networkOf(pid int) (uint64, error) {
	info, err := os.Stat(networkFile(pid))
	if err != nil {
		return 0, fmt.Errorf("find network namespace: %w", err)
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}

func networkFile(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/ns/net" }

// Stop tells what runs in the sandbox to end, and returns at once.
func (s *Sandbox) Stop() { s.alive.Close() }

// Kill ends the sandbox at once.
func (s *Sandbox) Kill() {
	_ = s.cmd.Process.Kill() // fails if it has ended
	_ = Thaw(s.cgroup)       // Wait says what is left
}

// Kill ends a sandbox of which another process has the Sandbox, and that process is gone or does not answer. It is told as to Enter, and by
// the name of its cgroup.
func Kill(pid int, network uint64, cgroup string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it has ended
	}
	defer unix.Close(fd)
	// From here on this process cannot become another one unnoticed: it is the right one, or not.
	if now, err := networkOf(pid); err != nil || now != network {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill sandbox: %w", err)
	}
	return Thaw(cgroup)
}

// Wait waits until the sandbox has ended, and removes what is left of it. The error says that this could not be done.
func (s *Sandbox) Wait() error {
	_ = s.cmd.Wait() // Outcome tells
	s.alive.Close()
	return RemoveCgroup(s.cgroup)
}

// Outcome returns the exit code of what ran in a sandbox that has ended. The error says that the sandbox could not be made.
func (s *Sandbox) Outcome() (int, error) {
	code := s.cmd.ProcessState.ExitCode()
	if code == failed {
		return code, fmt.Errorf("make sandbox: %s", strings.TrimSpace(s.stderr.String()))
	}
	return code, nil
}
