// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/glassback/glassback/hack/devcluster/lifeline"
	"github.com/glassback/glassback/hack/devcluster/sandbox"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// MainSandbox is the process "devcluster sandbox": process 1 of the sandbox of a real node.
func MainSandbox(in io.Reader) int { return sandbox.Init(in, passedOn) }

// MainInside is the process "devcluster supervise-inside": the supervisor of a real node inside of its sandbox. It starts and ends the
// components there. It reads the Record that the supervisor outside has written.
func MainInside(in io.Reader) int {
	return supervise(in, func(ctx context.Context, in *json.Decoder, binary string, reports *reporter) error {
		var record state.Record
		if err := in.Decode(&record); err != nil {
			return fmt.Errorf("read record: %w", err)
		}
		s := New(record.Spec, binary, reports.progress)
		s.record = record
		s.lock = lifeline.OpenInherited(lockFD, "lock")
		s.machine = lifeline.OpenInherited(machineFD, "/proc")
		if err := s.inherit(); err != nil {
			return err
		}
		endForwarding := s.forward()
		defer endForwarding()
		return s.work(ctx, reports.ready)
	})
}

// inherit takes over the sockets of the supervisor outside, and saves the sandbox's process id and network in the record.
func (s *Supervisor) inherit() error {
	var err error
	if s.control, err = inheritListener(controlFD); err != nil {
		return err
	}
	if s.api, err = inheritListener(apiFD); err != nil {
		return err
	}
	if s.found, err = findRequirements(s.record.Spec.Images); err != nil {
		return err
	}
	if s.record.Sandbox.Init, s.record.Sandbox.Network, err = sandbox.Current(s.machine); err != nil {
		return err
	}
	return s.dir.Save(&s.record)
}

func inheritListener(fd int) (net.Listener, error) {
	file := lifeline.OpenInherited(fd, "listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("take over socket: %w", err)
	}
	return listener, nil
}

// forward forwards connections from the API server's port outside to the same port inside. It returns a func that stops the forwarding.
func (s *Supervisor) forward() func() {
	target := loopback(s.record.Spec.APIPort)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			outer, err := s.api.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // for example, too many open files
				time.Sleep(acceptRetry)
				continue
			}
			running.Go(func() { pipe(ctx, outer.(*net.TCPConn), target) })
		}
	})
	return func() {
		s.api.Close()
		cancel()
		running.Wait()
	}
}

// acceptRetry is the time between a failed Accept and the next one.
const acceptRetry = 50 * time.Millisecond

// dialTimeout limits the time to connect to the API server inside.
const dialTimeout = 10 * time.Second

// pipe copies data between outer and a connection to target, until one of both ends, or ctx does. If target does not listen, it resets
// outer.
func pipe(ctx context.Context, outer *net.TCPConn, target string) {
	defer outer.Close()
	dialer := net.Dialer{Timeout: dialTimeout}
	inner, err := dialer.DialContext(ctx, "tcp4", target)
	if err != nil {
		_ = outer.SetLinger(0)
		return
	}
	end := sync.OnceFunc(func() {
		outer.Close()
		inner.Close()
	})
	stop := context.AfterFunc(ctx, end)
	defer stop()
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{outer, inner}, {inner, outer}} {
		copying.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // Whoever closed one of them has a reason.
			end()
		})
	}
	copying.Wait()
}

// configure returns the configuration of the components. For a real node, it writes the configuration files.
func (s *Supervisor) configure() (configuration, error) {
	c := configuration{Spec: s.record.Spec, Ports: s.record.Ports}
	if !c.Real() {
		return c, nil
	}
	c.Plugins, c.Runtime = s.found.Plugins, s.found.Runtime
	c.CgroupRoot, c.Overlay = sandbox.CgroupRoot(s.record.Sandbox.Cgroup), sandbox.CanOverlay(containerdRoot)
	return c, errors.Join(c.writeNodeFiles(), os.MkdirAll(s.dir.Path("node", "images"), 0o700))
}

// machinePID returns the process id that a child of this process has on the machine.
func (s *Supervisor) machinePID(pid int) int {
	if s.machine == nil {
		return pid
	}
	return sandbox.MachinePID(s.machine, pid)
}
