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
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
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
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, fmt.Errorf("find process: %w", err)
	}
	stat, err1 := proc.Stat()
	io, err2 := proc.IO()
	status, err3 := proc.NewStatus()
	if err := errors.Join(err1, err2, err3); err != nil {
		return usage{}, fmt.Errorf("read usage: %w", err)
	}
	return usage{
		cpu: time.Duration(stat.CPUTime() * float64(time.Second)), received: float64(io.RChar), sent: float64(io.WChar),
		rss: float64(status.VmRSS), peak: float64(status.VmHWM),
	}, nil
}
