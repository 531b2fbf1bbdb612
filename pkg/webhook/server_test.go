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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

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

func serve(t *testing.T, ctx context.Context, handler http.HandlerFunc) *server {
	t.Helper()
	return serveLingering(t, ctx, handler, 0)
}

func serveLingering(t *testing.T, ctx context.Context, handler http.HandlerFunc, linger time.Duration) *server {
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
		versions []uint16 // the lowest and the highest version
		protocol []string
		version  uint16
		chosen   string
		err      string
	}{
		"TLS 1.0":            {[]uint16{tls.VersionTLS10, tls.VersionTLS10}, nil, 0, "", "tls: protocol version not supported"},
		"TLS 1.1":            {[]uint16{tls.VersionTLS10, tls.VersionTLS11}, nil, 0, "", "tls: protocol version not supported"},
		"TLS 1.2":            {[]uint16{tls.VersionTLS10, tls.VersionTLS12}, nil, tls.VersionTLS12, "", ""},
		"TLS 1.3":            {[]uint16{tls.VersionTLS10, tls.VersionTLS13}, nil, tls.VersionTLS13, "", ""},
		"HTTP/1.1":           {[]uint16{0, 0}, []string{"http/1.1"}, tls.VersionTLS13, "http/1.1", ""},
		"HTTP/2 or HTTP/1.1": {[]uint16{0, 0}, []string{"h2", "http/1.1"}, tls.VersionTLS13, "http/1.1", ""},
		"HTTP/2 alone":       {[]uint16{0, 0}, []string{"h2"}, 0, "", "tls: no application protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, t.Context(), fine)
				config := trusting()
				config.MinVersion, config.MaxVersion, config.NextProtos = test.versions[0], test.versions[1], test.protocol
				conn, err := s.connect(t, config)
				switch {
				case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
					t.Errorf("error %v, want %s", err, test.err)
				case test.err == "" && err != nil:
					t.Error(err)
				case conn != nil:
					if got := conn.ConnectionState(); got.Version != test.version || got.NegotiatedProtocol != test.chosen {
						t.Errorf("%s and %q, want %s and %q", tls.VersionName(got.Version), got.NegotiatedProtocol,
							tls.VersionName(test.version), test.chosen)
					}
					conn.NetConn().Close()
				}
				s.end(t)
			})
		})
	}
}

func TestServeSpeaksHTTP1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, t.Context(), func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
		s.client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
		if text, err := s.get("/"); text != "HTTP/1.1" || err != nil {
			t.Errorf("got %q and error %v", text, err)
		}
		s.end(t)
	})
}

func TestServeAsksForACertificateWithEachConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, t.Context(), fine)
		for _, want := range []int64{1, 1, 2} {
			if want == 2 {
				s.client.CloseIdleConnections()
			}
			if _, err := s.get("/"); err != nil {
				t.Error(err)
			}
			if got := s.asked.Load(); got != want {
				t.Errorf("the server asked for a certificate %d times, want %d", got, want)
			}
		}
		s.end(t)
	})
}

// TestServeLingers: during the linger time, every answer has Connection: close. The next request opens a new connection, to another server
// if there is one. So Serve closes no connection during a request.
func TestServeLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const linger = 5 * time.Second
		s := serveLingering(t, t.Context(), fine, linger)
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

func TestServeAnswersRunningRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release := make(chan context.Context), make(chan struct{})
		s := serve(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				began <- r.Context()
				<-release
			}
			fine(w, r)
		})
		if text, err := s.get("/"); text != "fine" || err != nil {
			t.Errorf("got %q and error %v", text, err)
		}
		type answer struct {
			text string
			err  error
		}
		answered := make(chan answer)
		go func() {
			text, err := s.get("/slow")
			answered <- answer{text, err}
		}()
		ctx := <-began

		s.stop()
		synctest.Wait()
		select {
		case err := <-s.ended:
			t.Errorf("Serve returned before the answer, with the error %v", err)
		default:
		}
		if ctx.Err() != nil {
			t.Errorf("the request's context has ended: %v", ctx.Err())
		}
		if _, err := s.dial(t.Context(), "", ""); err == nil {
			t.Error("the server still listens")
		}

		close(release)
		if got := <-answered; got != (answer{"fine", nil}) {
			t.Errorf("got %+v", got)
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestServeLimitsTheWaitForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release := make(chan struct{}), make(chan struct{})
		s := serve(t, t.Context(), func(http.ResponseWriter, *http.Request) {
			close(began)
			<-release
		})
		failed := make(chan error)
		go func() {
			_, err := s.get("/")
			failed <- err
		}()
		<-began
		at := time.Now()
		s.stop()
		if err := <-s.ended; !errors.Is(err, context.DeadlineExceeded) ||
			!strings.HasPrefix(err.Error(), "answer the last requests for webhooks: ") {
			t.Errorf("error %v", err)
		}
		if waited := time.Since(at); waited != shutdownTimeout {
			t.Errorf("Serve waited for %s, want %s", waited, shutdownTimeout)
		}
		if err := <-failed; err == nil {
			t.Error("a request was answered after the end")
		}
		close(release)
	})
}

func TestServeClosesTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := serve(t, ctx, fine)
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		if _, err := s.get("/"); err == nil {
			t.Error("the server listens although its context had ended before")
		}
		s.stop()
	})
}

func TestServeReturnsTheErrorOfAListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, t.Context(), fine)
		if _, err := s.get("/"); err != nil {
			t.Error(err)
		}
		broken := errors.New("too many open files")
		s.broken <- broken
		if err := <-s.ended; !errors.Is(err, broken) || err.Error() != "serve at pipes: too many open files" {
			t.Errorf("error %v", err)
		}
		// The open connection of the client has also ended.
		if text, err := s.get("/"); err == nil {
			t.Errorf("got %q", text)
		}
		s.stop()
	})
}

// TestServeEndsWhenTheListenerBreaksWhileItLingers: without a listener, no new connection is possible, so that Serve returns at once.
func TestServeEndsWhenTheListenerBreaksWhileItLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveLingering(t, t.Context(), fine, time.Hour)
		stopped := time.Now()
		s.stop()
		s.broken <- errors.New("too many open files")
		if err := <-s.ended; err != nil || time.Since(stopped) > time.Second {
			t.Errorf("Serve returned after %s, error %v", time.Since(stopped), err)
		}
	})
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
				})
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
		})
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

// logged returns a context with a logger of the highest verbosity, and a function that returns the lines of the log.
func logged(t *testing.T) (context.Context, func() []string) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(10)))
	sink, ok := logger.GetSink().(ktesting.Underlier)
	if !ok {
		t.Fatal("the logger has no buffer")
	}
	return klog.NewContext(t.Context(), logger), func() []string {
		var lines []string
		for _, entry := range sink.GetBuffer().Data() {
			line := string(entry.Type) + " " + string(rune('0'+entry.Verbosity)) + " " + entry.Message
			for i := 0; i+1 < len(entry.ParameterKVList); i += 2 {
				if text, ok := entry.ParameterKVList[i+1].(string); ok {
					line += ": " + text
				}
			}
			lines = append(lines, line)
		}
		return lines
	}
}

func TestConnectionsAreLogged(t *testing.T) {
	for name, test := range map[string]struct{ line, want string }{
		"a client that does not trust the certificate": {"http: TLS handshake error from 1.2.3.4:5: remote error: tls: bad certificate\n",
			"INFO 0 A client refused the serving certificate: http: TLS handshake error from 1.2.3.4:5: remote error: tls: bad certificate"},
		"a probe of the port": {
			"http: TLS handshake error from 1.2.3.4:5: EOF\n", "INFO 4 A connection failed: http: TLS handshake error from 1.2.3.4:5: EOF",
		},
		"a handler that panics": {
			"http: panic serving 1.2.3.4:5: a mistake\ngoroutine 1\n",
			"ERROR 0 A handler panicked: http: panic serving 1.2.3.4:5: a mistake\ngoroutine 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, lines := logged(t)
			n, err := connectionLog{klog.FromContext(ctx)}.Write([]byte(test.line))
			if n != len(test.line) || err != nil {
				t.Errorf("wrote %d of %d, error %v", n, len(test.line), err)
			}
			if got := lines(); !slices.Equal(got, []string{test.want}) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestServeLogsConnections: the log lines depend on texts of net/http, which no document guarantees.
func TestServeLogsConnections(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*testing.T, *server)
		want string
	}{
		"a request is not logged": {func(t *testing.T, s *server) {
			if _, err := s.get("/"); err != nil {
				t.Error(err)
			}
		}, ""},
		"a client that does not trust the certificate": {func(t *testing.T, s *server) {
			if _, err := s.connect(t, &tls.Config{ServerName: host, RootCAs: x509.NewCertPool()}); err == nil {
				t.Error("the client trusts an unknown certificate")
			}
		}, "INFO 0 A client refused the serving certificate: http: TLS handshake error from pipe: remote error: tls: bad certificate"},
		"a probe of the port": {func(t *testing.T, s *server) {
			conn, err := s.dial(t.Context(), "", "")
			must.Succeed(t, err)
			conn.Close()
		}, "INFO 4 A connection failed: http: TLS handshake error from pipe: EOF"},
		"a client without TLS": {func(t *testing.T, s *server) {
			conn, err := s.dial(t.Context(), "", "")
			must.Succeed(t, err)
			go io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
			io.Copy(io.Discard, conn)
			conn.Close()
		}, "INFO 4 A connection failed: http: TLS handshake error from pipe: client sent an HTTP request to an HTTPS server"},
		"a handler that panics": {func(t *testing.T, s *server) {
			if _, err := s.get("/panic"); err == nil {
				t.Error("the client got an answer")
			}
		}, "ERROR 0 A handler panicked: http: panic serving pipe: a mistake"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, lines := logged(t)
				s := serve(t, ctx, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/panic" {
						panic("a mistake")
					}
					fine(w, r)
				})
				test.do(t, s)
				synctest.Wait()
				got := lines()
				if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], test.want)) {
					t.Errorf("got %q, want %q", got, test.want)
				}
				s.end(t)
			})
		})
	}
}

// TestHalfABodyIsAnswered: a client sends half of a body. After the timeout, it gets an answer and the connection ends.
func TestHalfABodyIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHandler(nil)
		s := serve(t, t.Context(), h.ServeHTTP)
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
		if h.limits.bodies.left != shippedMemory/5 {
			t.Errorf("the limit for bodies has only %d bytes left", h.limits.bodies.left)
		}
		conn.NetConn().Close()
		s.end(t)
	})
}
