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

// shares divides an amount, of bytes or of connections, between addresses. An address may hold as much as is left for the others:
//
//	one address     1/2
//	n addresses     1/(n+1) each, and as much is left for the next one
//
// So an address that asks for everything gets half, and the other addresses still get their shares.
// Addresses need not be known in advance. Many goroutines may use shares.
type shares struct {
	mu      sync.Mutex
	left    int64
	held    map[netip.Addr]int64 // only addresses that hold something
	waiting []*waiter            // the longest first
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

// acquire waits until it can take n for an address. The error is that of ctx.
func (s *shares) acquire(ctx context.Context, from netip.Addr, n int64) error {
	if s.take(from, n) {
		return nil
	}
	w := &waiter{from: from, n: n, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant() // A release since take did not see w.
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

// release returns an amount of take or acquire.
func (s *shares) release(from netip.Addr, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
	if s.held[from] -= n; s.held[from] == 0 {
		delete(s.held, from)
	}
	s.grant()
}

// grant gives all waiters the amount that they wait for, if their share allows it. s is locked.
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

// Bounded returns a listener that has no more than 256 connections open, and of one address no more than its share: 128 if it is the only
// one. It closes further ones at once, and counts them under this name.
func Bounded(listener net.Listener, name string) net.Listener {
	return &bounded{Listener: listener, open: newShares(maxConnections), refused: refusedBy(name)}
}

type bounded struct {
	net.Listener
	open    *shares
	refused func()
}

// Accept returns the next connection that its address may have.
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
		_ = conn.Close() // There is nothing to lose.
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
