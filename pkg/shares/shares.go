// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shares divides what clients at several addresses compete for.
package shares

import (
	"context"
	"net/netip"
	"slices"
	"sync"
)

// Shares divides an amount, of bytes or of connections, between addresses, or other keys. An address may take an amount if it then holds
// at most what was left before:
//
//	one address     1/2
//	n addresses     1/(n+1) each, and 1/(n+1) is left for a new address
//
// So an address that asks for everything gets half, and the other addresses still get their shares.
// Addresses need not be known in advance. Many goroutines may use it.
type Shares[K comparable] struct {
	mu      sync.Mutex
	left    int64
	held    map[K]int64  // only addresses that hold something
	waiting []*waiter[K] // in the order of arrival
}

type waiter[K comparable] struct {
	from    K
	n       int64
	granted chan struct{}
}

// New returns Shares of n.
func New[K comparable](n int64) *Shares[K] { return &Shares[K]{left: n, held: map[K]int64{}} }

// Left returns what no address holds.
func (s *Shares[K]) Left() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// Take takes n for an address, if its share allows it now.
func (s *Shares[K]) Take(from K, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[from]+n > s.left {
		return false
	}
	s.left -= n
	s.held[from] += n
	return true
}

// Acquire waits until it can take n for an address. If ctx ends first, it returns the error of ctx.
func (s *Shares[K]) Acquire(ctx context.Context, from K, n int64) error {
	if s.Take(from, n) {
		return nil
	}
	w := &waiter[K]{from: from, n: n, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grant() // A release between Take and this line has not granted w.
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

// Release gives back an amount that Take or Acquire took.
func (s *Shares[K]) Release(from K, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
	if s.held[from] -= n; s.held[from] == 0 {
		delete(s.held, from)
	}
	s.grant()
}

// grant serves each waiter whose share allows it, in the order of arrival. The caller holds s.mu.
func (s *Shares[K]) grant() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter[K]) bool {
		if s.held[w.from]+w.n > s.left {
			return false
		}
		s.left -= w.n
		s.held[w.from] += w.n
		close(w.granted)
		return true
	})
}

// Address returns the IP of a "host:port", the zero Addr if there is none.
func Address(hostPort string) netip.Addr {
	parsed, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return parsed.Addr().Unmap()
}
