// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/glassback/glassback/hack/devcluster/state"
)

// The supervisor serves operations. Requests may arrive at any time, also while the cluster is being started.
var _ operations = (*Supervisor)(nil)

// statusTimeout limits the wait of Status for the answer of one component.
const statusTimeout = time.Second

// Status returns the state of every component, and asks each running one whether it is ready.
func (s *Supervisor) Status(ctx context.Context) []Component {
	var all []Component
	for _, name := range s.record.Spec.Components {
		p, prober, err := s.find(name)
		if err != nil {
			all = append(all, Component{Name: name, Condition: "not started"})
			continue
		}
		condition, pid := p.describe()
		c := Component{Name: name, Condition: condition, Port: prober.ports[name]}
		if pid != 0 {
			c.PID = s.machinePID(pid)
			probeCtx, cancel := context.WithTimeout(ctx, statusTimeout)
			c.Ready = prober.ready(probeCtx, name) == nil
			cancel()
			c.RSS = residentMemory(pid)
		}
		all = append(all, c)
	}
	return all
}

// Kill sends the component a signal and returns when it has gone. It stays dead until Restart.
func (s *Supervisor) Kill(ctx context.Context, component string, signal syscall.Signal) error {
	p, _, err := s.find(component)
	if err != nil {
		return err
	}
	p.ops.Lock()
	defer p.ops.Unlock()
	s.log.Printf("Sending %s to %s", signal, component)
	err = p.signal(ctx, signal)
	if errors.Is(err, errNotRunning) {
		return fmt.Errorf("%s is not running", component)
	}
	return err
}

// Restart starts the component with the same arguments on the same port, after killing it if it runs, and returns when it is ready.
func (s *Supervisor) Restart(ctx context.Context, component string) error {
	p, prober, err := s.find(component)
	if err != nil {
		return err
	}
	p.ops.Lock()
	defer p.ops.Unlock()
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	s.log.Printf("Restarting %s", component)
	if err := p.signal(ctx, syscall.SIGKILL); err != nil && !errors.Is(err, errNotRunning) {
		return err
	}
	if err := p.start(); err != nil {
		return err
	}
	return prober.waitReady(ctx, p)
}

// Pull makes the node fetch an image from the cluster's registry anew.
func (s *Supervisor) Pull(ctx context.Context, image string) error {
	if !s.record.Spec.Has(state.Containerd) {
		return errors.New("this cluster runs no containers: images are for --node real")
	}
	return pull(ctx, image)
}

// Stop ends the cluster. It returns at once.
func (s *Supervisor) Stop() { s.stop() }

// find returns a component that has been started.
func (s *Supervisor) find(component string) (*process, *prober, error) {
	if !s.record.Spec.Has(component) {
		return nil, nil, fmt.Errorf("unknown component %q: this cluster has %s", component, strings.Join(s.record.Spec.Components, ", "))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[component]
	if p == nil || p.current() == nil {
		return nil, nil, fmt.Errorf("%s has not been started yet", component)
	}
	return p, s.prober, nil
}

// residentMemory returns the bytes of memory that a process occupies, or 0 on a system without /proc.
func residentMemory(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
