// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/glassback/glassback/pkg/must"
)

// Proxy does what kube-proxy does with one port of a Service: it forwards connections to the Pod that the Service selects.
type Proxy struct {
	listener net.Listener

	mu     sync.Mutex
	target string // "" refuses connections
	conns  map[net.Conn]bool
}

// NewProxy returns a Proxy that listens on an address until the test ends.
func NewProxy(t testing.TB, address string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must.Succeed(t, err)
	p := &Proxy{listener: listener, conns: map[net.Conn]bool{}}
	t.Cleanup(p.Close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.forward(conn)
		}
	}()
	return p
}

// Port returns the port on which the Proxy listens.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *Proxy) forward(from net.Conn) {
	defer from.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if target == "" {
		return
	}
	to, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	p.conns[from] = true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(to, from) // Each end closes the other one.
		to.Close()
	}()
	_, _ = io.Copy(from, to)
	p.mu.Lock()
	delete(p.conns, from)
	p.mu.Unlock()
}

// Set sets the target. Without a target, it ends all connections.
func (p *Proxy) Set(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for conn := range p.conns {
		if target == "" {
			conn.Close()
		}
	}
}

// Close ends the Proxy and all connections.
func (p *Proxy) Close() {
	p.listener.Close()
	p.Set("")
}
