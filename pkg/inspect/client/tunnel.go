/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package client

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A port is forwarded by the API server and the kubelet: a WebSocket for each connection, whose
// messages begin with the number of a channel. There are two, and the first message in each says
// for which port. This protocol is older than the one by which kubectl has several connections in
// one WebSocket, with SPDY in it; both are served.
const (
	channelProtocol = "v4.channel.k8s.io"

	dataChannel  = 0
	errorChannel = 1 // why there is no connection, in words
	portLength   = 2
)

// mostFrame is how much is sent in a frame.
const mostFrame = 32 << 10

// tunnel is a connection to a port of a Pod. Deadlines do nothing: who waits closes it.
type tunnel struct {
	*frames

	left    int64   // of the frame that is being read
	channel byte    // of the message that is being read
	begun   [2]bool // the port was read, in each channel
	once    sync.Once
}

// through returns a transport whose connections are all tunnels to one port. That this ends in the
// Pod is known by the API server, which has been asked for it by name: the certificate there has
// nothing to add, and is not looked at.
func through(transport http.RoundTripper, forward *url.URL) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := open(ctx, transport, forward)
			if err != nil {
				return nil, fmt.Errorf("forward its port: %w", err)
			}
			return conn, nil
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	}
}

// open opens a tunnel. The URL is that of the subresource portforward, with the port; transport is
// that of the API server, by HTTP/1.1.
func open(ctx context.Context, transport http.RoundTripper, forward *url.URL) (net.Conn, error) {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // It never fails.
	key := base64.StdEncoding.EncodeToString(nonce)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, forward.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, "Sec-WebSocket-Protocol": channelProtocol,
	} {
		request.Header.Set(name, value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, reason(err)
	}
	conn, upgraded := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || !upgraded {
		defer response.Body.Close()
		return nil, declined(response)
	}
	if response.Header.Get("Sec-WebSocket-Accept") != accept(key) || response.Header.Get("Sec-WebSocket-Protocol") != channelProtocol {
		_ = conn.Close() // It is of no use.
		return nil, errors.New("what answers is no API server: it does not forward ports by WebSocket")
	}
	return &tunnel{frames: newFrames(conn)}, nil
}

// accept is how a server shows that it has understood a key.
func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// declined reads why the API server does not forward.
func declined(response *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	var status metav1.Status
	if err == nil && json.Unmarshal(body, &status) == nil && status.Message != "" {
		return errors.New(status.Message)
	}
	return fmt.Errorf("the API server answers %s: %s", response.Status, strings.TrimSpace(string(body)))
}

// Read reads what the port has sent.
func (t *tunnel) Read(into []byte) (int, error) {
	for t.left == 0 {
		if err := t.nextData(); err != nil {
			return 0, err
		}
	}
	n, err := t.in.Read(into[:min(int64(len(into)), t.left)])
	t.left -= int64(n)
	return n, unexpected(err)
}

// nextData goes on to the next frame, and in it to what the port has sent.
func (t *tunnel) nextData() error {
	kind, length, err := t.next()
	if err != nil {
		return err
	}
	if kind != frameContinued && length > 0 {
		if t.channel, err = t.in.ReadByte(); err != nil {
			return unexpected(err)
		}
		length--
	}
	if t.channel > errorChannel {
		return fmt.Errorf("there is no channel %d", t.channel)
	}
	if !t.begun[t.channel] && length >= portLength {
		if _, err := io.CopyN(io.Discard, t.in, portLength); err != nil {
			return unexpected(err)
		}
		length -= portLength
		t.begun[t.channel] = true
	}
	if t.channel == errorChannel && length > 0 {
		said, err := io.ReadAll(io.LimitReader(t.in, min(length, 4096)))
		if err != nil {
			return err
		}
		return errors.New(strings.TrimSpace(string(said)))
	}
	t.left = length
	return nil
}

// Write sends to the port.
func (t *tunnel) Write(data []byte) (int, error) {
	sent := 0
	for sent < len(data) {
		part := data[sent:min(len(data), sent+mostFrame)]
		if err := t.write(frameBinary, []byte{dataChannel}, part); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}

// Close ends the connection.
func (t *tunnel) Close() (err error) {
	t.once.Do(func() { err = t.close() })
	return err
}

// There are no addresses: it ends in the Pod.
func (*tunnel) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (*tunnel) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (*tunnel) SetDeadline(time.Time) error      { return nil }
func (*tunnel) SetReadDeadline(time.Time) error  { return nil }
func (*tunnel) SetWriteDeadline(time.Time) error { return nil }
