// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net"
	"net/netip"
	"sync"

	"github.com/glassback/glassback/pkg/shares"
)

// maxConnections is the largest number of open connections of a Bounded listener. A connection takes
// about 30 KiB, and up to 250 KiB while its client sends the longest header.
const maxConnections = 256

// Bounded returns a listener with at most 256 open connections. One address has at most its share of them: 128 if it is alone. The listener
// closes any other connection at once, and calls refused.
func Bounded(listener net.Listener, refused func()) net.Listener {
	return &bounded{Listener: listener, open: shares.New[netip.Addr](maxConnections), refused: refused}
}

type bounded struct {
	net.Listener
	open    *shares.Shares[netip.Addr]
	refused func()
}

// Accept returns the next connection that is within the share of its address. It closes the connections before that one.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := shares.Address(conn.RemoteAddr().String())
		if b.open.Take(from, 1) {
			return &boundedConn{Conn: conn, release: sync.OnceFunc(func() { b.open.Release(from, 1) })}, nil
		}
		b.refused()
		_ = conn.Close() // No data was exchanged.
	}
}

type boundedConn struct {
	net.Conn
	release func()
}

func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
