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
	"github.com/glassback/glassback/hack/devcluster/requirements"
	"github.com/glassback/glassback/hack/devcluster/sandbox"
	"github.com/glassback/glassback/hack/devcluster/state"
)

// MainSandbox is the process "devcluster sandbox": process 1 of the sandbox of a real node.
func MainSandbox(in io.Reader) int { return sandbox.Init(in, passedOn) }

// MainInside is the process "devcluster supervise-inside": the half of the supervisor of a real node that is inside of its sandbox and does
// there what Main does otherwise. It reads the Record that the half outside has written.
func MainInside(in io.Reader) int {
	return supervise(in, func(ctx context.Context, in *json.Decoder, binary string, t *teller) error {
		var record state.Record
		if err := in.Decode(&record); err != nil {
			return fmt.Errorf("read record: %w", err)
		}
		s := New(record.Spec, binary, t.progress)
		s.record = record
		s.lock = lifeline.OpenInherited(lockFD, "lock")
		s.machine = lifeline.OpenInherited(machineFD, "/proc")
		if err := s.inherit(); err != nil {
			return err
		}
		endForwarding := s.forward()
		defer endForwarding()
		return s.work(ctx, t.ready)
	})
}

// inherit takes over the sockets of the half outside, and says in the record where the sandbox is.
func (s *Supervisor) inherit() error {
	var err error
	if s.control, err = inheritListener(controlFD); err != nil {
		return err
	}
	if s.api, err = inheritListener(apiFD); err != nil {
		return err
	}
	if s.found, err = requirements.Find(s.record.Spec.Images); err != nil {
		return err
	}
	if s.record.Sandbox.Init, s.record.Sandbox.Network, err = sandbox.Where(s.machine); err != nil {
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

// forward leads those who connect to the API server's port outside to the same port inside, and returns a func that ends it.
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
			if err != nil { // of too many open files, for example
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

// acceptRetry is how long it takes until a connection is accepted again when one could not be.
const acceptRetry = 50 * time.Millisecond

// dialTimeout bounds how long a connection inside may take to be accepted.
const dialTimeout = 10 * time.Second

// pipe connects a connection with the target until both directions have ended. If the target does not listen, the connection is reset.
func pipe(ctx context.Context, outer *net.TCPConn, target string) {
	defer outer.Close()
	dialer := net.Dialer{Timeout: dialTimeout}
	connection, err := dialer.DialContext(ctx, "tcp4", target)
	if err != nil {
		_ = outer.SetLinger(0)
		return
	}
	inner := connection.(*net.TCPConn)
	defer inner.Close()
	stop := context.AfterFunc(ctx, func() {
		outer.Close()
		inner.Close()
	})
	defer stop()
	var copying sync.WaitGroup
	copying.Go(func() { copyHalf(outer, inner) })
	copying.Go(func() { copyHalf(inner, outer) })
	copying.Wait()
}

// copyHalf copies one direction, and passes on its end.
func copyHalf(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		// One side is gone: the other has to know, also if it only listens.
		_ = to.SetLinger(0)
		to.Close()
		from.Close()
		return
	}
	_ = to.CloseWrite()
}

// configureNode writes the configuration files of a real node.
func (s *Supervisor) configureNode() error {
	files := nodeFiles{
		dir:        s.dir,
		ports:      s.record.Ports,
		found:      s.found,
		cgroupRoot: sandbox.CgroupRoot(s.record.Sandbox.Cgroup),
		overlay:    sandbox.CanOverlay(containerdRoot),
	}
	return errors.Join(files.write(), os.MkdirAll(s.dir.Path("node", "images"), 0o700))
}

// machinePID returns the process id that a child of this process has on the machine.
func (s *Supervisor) machinePID(pid int) int {
	if s.machine == nil {
		return pid
	}
	return sandbox.MachinePID(s.machine, pid)
}
