// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package redisnode

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// snapshotIdle limits the time without any data during a snapshot. Before the data, the node sends an empty line each second or so,
	// also while it makes the file.
	snapshotIdle = time.Minute
	// markSize is the size of the mark that ends a snapshot of unknown length.
	markSize = 40
)

var errSnapshot = errors.New("SYNC: malformed answer")

// Snapshot makes the node send its data as an RDB file, over a connection of its own, until the caller closes the stream. The stream ends
// with io.EOF only if the file is complete. The node forks for it, and changes nothing: DialReadOnly allows it. A replica without a link to
// its master refuses: https://redis.io/docs/latest/commands/sync/
func (n *Node) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	begin := time.Now()
	s, err := n.snapshot(ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	n.observe(ctx, "SYNC", err, time.Since(begin))
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (n *Node) snapshot(ctx context.Context) (*snapshot, error) {
	conn, err := n.login.open(ctx, n.options.Addr, dialTimeout, ioTimeout)
	if err != nil {
		return nil, err
	}
	s := &snapshot{ctx: ctx, conn: conn, in: bufio.NewReaderSize(idleReader{conn}, 64<<10)}
	s.release = context.AfterFunc(ctx, func() { _ = conn.Close() }) // The error does not matter: the connection is not used again.
	commands := [][]string{{"REPLCONF", "capa", "eof"}, {"REPLCONF", "rdb-only", "1"}}
	if auth := n.login.auth(); auth != nil {
		commands = append([][]string{auth}, commands...)
	}
	for _, command := range commands {
		if err := s.do(command); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", command[0], err), s.Close())
		}
	}
	if err := s.begin(); err != nil {
		return nil, errors.Join(fmt.Errorf("SYNC: %w", err), s.Close())
	}
	return s, nil
}

// idleReader reads from a connection, and fails when it gets no data for some time.
type idleReader struct{ net.Conn }

func (r idleReader) Read(p []byte) (int, error) {
	if err := r.SetReadDeadline(time.Now().Add(snapshotIdle)); err != nil {
		return 0, err
	}
	return r.Conn.Read(p)
}

// snapshot is the stream of one file. Either its length is known, or a mark follows it.
type snapshot struct {
	ctx     context.Context // A Read has none of its own.
	conn    net.Conn
	in      *bufio.Reader
	release func() bool
	left    int64  // bytes that are not read, without a mark
	mark    []byte // nil if the length is known
}

// do sends a command whose answer is a status or an error.
func (s *snapshot) do(command []string) error {
	if err := s.send(command); err != nil {
		return err
	}
	answer, err := s.line()
	if err == nil && !strings.HasPrefix(answer, "+") {
		return errSnapshot
	}
	return err
}

func (s *snapshot) send(command []string) error {
	text := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	_, err := s.conn.Write(text)
	return err
}

// line reads a line of an answer. It returns an error answer as an error.
func (s *snapshot) line() (string, error) {
	line, err := s.in.ReadSlice('\n') // At most as long as the buffer.
	if err != nil {
		return "", unexpected(err)
	}
	text := strings.TrimRight(string(line), "\r\n")
	if answer, isError := strings.CutPrefix(text, "-"); isError {
		return "", refused(answer)
	}
	return text, nil
}

// begin asks for the file, and reads what precedes it: its length, or the mark that follows it.
func (s *snapshot) begin() error {
	if err := s.send([]string{"SYNC"}); err != nil {
		return err
	}
	for {
		line, err := s.line()
		if err != nil {
			return err
		}
		if line == "" { // The file is not ready.
			continue
		}
		if mark, ok := strings.CutPrefix(line, "$EOF:"); ok && len(mark) == markSize {
			s.mark = []byte(mark)
			return nil
		}
		length, ok := strings.CutPrefix(line, "$")
		if s.left, err = strconv.ParseInt(length, 10, 64); err != nil || !ok || s.left < 0 {
			return errSnapshot
		}
		return nil
	}
}

// Read reads the file.
func (s *snapshot) Read(p []byte) (n int, err error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case s.mark != nil:
		n, err = s.readToMark(p)
	case s.left == 0:
		err = io.EOF
	default:
		n, err = s.in.Read(p[:min(int64(len(p)), s.left)])
		s.left -= int64(n)
		err = unexpected(err)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if s.ctx.Err() != nil {
			return n, s.ctx.Err()
		}
		return n, fmt.Errorf("SYNC: %w", err)
	}
	return n, err
}

// readToMark reads what is certainly before the mark.
func (s *snapshot) readToMark(p []byte) (int, error) {
	if _, err := s.in.Peek(markSize); err != nil {
		return 0, unexpected(err)
	}
	window, err := s.in.Peek(min(s.in.Buffered(), len(p)+markSize-1))
	if err != nil {
		return 0, err
	}
	n := bytes.Index(window, s.mark)
	switch {
	case n == 0:
		return 0, io.EOF
	case n < 0:
		n = len(window) - markSize + 1
	}
	return s.in.Read(p[:n])
}

// Close ends the stream, and the snapshot if it is not complete.
func (s *snapshot) Close() error {
	s.release()
	_ = s.conn.Close() // As in Node.Close.
	return nil
}

// unexpected turns the end of a connection into an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
