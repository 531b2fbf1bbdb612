// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// errNotRunning means that a component has already ended.
var errNotRunning = errors.New("not running")

// process is one component. At most one run of it exists at a time. A component that ends is not started again without a request, so that a
// test that kills it finds it dead.
type process struct {
	name   string
	binary string
	args   []string
	dir    state.Dir
	lock   *os.File // the directory's lock, which the child inherits; nil for containerd, whose children would inherit it too

	ops sync.Mutex // one kill or restart at a time

	mu     sync.Mutex
	run    *run // the current or the last run; nil before the first start
	closed bool // the cluster is being stopped: start fails
}

// run is one run of a process, from its start to its end.
type run struct {
	proc   *os.Process
	cut    *os.File      // the write end of the child's lifeline; nil if it has none
	done   chan struct{} // closed when the process is gone and ended is set
	ended  string        // why it ended; valid after done
	killed bool          // by the supervisor; guarded by process.mu
}

// start starts the component and returns without waiting for it to be ready.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && p.run.alive() {
		return fmt.Errorf("start %s: it is running", p.name)
	}
	if p.closed {
		return fmt.Errorf("start %s: the cluster is being stopped", p.name)
	}
	log, err := os.OpenFile(p.dir.Log(p.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.name, err)
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path:        p.binary,
		Args:        append([]string{p.name}, p.args...),
		Env:         environment(p.dir),
		Dir:         string(p.dir),
		Stdout:      log,
		Stderr:      log,
		SysProcAttr: lifeline.Attributes(syscall.SIGKILL), // see run.live
	}
	cmd.SysProcAttr.Setpgid = true // Ctrl-C in a terminal does not end it: the supervisor does.
	r := &run{done: make(chan struct{})}
	if p.lock != nil {
		cmd.ExtraFiles = []*os.File{p.lock}
		read, write, err := lifeline.Attach(cmd)
		if err != nil {
			return err
		}
		defer read.Close()
		r.cut = write
	}
	started := make(chan error)
	go r.live(cmd, started)
	if err := <-started; err != nil {
		r.cut.Close()
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.run = r
	return nil
}

// live starts the command and waits until it ends, on one thread. On Linux the kernel kills the child when the thread that started it ends.
// So even a child that does not read its lifeline ends with the supervisor.
func (r *run) live(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	r.proc = cmd.Process
	started <- nil
	err := cmd.Wait()
	r.ended = "exit status 0"
	if err != nil {
		r.ended = err.Error()
	}
	r.cut.Close()
	close(r.done)
}

func (r *run) alive() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// current returns the current or the last run, or nil.
func (p *process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// signal sends sig and waits for the process to end. The process was started.
func (p *process) signal(ctx context.Context, sig syscall.Signal) error {
	r := p.current()
	if !r.alive() {
		return errNotRunning
	}
	p.mu.Lock()
	r.killed = true
	p.mu.Unlock()
	if err := r.proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end after %s: %w", p.name, sig, ctx.Err())
	}
}

// close kills the process and makes sure that it is not started again. It returns before the process has gone.
func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.run != nil && p.run.alive() {
		_ = p.run.proc.Signal(syscall.SIGKILL) // fails if it has just gone
	}
}

// describe returns the state of a started process in a few words, and its process id, which is 0 if it does not run.
func (p *process) describe() (condition string, pid int) {
	r := p.current()
	if r.alive() {
		return "running", r.proc.Pid
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.killed {
		return "killed", 0
	}
	return "died: " + r.ended, 0
}

// passed are the variables of the supervisor's environment that components inherit. Other variables could change their behaviour: ETCD_*
// sets etcd's flags, KUBECONFIG and HOME can name another cluster, and a proxy cannot reach addresses in a sandbox.
var passed = []string{"LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK"}

// environment returns the environment of a component, whose home and temporary files are in the cluster's directory.
func environment(dir state.Dir) []string {
	env := []string{"HOME=" + dir.Path("tmp"), "TMPDIR=" + dir.Path("tmp"), "PATH=" + searchPath()}
	for _, v := range os.Environ() {
		if name, _, ok := strings.Cut(v, "="); ok && slices.Contains(passed, name) {
			env = append(env, v)
		}
	}
	return env
}
