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

// SandboxCommand is the argument with which a supervisor starts process 1 of its sandbox, and InsideCommand that with which process 1
// starts the other half of the supervisor.
const (
	SandboxCommand = "sandbox"
	InsideCommand  = "supervise-inside"
)

// The files that the supervisor's half outside passes to the half inside, by their descriptors. The first is ReportFD.
const (
	lockFD = ReportFD + 1 + iota
	controlFD
	apiFD
	machineFD // from the sandbox
	passedOn  = machineFD - ReportFD
)

// runOutside is the half of the supervisor of a real node that stays outside of its sandbox: it makes the directory the cluster's own,
// opens the two ports that are reached from outside, starts the other half in the sandbox, and afterwards removes what is left. A socket
// stays in the network in which it was opened, so that the other half serves them from inside.
func (s *Supervisor) runOutside(ctx context.Context, report *os.File) error {
	if err := s.takeDir(ctx); err != nil {
		return err
	}
	defer s.lock.Close()
	if err := s.listenControl(); err != nil {
		return err
	}
	defer s.control.Close()
	if err := s.listenAPI(); err != nil {
		return err
	}
	defer s.ports.release()
	defer s.api.Close()
	// Before it is made, so that "devcluster down" knows of it whatever happens.
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
		time.AfterFunc(insideWait, box.Kill) // it hangs, if it is there still
	})
	defer stop()
	if err := box.Wait(); err != nil {
		return err
	}
	code, err := box.Outcome()
	switch {
	case code == 1: // while it was being started, whatever has happened since
		return errTold
	case code == 0 || ctx.Err() != nil: // however it ended: it was told to
		return s.removeDir()
	case err != nil:
		return err
	default:
		return fmt.Errorf("the supervisor in the sandbox ended with code %d: see %s", code, s.dir.Log("supervisor"))
	}
}

// insideWait is how long the half inside may take to end: less than whoever waits for this half waits.
const insideWait = 15 * time.Second

// listenAPI opens the port that leads to the API server.
func (s *Supervisor) listenAPI() error {
	for range portAttempts {
		if err := s.reserveAPIPort(); err != nil {
			return err
		}
		port := s.record.Ports[state.APIServer]
		listener, err := net.Listen("tcp4", loopback(port))
		if err == nil {
			s.api = listener
			s.record.Spec.APIPort = port // inside it is to be the same
			return nil
		}
		s.ports.release()
	}
	return fmt.Errorf("listen for the API server: %w", errPortTaken)
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
