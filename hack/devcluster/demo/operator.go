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

// operateCommand makes this program the operator's keeper: demo operate GLASSBACK ARGUMENTS…
const operateCommand = "operate"

// drainTimeout is how long the operator may take to end. It drains for 20 s at most.
const drainTimeout = 25 * time.Second

// operate runs the operator until this process's parent closes its lifeline, or is gone in whatever way. It returns its own exit code.
//
// It is a process of its own because the operator does not know of lifelines: a demo that is killed cannot end the operator, but this can.
func operate(args []string) int {
	parent := lifeline.Inherited()
	if len(args) == 0 || parent == nil {
		fmt.Fprintln(os.Stderr, "demo: operate is for the demo itself")
		return exitUsage
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	runtime.LockOSThread() // for operatorAttributes
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = operatorAttributes()
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

// operator is the operator, with its keeper between.
type operator struct {
	logFile string
	alive   *os.File // the write end of the keeper's lifeline
	ended   chan struct{}
}

// startOperator starts the operator by the given command, and writes what it says to a file. It ends with stop, or with this process.
func startOperator(logFile string, command ...string) (*operator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the operator's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(self, append([]string{operateCommand}, command...)...)
	cmd.Env = os.Environ()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of a terminal's Ctrl-C
	read, alive, err := lifeline.Attach(cmd)
	if err != nil {
		return nil, err
	}
	defer read.Close()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the operator: %w", err), alive.Close())
	}
	o := &operator{logFile: logFile, alive: alive, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // Why it ended is in the log.
		close(o.ended)
	}()
	return o, nil
}

// stop ends the operator, and returns when it has ended.
func (o *operator) stop() {
	_ = o.alive.Close() // A second time does nothing.
	<-o.ended
}

// wait waits until the operator has ended by itself, and returns an error that says so, or until ctx ends.
func (o *operator) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-o.ended:
	}
	return errors.New("the operator has ended by itself")
}

// lastLines returns the end of the operator's log.
func (o *operator) lastLines(n int) string {
	data, err := os.ReadFile(o.logFile)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}
