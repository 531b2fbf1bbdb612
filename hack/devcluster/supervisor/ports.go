// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are below those of NodePorts, and below the range from which kernels take ports for port 0 and for outgoing connections (32768 and
// up on Linux, 49152 and up elsewhere). In that range, an outgoing connection could take the port of a dead component. The component could
// then not be restarted on it.
const (
	firstPort = 20000
	lastPort  = 29999
	portTries = 200
)

// reservation reserves TCP ports for one cluster. For each of them it holds the UDP port of the same number, which devcluster uses for
// nothing else. So no other devcluster takes the port, even while the component that listens there does not run. The kernel ends the
// reservation with the process.
type reservation struct {
	held []net.PacketConn
}

// errPortTaken means that a process outside of any devcluster listens on a port.
var errPortTaken = errors.New("port is in use")

// any reserves a free port.
func (r *reservation) any() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		err := r.exactly(port)
		if err == nil {
			return port, nil
		}
		if !errors.Is(err, errPortTaken) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("find a free port between %d and %d: %w", firstPort, lastPort, errPortTaken)
}

// exactly reserves the given port, or fails with errPortTaken.
func (r *reservation) exactly(port int) error {
	address := loopback(port)
	held, err := net.ListenPacket("udp4", address)
	if err != nil {
		return fmt.Errorf("reserve %s: %w", address, errPortTaken)
	}
	if !free(port) {
		held.Close()
		return fmt.Errorf("listen on %s: %w", address, errPortTaken)
	}
	r.held = append(r.held, held)
	return nil
}

// release ends the reservation of every port.
func (r *reservation) release() {
	for _, c := range r.held {
		c.Close()
	}
	r.held = nil
}

// free reports whether nothing listens on the TCP port.
func free(port int) bool {
	l, err := net.Listen("tcp4", loopback(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
