// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/glassback/glassback/pkg/redisnode"
	"github.com/glassback/glassback/pkg/redisnode/redistest"
)

// TestSnapshot takes snapshots of a master and a replica, with a mark at the end and with a length at the beginning.
func TestSnapshot(t *testing.T) {
	for name, directives := range map[string][]string{
		"over the network": {"repl-diskless-sync yes"}, "from a file": {"repl-diskless-sync no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := redistest.Config{Password: password, Directives: directives}
			master, replica := start(t, config), start(t, config)
			check(t, master.AddSlots(t.Context(), redisnode.SlotRange(0, redisnode.SlotCount-1)))
			check(t, replica.Meet(t.Context(), master.IP, master.Port, master.Port+redistest.BusOffset))
			await(t, "the two know each other", []server{master, replica}, func(v *redisnode.View) bool {
				return len(v.Table) == 2 && v.StateOK
			})
			value := strings.Repeat("0123456789", 100_000) + "last"
			check(t, master.client(t).Set(t.Context(), "key", value, 0).Err())
			check(t, replica.Replicate(t.Context(), master.view(t).ID))
			await(t, "the replica has the data", []server{replica}, func(v *redisnode.View) bool { return v.LinkUp && v.Keys == 1 })
			for _, s := range []server{master, replica} {
				check(t, s.client(t).ConfigSet(t.Context(), "rdbcompression", "no").Err())
				node := redisnode.DialReadOnly(s.IP, s.Port, redisnode.Login{User: "default", Password: password})
				defer node.Close()
				stream, err := node.Snapshot(t.Context())
				check(t, err)
				file, err := io.ReadAll(stream)
				check(t, errors.Join(err, stream.Close()))
				const end = 1 + 8
				if !bytes.HasPrefix(file, []byte("REDIS00")) || !bytes.HasSuffix(file[:len(file)-end], []byte(value)) || file[len(file)-end] != 0xff {
					t.Errorf("the file of %s has %d bytes, from %.20q to %q", s.IP, len(file), file, file[max(0, len(file)-20):])
				}
			}

			master.Kill()
			for _, stale := range []string{"no", "yes"} { // With "no", the replica refuses most commands.
				check(t, replica.SetDirective(t.Context(), "replica-serve-stale-data", stale))
				await(t, "the replica has lost its master", []server{replica}, func(v *redisnode.View) bool { return !v.LinkUp && v.Keys == 1 })
			}
			if _, err := replica.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "SYNC: NOMASTERLINK") {
				t.Errorf("a replica without its master: error %v", err)
			}
			wrong := dial(t, replica.IP, replica.Port, "wrong")
			if _, err := wrong.Snapshot(t.Context()); !errors.Is(err, redisnode.ErrPassword) {
				t.Errorf("a wrong password: error %v", err)
			}
			if _, err := dial(t, master.IP, master.Port, "").Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "connect: ") {
				t.Errorf("a node that is gone: error %v", err)
			}
		})
	}
}

// TestSnapshotOfATestServer takes snapshots of a server that sends its bytes as the test wants it.
func TestSnapshotOfATestServer(t *testing.T) {
	mark := strings.Repeat("m", 39) + "!"
	long := strings.Repeat("mmm", 50_000)
	for name, test := range map[string]struct {
		sent, want, err string
	}{
		"a length":                       {"\n\n$3\r\nabcmore", "abc", ""},
		"a length of nothing":            {"$0\r\n", "", ""},
		"a mark":                         {"\n$EOF:" + mark + "\r\nabc" + mark, "abc", ""},
		"a mark after what is like it":   {"$EOF:" + mark + "\r\n" + long + mark, long, ""},
		"a mark after nothing":           {"$EOF:" + mark + "\r\n" + mark, "", ""},
		"an end before the length":       {"$3\r\nab", "ab", "SYNC: unexpected EOF"},
		"an end before the mark":         {"$EOF:" + mark + "\r\nabc" + mark[:39], "abc", "SYNC: unexpected EOF"},
		"an end before the file":         {"\n", "", "SYNC: unexpected EOF"},
		"a mark that is too short":       {"$EOF:m\r\n", "", "SYNC: malformed answer"},
		"a length that is none":          {"$-1\r\n", "", "malformed answer"},
		"no length":                      {"3\r\n", "", "malformed answer"},
		"an error, with the password in": {"-ERR unknown command, with args beginning with: hunter2\r\n", "", "SYNC: ERR unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			node := snapshotServer(t, test.sent)
			stream, err := node.Snapshot(t.Context())
			var file []byte
			if err == nil {
				file, err = io.ReadAll(iotest.HalfReader(stream))
				check(t, stream.Close())
			}
			if (err == nil) != (test.err == "") ||
				err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hunter2")) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if test.err == "" && string(file) != test.want {
				t.Errorf("got %d bytes %.50q, want %d", len(file), file, len(test.want))
			}
		})
	}
}

// TestSnapshotEndsWithItsContext cancels a snapshot before and during the file.
func TestSnapshotEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := snapshotServer(t, "$3\r\nab", "wait").Snapshot(ctx)
	check(t, err)
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := io.ReadAll(stream); !errors.Is(err, context.Canceled) {
		t.Errorf("during the file: error %v", err)
	}
	check(t, stream.Close())
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := snapshotServer(t, "\n", "wait").Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the file: error %v", err)
	}
}

// snapshotServer answers SYNC with a text, and then ends the connection unless it waits.
func snapshotServer(t *testing.T, sent string, wait ...string) *redisnode.Node {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			for in := bufio.NewScanner(conn); in.Scan(); {
				switch in.Text() {
				case "REPLCONF":
					io.WriteString(conn, "+OK\r\n")
				case "SYNC":
					io.WriteString(conn, sent)
					if len(wait) == 0 {
						conn.Close()
					}
				}
			}
		}
	}()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	number, _ := strconv.Atoi(port)
	node := redisnode.DialReadOnly(host, number, redisnode.Login{})
	t.Cleanup(node.Close)
	return node
}
