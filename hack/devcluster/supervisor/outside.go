// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/glassback/glassback/hack/devcluster/sandbox"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// A supervisor starts process 1 of its sandbox with the argument SandboxCommand. Process 1 starts the supervisor inside with the argument
// InsideCommand.
const (
	SandboxCommand = "sandbox"
	InsideCommand  = "supervise-inside"
)

// The files that the supervisor outside passes to the supervisor inside, by their descriptors. The first is ReportFD.
const (
	lockFD = ReportFD + 1 + iota
	controlFD
	apiFD
	machineFD // added by the sandbox
	passedOn  = machineFD - ReportFD
)

// runOutside is the supervisor of a real node outside of its sandbox. It takes the directory, opens the ports of the control server and the
// API server, starts the supervisor inside, and removes the cluster's files when that has ended. A socket stays in the network in which it
// was opened: the supervisor inside can thus serve the two ports.
func (s *Supervisor) runOutside(ctx context.Context, report *os.File) error {
	if err := s.takeDir(ctx); err != nil {
		return err
	}
	if err := s.listenControl(); err != nil {
		return err
	}
	defer s.control.Close()
	if err := s.listenAPI(); err != nil {
		return err
	}
	defer s.ports.release()
	defer s.api.Close()
	// Save the name before the cgroup exists, so that "devcluster down" can remove the cgroup after a crash.
	s.record.Sandbox = &state.Sandbox{Cgroup: sandbox.NewCgroup()}
	if err := s.dir.Save(&s.record); err != nil {
		return err
	}
	box, err := s.startSandbox(report)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		box.Stop()
		time.AfterFunc(insideWait, box.Kill) // a sandbox that still runs then hangs
	})
	defer stop()
	if err := box.Wait(); err != nil {
		return err
	}
	code, err := box.Outcome()
	switch {
	case code == 1: // the start failed, and the supervisor inside has reported it
		return errReported
	case code == 0 || ctx.Err() != nil: // it ended normally, or this supervisor ended it
		return s.removeDir()
	case err != nil:
		return err
	default:
		return fmt.Errorf("the supervisor in the sandbox ended with code %d: see %s", code, s.dir.Log("supervisor"))
	}
}

// insideWait limits the time in which the supervisor inside ends. It is shorter than endTimeout of package cluster.
const insideWait = 15 * time.Second

// listenAPI opens the API server's port outside the sandbox. forward passes on the connections to it.
func (s *Supervisor) listenAPI() error {
	if err := s.reserveAPIPort(); err != nil {
		return err
	}
	port := s.record.Ports[state.APIServer]
	listener, err := net.Listen("tcp4", loopback(port))
	if err != nil {
		return fmt.Errorf("listen for the API server: %w", err)
	}
	s.api = listener
	s.record.Spec.APIPort = port // inside, the API server listens on the same port
	return nil
}

func (s *Supervisor) startSandbox(report *os.File) (*sandbox.Sandbox, error) {
	input, err := json.Marshal(&s.record)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	control, controlErr := s.control.(*net.TCPListener).File()
	api, apiErr := s.api.(*net.TCPListener).File()
	if err := errors.Join(controlErr, apiErr); err != nil {
		return nil, fmt.Errorf("pass on sockets: %w", err)
	}
	defer control.Close()
	defer api.Close()
	config := sandboxOf(s.dir, s.record.Sandbox.Cgroup, s.binary, s.record.Spec.Images)
	config.Command = []string{s.binary, InsideCommand, string(s.dir)}
	config.Input = input
	return sandbox.Start(config, []string{SandboxCommand, string(s.dir)}, []*os.File{report, s.lock, control, api})
}
