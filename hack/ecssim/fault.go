/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecssim

import (
	"encoding/json"
	"net/http"
	"time"
)

// Fault is a simulated failure of a call; the zero Fault is none.
type Fault struct {
	// Before is answered, and the call is not carried out.
	Before *Reply
	// LoseRequest: the call is not carried out, and the client sees a broken connection.
	LoseRequest bool
	// LoseAnswer: the call is carried out, and the client sees a broken connection.
	LoseAnswer bool
	// Hang: there is no answer until the client gives up. The call is carried out only if
	// LoseAnswer is set too.
	Hang bool
	// After is answered once the call has been carried out.
	After *Reply

	// Invisible, of a create, is for how long the describes do not show the instance. Calls
	// that name it by its ID, such as DeleteInstance, find it.
	Invisible time.Duration
	// Vanish, of a create, is for how long the instance is Pending. It is gone then.
	Vanish time.Duration
	// PoisonToken, of a create: it fails with a 500, and its token with IdempotentFailed
	// from then on.
	PoisonToken bool
	// InFlight, of a create, is for how long its token is answered with
	// IdempotentProcessing, as if this call were still being carried out.
	InFlight time.Duration
	// Skew is how far ahead of Now the server's clock is when it checks the timestamp.
	Skew time.Duration
}

// keeps returns whether the call is not carried out.
func (f Fault) keeps() bool {
	return f.Before != nil || f.LoseRequest || f.Hang && !f.LoseAnswer
}

// Reply is an answer as it is.
type Reply struct {
	Status      int
	ContentType string
	Body        string
}

const jsonType = "application/json;charset=utf-8"

// Error is the answer with an error as ECS has it.
func Error(status int, code, message string) *Reply {
	reply := refusal("00000000-0000-4000-8000-000000000000", "ecs.aliyuncs.com", &problem{status, code, message}).Reply
	return &reply
}

// Throttled400 is how most APIs of ECS throttle.
func Throttled400() *Reply {
	return Error(http.StatusBadRequest, "Throttling.User", "Request was denied due to user flow control.")
}

// Throttled429 is how the others do.
func Throttled429() *Reply {
	return Error(http.StatusTooManyRequests, "Throttling", "Request was denied due to request throttling.")
}

// InternalError is a 500.
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

// EmptyOK is a 200 without a body.
func EmptyOK() *Reply { return &Reply{Status: http.StatusOK, ContentType: jsonType} }

// NumericCode is an error whose code is no string.
func NumericCode() *Reply {
	return &Reply{Status: http.StatusBadRequest, ContentType: jsonType, Body: `{"Code": 42, "Message": "forty-two"}`}
}

// problem returns the code and message in the body, if there are any.
func (r *Reply) problem() (code, message string) {
	var said struct{ Code, Message any }
	if json.Unmarshal([]byte(r.Body), &said) != nil {
		return "", ""
	}
	code, _ = said.Code.(string)
	message, _ = said.Message.(string)
	return code, message
}
