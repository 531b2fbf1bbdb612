// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
)

// keepCommand makes this program the keeper of a command: demo keep COMMAND ARGUMENTS…
const keepCommand = "keep"

// drainTimeout is the time that a command has to end. The operator drains for 20 s at most.
const drainTimeout = 25 * time.Second

// keep runs a command until it ends, and returns the exit code of this process. It stops the command when the parent of this process
// closes the lifeline or dies, or when this process gets SIGINT, SIGTERM or SIGHUP.
//
// A killed demo cannot end its children, and the command does not watch its parent. So the keeper is a process between them.
func keep(args []string) int {
	parent := lifeline.Inherited()
	if len(args) == 0 || parent == nil {
		fmt.Fprintln(os.Stderr, "demo: only the demo itself uses the command keep")
		return exitUsage
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	runtime.LockOSThread() // The attributes tie the command to this thread.
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = lifeline.Attributes(syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return exitFailed
	}
	end := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(drainTimeout, func() { _ = cmd.Process.Kill() })
	}
	go func() {
		if lifeline.ParentGone(parent) {
			end()
		}
	}()
	go func() {
		<-signals
		end()
	}()
	if err := cmd.Wait(); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %s has ended: %v\n", args[0], err)
		return exitFailed
	}
	return exitOK
}

// child is a process that the demo runs under a keeper.
type child struct {
	name    string // for the screen, such as "the operator"
	logFile string
	alive   *os.File // the write end of the keeper's lifeline
	ended   chan struct{}
}

// start runs the program of command with its arguments under a keeper, with an environment, and appends its output to logFile. stop ends
// the program, and so does the end of this process. The context of command does not.
func start(name, logFile string, env []string, command *exec.Cmd) (*child, error) {
	if command.Err != nil {
		return nil, fmt.Errorf("start %s: %w", name, command.Err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the log of %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{keepCommand}, command.Args...)...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // The terminal's Ctrl-C does not reach it.
	read, alive, err := lifeline.Attach(cmd)
	if err != nil {
		return nil, err
	}
	defer read.Close()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), alive.Close())
	}
	c := &child{name: name, logFile: logFile, alive: alive, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // The log has the reason.
		close(c.ended)
	}()
	return c, nil
}

// stop ends the process and waits until it has ended.
func (c *child) stop() {
	_ = c.alive.Close() // A second Close has no effect.
	<-c.ended
}

// wait waits until the process or ctx ends. It always returns an error.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
	}
	return errors.New(c.name + " has ended by itself")
}

// lastLines returns the end of the process's log.
func (c *child) lastLines(n int) string {
	data, err := os.ReadFile(c.logFile)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}
