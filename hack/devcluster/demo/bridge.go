// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// bridge leads those who connect to an address of this machine to one in the cluster's network: a browser to the operator's page.
type bridge struct {
	listener net.Listener
	target   string
	cluster  *cluster.Cluster
}

// openBridge listens at a free port of the loopback. stop ends it.
func openBridge(c *cluster.Cluster, target string) (*bridge, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a browser: %w", err)
	}
	b := &bridge{listener: listener, target: target, cluster: c}
	go b.serve()
	return b, nil
}

func (b *bridge) address() string { return b.listener.Addr().String() }

func (b *bridge) stop() { _ = b.listener.Close() }

// acceptRetry is how long it takes until a connection is accepted again when one could not be.
const acceptRetry = 50 * time.Millisecond

func (b *bridge) serve() {
	for {
		outer, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of too many open files, for example
			time.Sleep(acceptRetry)
			continue
		}
		go b.lead(outer)
	}
}

// lead connects a connection with the target until one of them ends.
func (b *bridge) lead(outer net.Conn) {
	defer outer.Close()
	inner, err := b.dial()
	if err != nil {
		return // The browser sees that nobody answers; why is in the operator's log.
	}
	defer inner.Close()
	var once sync.WaitGroup
	once.Go(func() {
		_, _ = io.Copy(inner, outer)
		_ = inner.Close()
	})
	_, _ = io.Copy(outer, inner)
	_ = outer.Close()
	once.Wait()
}

// dial makes a connection in the cluster's network. Where a socket is made is where it stays; the thread that has gone there to make it ends
// with its goroutine.
func (b *bridge) dial() (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := b.cluster.Enter(); err != nil {
			results <- result{nil, err}
			return
		}
		conn, err := net.Dial("tcp4", b.target)
		results <- result{conn, err}
	}()
	r := <-results
	return r.conn, r.err
}
