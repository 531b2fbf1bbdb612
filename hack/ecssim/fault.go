// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"encoding/json"
	"net/http"
	"time"
)

// Fault is a simulated failure of a call. The zero Fault means no failure.
type Fault struct {
	// Before is sent as the answer, and the call is not executed.
	Before *Reply
	// LoseRequest: the call is not executed, and the client's connection breaks.
	LoseRequest bool
	// LoseAnswer: the call is executed, and the client's connection breaks.
	LoseAnswer bool
	// Hang: there is no answer until the client gives up. The call is executed only if LoseAnswer is set, too.
	Hang bool
	// After is sent instead of the answer, and the call is executed.
	After *Reply

	// Invisible, of a create, is the time for which DescribeInstances omits the instance. Calls that name its ID, such as DeleteInstance,
	// find it.
	Invisible time.Duration
	// Vanish, of a create, is the time for which the instance is Pending. After that, it does not exist any more.
	Vanish time.Duration
	// PoisonToken, of a create: the call fails with a 500, and all later calls with its token fail with IdempotentFailed.
	PoisonToken bool
	// InFlight, of a create, is the time for which other calls with its token fail with IdempotentProcessing, as if this call still ran.
	InFlight time.Duration
	// Skew is how far ahead of Now the server's clock is when it checks the timestamp.
	Skew time.Duration
}

// keeps returns whether the fault prevents the execution of the call.
func (f Fault) keeps() bool {
	return f.Before != nil || f.LoseRequest || f.Hang && !f.LoseAnswer
}

// Reply is an answer that is sent unchanged.
type Reply struct {
	Status      int
	ContentType string
	Body        string
}

const jsonType = "application/json;charset=utf-8"

// Error returns an answer with an error in the format of ECS.
func Error(status int, code, message string) *Reply {
	reply := refusal("00000000-0000-4000-8000-000000000000", "ecs.aliyuncs.com", &problem{status, code, message}).Reply
	return &reply
}

// Throttled400 returns the throttling error of most APIs of ECS.
func Throttled400() *Reply {
	return Error(http.StatusBadRequest, "Throttling.User", "Request was denied due to user flow control.")
}

// Throttled429 returns the throttling error of the other APIs.
func Throttled429() *Reply {
	return Error(http.StatusTooManyRequests, "Throttling", "Request was denied due to request throttling.")
}

// InternalError returns an answer with status 500.
func InternalError() *Reply {
	return Error(http.StatusInternalServerError, "InternalError", "The request processing has failed due to some unknown error.")
}

// BadGateway returns the answer of a failing proxy: HTML.
func BadGateway() *Reply {
	return &Reply{
		Status:      http.StatusBadGateway,
		ContentType: "text/html",
		Body: "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n" +
			"<body><center><h1>502 Bad Gateway</h1></center></body>\r\n</html>\r\n",
	}
}

// EmptyOK returns an answer with status 200 and no body.
func EmptyOK() *Reply { return &Reply{Status: http.StatusOK, ContentType: jsonType} }

// NumericCode returns an error whose code is a number.
func NumericCode() *Reply {
	return &Reply{Status: http.StatusBadRequest, ContentType: jsonType, Body: `{"Code": 42, "Message": "forty-two"}`}
}

// problem returns the code and the message in the body, or "".
func (r *Reply) problem() (code, message string) {
	var said struct{ Code, Message any }
	if json.Unmarshal([]byte(r.Body), &said) != nil {
		return "", ""
	}
	code, _ = said.Code.(string)
	message, _ = said.Message.(string)
	return code, message
}
