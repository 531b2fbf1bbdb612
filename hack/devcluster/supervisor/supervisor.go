// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/glassback/glassback/hack/devcluster/sandbox"
	"github.com/glassback/glassback/hack/devcluster/state"
)

const (
	// dyingWait limits the wait for the last processes of a directory that is locked and whose supervisor does not answer.
	dyingWait = 10 * time.Second
	// orphanCheck is the interval at which the supervisor checks that the directory still exists.
	orphanCheck = time.Second
	// restartTimeout bounds the wait for a restarted component to be ready.
	restartTimeout = 2 * time.Minute
)

// Supervisor owns the processes of one cluster.
type Supervisor struct {
	dir    state.Dir
	binary string
	report func(line string)
	log    *log.Logger

	lock    *os.File
	record  state.Record
	ports   reservation
	started time.Time
	control net.Listener // on the machine's loopback

	// These are set only for a real node: see inside.go.
	api     net.Listener // the API server's port on the machine's loopback
	machine *os.File     // /proc of the machine
	found   requirements

	stop context.CancelFunc

	mu        sync.Mutex // guards the fields below, which start and the control server share
	processes map[string]*process
	prober    *prober
}

// New returns a supervisor for a cluster. Its components are in binary. It calls report with a line for each step.
func New(spec state.Spec, binary string, report func(line string)) *Supervisor {
	return &Supervisor{
		dir:       state.Dir(spec.Dir),
		binary:    binary,
		report:    report,
		record:    state.Record{Spec: spec, Supervisor: os.Getpid()},
		started:   time.Now(),
		processes: map[string]*process{},
	}
}

// Run starts the cluster, calls ready when it is usable, keeps it until ctx ends or a client stops it, and removes it. If the cluster
// cannot be started, Run keeps its logs.
func (s *Supervisor) Run(ctx context.Context, ready func()) error {
	if err := s.takeDir(ctx); err != nil {
		return err
	}
	if err := s.listenControl(); err != nil {
		return err
	}
	if err := s.work(ctx, ready); err != nil {
		return err
	}
	return s.removeDir()
}

// work starts the cluster, calls ready when it is usable, and keeps it until ctx ends or a client stops it. It returns an error if the
// cluster could not be started.
func (s *Supervisor) work(ctx context.Context, ready func()) error {
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	closeLog, err := s.openLog()
	if err != nil {
		return err
	}
	defer closeLog()
	closeControl := s.serveControl()
	err = s.start(ctx)
	if err == nil {
		s.log.Printf("Cluster is ready after %s", s.elapsed())
		ready()
		s.keep(ctx)
	}
	failed := err != nil && ctx.Err() == nil
	s.log.Printf("Stopping: %v", err)
	closeControl()
	s.killAll()
	s.ports.release()
	if failed {
		return err
	}
	return nil
}

// removeDir removes the cluster's files from its directory, unless another cluster has the directory now.
func (s *Supervisor) removeDir() error {
	if !s.dir.Holds(s.lock) {
		return nil
	}
	return s.dir.Remove(s.record.Made)
}

// keep waits until ctx ends, or until the cluster's directory is gone: without the directory, no client can reach the cluster.
func (s *Supervisor) keep(ctx context.Context) {
	ticker := time.NewTicker(orphanCheck)
	defer ticker.Stop()
	for s.dir.Holds(s.lock) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// takeDir takes the directory for this cluster. It returns an error if a cluster is alive there, and reuses the directory of a dead one.
func (s *Supervisor) takeDir(ctx context.Context) error {
	s.record.Made = s.dir.Missing()
	if err := os.MkdirAll(string(s.dir), 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := s.dir.CheckOwner(); err != nil {
		return err
	}
	if err := s.takeLock(ctx); err != nil {
		return err
	}
	if err := s.dir.CheckForeign(); err != nil {
		os.Remove(s.dir.Path("lock"))
		s.lock.Close()
		return err
	}
	if old, err := s.dir.Load(); err == nil {
		s.record.Made = cmp.Or(s.record.Made, old.Made)
		s.report("removing what a dead cluster left in " + string(s.dir))
		if old.Sandbox != nil {
			if err := sandbox.RemoveCgroup(old.Sandbox.Cgroup); err != nil {
				return err
			}
		}
	}
	if err := s.dir.Clean(); err != nil {
		return err
	}
	// The record comes first: it marks the files that follow as those of a cluster.
	if err := s.dir.Save(&s.record); err != nil {
		return err
	}
	for _, name := range []string{"pki", "etcd", "logs", "bin", "tmp", "node"} {
		if err := os.Mkdir(s.dir.Path(name), 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := os.Symlink(s.binary, s.dir.Path("bin", "kubectl")); err != nil {
		return fmt.Errorf("link kubectl: %w", err)
	}
	return nil
}

// held has the lock of this process's cluster. The garbage collector closes a file that nothing refers to. Without this variable, the
// cluster could count as ended before the process has removed its directory and ended.
var held []*os.File

// takeLock takes the directory's lock. The kernel releases it when this process has ended: until then, the cluster counts as alive. If a
// supervisor was killed, its components still hold the lock until they notice and end.
func (s *Supervisor) takeLock(ctx context.Context) error {
	deadline := time.Now().Add(dyingWait)
	for {
		lock, err := s.dir.TryLock()
		if err == nil {
			s.lock, held = lock, append(held, lock)
			return nil
		}
		if !errors.Is(err, state.ErrLocked) {
			return err
		}
		inUse := fmt.Errorf("%s is in use by a running cluster: \"devcluster down --dir %s\" first, or choose another --dir", s.dir, s.dir)
		if record, err := s.dir.Load(); err == nil && record.Control != "" {
			if _, err := NewClient(record).Status(ctx); err == nil {
				return inUse
			}
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return inUse
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// openLog opens the supervisor's log, and sends its log lines and the output of a crash there.
func (s *Supervisor) openLog() (func(), error) {
	f, err := os.OpenFile(s.dir.Log("supervisor"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of supervisor: %w", err)
	}
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		f.Close()
		return nil, fmt.Errorf("set crash output: %w", err)
	}
	s.log = log.New(f, "", log.LstdFlags|log.Lmicroseconds)
	klog.LogToStderr(false)
	klog.SetOutput(f)
	return func() {
		klog.Flush()
		f.Close()
	}, nil
}

// listenControl opens the control server's port, and makes the token for it.
func (s *Supervisor) listenControl() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for control: %w", err)
	}
	s.control = listener
	s.record.Control = listener.Addr().String()
	s.record.Token = rand.Text()
	return s.dir.Save(&s.record)
}

// serveControl starts the control server and returns a func that ends it.
func (s *Supervisor) serveControl() func() {
	server := &http.Server{Handler: handler(s.record.Token, s), ReadHeaderTimeout: 5 * time.Second}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(s.control) })
	return func() {
		// Requests that wait for a component get one second, and are then aborted.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		served.Wait()
	}
}

// start starts the components.
func (s *Supervisor) start(ctx context.Context) error {
	timeout := s.record.Spec.Timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready after %s", timeout))
	defer cancel()
	if err := s.assignPorts(); err != nil {
		return err
	}
	return s.launch(ctx)
}

// reserveAPIPort chooses the API server's port: the requested one, or any free one.
func (s *Supervisor) reserveAPIPort() error {
	s.record.Ports = map[string]int{}
	if asked := s.record.Spec.APIPort; asked != 0 {
		if err := s.ports.exactly(asked); err != nil {
			return fmt.Errorf("port %d, asked for with --api-port, is in use: choose another", asked)
		}
		s.record.Ports[state.APIServer] = asked
		return nil
	}
	if !s.record.Spec.Has(state.APIServer) {
		return nil
	}
	port, err := s.ports.any()
	s.record.Ports[state.APIServer] = port
	return err
}

func (s *Supervisor) assignPorts() error {
	if err := s.reserveAPIPort(); err != nil {
		return err
	}
	for _, key := range portKeys(s.record.Spec.Components) {
		if s.record.Ports[key] != 0 {
			continue
		}
		port, err := s.ports.any()
		if err != nil {
			return err
		}
		s.record.Ports[key] = port
	}
	return s.dir.Save(&s.record)
}

// launch makes the certificates and starts the components once, stage by stage. A stage starts when all components before it are ready.
func (s *Supervisor) launch(ctx context.Context) error {
	pki := pki{dir: s.dir.Path("pki"), now: time.Now()}
	if err := pki.generate("https://" + loopback(s.record.Ports[state.APIServer])); err != nil {
		return err
	}
	prober, err := newProber(s.dir, s.record.Ports)
	if err != nil {
		return err
	}
	config, err := s.configure()
	if err != nil {
		return err
	}
	processes := map[string]*process{}
	for _, name := range s.record.Spec.Components {
		args, err := config.arguments(name)
		if err != nil {
			return err
		}
		p := &process{name: name, binary: s.binary, args: append(args, s.record.Spec.ExtraArgs[name]...), dir: s.dir, lock: s.lock}
		switch name {
		case state.Containerd:
			p.binary, p.lock = s.found.Containerd, nil
		case state.APIServer, state.ControllerManager, state.Scheduler:
			p.binary = cmp.Or(s.record.Spec.ControlPlane, s.binary)
		}
		processes[name] = p
	}
	s.mu.Lock()
	s.prober, s.processes = prober, processes
	s.mu.Unlock()
	if err := s.startStage(ctx, state.Etcd, state.Registry, state.Containerd); err != nil {
		return err
	}
	if err := s.startStage(ctx, state.APIServer); err != nil {
		return err
	}
	if !s.record.Spec.Has(state.APIServer) {
		return s.markReady()
	}
	boot, err := newBootstrap(config)
	if err != nil {
		return err
	}
	if err := boot.create(ctx); err != nil {
		return err
	}
	if err := s.startStage(ctx, s.record.Spec.Components...); err != nil {
		return err
	}
	if err := boot.waitUsable(ctx); err != nil {
		return err
	}
	return s.markReady()
}

func (s *Supervisor) markReady() error {
	s.record.Ready = true
	return s.dir.Save(&s.record)
}

// startStage starts those of the named components that the cluster has and that do not run yet. It waits until all are ready.
func (s *Supervisor) startStage(ctx context.Context, names ...string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !s.record.Spec.Has(name) || s.processes[name].current() != nil
	})
	for _, name := range names {
		s.log.Printf("Starting %s %s", name, strings.Join(s.processes[name].args, " "))
		if err := s.processes[name].start(); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := s.prober.waitReady(ctx, s.processes[name]); err != nil {
			return err
		}
		s.report(fmt.Sprintf("%-24s ready after %s", name, s.elapsed()))
	}
	return nil
}

// killAll kills every component with SIGKILL and waits until they have ended. They need not save data: it is removed with the cluster.
func (s *Supervisor) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		p.close()
	}
	for _, p := range s.processes {
		if r := p.current(); r != nil {
			<-r.done
		}
	}
}

func (s *Supervisor) elapsed() string {
	return fmt.Sprintf("%.1fs", time.Since(s.started).Seconds())
}

// BinaryPath returns the path of the running binary, which is also that of every component.
func BinaryPath() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own binary: %w", err)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("find own binary: %w", err)
	}
	return path, nil
}
