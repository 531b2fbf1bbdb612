// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/glassback/glassback/pkg/shares"
)

// Every client that reaches the port can send requests. So the memory of all requests together is limited, and that of each address to its
// share (see package shares): of connections (see Bounded), of large bodies, and of what is decoded.
const (
	// maxBody is the largest body of a request, in bytes: the two objects of an update, and the text around them. etcd accepts objects of 1.5
	// MiB. An API server writes an object for etcd and for webhooks in the same way, with the same escapes, so that both have the same length.
	maxBody     = 2*maxObject + maxEnvelope
	maxObject   = 1536 << 10
	maxEnvelope = 256 << 10 // the user's groups, most of all

	// bodiesMemory is for the bodies of all requests that are longer than smallBody, in bytes. A body counts twice, since its objects are
	// copied. Nearly all requests are shorter: a connection may send these at any time.
	bodiesMemory = 32 << 20
	smallBody    = 64 << 10
	// parentSize is what a Scale counts like a body: the operator reads the whole object that the Scale belongs to.
	parentSize = 2 * maxObject

	// reviewsMemory is for all requests that are decoded, in bytes. A request counts reviewSize, copies times its body (the JSON of its
	// objects twice, their texts twice, and what the garbage collector has not freed yet), and valueSize for each value: "{}" in a list of
	// containers takes 300 times its length.
	reviewsMemory = 64 << 20
	reviewSize    = 128 << 10
	copies        = 6
	valueSize     = 1 << 10
	// maxValues is how many values the specs of a request and the status may have. The specs of the samples have less than a hundred, and the
	// status of 500 Redis nodes has some 7,000.
	maxValues = 24 << 10

	// shareTimeout is how long a request waits for its share. Then the answer asks the API server to retry. The API server retries within its
	// timeoutSeconds, perhaps with another replica.
	shareTimeout = time.Second
	// bodyTimeout is how long a client may take to send a body. The API server gives up then.
	bodyTimeout = 5 * time.Second
)

// limits is the memory that addresses share.
type limits struct{ bodies, reviews *shares.Shares[netip.Addr] }

func newLimits() *limits {
	return &limits{bodies: shares.New[netip.Addr](bodiesMemory), reviews: shares.New[netip.Addr](reviewsMemory)}
}

// hold waits until an address may take n bytes. If there is no reason to refuse it, the caller must call release.
func hold(ctx context.Context, memory *shares.Shares[netip.Addr], from netip.Addr, n int64) (release func(), reason *refused) {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	if memory.Acquire(ctx, from, n) != nil {
		return nil, &refused{
			http.StatusTooManyRequests, fmt.Errorf("the requests of %s already use all the memory that they may: try again", from),
		}
	}
	return func() { memory.Release(from, n) }, nil
}

// readBody reads the body of r.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refused) {
	if r.ContentLength > maxBody {
		return nil, tooLarge("the AdmissionReview has %d bytes, and may have %d: two objects of %d bytes each, and the fields around them",
			r.ContentLength, maxBody, maxObject)
	}
	// The deadline is for the body only. When a deadline passes, net/http cancels the context of r. So the deadline is removed before the
	// review. An error is ignored: only an httptest.ResponseRecorder does not support deadlines.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
	body := bytes.NewBuffer(make([]byte, 0, max(r.ContentLength, 0)+bytes.MinRead))
	_, err := io.Copy(body, http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge("the AdmissionReview has more than the allowed %d bytes (two objects of %d bytes each, and the fields around them)",
			maxBody, maxObject)
	}
	if err != nil { // The deadline stays: net/http reads the rest of the body before it sends the response.
		return nil, badRequest(fmt.Errorf("read the body: %w", err))
	}
	_ = connection.SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// values returns the number of values in JSON, or one or two more for each list or object: of the commas and opening brackets outside of
// texts.
func values(data []byte) int {
	n, inText, escaped := 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inText && c == '\\':
			escaped = true
		case c == '"':
			inText = !inText
		case !inText && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// refused is the reason why a request gets no verdict, and the HTTP status of the answer.
type refused struct {
	status int
	err    error
}

func badRequest(err error) *refused { return &refused{http.StatusBadRequest, err} }

// tooLarge has the status 507 and not 413, because the API server passes its text to the user.
func tooLarge(format string, args ...any) *refused {
	return &refused{http.StatusInsufficientStorage, fmt.Errorf(format, args...)}
}
