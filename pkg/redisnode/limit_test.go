// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// TestRepliesOfAHostileNode reads from servers whose replies would end the process, or take much memory. Each request returns an error.
func TestRepliesOfAHostileNode(t *testing.T) {
	const mebibyte = 1 << 20
	for name, test := range map[string]struct{ reply, want string }{
		"a string longer than an int":      {"$9223372036854775807\r\n", "too long"},
		"a string longer than the memory":  {"$200000000000\r\n", "too long"},
		"a string with zeros before":       {"$000000000000000000000000000005\r\n", "invalid length"},
		"a length that is no number":       {"$x\r\n", "invalid length"},
		"an array longer than an int":      {"*9223372036854775807\r\n", "too long"},
		"an array longer than the limit":   {"*200000\r\n", "too long"},
		"many arrays":                      {"*65000\r\n" + strings.Repeat("*65000\r\n", 9), "too long"},
		"arrays in arrays":                 {strings.Repeat("*1\r\n", 1000), "too long"},
		"arrays in arrays, after a number": {strings.Repeat("*2\r\n:1\r\n", 1000), "too long"},
		"after a string":                   {"$2\r\nok\r\n$200000000000\r\n", "too long"},
		"an attribute":                     {"|0\r\n*1\r\n", "not RESP2"},
		"a map":                            {"%200000000000\r\n", "not RESP2"},
		"an error without an end":          {"-" + strings.Repeat("x", 3*mebibyte), "too long"},
		"strings that are long together":   {"*9\r\n" + strings.Repeat("$300000\r\n"+strings.Repeat("x", 300_000)+"\r\n", 9), "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			node := dial(t, "127.0.0.1", serveReply(t, test.reply), "")
			if _, err := node.View(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// serveReply starts a server that answers the first command of a connection with an error, as servers without HELLO do. After the second
// command, it sends the reply. It returns its port.
func serveReply(t *testing.T, reply string) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { listener.Close() })
	serving.Go(func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		reader := bufio.NewReader(client)
		for _, answer := range []string{"-ERR unknown command\r\n", reply} {
			if _, err := readCommand(reader); err != nil {
				return
			}
			_, _ = io.WriteString(client, answer)
		}
		_, _ = io.Copy(io.Discard, reader)
	})
	return listener.Addr().(*net.TCPAddr).Port
}
