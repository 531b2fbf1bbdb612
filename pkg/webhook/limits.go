// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/glassback/glassback/pkg/shares"
)

// Every client that reaches the port can send requests. So the memory of all requests together
// is limited. Of a container's 256 MiB, Go may use 224 (package app):
//
//	bodies        45 MiB   a fifth
//	objects       45 MiB   a fifth
//	connections    8 MiB   256 of some 30 KiB; 64 MiB if every client sends the longest header
//
// The caches and the controllers have the rest. shares divides each amount between addresses. A request acquires memory for its body before
// it reads the body, and memory for its objects before it decodes them. It acquires each once, and in this order, so that no two requests
// wait for each other. The largest request takes 9.8 MiB for its body and 14.6 for its objects. That is less than a third of each amount,
// so it fits even if another address uses all of its share.
const (
	shippedMemory = 224 << 20

	// maxBody is the largest body of a request, in bytes: the two objects of an update, and the text around them. etcd accepts objects of 1.5
	// MiB. An API server writes an object for etcd and for webhooks in the same way, with the same escapes, so that both have the same length.
	maxBody     = 2*maxObject + maxEnvelope
	maxObject   = 1536 << 10
	maxEnvelope = 256 << 10 // the user's groups, most of all

	// maxExpanded is the most memory that structs, lists and maps of a request may take, in bytes,
	// as meter counts them. Each sample of the kinds takes less than a hundredth of it.
	maxExpanded = 2 << 20

	// bodyCopies and objectCopies together count the copies of a body in memory: the body, its objects as JSON, their decoded strings, and the
	// JSON before and after the defaults, from which the patch is made. Most requests need two copies. Some need six for a moment, but not all
	// requests at the same moment, as TestMemoryOfAllRequests shows.
	bodyCopies, objectCopies = 3, 2
	// expandedCopies: to make the patch, a request holds structs, lists and maps of its object
	// twice, before and after the defaults. Lists grow by half or double.
	expandedCopies = 4
	// reviewSize is the memory for the rest of a request and for its answer: some ten times maxErrors.
	reviewSize = 128 << 10

	// parentSize is the memory for the object that a Scale belongs to: mutateScale reads all of it. It counts as the largest object.
	parentSize = objectCopies*maxObject + expandedCopies*maxExpanded

	// shareTimeout is how long a request waits for its share. Then the answer asks the API server to retry. The API server retries within its
	// timeoutSeconds, perhaps with another replica.
	shareTimeout = time.Second
	// bodyTimeout is how long a client may take to send a body. The API server gives up then.
	bodyTimeout = 5 * time.Second
)

// limits is the memory of all requests together.
type limits struct{ bodies, objects *shares.Shares[netip.Addr] }

func newLimits() *limits {
	memory := debug.SetMemoryLimit(-1) // A negative limit changes nothing.
	if memory == math.MaxInt64 {
		memory = shippedMemory
	}
	return &limits{bodies: shares.New[netip.Addr](memory / 5), objects: shares.New[netip.Addr](memory / 5)}
}

// account is the memory that one request holds.
type account struct {
	*limits
	from         netip.Addr
	body, object int64
}

func (l *limits) account(remoteAddr string) *account {
	return &account{limits: l, from: shares.Address(remoteAddr)}
}

// close releases all memory of the request.
func (a *account) close() {
	a.bodies.Release(a.from, a.body)
	a.objects.Release(a.from, a.object)
}

// forBody waits until there is memory for a body of this length. length is -1 if the length is unknown.
func (a *account) forBody(ctx context.Context, length int64) (int64, *refused) {
	if length > maxBody {
		return 0, tooLarge("the AdmissionReview has %d bytes, and may have %d: two objects of %d bytes each, and the fields around them",
			length, maxBody, maxObject)
	}
	if length < 0 {
		length = maxBody
	}
	n := bodyCopies * length
	if err := a.wait(ctx, a.bodies, n); err != nil {
		return 0, err
	}
	a.body = n
	return length, nil
}

// forObjects waits until there is memory to decode a review that has objects of a shape. It
// refuses a body that no API server writes, or that takes too much memory for its length.
func (a *account) forObjects(ctx context.Context, body []byte, object *shape) *refused {
	if !utf8.Valid(body) { // A decoder replaces each invalid byte by three bytes.
		return badRequest(errors.New("the body is no AdmissionReview: it is not UTF-8"))
	}
	length := written(body)
	if length > maxBody {
		return tooLarge("the AdmissionReview has %d bytes when its line separators are escaped, and may have %d", length, maxBody)
	}
	m := meter{walk: walk{data: body}, object: object}
	m.measure(reviewShape)
	if m.size > maxExpanded {
		return tooLarge("the objects of the AdmissionReview take %d bytes of memory, strings not counted, and may take %d: "+
			"they have too many list elements or map entries",
			m.size, maxExpanded)
	}
	if m.malformed != nil {
		return badRequest(fmt.Errorf("the body is no AdmissionReview of an API server: %w", m.malformed))
	}
	n := reviewSize + objectCopies*length + expandedCopies*m.size
	if isScale(body) {
		n += parentSize
	}
	if err := a.wait(ctx, a.objects, n); err != nil {
		return err
	}
	a.object = n
	return nil
}

// written returns the length of JSON after this package writes it again. encoding/json always
// writes a line separator with six bytes instead of three.
func written(body []byte) int64 {
	separators := bytes.Count(body, []byte("\u2028")) + bytes.Count(body, []byte("\u2029"))
	return int64(len(body) + 3*separators)
}

// isScale reports whether a review is about a scale subresource.
func isScale(body []byte) bool {
	const scale = "scale"
	value := find(find(body, "request"), "subResource")
	return len(value) <= 6*len(scale)+len(`""`) && string(unquote(value)) == scale // An escaped byte has up to six bytes.
}

func (a *account) wait(ctx context.Context, s *shares.Shares[netip.Addr], n int64) *refused {
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	if s.Acquire(ctx, a.from, n) == nil {
		return nil
	}
	return &refused{http.StatusTooManyRequests, fmt.Errorf("the requests of %s already use all the memory that they may: try again", a.from)}
}

// refused is the reason why a request gets no verdict, and the HTTP status of the answer.
type refused struct {
	status int
	err    error
}

// tooLarge has the status 507 and not 413, because the API server passes its text to the user.
func tooLarge(format string, args ...any) *refused {
	return &refused{http.StatusInsufficientStorage, fmt.Errorf(format, args...)}
}
