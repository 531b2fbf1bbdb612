// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// shares divides an amount, of bytes or of connections, between addresses. An address may take an amount if it then holds at most what was
// left before:
//
//	one address     1/2
//	n addresses     1/(n+1) each, and 1/(n+1) is left for a new address
//
// So an address that asks for everything gets half, and the other addresses still get their shares.
// Addresses need not be known in advance. Many goroutines may use shares.
type shares struct {
	mu      sync.Mutex
	left    int64
	held    map[netip.Addr]int64 // only addresses that hold something
	waiting []*waiter            // in the order of arrival
}

type waiter struct {
	from    netip.Addr
	n       int64
	granted chan struct{}
}

func newShares(n int64) *shares { return &shares{left: n, held: map[netip.Addr]int64{}} }

// take takes n for an address, if its share allows it now.
func (s *shares) take(from netip.Addr, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[from]+n > s.left {
		return false
	}
	s.left -= n
	s.held[from] += n
	return true
}

// acquire waits until it can take n for an address. If ctx ends first, it returns the error of ctx.
func (s *shares) acquire(ctx context.Context, from netip.Addr, n int64) error {
	if s.take(from, n) {
		return nil
	}
	w := &waiter{from: from, n: n, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant() // A release between take and this line has not granted w.
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.waiting, w); at >= 0 {
		s.waiting = slices.Delete(s.waiting, at, at+1)
		return ctx.Err()
	}
	return nil // It was granted meanwhile.
}

// release gives back an amount that take or acquire took.
func (s *shares) release(from netip.Addr, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
	if s.held[from] -= n; s.held[from] == 0 {
		delete(s.held, from)
	}
	s.grant()
}

// grant serves each waiter whose share allows it, in the order of arrival. The caller holds s.mu.
func (s *shares) grant() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if s.held[w.from]+w.n > s.left {
			return false
		}
		s.left -= w.n
		s.held[w.from] += w.n
		close(w.granted)
		return true
	})
}

// address returns the IP of a "host:port", the zero Addr if there is none.
func address(hostPort string) netip.Addr {
	parsed, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return parsed.Addr().Unmap()
}

// maxConnections is the largest number of open connections of a Bounded listener. A connection takes
// about 30 KiB, and up to 250 KiB while its client sends the longest header.
const maxConnections = 256

// Bounded returns a listener with at most 256 open connections. One address has at most its share of them: 128 if it is alone. The listener
// closes any other connection at once, and counts it as refused, in the metrics under this name.
func Bounded(listener net.Listener, name string) net.Listener {
	return &bounded{Listener: listener, open: newShares(maxConnections), refused: refusedBy(name)}
}

type bounded struct {
	net.Listener
	open    *shares
	refused func()
}

// Accept returns the next connection that is within the share of its address. It closes the connections before that one.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := address(conn.RemoteAddr().String())
		if b.open.take(from, 1) {
			return &boundedConn{Conn: conn, release: sync.OnceFunc(func() { b.open.release(from, 1) })}, nil
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
