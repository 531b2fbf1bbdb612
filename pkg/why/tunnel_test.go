// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/base64"
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

	"k8s.io/client-go/rest"

	"github.com/glassback/glassback/pkg/must"
)

// First bytes of WebSocket frames: https://www.rfc-editor.org/rfc/rfc6455#section-5.2
const (
	firstBinary    = 0x02 // more frames follow
	finalContinued = 0x80
	finalBinary    = 0x82
	finalClose     = 0x88
	finalPing      = 0x89

	masked = 0x80 // bit of the second byte
)

// accept returns the header by which a server shows that it understood a key.
func accept(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// kubelet forwards a port as an API server and a kubelet do, and as the protocol allows.
type kubelet struct {
	target string // an address; empty: nothing listens there
	// chunk is how many bytes are in a frame at most; messages have two frames, with a ping between them.
	chunk int
	// status is what it answers instead, if it is not 0.
	status int
	accept string // the header, if it does not show that the server understood
	sends  string // bytes that it sends instead of forwarding
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.status != 0 {
		w.WriteHeader(k.status)
		fmt.Fprint(w, `{"kind": "Status", "message": "pods \"manager\" is forbidden"}`)
		return
	}
	if r.Header.Get("Sec-WebSocket-Protocol") != channelProtocol || r.URL.Query().Get("ports") != "8444" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
		cmp.Or(k.accept, accept(r.Header.Get("Sec-WebSocket-Key"))), channelProtocol)
	if k.sends != "" {
		_, _ = io.WriteString(conn, strings.TrimPrefix(k.sends, "nothing"))
		return
	}
	k.forward(conn, buffered.Reader)
}

// forward is the server's side of the WebSocket.
func (k *kubelet) forward(conn net.Conn, in *bufio.Reader) {
	port := binary.LittleEndian.AppendUint16(nil, 8444)
	send(conn, finalBinary, append([]byte{dataChannel}, port...))
	send(conn, finalBinary, append([]byte{errorChannel}, port...))
	if k.target == "" {
		send(conn, finalBinary, append([]byte{errorChannel}, "connection refused"...))
		return
	}
	target, err := net.Dial("tcp", k.target)
	if err != nil {
		panic(err)
	}
	defer target.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer target.Close()
		for {
			payload, err := receive(in)
			if err != nil {
				return
			}
			_, _ = target.Write(payload) // Pongs come also when the target has ended.
		}
	}()
	buffer := make([]byte, k.chunk)
	for {
		n, err := target.Read(buffer)
		if err != nil {
			send(conn, finalClose, nil)
			<-ended // A connection that is closed with a pong unread is reset, and what was sent is lost.
			return
		}
		send(conn, firstBinary, append([]byte{dataChannel}, buffer[:n/2]...))
		send(conn, finalPing, []byte("are you there"))
		send(conn, finalContinued, buffer[n/2:n])
	}
}

func send(conn io.Writer, kind byte, payload []byte) {
	head := []byte{kind}
	switch n := len(payload); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	_, _ = conn.Write(append(head, payload...))
}

// receive returns the data of the next message. Pongs have none.
func receive(in *bufio.Reader) ([]byte, error) {
	var two [2]byte
	if _, err := io.ReadFull(in, two[:]); err != nil {
		return nil, err
	}
	if two[1]&masked == 0 {
		return nil, errors.New("a client masks its frames")
	}
	length := uint64(two[1] &^ masked)
	switch length {
	case 126:
		var n uint16
		_ = binary.Read(in, binary.BigEndian, &n)
		length = uint64(n)
	case 127:
		_ = binary.Read(in, binary.BigEndian, &length)
	}
	masked := make([]byte, 4+length)
	if _, err := io.ReadFull(in, masked); err != nil {
		return nil, err
	}
	for n := range masked[4:] {
		masked[4+n] ^= masked[n%4]
	}
	if two[0] != finalBinary || masked[4] != dataChannel {
		return nil, nil
	}
	return masked[5:], nil
}

// forwarded returns a client of what is behind k.
func forwarded(t *testing.T, k *kubelet) *http.Client {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	forward, err := url.Parse(server.URL + "/api/v1/namespaces/glassback-system/pods/manager/portforward?ports=8444")
	must.Succeed(t, err)
	transport := tunnelTransport(&rest.Config{Host: server.URL}, forward)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestATunnelCarriesWhatIsSentBothWays(t *testing.T) {
	echo := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer echo.Close()
	for name, test := range map[string]struct{ chunk, size int }{
		"a few bytes":                        {1 << 10, 5},
		"frames with their length in a byte": {60, 1000},
		"frames with their length in two":    {60_000, 300_000},
		"frames with their length in eight":  {400_000, 3 << 20},
		"frames of nothing":                  {1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			client := forwarded(t, &kubelet{target: echo.Listener.Addr().String(), chunk: test.chunk})
			sent := strings.Repeat("0123456789", test.size/10+1)[:test.size]
			for range 2 { // Once more on the same connection.
				response, err := client.Post("https://manager/", "text/plain", strings.NewReader(sent))
				must.Succeed(t, err)
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
		"nothing listens in the Pod": {kubelet{}, "connection refused"},
		"the API server does not let one": {
			kubelet{status: http.StatusForbidden}, `forward its port: unable to upgrade streaming request: pods "manager" is forbidden`,
		},
		"it is no API server": {
			kubelet{status: http.StatusOK}, `forward its port: unable to upgrade streaming request: pods "manager" is forbidden`,
		},
		"it has not understood a WebSocket": {kubelet{accept: "anything"}, "websocket: bad handshake (101 Switching Protocols)"},
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

// What a server may not send is an error, and not data.
func TestMessagesThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct{ sends, want string }{
		"masked":                    {"\x82\x81abcdx", "bad MASK"},
		"too long":                  {"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "read limit exceeded"},
		"a long ping":               {"\x89\x7e\x01\x00", "len > 125 for control"},
		"half a head":               {"\x82", "unexpected EOF"},
		"half a length":             {"\x82\x7e\x01", "unexpected EOF"},
		"another channel":           {"\x82\x02\x05x", "there is no channel 5"},
		"less than it says":         {"\x82\x05\x00", "unexpected EOF"},
		"an end without being said": {"nothing", "unexpected EOF"},
		"an end":                    {"\x88\x00", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := forwarded(t, &kubelet{sends: test.sends}).Transport.(*http.Transport).DialContext(t.Context(), "", "")
			must.Succeed(t, err)
			defer conn.Close()
			read, err := conn.Read(make([]byte, 100))
			if err == nil || read > 0 || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("%d bytes, error %v, want one that ends with %q", read, err, test.want)
			}
		})
	}
}

func TestClosingATunnelEndsWhoReads(t *testing.T) {
	// The server must not answer before the test ends: an answer that overtakes the end of the connection is no error.
	silent := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-t.Context().Done() }))
	t.Cleanup(silent.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://manager/", nil)
	must.Succeed(t, err)
	response, err := forwarded(t, &kubelet{target: silent.Listener.Addr().String(), chunk: 1000}).Do(request)
	if err == nil {
		response.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
