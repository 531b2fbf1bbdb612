/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package client

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The kinds of WebSocket frames: https://www.rfc-editor.org/rfc/rfc6455#section-5.2
const (
	frameContinued = 0x0
	frameBinary    = 0x2
	frameClose     = 0x8
	framePing      = 0x9
	framePong      = 0xa

	frameLast   = 0x80 // bit of the first byte: the message ends with this frame
	frameMasked = 0x80 // bit of the second byte
)

// mostControl is how long the payload of a ping, a pong or a close may be.
const mostControl = 125

// frames is the client's side of a WebSocket. One goroutine reads; any may write.
type frames struct {
	conn io.ReadWriteCloser
	in   *bufio.Reader

	mu  sync.Mutex // one frame is written at a time
	out []byte
}

func newFrames(conn io.ReadWriteCloser) *frames {
	return &frames{conn: conn, in: bufio.NewReader(conn)}
}

// write sends one message, in one frame. What a client sends is masked, so that nothing between
// takes it for a request of HTTP.
func (f *frames) write(kind byte, payload ...[]byte) error {
	length := 0
	for _, part := range payload {
		length += len(part)
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // It never fails.
	f.mu.Lock()
	defer f.mu.Unlock()
	out := append(f.out[:0], frameLast|kind)
	switch {
	case length <= mostControl:
		out = append(out, frameMasked|byte(length))
	case length <= 0xffff:
		out = binary.BigEndian.AppendUint16(append(out, frameMasked|126), uint16(length))
	default:
		out = binary.BigEndian.AppendUint64(append(out, frameMasked|127), uint64(length))
	}
	out = append(out, mask[:]...)
	begin := len(out)
	for _, part := range payload {
		out = append(out, part...)
	}
	for n := range out[begin:] {
		out[begin+n] ^= mask[n%len(mask)]
	}
	f.out = out
	_, err := f.conn.Write(out)
	return err
}

// next returns the kind and the length of the next frame, whose payload is read from in. It
// answers pings. The error is io.EOF once the other side has closed.
func (f *frames) next() (kind byte, length int64, err error) {
	for {
		kind, length, err = f.header()
		if err != nil || kind < frameClose {
			return kind, length, err
		}
		if length > mostControl {
			return 0, 0, fmt.Errorf("a frame of kind %#x has %d bytes", kind, length)
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(f.in, payload); err != nil {
			return 0, 0, unexpected(err)
		}
		switch kind {
		case frameClose:
			return 0, 0, io.EOF
		case framePing:
			if err := f.write(framePong, payload); err != nil {
				return 0, 0, err
			}
		}
	}
}

func (f *frames) header() (kind byte, length int64, err error) {
	var two [2]byte
	if _, err := io.ReadFull(f.in, two[:]); err != nil {
		return 0, 0, unexpected(err)
	}
	if two[1]&frameMasked != 0 {
		return 0, 0, errors.New("a server masks no frames")
	}
	length = int64(two[1])
	if more := map[int64]int{126: 2, 127: 8}[length]; more > 0 {
		var extended [8]byte
		if _, err := io.ReadFull(f.in, extended[8-more:]); err != nil {
			return 0, 0, unexpected(err)
		}
		if length = int64(binary.BigEndian.Uint64(extended[:])); length < 0 {
			return 0, 0, errors.New("a frame is too long")
		}
	}
	return two[0] & 0xf, length, nil
}

// unexpected is err where more was to come.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// close says that nothing more comes, and ends the connection.
func (f *frames) close() error {
	_ = f.write(frameClose) // The other side may be gone already.
	return f.conn.Close()
}
