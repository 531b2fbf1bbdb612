// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

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

// channelProtocol forwards one connection to a port in each WebSocket. Each message begins with the number of one of two channels. The
// first message in a channel holds the port. kubectl uses a newer protocol, which sends SPDY with several connections through one
// WebSocket. API servers serve both.
const (
	channelProtocol = "v4.channel.k8s.io"

	dataChannel  = 0
	errorChannel = 1 // holds the reason if there is no connection
	portLength   = 2
)

// maxMessage is the largest number of data bytes in a message. Such a message fits into one frame of client-go's WebSocket. It must not
// need a second frame: the kubelet reads the first byte of every frame as the number of a channel.
const maxMessage = 32 << 10

// tunnel is a connection to a port of a Pod.
type tunnel struct {
	*gorilla.Conn

	message io.Reader // the data that is being read; nil before the next message
	begun   [2]bool   // whether the port was read, by channel
}

// tunnelTransport returns a transport whose connections are all tunnels to one port. The URL is that of the subresource portforward,
// with the port. The transport does not verify the certificate of the Pod: the API server, which forwards to the Pod by its
// name, guarantees the identity of the Pod.
func tunnelTransport(config *rest.Config, forward *url.URL) *http.Transport {
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

func open(ctx context.Context, config *rest.Config, forward *url.URL) (net.Conn, error) {
	transport, connection, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, forward.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, connection, request, channelProtocol)
	if err != nil {
		return nil, err
	}
	return &tunnel{Conn: conn}, nil
}

// Read reads what the port has sent.
func (t *tunnel) Read(into []byte) (int, error) {
	for {
		if t.message == nil {
			if err := t.next(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := t.message.Read(into)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		t.message = nil
	}
}

// next starts to read the next message. For the data channel, it sets message to what the port has sent. The error is io.EOF once the
// other side has closed.
func (t *tunnel) next() error {
	_, message, err := t.NextReader()
	if gorilla.IsCloseError(err, gorilla.CloseNormalClosure, gorilla.CloseNoStatusReceived) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	var channel [1]byte
	if _, err := io.ReadFull(message, channel[:]); err != nil {
		return ignoreEnd(err)
	}
	n := channel[0]
	if n > errorChannel {
		return fmt.Errorf("there is no channel %d", n)
	}
	if !t.begun[n] {
		t.begun[n] = true
		if _, err := io.CopyN(io.Discard, message, portLength); err != nil {
			return ignoreEnd(err)
		}
	}
	if n == dataChannel {
		t.message = message
		return nil
	}
	said, err := io.ReadAll(io.LimitReader(message, 4096))
	if err == nil && len(said) > 0 {
		return errors.New(strings.TrimSpace(string(said)))
	}
	return err
}

// ignoreEnd returns nil for the end of a message that is shorter than expected.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Write sends to the port.
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

// SetDeadline sets both deadlines.
func (t *tunnel) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}
