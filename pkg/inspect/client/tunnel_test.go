/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
)

// kubelet forwards a port as an API server and a kubelet do.
type kubelet struct {
	target string // an address; empty: nothing listens there
	chunk  int    // the largest number of bytes in a message
	frame  int    // the largest number of bytes in a frame
	status int    // if not 0, the answer instead of a WebSocket
	// messages are sent instead of those of target.
	messages []string
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.status != 0 {
		w.WriteHeader(k.status)
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "Status", "message": "pods \"manager\" is forbidden"}`)
		return
	}
	if r.URL.Query().Get("ports") != "8444" || r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	upgrader := gorilla.Upgrader{Subprotocols: []string{channelProtocol}, WriteBufferSize: k.frame}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	k.forward(conn)
}

// forward is the server's side of the WebSocket.
func (k *kubelet) forward(conn *gorilla.Conn) {
	send := func(channel byte, data string) {
		_ = conn.WriteMessage(gorilla.BinaryMessage, append([]byte{channel}, data...))
	}
	for _, message := range k.messages {
		_ = conn.WriteMessage(gorilla.BinaryMessage, []byte(message))
	}
	if k.messages != nil {
		_, _, _ = conn.ReadMessage() // With unread data, the end would be a reset.
		return
	}
	port := string(binary.LittleEndian.AppendUint16(nil, 8444))
	send(dataChannel, port)
	send(errorChannel, port)
	if k.target == "" {
		send(errorChannel, "connection refused\n")
		return
	}
	target, err := net.Dial("tcp", k.target)
	if err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer target.Close()
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if len(message) > maxMessage+1 || message[0] != dataChannel {
				panic("a message that the API server does not accept")
			}
			_, _ = target.Write(message[1:])
		}
	}()
	buffer := make([]byte, k.chunk)
	for {
		n, err := target.Read(buffer)
		if err != nil {
			break
		}
		send(dataChannel, string(buffer[:n]))
		send(dataChannel, "")
		_ = conn.WriteControl(gorilla.PingMessage, nil, time.Now().Add(time.Second))
	}
	_ = conn.WriteControl(gorilla.CloseMessage, nil, time.Now().Add(time.Second))
	<-ended
}

// forwarded returns a client of what is behind k.
func forwarded(t *testing.T, k *kubelet) *http.Client {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	forward, err := url.Parse(server.URL + "/api/v1/namespaces/glassback-system/pods/manager/portforward?ports=8444")
	if err != nil {
		t.Fatal(err)
	}
	transport := through(&rest.Config{BearerToken: "secret"}, forward)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestATunnelCarriesWhatIsSentBothWays(t *testing.T) {
	echo := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer echo.Close()
	for name, test := range map[string]struct{ chunk, frame, size int }{
		"a few bytes":                {1 << 10, 1 << 10, 5},
		"messages of a byte":         {1, 1 << 10, 100},
		"long messages":              {400_000, 1 << 20, 3 << 20},
		"messages in several frames": {60_000, 1 << 10, 300_000},
	} {
		t.Run(name, func(t *testing.T) {
			client := forwarded(t, &kubelet{target: echo.Listener.Addr().String(), chunk: test.chunk, frame: test.frame})
			sent := strings.Repeat("0123456789", test.size/10+1)[:test.size]
			for range 2 { // Once more on the same connection.
				response, err := client.Post("https://manager/", "text/plain", strings.NewReader(sent))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || string(got) != sent {
					t.Fatalf("%d bytes have come back of %d, error %v", len(got), len(sent), err)
				}
			}
		})
	}
}

func TestATunnelThatCannotBeOpenedSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		kubelet kubelet
		want    string
	}{
		"nothing listens in the Pod":     {kubelet{}, "connection refused"},
		"the API server refuses":         {kubelet{status: http.StatusForbidden}, `pods "manager" is forbidden`},
		"it is no API server":            {kubelet{status: http.StatusOK}, `pods "manager" is forbidden`},
		"a message of an unknown number": {kubelet{messages: []string{"\x05x"}}, "there is no channel 5"},
		"an end without a close message": {kubelet{messages: []string{"\x00", "\x00\x00\x00"}}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := forwarded(t, &test.kubelet).Get("https://manager/")
			if err == nil {
				response.Body.Close()
			}
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("error %v, want one that ends with %q", err, test.want)
			}
		})
	}
}

func TestClosingATunnelEndsWhoReads(t *testing.T) {
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://manager/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := forwarded(t, &kubelet{target: silent.Listener.Addr().String(), chunk: 1000}).Do(request)
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
