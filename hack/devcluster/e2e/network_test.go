// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// insiders is the maximal number of connections that are being opened at a time.
	insiders = 8
	// dialTimeout is long enough within one machine. The IP of a deleted Pod does not answer at all.
	dialTimeout = 300 * time.Millisecond
)

// network opens connections in the cluster's network. It reaches Pods by their IPs, and resolves names with the cluster's DNS. Any
// goroutine can use the connections.
type network struct {
	work  chan func()
	ended chan struct{}
	dns   string
}

// enter returns the cluster's network. It is closed when the test ends.
func (n *node) enter(t *testing.T) *network {
	t.Helper()
	resolv, err := os.ReadFile(filepath.Join(n.Dir(), "node", "etc", "resolv.conf"))
	n.must(t, err)
	in := &network{work: make(chan func()), ended: make(chan struct{})}
	for line := range strings.Lines(string(resolv)) {
		if server, ok := strings.CutPrefix(line, "nameserver "); ok {
			in.dns = net.JoinHostPort(strings.TrimSpace(server), "53")
		}
	}
	var working sync.WaitGroup
	entered := make(chan error, insiders)
	for range insiders {
		working.Go(func() {
			// The goroutine never unlocks its thread, so that the moved thread ends with the goroutine.
			runtime.LockOSThread()
			entered <- n.Enter()
			for {
				select {
				case do := <-in.work:
					do()
				case <-in.ended:
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		close(in.ended)
		working.Wait()
	})
	for range insiders {
		n.must(t, <-entered)
	}
	return in
}

var errEnded = errors.New("the test has ended")

// do calls f on a thread that is in the network.
func (in *network) do(f func()) error {
	done := make(chan struct{})
	select {
	case in.work <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-in.ended:
		return errEnded
	}
}

// connect connects to an IP on the calling thread. It needs no DNS.
func (in *network) connect(ctx context.Context, network, address string) (conn net.Conn, err error) {
	if ended := in.do(func() { conn, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address) }); ended != nil {
		return nil, ended
	}
	return conn, err
}

// dial connects to an IP or a name, as a Pod does.
func (in *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return in.connect(ctx, network, address)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return in.connect(ctx, network, in.dns)
	}}
	ips, err := resolver.LookupHost(ctx, host+".") // With the dot, the resolver does not use the search domains of this machine.
	if err != nil {
		return nil, err
	}
	// The resolver sorts the IPs. A client must not always get the same Pod: that Pod could accept connections and not answer.
	rand.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
	var failed []error
	for _, ip := range ips {
		conn, err := in.connect(ctx, network, net.JoinHostPort(ip, port))
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// listen returns a listener at a port of an IP of the network.
func (in *network) listen(t *testing.T, ip string) net.Listener {
	t.Helper()
	var listener net.Listener
	var err error
	if ended := in.do(func() { listener, err = net.Listen("tcp", net.JoinHostPort(ip, "0")) }); ended != nil || err != nil {
		t.Fatalf("listen in the cluster's network: %v", errors.Join(ended, err))
	}
	return listener
}
