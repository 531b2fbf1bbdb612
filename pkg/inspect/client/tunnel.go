/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/websocket"
)

// The API server and the kubelet forward a port through one WebSocket for each connection. Each message
// begins with the number of a channel. The first message of a channel has the number of the port. kubectl
// uses a later protocol, with SPDY and several connections in one WebSocket. Servers support both.
const (
	channelProtocol = "v4.channel.k8s.io"

	dataChannel  = 0
	errorChannel = 1 // a text that says why there is no connection
	portLength   = 2
)

// maxMessage is the largest number of bytes in a message. It fits in one frame: the server does not
// accept a message in several frames.
const maxMessage = 32 << 10

// closeTimeout is the time to send the end of a WebSocket.
const closeTimeout = time.Second

// tunnel is a connection to a port of a Pod.
type tunnel struct {
	*gorilla.Conn

	message io.Reader // the rest of the message that Read is reading; nil between two messages
	begun   [2]bool   // the first message of each channel has been read
}

// through returns a transport whose connections are tunnels to one port. The API server authenticates the
// Pod, which the URL names. So the transport does not verify the Pod's certificate.
func through(config *rest.Config, forward *url.URL) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := open(ctx, config, forward)
			if err != nil {
				return nil, fmt.Errorf("forward its port: %w", err)
			}
			return conn, nil
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	}
}

// open opens a tunnel. forward is the URL of the subresource portforward, with the port.
func open(ctx context.Context, config *rest.Config, forward *url.URL) (net.Conn, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, forward.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, request, channelProtocol)
	if err != nil {
		return nil, reason(err)
	}
	return &tunnel{Conn: conn}, nil
}

// Read reads from the port.
func (t *tunnel) Read(into []byte) (int, error) {
	for {
		if t.message == nil {
			if err := t.next(); err != nil {
				return 0, err
			}
		}
		n, err := t.message.Read(into)
		if errors.Is(err, io.EOF) {
			t.message, err = nil, nil
		}
		if n > 0 || err != nil || len(into) == 0 {
			return n, err
		}
	}
}

// next sets message to the data of the next message.
func (t *tunnel) next() error {
	_, message, err := t.NextReader()
	if closed, is := errors.AsType[*gorilla.CloseError](err); is && closed.Code != gorilla.CloseAbnormalClosure {
		return io.EOF
	}
	if err != nil {
		return err
	}
	t.message = message
	var channel [1]byte
	if _, err := io.ReadFull(message, channel[:]); err != nil {
		return end(err)
	}
	if channel[0] > errorChannel {
		return fmt.Errorf("there is no channel %d", channel[0])
	}
	if begun := &t.begun[channel[0]]; !*begun {
		n, err := io.CopyN(io.Discard, message, portLength)
		if *begun = n == portLength; err != nil {
			return end(err)
		}
	}
	if channel[0] == dataChannel {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(message, 4096))
	if err == nil && len(text) > 0 {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return err
}

// end returns nil for the end of a message.
func end(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Write writes to the port.
func (t *tunnel) Write(data []byte) (int, error) {
	sent := 0
	for sent < len(data) {
		part := data[sent:min(len(data), sent+maxMessage)]
		if err := t.WriteMessage(gorilla.BinaryMessage, append([]byte{dataChannel}, part...)); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}

// Close ends the connection.
func (t *tunnel) Close() error {
	message := gorilla.FormatCloseMessage(gorilla.CloseNormalClosure, "")
	_ = t.WriteControl(gorilla.CloseMessage, message, time.Now().Add(closeTimeout)) // The server may have gone.
	return t.Conn.Close()
}

// SetDeadline sets both deadlines.
func (t *tunnel) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}
