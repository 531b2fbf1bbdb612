// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// answer is the answer to one request.
type answer struct {
	Reply

	requestID string
	lost      bool // the connection breaks
	hang      bool // no answer comes before the client gives up
}

// ServeHTTP answers a call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.serve(r)
	if a.hang {
		<-r.Context().Done()
	}
	if a.hang || a.lost {
		panic(http.ErrAbortHandler) // This breaks the connection.
	}
	a.write(w)
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	if a.requestID != "" {
		w.Header().Set("X-Acs-Request-Id", a.requestID)
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // An error means that the client is gone.
}

// Transport returns a RoundTripper that calls the server directly, without a network or a goroutine.
func (s *Server) Transport() http.RoundTripper { return transport{server: s} }

type transport struct{ server *Server }

// RoundTrip answers a call.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a := t.server.serve(r)
	if a.hang {
		<-r.Context().Done()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if a.lost {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	recorder := httptest.NewRecorder()
	a.write(recorder)
	response := recorder.Result()
	response.Request = r
	return response, nil
}

// serve executes a request and returns the answer.
func (s *Server) serve(r *http.Request) answer {
	req, p := parse(r)
	if p != nil || req.params.get("Action") == "" {
		if p == nil {
			p = missing("Action")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return refusal(s.requestID(), req.host, p)
	}
	fault := s.expect(req)
	call, a := s.carryOut(req, fault)
	if s.onCall != nil {
		s.onCall(call)
	}
	return a
}

// expect returns the fault of a call.
func (s *Server) expect(r *request) Fault {
	s.mu.Lock()
	f := s.fault
	var call Call
	if f != nil {
		call = s.callOf(r, s.now())
	}
	s.mu.Unlock()
	if f == nil {
		return Fault{}
	}
	return f(call)
}

// callOf returns the Call of a request before its execution.
func (s *Server) callOf(r *request, now time.Time) Call {
	call := Call{
		Action:     r.params.get("Action"),
		AccountID:  s.accounts[r.accessKeyID].ID,
		RegionID:   r.params.get("RegionId"),
		InstanceID: r.params.instanceID(),
		At:         now,
		Params:     url.Values(r.params),
	}
	if m := s.byID[call.InstanceID]; m != nil && m.AccountID == call.AccountID {
		if m.advance(now); m.Released.IsZero() {
			call.State = m.State
		}
	}
	return call
}

// carryOut executes and records a request. A fault may prevent the execution.
func (s *Server) carryOut(r *request, fault Fault) (Call, answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.callOf(r, s.now())
	a := answer{lost: fault.LoseRequest || fault.LoseAnswer, hang: fault.Hang}
	switch {
	case fault.Before != nil:
		a.Reply = *fault.Before
	case !fault.keeps():
		x := &exchange{s: s, request: r, fault: fault, now: call.At, requestID: s.requestID()}
		body, p := x.run()
		call.Violation, call.Done = x.violation, p == nil
		if x.made != "" {
			call.InstanceID = x.made
		}
		a.requestID = x.requestID
		if p == nil {
			a.Reply = answerWith(http.StatusOK, x.requestID, body).Reply
		} else {
			a.Reply = refusal(x.requestID, r.host, p).Reply
		}
		if fault.After != nil {
			a.Reply = *fault.After
		}
	}
	s.record(&call, a)
	return call, a
}

// record records a call and its answer.
func (s *Server) record(call *Call, a answer) {
	call.Lost = a.lost || a.hang
	if !call.Lost {
		call.Status = a.Status
		if a.Status != http.StatusOK {
			call.Code, call.Message = a.problem()
		}
	}
	s.calls = append(s.calls, *call)
	s.counts[call.Action]++
}

// refusal returns the answer with a problem.
func refusal(requestID, host string, p *problem) answer {
	return answerWith(p.status, requestID, object{
		"HostId": host, "Code": p.code, "Message": p.message,
		"Recommend": "https://api.alibabacloud.com/troubleshoot?q=" + p.code + "&product=Ecs&requestId=" + requestID,
	})
}

// answerWith returns the answer with a body and the ID of the request.
func answerWith(status int, requestID string, body object) answer {
	body["RequestId"] = requestID
	return answer{Reply: Reply{Status: status, ContentType: jsonType, Body: string(encode(body))}, requestID: requestID}
}

// requestID returns a new ID of a request.
func (s *Server) requestID() string {
	high, low := s.random.Uint64(), s.random.Uint64()
	return fmt.Sprintf("%08X-%04X-4%03X-%04X-%012X", high>>32, high>>16&0xffff, high&0xfff, low>>48&0x3fff|0x8000, low&0xffffffffffff)
}
