// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

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

	"github.com/glassback/glassback/pkg/must"
)

// peer returns the address number n.
func peer(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// takeAll takes units for an address one by one, until it gets no more. It returns their number.
func takeAll(s *shares, from netip.Addr) int64 {
	n := int64(0)
	for s.take(from, 1) {
		n++
	}
	return n
}

// TestAnAddressHoldsNoMoreThanIsLeft: an address can hold at most as much as the rest that is left.
func TestAnAddressHoldsNoMoreThanIsLeft(t *testing.T) {
	s := newShares(120)
	if got := takeAll(s, peer(1)); got != 60 {
		t.Errorf("the first address got %d of 120, want half", got)
	}
	if got := takeAll(s, peer(2)); got != 30 {
		t.Errorf("the second address got %d, want half of the rest", got)
	}
	// The first address gives back one unit after the other. It gets a unit again only if its share allows this.
	for range 60 {
		s.release(peer(1), 1)
		takeAll(s, peer(2))
		takeAll(s, peer(1))
	}
	for what, n := range map[string]int64{"address 1 has": s.held[peer(1)], "address 2 has": s.held[peer(2)], "the rest is": s.left} {
		if n < 39 || n > 41 { // The units are whole, so that a share can differ by one.
			t.Errorf("%s %d, want a third of 120", what, n)
		}
	}
	for n := range byte(100) {
		if s.left > 0 && !s.take(peer(3+n), 1) {
			t.Errorf("address %d gets nothing, although %d are left", 3+n, s.left)
		}
	}
	for address, n := range s.held {
		s.release(address, n)
	}
	if len(s.held) != 0 || s.left != 120 {
		t.Errorf("after all was given back, %d addresses remain in the map, and %d of 120 are left", len(s.held), s.left)
	}
}

func TestAcquireWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(100)
		if !s.take(peer(1), 80) {
			t.Fatal("Acquire failed although nothing is held")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := make(chan error)
		for _, from := range []byte{1, 2, 3} { // Address 1 already has its share, and the others need more than is left.
			go func() { got <- s.acquire(ctx, peer(from), 40) }()
			synctest.Wait()
		}
		s.release(peer(1), 30)
		if err := <-got; err != nil || s.held[peer(2)] != 40 {
			t.Errorf("error %v, and the second address has %d", err, s.held[peer(2)])
		}
		s.release(peer(1), 50)
		if err := <-got; err != nil || s.held[peer(1)] != 40 {
			t.Errorf("error %v, and the first address, which has waited longer, has %d", err, s.held[peer(1)])
		}
		began := time.Now()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) || time.Since(began) > 0 || len(s.waiting) > 0 {
			t.Errorf("error %v after %s, and %d requests wait", err, time.Since(began), len(s.waiting))
		}
		if s.left != 20 {
			t.Errorf("%d are left, want 20", s.left)
		}
	})
}

// strangers is a listener. A test sends the addresses of its clients to the channel.
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
			must.Succeed(t, err)
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
			t.Errorf("another address has %d connections, want 10", got)
		}
		for _, conn := range accepted {
			conn.Close()
			conn.Close() // A second Close gives nothing back.
		}
		accepted = slices.DeleteFunc(accepted, func(net.Conn) bool { return true })
		for range 2 * maxConnections {
			dial(3)
		}
		if got := open(3); got != maxConnections/2 {
			t.Errorf("after all were closed, one address has %d connections, want %d", got, maxConnections/2)
		}
		in.Close()
		for _, conn := range accepted {
			conn.Close()
		}
	})
}
