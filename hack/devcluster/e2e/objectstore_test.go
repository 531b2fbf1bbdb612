// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

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
