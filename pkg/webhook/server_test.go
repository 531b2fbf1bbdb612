// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/glassback/glassback/pkg/must"
)

const host = "webhook.test"

// selfSigned returns a certificate for host. It is valid at the time of a synctest bubble, too.
var selfSigned = sync.OnceValue(func() *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
})

// trusting returns the TLS configuration of a client that trusts the certificate.
func trusting() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(selfSigned().Leaf)
	return &tls.Config{RootCAs: roots, ServerName: host}
}

// pipes is a net.Listener in memory. Unlike sockets, it lets synctest notice that a reader is idle.
type pipes struct {
	accepted chan net.Conn
	broken   chan error
	closed   chan struct{}
	close    sync.Once
}

func listen() *pipes {
	return &pipes{accepted: make(chan net.Conn), broken: make(chan error), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case err := <-p.broken:
		return nil, err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accepted <- server:
		return client, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	}
}

// connect returns a connection over TLS.
func (p *pipes) connect(t *testing.T, config *tls.Config) (*tls.Conn, error) {
	t.Helper()
	conn, err := p.dial(t.Context(), "", "")
	if err != nil {
		return nil, err
	}
	client := tls.Client(conn, config)
	if err := client.Handshake(); err != nil {
		conn.Close()
		return nil, err
	}
	return client, nil
}

// server runs Serve in a synctest bubble. The bubble ends only after all of its goroutines.
type server struct {
	*pipes
	client *http.Client
	stop   context.CancelFunc
	ended  chan error
	asked  atomic.Int64 // number of calls for a certificate
}

// end ends the server, and expects no error.
func (s *server) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func serve(t *testing.T, ctx context.Context, handler http.HandlerFunc, linger time.Duration) *server {
	t.Helper()
	s := &server{pipes: listen(), ended: make(chan error, 1)}
	ctx, s.stop = context.WithCancel(ctx)
	transport := &http.Transport{DialContext: s.dial, TLSClientConfig: trusting()}
	s.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	go func() {
		s.ended <- Serve(ctx, s.pipes, handler, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			s.asked.Add(1)
			return selfSigned(), nil
		}, linger)
	}()
	return s
}

// get sends a GET, and returns the body of the answer.
func (s *server) get(path string) (string, error) {
	r, err := s.client.Get("https://" + host + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

func fine(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "fine") }

func TestServeNegotiates(t *testing.T) {
	for name, test := range map[string]struct {
		highest   uint16 // the highest version of TLS; 0 for the newest one
		protocols []string
		want      string // the protocol, or the error
	}{
		"TLS 1.1":      {tls.VersionTLS11, nil, "tls: protocol version not supported"},
		"TLS 1.2":      {tls.VersionTLS12, []string{"h2", "http/1.1"}, "http/1.1"},
		"HTTP/2 alone": {0, []string{"h2"}, "tls: no application protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, t.Context(), fine, 0)
				config := trusting()
				config.MinVersion, config.MaxVersion, config.NextProtos = tls.VersionTLS10, test.highest, test.protocols
				var got string
				if conn, err := s.connect(t, config); err != nil {
					got = err.Error()
				} else {
					got = conn.ConnectionState().NegotiatedProtocol
					conn.NetConn().Close()
				}
				if !strings.HasSuffix(got, test.want) {
					t.Errorf("got %s, want %s", got, test.want)
				}
				s.end(t)
			})
		})
	}
}

// TestServeLingers: during the linger time, every answer has Connection: close. The next request opens a new connection, to another server
// if there is one. So Serve closes no connection during a request.
func TestServeLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const linger = 5 * time.Second
		s := serve(t, t.Context(), fine, linger)
		if _, err := s.get("/"); err != nil {
			t.Error(err)
		}
		s.stop()
		stopped := time.Now()
		synctest.Wait()
		for second := range 4 {
			if text, err := s.get("/"); text != "fine" || err != nil {
				t.Errorf("after %d s: got %q and error %v", second, text, err)
			}
			// The first request uses the connection from before.
			if got, want := s.asked.Load(), int64(second+1); got != want {
				t.Errorf("after %d s, %d connections were opened, want %d: one for each request", second, got, want)
			}
			time.Sleep(time.Second)
		}
		// Serve waits a little for connections without a request.
		if err := <-s.ended; err != nil || time.Since(stopped) < linger || time.Since(stopped) > linger+shutdownTimeout {
			t.Errorf("Serve returned %s after the stop, error %v, want %s or a little more", time.Since(stopped), err, linger)
		}
		if _, err := s.get("/"); err == nil {
			t.Error("a request was answered after the end")
		}
	})
}

// slow starts a server whose answers wait for release. It sends a request, and returns once the server handles the request.
func slow(t *testing.T) (s *server, request context.Context, release func(), answered <-chan error) {
	t.Helper()
	began, proceed := make(chan context.Context), make(chan struct{})
	s = serve(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		began <- r.Context()
		<-proceed
		fine(w, r)
	}, 0)
	ended := make(chan error, 1)
	go func() {
		text, err := s.get("/")
		if err == nil && text != "fine" {
			err = fmt.Errorf("the answer is %q", text)
		}
		ended <- err
	}()
	return s, <-began, func() { close(proceed) }, ended
}

func TestServeAnswersRunningRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, request, release, answered := slow(t)
		s.stop()
		synctest.Wait()
		if len(s.ended) > 0 || request.Err() != nil {
			t.Errorf("Serve has returned: %t; the context of the request has ended: %v", len(s.ended) > 0, request.Err())
		}
		if _, err := s.dial(t.Context(), "", ""); err == nil {
			t.Error("the server still listens")
		}
		release()
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestServeLimitsTheWaitForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, release, answered := slow(t)
		at := time.Now()
		s.stop()
		err := <-s.ended
		if waited := time.Since(at); waited != shutdownTimeout || !errors.Is(err, context.DeadlineExceeded) ||
			!strings.HasPrefix(err.Error(), "answer the last requests for webhooks: ") {
			t.Errorf("Serve waited for %s, want %s; error %v", waited, shutdownTimeout, err)
		}
		if err := <-answered; err == nil {
			t.Error("a request was answered after the end")
		}
		release()
	})
}

func TestServeEndsWithItsListener(t *testing.T) {
	broken := errors.New("too many open files")
	for name, test := range map[string]struct {
		linger time.Duration
		end    func(*server)
		err    error
	}{
		"the context ends before a connection": {end: func(s *server) { s.stop() }},
		"the listener breaks":                  {end: func(s *server) { s.broken <- broken }, err: broken},
		"the listener breaks while Serve lingers: no new connection is possible": {
			linger: time.Hour, end: func(s *server) { s.stop(); s.broken <- broken },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, t.Context(), fine, test.linger)
				if test.err != nil { // This connection ends, too.
					_, err := s.get("/")
					must.Succeed(t, err)
				}
				ending := time.Now()
				test.end(s)
				if err := <-s.ended; !errors.Is(err, test.err) || time.Since(ending) > time.Second {
					t.Errorf("Serve returned after %s, error %v", time.Since(ending), err)
				}
				if text, err := s.get("/"); err == nil {
					t.Errorf("after the end, got %q", text)
				}
				s.stop()
			})
		})
	}
}

func TestServeEndsSlowConnections(t *testing.T) {
	for name, test := range map[string]struct {
		sent  string
		after time.Duration
	}{
		"with a connection that sends nothing": {"", readHeaderTimeout},
		"with half a header":                   {"POST / HTTP/1.1\r\nHost: ", readHeaderTimeout},
		"with half a body":                     {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", readTimeout},
		"with an idle connection":              {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", idleTimeout},
		"with a header that is too large":      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2*MaxHeaderBytes), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					fine(w, r)
				}, 0)
				conn, err := s.connect(t, trusting())
				must.Succeed(t, err)
				at := time.Now()
				go io.WriteString(conn, test.sent)
				io.Copy(io.Discard, conn) // The error can be any.
				took := time.Since(at)
				if slack := 2 * time.Second; took < test.after || took > test.after+slack {
					t.Errorf("the connection ended after %s, want %s", took, test.after)
				}
				conn.NetConn().Close()
				s.end(t)
			})
		})
	}
}

func TestServeGivesUpOnAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		s := serve(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 1<<20))
			failed <- err
		}, 0)
		conn, err := s.connect(t, trusting())
		must.Succeed(t, err)
		began := time.Now()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Error(err)
		}
		const goodbye = 5 * time.Second // crypto/tls tries for this time to send its last message
		if err := <-failed; err == nil || time.Since(began) < writeTimeout || time.Since(began) > writeTimeout+goodbye {
			t.Errorf("error %v after %s, want an error after %s", err, time.Since(began), writeTimeout)
		}
		conn.NetConn().Close()
		s.end(t)
	})
}

// TestServeLogsConnections: the log lines depend on texts of net/http, which no document guarantees.
func TestServeLogsConnections(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*testing.T, *server)
		want string
	}{
		"a client that does not trust the certificate": {func(t *testing.T, s *server) {
			if _, err := s.connect(t, &tls.Config{ServerName: host, RootCAs: x509.NewCertPool()}); err == nil {
				t.Error("the client trusts an unknown certificate")
			}
		}, `"level"=0 "msg"="A client refused the serving certificate" ` +
			`"err"="http: TLS handshake error from pipe: remote error: tls: bad certificate"`},
		"a probe of the port": {func(t *testing.T, s *server) {
			conn, err := s.dial(t.Context(), "", "")
			must.Succeed(t, err)
			conn.Close()
		}, `"level"=4 "msg"="A connection failed" "err"="http: TLS handshake error from pipe: EOF"`},
		"a handler that panics": {func(t *testing.T, s *server) {
			if _, err := s.get("/panic"); err == nil {
				t.Error("the client got an answer")
			}
		}, `"msg"="A handler panicked" "error"=null "err"="http: panic serving pipe: a mistake`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 10})
				s := serve(t, klog.NewContext(t.Context(), logger), func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/panic" {
						panic("a mistake")
					}
					fine(w, r)
				}, 0)
				if _, err := s.get("/"); err != nil { // It is not logged.
					t.Error(err)
				}
				s.client.CloseIdleConnections()
				test.do(t, s)
				synctest.Wait()
				if len(lines) != 1 || !strings.HasPrefix(lines[0], test.want) {
					t.Errorf("got %q, want one line that begins with %q", lines, test.want)
				}
				s.end(t)
			})
		})
	}
}

// TestHalfABodyIsAnswered: a client sends half of a body. After the timeout, it gets an answer and the connection ends.
func TestHalfABodyIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHandler(nil, nil)
		s := serve(t, t.Context(), h.ServeHTTP, 0)
		conn, err := s.connect(t, trusting())
		must.Succeed(t, err)
		at := time.Now()
		go fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\nhalf",
			Path("validate", kindOf(t, "RedisCluster").GroupVersionKind))
		stuck := time.AfterFunc(10*bodyTimeout, func() { conn.NetConn().Close() })
		answer, _ := io.ReadAll(conn) // The error can be any.
		stuck.Stop()
		text := string(answer)
		if took := time.Since(at); took < bodyTimeout || took > bodyTimeout+2*time.Second ||
			!strings.HasPrefix(text, "HTTP/1.1 400 ") || !strings.Contains(text, "\r\nConnection: close\r\n") ||
			!strings.Contains(text, "read the body: ") {
			t.Errorf("after %s: %q", took, text)
		}
		conn.NetConn().Close()
		s.end(t)
	})
}
