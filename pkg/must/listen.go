// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package must

import (
	"net"
	"sync"
	"testing"
)

// Listen serves each connection to a port until the end of the test, and returns the port.
func Listen(t testing.TB, serve func(net.Conn)) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Succeed(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	return listener.Addr().(*net.TCPAddr).Port
}
