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
	target   string       // where the operator shows its page
	listener net.Listener // nil if this machine and the cluster have one network
	cluster  *cluster.Cluster
}

// newPage chooses where the operator shows its page, and makes sure that it can be reached there from this machine. stop ends that.
func newPage(c *cluster.Cluster) (*bridge, error) {
	target, err := freeAddress()
	if err != nil || !c.Real() {
		return &bridge{target: target}, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a browser: %w", err)
	}
	b := &bridge{target: target, listener: listener, cluster: c}
	go b.serve()
	return b, nil
}

// address is where a browser on this machine finds the page.
func (b *bridge) address() string {
	if b.listener == nil {
		return b.target
	}
	return b.listener.Addr().String()
}

func (b *bridge) stop() {
	if b.listener != nil {
		_ = b.listener.Close()
	}
}

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
		return // The browser sees a closed connection; the operator's log has the reason.
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

// dial makes a connection in the cluster's network. Where a socket is made is where it stays; the thread that has gone there to make it
// ends with its goroutine.
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
