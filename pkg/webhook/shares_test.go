/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// peer is the n-th of many addresses.
func peer(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// takeAll takes one after the other for an address, until it gets no more.
func takeAll(s *shares, from netip.Addr) int64 {
	n := int64(0)
	for s.take(from, 1) {
		n++
	}
	return n
}

func TestAnAddressHoldsNoMoreThanIsLeft(t *testing.T) {
	s := newShares(120)
	if got := takeAll(s, peer(1)); got != 60 {
		t.Errorf("one address has %d of 120, want half", got)
	}
	if got := takeAll(s, peer(2)); got != 30 {
		t.Errorf("a second one has %d, want half of what is left", got)
	}
	// The first one uses what it has, and gets it back as far as its share still goes.
	for range 60 {
		s.release(peer(1), 1)
		takeAll(s, peer(2))
		takeAll(s, peer(1))
	}
	for what, n := range map[string]int64{"the first holds": s.held[peer(1)], "the second holds": s.held[peer(2)], "left are": s.left} {
		if n < 39 || n > 41 { // It goes by ones.
			t.Errorf("%s %d, want a third of 120", what, n)
		}
	}
	for n := range byte(100) {
		if s.left > 0 && !s.take(peer(3+n), 1) {
			t.Errorf("nothing is left for address %d, of %d", 3+n, s.left)
		}
	}
	for address, n := range s.held {
		s.release(address, n)
	}
	if len(s.held) != 0 || s.left != 120 {
		t.Errorf("%d addresses are known when nothing is held, and %d of 120 are left", len(s.held), s.left)
	}
}

func TestAcquireWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(100)
		if !s.take(peer(1), 80) {
			t.Fatal("not taken, of nothing held")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := make(chan error)
		for _, from := range []byte{1, 2, 3} { // The first has its share, and the others need more than is left.
			go func() { got <- s.acquire(ctx, peer(from), 40) }()
			synctest.Wait()
		}
		s.release(peer(1), 30)
		if err := <-got; err != nil || s.held[peer(2)] != 40 {
			t.Errorf("error %v, and the second holds %d", err, s.held[peer(2)])
		}
		s.release(peer(1), 50)
		if err := <-got; err != nil || s.held[peer(1)] != 40 {
			t.Errorf("error %v, and the first, which waits for longer, holds %d", err, s.held[peer(1)])
		}
		began := time.Now()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) || time.Since(began) > 0 || len(s.waiting) > 0 {
			t.Errorf("error %v after %s, and %d wait", err, time.Since(began), len(s.waiting))
		}
		if s.left != 20 {
			t.Errorf("%d are left, want 20", s.left)
		}
	})
}

// strangers is a listener whose connections come from the addresses that are sent to it.
type strangers struct {
	*pipes
	from chan netip.Addr
}

type stranger struct {
	net.Conn
	from netip.Addr
}

func (s stranger) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.from, 1234))
}

func (s strangers) Accept() (net.Conn, error) {
	conn, err := s.pipes.Accept()
	if err != nil {
		return nil, err
	}
	return stranger{conn, <-s.from}, nil
}

func TestBoundedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := strangers{listen(), make(chan netip.Addr)}
		listener := Bounded(in, "test")
		var accepted []net.Conn
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				accepted = append(accepted, conn)
			}
		}()
		dial := func(from byte) {
			t.Helper()
			conn, err := in.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			in.from <- peer(from)
			synctest.Wait()
			t.Cleanup(func() { conn.Close() })
		}
		open := func(from byte) int {
			n := 0
			for _, conn := range accepted {
				if address(conn.RemoteAddr().String()) == peer(from) {
					n++
				}
			}
			return n
		}
		for range 2 * maxConnections {
			dial(1)
		}
		if got := open(1); got != maxConnections/2 {
			t.Errorf("one address has %d connections, want %d", got, maxConnections/2)
		}
		for range 10 {
			dial(2)
		}
		if got := open(2); got != 10 {
			t.Errorf("another one has %d connections beside, want 10", got)
		}
		for _, conn := range accepted {
			conn.Close()
			conn.Close() // Only once does it give back what it held.
		}
		accepted = slices.DeleteFunc(accepted, func(net.Conn) bool { return true })
		for range 2 * maxConnections {
			dial(3)
		}
		if got := open(3); got != maxConnections/2 {
			t.Errorf("when all are closed, one address has %d connections, want %d", got, maxConnections/2)
		}
		in.Close()
		for _, conn := range accepted {
			conn.Close()
		}
	})
}
