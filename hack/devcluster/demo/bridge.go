// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"time"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// page holds the addresses of the operator's page.
type page struct {
	target  string // the operator listens here
	address string // a browser on this machine connects here
	stop    func()
}

// newPage chooses the addresses of the page. If the cluster has its own network, newPage starts a proxy into it, and stop ends the proxy.
func newPage(c *cluster.Cluster) (*page, error) {
	target, err := freeAddress()
	if err != nil {
		return nil, err
	}
	if !c.Real() {
		return &page{target: target, address: target, stop: func() {}}, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a browser: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: target}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialInside(ctx, c, target)
		}},
		ErrorLog: log.New(io.Discard, "", 0), // A line on the terminal would damage the table. The browser shows 502 Bad Gateway.
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return &page{target: target, address: listener.Addr().String(), stop: func() { _ = server.Close() }}, nil
}

// dialInside makes a connection in the cluster's network. The goroutine does not unlock its thread, so Go ends the thread with it. The
// socket stays in the network in which it was made.
func dialInside(ctx context.Context, c *cluster.Cluster, target string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = c.Enter(); err == nil {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", target)
		}
	}()
	<-done
	return conn, err
}
