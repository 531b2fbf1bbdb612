// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
)

func TestRepliesThatAreNoAnswers(t *testing.T) {
	const isJSON = "application/json;charset=utf-8"
	for name, test := range map[string]struct {
		reply       *ecssim.Reply
		want        string
		contentType string
	}{
		"throttled":             {ecssim.Throttled400(), "400 Throttling.User", isJSON},
		"throttled as by HTTP":  {ecssim.Throttled429(), "429 Throttling", isJSON},
		"an internal error":     {ecssim.InternalError(), "500 InternalError", isJSON},
		"an error":              {ecssim.Error(409, "OperationConflict", "no"), "409 OperationConflict", isJSON},
		"a gateway's HTML":      {ecssim.BadGateway(), "502", "text/html"},
		"nothing at all":        {ecssim.EmptyOK(), "200", isJSON},
		"a code that is no one": {ecssim.NumericCode(), "400", isJSON},
	} {
		for when, fault := range map[string]ecssim.Fault{"before": {Before: test.reply}, "after": {After: test.reply}} {
			t.Run(name+" "+when, func(t *testing.T) {
				c, done := newCloud(t, ecssim.Config{}), when == "after"
				c.SetFault(func(ecssim.Call) ecssim.Fault { return fault })
				r := c.call("CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x")
				if r.ended() != test.want || r.raw != test.reply.Body ||
					r.header.Get("Content-Type") != test.contentType || r.length != int64(len(r.raw)) {
					t.Errorf("answered %s, %v %q", r.ended(), r.header, r.raw)
				}
				call := c.Calls()[0]
				if call.Done != done || call.Status != r.status || call.Code != r.code || call.Lost || (call.InstanceID != "") != done {
					t.Errorf("the call is said to be %+v", call)
				}
				if (len(c.Instances()) == 1) != done {
					t.Errorf("made %v", c.Instances())
				}
			})
		}
	}
}

func TestBrokenConnections(t *testing.T) {
	for done, fault := range map[bool]ecssim.Fault{false: {LoseRequest: true}, true: {LoseAnswer: true}} {
		c := newCloud(t, ecssim.Config{})
		c.SetFault(func(ecssim.Call) ecssim.Fault { return fault })
		with := []string{"InstanceType", "ecs.g6.large", "ImageId", "x"}
		if r := c.call("CreateInstance", with...); !errors.Is(r.err, syscall.ECONNRESET) {
			t.Errorf("in process: %+v", r)
		}
		server := httptest.NewServer(c.Server)
		request, _ := http.NewRequest(http.MethodPost, server.URL+"/?"+c.client.sign(c.now, "CreateInstance", with...).Encode(), nil)
		if r := trip(http.DefaultTransport, request); !errors.Is(r.err, io.EOF) {
			t.Errorf("over the network: %+v", r)
		}
		server.Close()
		if made := len(c.Instances()); made != map[bool]int{true: 2}[done] {
			t.Errorf("made %d", made)
		}
		for _, call := range c.Calls() {
			if call.Done != done || !call.Lost || call.Status != 0 {
				t.Errorf("the call is said to be %+v", call)
			}
		}
	}
}

func TestNoAnswerUntilTheClientGivesUp(t *testing.T) {
	for made, fault := range []ecssim.Fault{{Hang: true}, {Hang: true, LoseAnswer: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := ecssim.New(ecssim.Config{})
			s.SetFault(func(ecssim.Call) ecssim.Fault { return fault })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			values := client{id: "test", secret: "test"}.sign(time.Now(), "CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x")
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://ecs.test/?"+values.Encode(), nil)
			start := time.Now()
			err := trip(s.Transport(), request).err
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second || len(s.Instances()) != made {
				t.Errorf("%v after %v, and made %v", err, time.Since(start), s.Instances())
			}
		})
	}
}

func TestInstancesThatAreNotSeenAtFirst(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	c.SetFault(func(ecssim.Call) ecssim.Fault { return ecssim.Fault{Invisible: 30 * time.Second} })
	id := c.create("Tag.1.Key", "k")
	c.SetFault(nil)
	seen := func() (seen int) {
		for _, r := range []result{
			c.call("DescribeInstances", "InstanceIds", `["`+id+`"]`), c.call("DescribeInstances", "Tag.1.Key", "k"), c.call("DescribeInstances"),
		} {
			want(t, r, 200, "")
			seen += len(r.described())
		}
		return seen
	}
	c.pass(30*time.Second - 1)
	if n := seen(); n != 0 {
		t.Errorf("%d of 3 see it too early", n)
	}
	want(t, c.call("StartInstance", "InstanceId", id, "DryRun", "true"), 400, "DryRunOperation") // Calls that name its ID find it.
	c.pass(1)
	if n := seen(); n != 3 {
		t.Errorf("%d of 3 see it", n)
	}
}

func TestInstancesThatComeToNothing(t *testing.T) {
	for image, fault := range map[string]ecssim.Fault{"x": {Vanish: 10 * time.Minute}, "vanishing": {}} {
		c := newCloud(t, ecssim.Config{})
		c.SetFault(func(ecssim.Call) ecssim.Fault { return fault })
		id := c.create("ImageId", image)
		c.pass(10*time.Minute - 1)
		if got := c.state(id); got != pending {
			t.Errorf("%s is %q", image, got)
		}
		want(t, c.call("DeleteInstance", "InstanceId", id), 403, "IncorrectInstanceStatus.Initializing")
		c.pass(1)
		if got := c.state(id); got != "" || c.instance(id).Released.IsZero() {
			t.Errorf("%s is %q", image, got)
		}
		want(t, c.call("DeleteInstance", "InstanceId", id), 404, "InvalidInstanceId.NotFound")
	}
}

func TestOnCallAndForget(t *testing.T) {
	var called []ecssim.Call
	var s *ecssim.Server
	now := time.Now()
	s = ecssim.New(ecssim.Config{Now: func() time.Time { return now }, OnCall: func(call ecssim.Call) {
		called = append(called, call)
		if n := s.Count(call.Action); n != 1 {
			t.Errorf("%d calls of %s", n, call.Action)
		}
		s.Forget()
	}})
	for range 2 {
		values := client{id: "test", secret: "test"}.sign(now, "DescribeRegions", "UserData", "")
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(values.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		s.ServeHTTP(httptest.NewRecorder(), request)
	}
	if len(called) != 2 || len(s.Calls()) != 0 || s.Count("DescribeRegions") != 0 || called[0].At != now || called[0].Status != 200 {
		t.Errorf("called of %+v", called)
	}
	if called[0].Params.Get("Action") != "DescribeRegions" || called[0].Params.Has("Signature") || called[0].Params.Has("AccessKeyId") {
		t.Errorf("kept %v", called[0].Params)
	}
}
