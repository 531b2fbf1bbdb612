// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running participant.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // of the bare client
	stdout *bufio.Scanner
	log    string // the file with its output
	stop   func() error
}

// stopPatience is how long a participant may take to end after SIGTERM.
const stopPatience = 30 * time.Second

// start starts a participant. Its log goes to a file, since a pipe would make this process read it.
func start(ctx context.Context, log string, command ...string) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	file, err := os.Create(log)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("create log: %w", err)
	}
	defer file.Close()
	cmd.Stderr = file
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	p := &process{cmd: cmd, stdin: stdin, stdout: bufio.NewScanner(stdout), log: log}
	p.stop = sync.OnceValue(func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
		kill := time.AfterFunc(stopPatience, cancel)
		defer kill.Stop()
		defer cancel()
		if err := cmd.Wait(); err != nil && !signalled(cmd.ProcessState) {
			return fmt.Errorf("%s ended: %w", command[0], err)
		}
		return nil
	})
	return p, nil
}

// stopped reports whether stop has returned.
func (p *process) stopped() bool { return p.cmd.ProcessState != nil }

func signalled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// line reads the next line that the bare client writes.
func (p *process) line(want string) error {
	if !p.stdout.Scan() || p.stdout.Text() != want {
		log, _ := os.ReadFile(p.log) // The missing line is already an error.
		return fmt.Errorf("wrote %q, not %q: %v; %s", p.stdout.Text(), want, p.stdout.Err(), log)
	}
	return nil
}

// batch lets the bare client do one batch.
func (p *process) batch(verb string, n int, ns string) error {
	if _, err := fmt.Fprintf(p.stdin, "%s %d %s\n", verb, n, ns); err != nil {
		return fmt.Errorf("start batch: %w", err)
	}
	return p.line("done")
}

// usage is the resources that a process has used since its start.
type usage struct {
	cpu            time.Duration
	received, sent float64 // bytes that it read and wrote: nearly all are requests and answers over TLS
	rss, peak      float64 // bytes
}

// usageOf reads the usage of a process from /proc.
func usageOf(pid int) (usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err1 := os.ReadFile(filepath.Join(dir, "stat"))
	io, err2 := os.ReadFile(filepath.Join(dir, "io"))
	status, err3 := os.ReadFile(filepath.Join(dir, "status"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return usage{}, fmt.Errorf("read usage: %w", err)
	}
	cpu, err := cpuOf(string(stat))
	return usage{
		cpu: cpu, received: field(string(io), "rchar:"), sent: field(string(io), "wchar:"),
		rss: 1024 * field(string(status), "VmRSS:"), peak: 1024 * field(string(status), "VmHWM:"),
	}, err
}

// clockTick is the unit of times in /proc/PID/stat. It is 10 ms on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuOf returns the CPU time of a process, from its /proc/PID/stat.
func cpuOf(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // The name before may have spaces.
	if len(fields) < 13 {
		return 0, fmt.Errorf("no times in %q", stat)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// field returns the number after a name; 0 if it is not there.
func field(text, name string) float64 {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name); found {
			n, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64) // Text that is no number counts as 0.
			return n
		}
	}
	return 0
}
