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
	for name, tc := range map[string]struct {
		reply       *ecssim.Reply
		status      int
		code        string
		contentType string
	}{
		"throttled": {
			reply: ecssim.Throttled400(), status: 400, code: "Throttling.User", contentType: "application/json;charset=utf-8",
		},
		"throttled as by HTTP": {reply: ecssim.Throttled429(), status: 429, code: "Throttling", contentType: "application/json;charset=utf-8"},
		"an internal error": {
			reply: ecssim.InternalError(), status: 500, code: "InternalError", contentType: "application/json;charset=utf-8",
		},
		"an error": {
			reply:       ecssim.Error(409, "OperationConflict", "no"),
			status:      409,
			code:        "OperationConflict",
			contentType: "application/json;charset=utf-8",
		},
		"a gateway's HTML":      {reply: ecssim.BadGateway(), status: 502, contentType: "text/html"},
		"nothing at all":        {reply: ecssim.EmptyOK(), status: 200, contentType: "application/json;charset=utf-8"},
		"a code that is no one": {reply: ecssim.NumericCode(), status: 400, contentType: "application/json;charset=utf-8"},
	} {
		for when, fault := range map[string]ecssim.Fault{"before": {Before: tc.reply}, "after": {After: tc.reply}} {
			t.Run(name+" "+when, func(t *testing.T) {
				c := newCloud(t, ecssim.Config{})
				var asked ecssim.Call
				c.SetFault(func(call ecssim.Call) ecssim.Fault {
					asked = call
					return fault
				})
				request, _ := http.NewRequest(http.MethodPost,
					"http://ecs.test/?"+c.client.sign(c.now, "CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x").Encode(), nil)
				r := trip(c.Transport(), request)
				want(t, r, tc.status, tc.code)
				if r.raw != tc.reply.Body || r.header.Get("Content-Type") != tc.contentType || r.length != int64(len(r.raw)) {
					t.Errorf("answered %v %q", r.header, r.raw)
				}
				if asked.Action != "CreateInstance" || asked.Code != "" || asked.Status != 0 {
					t.Errorf("it was asked of %+v", asked)
				}
				done := when == "after"
				if call := c.Calls()[0]; call.Done != done || call.Status != tc.status || call.Code != tc.code || call.Lost ||
					(call.InstanceID != "") != done {
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
	for name, tc := range map[string]struct {
		fault ecssim.Fault
		done  bool
	}{
		"before the request came": {fault: ecssim.Fault{LoseRequest: true}},
		"before the answer came":  {fault: ecssim.Fault{LoseAnswer: true}, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			c.SetFault(func(ecssim.Call) ecssim.Fault { return tc.fault })
			with := []string{"InstanceType", "ecs.g6.large", "ImageId", "x"}
			if r := c.call("CreateInstance", with...); !errors.Is(r.err, syscall.ECONNRESET) {
				t.Errorf("in process: %+v", r)
			}
			server := httptest.NewServer(c.Server)
			defer server.Close()
			request, _ := http.NewRequest(http.MethodPost, server.URL+"/?"+c.client.sign(c.now, "CreateInstance", with...).Encode(), nil)
			if r := trip(http.DefaultTransport, request); !errors.Is(r.err, io.EOF) {
				t.Errorf("over the network: %+v", r)
			}
			made := 0
			if tc.done {
				made = 2
			}
			if got := len(c.Instances()); got != made {
				t.Errorf("made %d", got)
			}
			for _, call := range c.Calls() {
				if call.Done != tc.done || !call.Lost || call.Status != 0 {
					t.Errorf("the call is said to be %+v", call)
				}
			}
		})
	}
}

func TestNoAnswerUntilTheClientGivesUp(t *testing.T) {
	for name, fault := range map[string]ecssim.Fault{"not carried out": {Hang: true}, "carried out": {Hang: true, LoseAnswer: true}} {
		made := 0
		if fault.LoseAnswer {
			made = 1
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := ecssim.New(ecssim.Config{})
				s.SetFault(func(ecssim.Call) ecssim.Fault { return fault })
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				values := client{id: "test", secret: "test"}.sign(time.Now(), "CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x")
				request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://ecs.test/?"+values.Encode(), nil)
				start := time.Now()
				err := trip(s.Transport(), request).err
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				if len(s.Instances()) != made {
					t.Errorf("made %v", s.Instances())
				}
			})
		})
		t.Run(name+", over the network", func(t *testing.T) {
			s := ecssim.New(ecssim.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			s.SetFault(func(ecssim.Call) ecssim.Fault {
				cancel()
				return fault
			})
			server := httptest.NewServer(s)
			defer server.Close()
			values := client{id: "test", secret: "test"}.sign(time.Now(), "CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x")
			request, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/?"+values.Encode(), nil)
			if err := trip(http.DefaultTransport, request).err; !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestAClientThatGaveUpBeforeCallsNothing(t *testing.T) {
	s := ecssim.New(ecssim.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://ecs.test/?Action=DescribeRegions", nil)
	if err := trip(s.Transport(), request).err; !errors.Is(err, context.Canceled) || s.Count("DescribeRegions") != 0 {
		t.Errorf("ended with %v after %d calls", err, s.Count("DescribeRegions"))
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
	for name, tc := range map[string]struct {
		fault ecssim.Fault
		image string
	}{
		"by a fault": {fault: ecssim.Fault{Vanish: 10 * time.Minute}, image: "x"},
		"by a name":  {image: "vanishing"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			c.SetFault(func(ecssim.Call) ecssim.Fault { return tc.fault })
			id := c.create("ImageId", tc.image)
			c.pass(10*time.Minute - 1)
			if got := c.state(id); got != pending {
				t.Errorf("it is %q", got)
			}
			want(t, c.call("DeleteInstance", "InstanceId", id), 403, "IncorrectInstanceStatus.Initializing")
			c.pass(1)
			if got := c.state(id); got != "" || c.instance(id).Released.IsZero() {
				t.Errorf("it is %q", got)
			}
			want(t, c.call("DeleteInstance", "InstanceId", id), 404, "InvalidInstanceId.NotFound")
		})
	}
}

func TestAPoisonedTokenMakesNothing(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	c.SetFault(func(ecssim.Call) ecssim.Fault { return ecssim.Fault{PoisonToken: true} })
	want(t, c.call("CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x", "ClientToken", "t"), 500, "InternalError")
	if len(c.Instances()) != 0 || c.Calls()[0].Done {
		t.Errorf("made %v", c.Instances())
	}
}

func TestAClockThatIsOff(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	for skew, code := range map[time.Duration]string{
		15 * time.Minute: "", -15 * time.Minute: "", 16 * time.Minute: "InvalidTimeStamp.Expired", -16 * time.Minute: "InvalidTimeStamp.Expired",
	} {
		c.SetFault(func(ecssim.Call) ecssim.Fault { return ecssim.Fault{Skew: skew} })
		if r := c.call("DescribeRegions"); r.code != code {
			t.Errorf("%v: %s", skew, r.raw)
		}
	}
}

func TestAFaultIsAskedForEveryCallAndMayLookAtTheServer(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	id := c.inState(running, nil)
	c.SetFault(func(call ecssim.Call) ecssim.Fault {
		if call.State != running || call.InstanceID != id || call.AccountID != "1234567890123456" || call.RegionID != "cn-hangzhou" {
			t.Errorf("it was asked of %+v", call)
		}
		if len(c.Instances()) != 1 || c.Count("StopInstance") != 0 {
			t.Error("the call has been carried out")
		}
		c.Update(id, func(i *ecssim.Instance) { i.Name = "seen" })
		return ecssim.Fault{}
	})
	want(t, c.call("StopInstance", "InstanceId", id), 200, "")
	if c.instance(id).Name != "seen" {
		t.Error("it was not asked")
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
