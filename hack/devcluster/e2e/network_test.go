// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/glassback/glassback/pkg/must"
)

// dialTimeout is for the IP of a deleted Pod, which does not answer at all.
const dialTimeout = 5 * time.Second

// network opens connections in the cluster's network. It reaches Pods by their IPs, and resolves names with the cluster's DNS. Any
// goroutine can use the connections.
type network struct {
	enter func() error // moves the calling thread to the network
	dns   string
}

// enter returns the cluster's network.
func (n *node) enter(t *testing.T) *network {
	t.Helper()
	resolv, err := os.ReadFile(filepath.Join(n.Dir(), "node", "etc", "resolv.conf"))
	n.must(t, err)
	in := &network{enter: n.Enter}
	for line := range strings.Lines(string(resolv)) {
		if server, ok := strings.CutPrefix(line, "nameserver "); ok {
			in.dns = net.JoinHostPort(strings.TrimSpace(server), "53")
		}
	}
	return in
}

// do calls f on a thread that is in the network.
func (in *network) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // The goroutine never unlocks its thread, so that the moved thread ends with the goroutine.
		err := in.enter()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// connect connects to an IP. It needs no DNS.
func (in *network) connect(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = in.do(func() (dialErr error) {
		conn, dialErr = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
		return dialErr
	})
	return conn, err
}

// dial connects to an IP or a name, as a Pod does.
func (in *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return in.connect(ctx, network, address)
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return in.connect(ctx, network, in.dns)
	}}
	ips, err := resolver.LookupHost(ctx, host+".") // With the dot, the resolver does not use the search domains of this machine.
	if err != nil {
		return nil, err
	}
	// The resolver sorts the IPs. A client must not always get the same Pod: that Pod could accept connections and not answer.
	rand.Shuffle(len(ips), func(i, j int) { ips[i], ips[j] = ips[j], ips[i] })
	var failed []error
	for _, ip := range ips {
		conn, err := in.connect(ctx, network, net.JoinHostPort(ip, port))
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// listen returns a listener at a port of an IP of the network.
func (in *network) listen(t *testing.T, ip string) net.Listener {
	t.Helper()
	var listener net.Listener
	must.Succeed(t, in.do(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(ip, "0"))
		return err
	}))
	return listener
}

// s3Door refuses requests that are not signed with the access key, and removes the signatures of chunks from uploads. gofakes3 accepts any
// key, and would store these signatures.
type s3Door struct {
	keyID, secret string
	inside        http.Handler
}

// serveS3 serves a bucket at an address that Pods reach, without TLS, and returns the URL.
func (n *node) serveS3(t *testing.T, bucket, keyID, secret string) string {
	t.Helper()
	backend := s3mem.New()
	n.must(t, backend.CreateBucket(bucket))
	door := &s3Door{keyID: keyID, secret: secret, inside: gofakes3.New(backend).Server()}
	server := &httptest.Server{Listener: n.enter(t).listen(t, n.nodeIP(t)), Config: &http.Server{Handler: door}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func (d *s3Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.signed(r) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>The signature for the key %s does not match</Message></Error>", d.keyID)
		return
	}
	if size := r.Header.Get("X-Amz-Decoded-Content-Length"); size != "" {
		length, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(httputil.NewChunkedReader(r.Body)), length
		r.Header.Set("Content-Length", size)
		r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	}
	d.inside.ServeHTTP(w, r)
}

var authorization = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=([^/]+)/([0-9]{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$`)

// signed returns whether a request has the signature of version 4 that belongs to the access key.
func (d *s3Door) signed(r *http.Request) bool {
	match := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if match == nil || match[1] != d.keyID {
		return false
	}
	date, region, names, signature := match[2], match[3], match[4], match[5]
	var headers strings.Builder
	for name := range strings.SplitSeq(names, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, value)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{
		r.Method, r.URL.EscapedPath(), strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20"), headers.String(), names,
		r.Header.Get("X-Amz-Content-Sha256"),
	}, "\n")))
	text := strings.Join([]string{
		"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), date + "/" + region + "/s3/aws4_request", hex.EncodeToString(sum[:]),
	}, "\n")
	key := []byte("AWS4" + d.secret)
	for _, part := range []string{date, region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key) == signature
}
