// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// peer returns the address number n.
func peer(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// takeAll takes units for an address one by one, until it gets no more. It returns their number.
func takeAll(s *Shares[netip.Addr], from netip.Addr) int64 {
	n := int64(0)
	for s.Take(from, 1) {
		n++
	}
	return n
}

// TestAnAddressHoldsNoMoreThanIsLeft: an address can hold at most as much as the rest that is left.
func TestAnAddressHoldsNoMoreThanIsLeft(t *testing.T) {
	s := New[netip.Addr](120)
	if got := takeAll(s, peer(1)); got != 60 {
		t.Errorf("the first address got %d of 120, want half", got)
	}
	if got := takeAll(s, peer(2)); got != 30 {
		t.Errorf("the second address got %d, want half of the rest", got)
	}
	// The first address gives back one unit after the other. It gets a unit again only if its share allows this.
	for range 60 {
		s.Release(peer(1), 1)
		takeAll(s, peer(2))
		takeAll(s, peer(1))
	}
	for what, n := range map[string]int64{"address 1 has": s.held[peer(1)], "address 2 has": s.held[peer(2)], "the rest is": s.left} {
		if n < 39 || n > 41 { // The units are whole, so that a share can differ by one.
			t.Errorf("%s %d, want a third of 120", what, n)
		}
	}
	for n := range byte(100) {
		if s.left > 0 && !s.Take(peer(3+n), 1) {
			t.Errorf("address %d gets nothing, although %d are left", 3+n, s.left)
		}
	}
	for address, n := range s.held {
		s.Release(address, n)
	}
	if len(s.held) != 0 || s.left != 120 {
		t.Errorf("after all was given back, %d addresses remain in the map, and %d of 120 are left", len(s.held), s.left)
	}
}

func TestAcquireWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New[netip.Addr](100)
		if !s.Take(peer(1), 80) {
			t.Fatal("Acquire failed although nothing is held")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := make(chan error)
		for _, from := range []byte{1, 2, 3} { // Address 1 already has its share, and the others need more than is left.
			go func() { got <- s.Acquire(ctx, peer(from), 40) }()
			synctest.Wait()
		}
		s.Release(peer(1), 30)
		if err := <-got; err != nil || s.held[peer(2)] != 40 {
			t.Errorf("error %v, and the second address has %d", err, s.held[peer(2)])
		}
		s.Release(peer(1), 50)
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
