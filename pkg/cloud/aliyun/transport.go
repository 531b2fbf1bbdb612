// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
)

const (
	// CreateInstance may take a minute; ECS answers all other calls in a second or two.
	createTimeout = 60 * time.Second
	otherTimeout  = 15 * time.Second
	// slack is added to the SDK's timeout, so that the context ends first.
	slack = 5 * time.Second
	// maxBody is about ten times the size of an answer with a hundred instances.
	maxBody = 4 << 20
)

// newTransport returns the transport that all calls share by default.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: checkProxy,
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        time.Minute,
		ForceAttemptHTTP2:      true,
	}
}

// checkProxy returns an error if a proxy did not accept a CONNECT.
func checkProxy(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	if status := response.StatusCode; status != http.StatusOK {
		return ownError(fmt.Sprintf("the proxy of HTTPS_PROXY says %d %s", status, http.StatusText(status)))
	}
	return nil
}

// ownError says why there is no answer, in words of this package: they have no secret.
type ownError string

func (e ownError) Error() string { return string(e) }

// The SDK fills its maps of endpoints at the first call, without a lock.
var (
	ecsEndpoints = sync.OnceValue(ecs.GetEndpointMap)
	stsEndpoints = sync.OnceValue(sts.GetEndpointMap)
)

// exchange sends a request once, and reads the answer into response.
func (r *Region) exchange(ctx context.Context, key *AccessKey, request requests.AcsRequest, response responses.AcsResponse) *Error {
	timeout := otherTimeout
	if request.GetActionName() == "CreateInstance" {
		timeout = createTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	x := &exchange{caller: ctx, ctx: limited, timeout: timeout, base: r.cloud.transport}
	request.SetReadTimeout(timeout + slack)
	start := time.Now()
	done := r.do(x, key, request, response)
	fail := r.verdict(x, done)
	if x.host != "" {
		r.observe(ctx, request.GetActionName(), fail, time.Since(start))
	}
	if fail != nil {
		fail.redact(key, request)
	}
	return fail
}

// do makes a call with the SDK. It returns whether the SDK accepted the answer.
func (r *Region) do(x *exchange, key *AccessKey, request requests.AcsRequest, response responses.AcsResponse) (done bool) {
	defer func() {
		if recover() != nil { // The SDK panics on some malformed answers.
			done = false
		}
	}()
	config := sdk.NewConfig().WithScheme("HTTPS").WithUserAgent(r.cloud.userAgent)
	config.Transport = x
	client, err := sdk.NewClientWithOptions(r.name, config, credentials.NewStaticSTSCredentialsProvider(key.ID, key.Secret, key.SecurityToken))
	if err != nil {
		return false
	}
	// The name of a span would be the signed URL.
	client.SetCloseTrace(true)
	// With any value set here, the SDK does not read the environment. There, a NO_PROXY that is no regular expression would fail every
	// call. The values themselves have no effect, since exchange is the transport.
	client.SetHttpProxy("unused")
	client.SetHttpsProxy("unused")
	client.SetNoProxy("unused")
	client.EndpointMap, client.EndpointType = ecsEndpoints(), ecs.GetEndpointType()
	if request.GetProduct() == "Sts" {
		client.EndpointMap, client.EndpointType = stsEndpoints(), sts.GetEndpointType()
	}
	if endpoint := r.cloud.endpoint; endpoint != nil {
		request.SetScheme(endpoint.Scheme)
		request.SetDomain(endpoint.Host)
	}
	return client.DoAction(request, response) == nil
}

// verdict returns the error of a call, or nil if ECS has carried it out.
func (r *Region) verdict(x *exchange, done bool) *Error {
	_, known := ecsEndpoints()[r.name]
	missing, _ := errors.AsType[*net.DNSError](x.err) // of the host, or of a proxy
	switch {
	case x.caller.Err() != nil && x.answer == nil:
		return ended(x.caller)
	case r.cloud.endpoint == nil && !known && missing != nil && missing.IsNotFound && missing.Name == x.host:
		return unknownRegion(r.name, "there is no host "+x.host+"; if there should be, see to the operator's DNS")
	case x.err != nil:
		return &Error{Class: Transient, Message: x.reason()}
	case x.answer == nil:
		return &Error{Class: Transient, Message: "the SDK could not make the request"}
	case !x.answer.success():
		return x.answer.refusal()
	case !done:
		return &Error{Class: Transient, RequestID: x.answer.requestID, Message: "the answer is not what the SDK expects"}
	}
	return nil
}

// exchange is the transport of one call.
type exchange struct {
	caller  context.Context
	ctx     context.Context // the caller's, with a timeout
	timeout time.Duration
	base    http.RoundTripper

	host string // of the request; "" if the SDK sent none
	// At most one of err and answer is set; neither, if the SDK sent no request.
	err    error
	answer *answer
}

// errNone is the error that the SDK gets: it has no details that the SDK could print.
var errNone = errors.New("no answer")

// RoundTrip sends a request with the context of the call, and reads the whole answer. The SDK gets only well-formed answers.
func (x *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	x.host = request.URL.Hostname()
	body, status, err := x.send(request)
	if err == nil {
		x.answer, err = parse(status, body)
	}
	if err != nil {
		x.err = err
		return nil, errNone
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: request,
	}, nil
}

func (x *exchange) send(request *http.Request) ([]byte, int, error) {
	response, err := x.base.RoundTrip(request.WithContext(x.ctx))
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 3 { // The http.Client would follow it, with the signature in Referer.
		return nil, 0, ownError("the answer is a redirect, which ECS never sends")
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = ownError(fmt.Sprintf("the answer is longer than %d MiB", maxBody>>20))
	}
	return body, response.StatusCode, err
}

// reason returns why there is no answer. It is composed of the types of errors and not of their texts, which may contain URLs.
func (x *exchange) reason() string {
	if x.ctx.Err() != nil {
		return fmt.Sprintf("there was no answer within %s", x.timeout)
	}
	if own, ok := errors.AsType[ownError](x.err); ok {
		return own.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](x.err); ok {
		return fmt.Sprintf("the host %s cannot be looked up in DNS", dns.Name)
	}
	if distrust, ok := errors.AsType[*tls.CertificateVerificationError](x.err); ok {
		return "the TLS certificate is not trusted: " + distrust.Err.Error()
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](x.err); ok {
		return "the other side does not speak TLS"
	}
	if number, ok := errors.AsType[syscall.Errno](x.err); ok {
		return "the connection failed: " + number.Error()
	}
	if errors.Is(x.err, io.EOF) || errors.Is(x.err, io.ErrUnexpectedEOF) {
		return "the connection was closed before there was an answer"
	}
	if network, ok := errors.AsType[net.Error](x.err); ok && network.Timeout() {
		return "the connection timed out"
	}
	return "the connection failed"
}

// answer holds the fields that every answer of ECS has.
type answer struct {
	status    int
	requestID string
	code      string // of an error
	message   string // of an error, unchanged
}

func (a *answer) success() bool { return a.status/100 == 2 && a.code == "" }

// parse checks the fields that the SDK does not check. It is strict, since the operator could take a wrong answer for "there is no such
// instance".
func parse(status int, body []byte) (*answer, error) {
	strange := func(what string) (*answer, error) {
		return nil, ownError(fmt.Sprintf("the answer (HTTP %d) is not from ECS: %s", status, what))
	}
	var fields map[string]json.RawMessage
	if len(bytes.TrimSpace(body)) == 0 {
		return strange("it is empty")
	}
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return strange("it is no JSON object")
	}
	a := &answer{status: status}
	for name, value := range map[string]*string{"RequestId": &a.requestID, "Code": &a.code} {
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, value) != nil {
			return strange("its " + name + " is no string")
		}
	}
	if a.requestID == "" {
		return strange("it has no RequestId")
	}
	a.requestID, a.code = identifier(a.requestID), identifier(a.code)
	_ = json.Unmarshal(fields["Message"], &a.message) // A message that is no string is ignored.
	return a, nil
}
