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
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
)

// Check returns an error of one line if this machine or this process cannot make a sandbox.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root")
	}
	if err := checkKernel(); err != nil {
		return err
	}
	if err := checkCgroups(); err != nil {
		return err
	}
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return fmt.Errorf("the kernel has no IPv6: %w", err)
	}
	// Capabilities, security modules and kernel settings decide whether this process may make namespaces. Only an attempt shows it.
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("this process may not make namespaces (%w): it needs CAP_SYS_ADMIN", err)
	}
	return nil
}

// checkKernel returns an error before Linux 5.8. There, all mounts of /proc in a sandbox share one file system, so that protectSettings
// cannot make one of them read-only.
func checkKernel() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("read the kernel's version: %w", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	if v, err := version.ParseGeneric(release); err == nil && v.LessThan(version.MustParseGeneric("5.8")) {
		return fmt.Errorf("it needs Linux 5.8 or later, and this is %s", release)
	}
	return nil
}

// namespaces are the namespaces of a sandbox. UTS and IPC are among them, as a Pod may use its node's host name and shared memory.
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

// Stop closes the lifeline, which makes the sandbox end, and returns at once.
func (s *Sandbox) Stop() { s.alive.Close() }

// Kill ends the sandbox at once.
func (s *Sandbox) Kill() {
	_ = s.cmd.Process.Kill() // fails if the process has already ended
	_ = thaw(s.cgroup)       // Wait removes the cgroup, and reports an error
}

// Kill ends a sandbox at once if the process that started it has ended or does not answer. pid and network are those of Enter, and cgroup
// is the name of the sandbox's cgroup.
func Kill(pid int, network uint64, cgroup string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it has ended
	}
	defer unix.Close(fd)
	// With fd open, the signal cannot reach another process that reuses pid. The check shows whether fd is the right process.
	if now, err := networkOf(pid); err != nil || now != network {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill sandbox: %w", err)
	}
	return thaw(cgroup)
}

// Wait waits until the sandbox has ended, and removes its cgroup. It returns an error if the cgroup could not be removed.
func (s *Sandbox) Wait() error {
	_ = s.cmd.Wait() // Outcome returns the exit code
	s.alive.Close()
	return RemoveCgroup(s.cgroup)
}

// Outcome returns the exit code of the command of a sandbox that has ended. It returns an error if the sandbox could not be made.
func (s *Sandbox) Outcome() (int, error) {
	code := s.cmd.ProcessState.ExitCode()
	if code == failed {
		return code, fmt.Errorf("make sandbox: %s", strings.TrimSpace(s.stderr.String()))
	}
	return code, nil
}
