// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/glassback/glassback/pkg/shares"
)

// The owner of a RedisCluster chooses what its Pods run. go-redis allocates the length that a node announces before it reads, and a number
// that is too large makes it panic. So the functions below check each reply before go-redis reads it.

const (
	// maxReplies is how many bytes the replies to one request may have. A View of 500 nodes has some 200 kB.
	maxReplies = 2 << 20
	// maxData is maxReplies for requests whose replies have keys, or the code of functions. A View has neither.
	maxData = 16 << 20
	// maxTexts is maxReplies for users and directives.
	maxTexts = 256 << 10
	// maxDepth is how deep the arrays of a reply may be nested. FUNCTION LIST has the most: libraries, functions, and flags.
	maxDepth = 8
	// elementSize is how many bytes go-redis allocates for each element that an array announces.
	elementSize = 16
	// maxHeader is how long the first line of a string or an array may be.
	maxHeader = 24
	// maxShort is how long replies are that need no share of longReplies. A View of a hundred nodes is shorter.
	maxShort = 32 << 10
	// maxText is how many bytes of a text of a node an error, or a field, has.
	maxText = 300
)

// longReplies divides 32 MiB between the tenants whose nodes send long replies. A request takes as many bytes as its replies may have.
// Replies take some three times their length of memory until they are parsed, and a tenant may have many nodes. Requests with short
// replies wait for nobody.
var longReplies = shares.New[string](32 << 20)

// brief returns the beginning of a text of a node.
func brief(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// maxRepliesTo returns how many bytes the replies to a command may have.
func maxRepliesTo(command string) int64 {
	switch command {
	case "CLUSTER GETKEYSINSLOT", "FUNCTION LIST", "FUNCTION DUMP":
		return maxData
	case "ACL LIST", "CONFIG GET": // 64 users, or directives, with a text of 1024 bytes each
		return maxTexts
	}
	return maxReplies
}

// A replyLimit bounds the replies to one request.
type replyLimit struct {
	bytes  atomic.Int64           // how many bytes they may have
	all    *shares.Shares[string] // see longReplies; nil for no common limit
	tenant string
	share  atomic.Int64 // of all
}

// begin sets the limit of the next request.
func (l *replyLimit) begin(bytes int64) { l.bytes.Store(bytes) }

// acquire waits for a share of all, once for each request.
func (l *replyLimit) acquire(ctx context.Context) error {
	if l.all == nil || l.share.Load() > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ioTimeout)
	defer cancel()
	bytes := l.bytes.Load()
	if err := l.all.Acquire(ctx, l.tenant, bytes); err != nil {
		return errBusy
	}
	l.share.Store(bytes)
	return nil
}

// end returns the share. The replies must be parsed.
func (l *replyLimit) end() {
	if share := l.share.Swap(0); share > 0 {
		l.all.Release(l.tenant, share)
	}
}

func limitReplies(conn net.Conn, limit *replyLimit) net.Conn {
	ctx, cancel := context.WithCancel(context.Background())
	limited := &limitedConn{Conn: conn, limit: limit, ctx: ctx, cancel: cancel}
	if raw, ok := conn.(syscall.Conn); ok {
		return rawConn{limited, raw} // go-redis checks an idle connection with it.
	}
	return limited
}

type rawConn struct {
	*limitedConn
	syscall.Conn
}

// limitedConn checks the replies that it reads. It reads and writes in one goroutine at a time.
type limitedConn struct {
	net.Conn

	limit  *replyLimit
	ctx    context.Context //nolint:containedctx // It ends when the connection is closed.
	cancel context.CancelFunc
	replies
}

// Close closes the connection. A Read that waits for its share returns.
func (c *limitedConn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

// Write sends a request, or a part of it.
func (c *limitedConn) Write(b []byte) (int, error) {
	c.left = c.limit.bytes.Load()
	return c.Conn.Write(b)
}

func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if invalid := c.check(b[:n]); invalid != nil {
		return 0, invalid
	}
	if c.limit.bytes.Load()-c.left+c.skip > maxShort { // go-redis allocates the length that the reply announces.
		if busy := c.limit.acquire(c.ctx); busy != nil {
			return 0, busy
		}
	}
	return n, err
}

// replies parses replies of RESP2: https://redis.io/docs/latest/develop/reference/protocol-spec/
type replies struct {
	left int64  // how many bytes may follow, and elementSize for each element of an array
	line []byte // the line so far; at most maxHeader bytes
	skip int64  // how many bytes of a string follow
	open []int  // how many elements follow, for each array that has not ended
}

// check reads the next part of the replies. It returns an error if they are too long or nested too deeply.
func (r *replies) check(part []byte) error {
	if r.left -= int64(len(part)); r.left < 0 {
		return errReplies
	}
	for len(part) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(part)))
			r.skip, part = r.skip-n, part[n:]
			continue
		}
		line, after, ended := bytes.Cut(part, []byte("\n"))
		r.line = append(r.line, line[:min(len(line), maxHeader-len(r.line))]...)
		if !ended {
			return nil
		}
		if err := r.begin(r.line); err != nil {
			return err
		}
		r.line, part = r.line[:0], after
	}
	return nil
}

var (
	errReplies = errors.New("the reply is too long")
	errBusy    = errors.New("the reply is long, and there are too many long replies of other nodes at this moment")
)

// begin reads the first line of a value.
func (r *replies) begin(line []byte) error {
	if len(line) == 0 {
		return nil // go-redis returns an error.
	}
	elements := 0
	switch line[0] {
	case '$', '*':
		n, err := strconv.Atoi(string(bytes.TrimSuffix(line[1:], []byte("\r"))))
		switch {
		case err != nil || len(line) == maxHeader:
			return fmt.Errorf("the reply has an invalid length: %q", line)
		case n < 0: // no value
		case line[0] == '$' && int64(n) <= r.left:
			r.skip = int64(n) + 2
		case line[0] == '*' && int64(n) <= r.left/elementSize:
			r.left -= int64(n) * elementSize
			elements = n
		default:
			return errReplies
		}
	case '%', '~', '>', '|', '=', '!', '(':
		return fmt.Errorf("the reply is not RESP2: %q", line)
	}
	if elements > 0 {
		if r.open = append(r.open, elements); len(r.open) > maxDepth {
			return errReplies
		}
		return nil
	}
	for len(r.open) > 0 { // The value ends, and with it each array of which it is the last element.
		last := len(r.open) - 1
		if r.open[last]--; r.open[last] > 0 {
			return nil
		}
		r.open = r.open[:last]
	}
	return nil
}
