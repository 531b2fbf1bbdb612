// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
)

const (
	pending  = "Pending"
	starting = "Starting"
	running  = "Running"
	stopping = "Stopping"
	stopped  = "Stopped"
)

func TestWhatIsRefusedInWhichState(t *testing.T) {
	change := map[string]func(*ecssim.Instance){
		"protected": func(i *ecssim.Instance) { i.DeletionProtection = true },
		"prepaid":   func(i *ecssim.Instance) { i.ChargeType, i.Expires = "PrePaid", i.Created.AddDate(0, 1, 0) },
		"expired":   func(i *ecssim.Instance) { i.ChargeType, i.Expires = "PrePaid", i.Created },
		"security":  func(i *ecssim.Instance) { i.Locks = []string{"security"} },
		"financial": func(i *ecssim.Instance) { i.Locks = []string{"financial"} },
		"released":  func(i *ecssim.Instance) { i.Released = i.Created },
	}
	const wrong, noType = "403 IncorrectInstanceStatus", "403 InvalidInstanceType.ValueNotSupported"
	groups := ""
	for n := range 6 {
		groups += fmt.Sprintf("&SecurityGroupIds.%d=sg-%d", n+1, n)
	}
	for name, test := range map[string]struct{ action, with, state, change, want, then string }{
		"a stopped instance starts":            {"StartInstance", "", stopped, "", "200", starting},
		"a running one does not start":         {"StartInstance", "", running, "", wrong, running},
		"a stopping one does not start":        {"StartInstance", "", stopping, "", wrong, stopping},
		"a released one does not start":        {"StartInstance", "", stopped, "released", "404 InvalidInstanceId.NotFound", ""},
		"one locked for security does not":     {"StartInstance", "", stopped, "security", "403 InstanceLockedForSecurity", stopped},
		"a dry start starts nothing":           {"StartInstance", "DryRun=true", stopped, "", "400 DryRunOperation", stopped},
		"a running instance stops":             {"StopInstance", "ForceStop=true&StoppedMode=StopCharging", running, "", "200", stopping},
		"a stopped one does not stop":          {"StopInstance", "", stopped, "", wrong, stopped},
		"a starting one does not stop":         {"StopInstance", "", starting, "", wrong, starting},
		"no such mode of being stopped":        {"StopInstance", "StoppedMode=No", running, "", "400 InvalidParameter", running},
		"a stopped instance is deleted":        {"DeleteInstance", "", stopped, "", "200", stopped},
		"a running one is not deleted":         {"DeleteInstance", "", running, "", wrong, running},
		"a running one is deleted by force":    {"DeleteInstance", "Force=true", running, "", "200", stopping},
		"a starting one is not, even by force": {"DeleteInstance", "Force=true", starting, "", wrong, starting},
		"a pending one is initializing":        {"DeleteInstance", "Force=true", pending, "", wrong + ".Initializing", pending},
		"a protected one is not deleted": {
			"DeleteInstance", "", stopped, "protected", "403 InvalidOperation.DeletionProtection", stopped,
		},
		"one that is paid for is not deleted": {"DeleteInstance", "", stopped, "prepaid", "403 ChargeTypeViolation", stopped},
		"one that was paid for is deleted":    {"DeleteInstance", "", stopped, "expired", "200", stopped},
		"a released one is not found":         {"DeleteInstance", "", stopped, "released", "404 InvalidInstanceId.NotFound", ""},
		"a dry delete deletes nothing":        {"DeleteInstance", "DryRun=true", stopped, "", "400 DryRunOperation", stopped},
		"a stopped one gets another type":     {"ModifyInstanceSpec", "InstanceType=ecs.g7.large", stopped, "", "200", stopped},
		"a running one keeps its type":        {"ModifyInstanceSpec", "InstanceType=ecs.g7.large", running, "", wrong, running},
		"one that is paid for keeps its type": {
			"ModifyInstanceSpec", "InstanceType=ecs.g7.large", stopped, "prepaid", "403 ChargeTypeViolation", stopped,
		},
		"to no such type":               {"ModifyInstanceSpec", "InstanceType=ecs.missing", stopped, "", noType, stopped},
		"groups of a starting one stay": {"ModifyInstanceAttribute", "SecurityGroupIds.1=sg-1", starting, "", wrong, starting},
		"groups that there are not": {"ModifyInstanceAttribute", "SecurityGroupIds.1=sg-missing", stopped, "",
			"404 InvalidSecurityGroupId.NotFound", stopped},
		"a name that is none": {"ModifyInstanceAttribute", "InstanceName=x", stopped, "",
			"400 InvalidInstanceName.Malformed", stopped},
		"a pending one gets a name":        {"ModifyInstanceAttribute", "InstanceName=web", pending, "", "200", pending},
		"user data of a running one stays": {"ModifyInstanceAttribute", "UserData=aGk=", running, "", wrong, running},
		"groups of a running one are five at most": {
			"ModifyInstanceAttribute", groups, running, "", "403 InstanceSecurityGroupLimitExceeded", running,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			id := c.inState(test.state, change[test.change])
			r := c.call(test.action, append([]string{"InstanceId", id}, pairs(test.with)...)...)
			if then := c.state(id); r.ended() != test.want || then != test.then {
				t.Errorf("got %s, and then it is %q", r.ended(), then)
			}
			call := c.Calls()[1]
			if test.change != "released" && call.State != test.state || call.Done != (r.status == 200) || call.Code != r.code {
				t.Errorf("the call is said to be %+v", call)
			}
		})
	}
}

func TestTimePassesAtEverySpeed(t *testing.T) {
	for name, speed := range map[string]float64{"as in ECS": 0, "ten times as fast": 10} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{Speed: speed})
			id := c.create()
			passes := func(seconds float64, from, to string) {
				d := time.Duration(seconds / max(speed, 1) * float64(time.Second))
				t.Helper()
				c.pass(d - 1)
				if got := c.state(id); got != from {
					t.Fatalf("just before %v it is %q, want %q", d, got, from)
				}
				c.pass(1)
				if got := c.state(id); got != to {
					t.Fatalf("after %v it is %q, want %q", d, got, to)
				}
			}
			passes(10, pending, stopped)
			want(t, c.call("StartInstance", "InstanceId", id), 200, "")
			passes(10, starting, running)
			want(t, c.call("StopInstance", "InstanceId", id), 200, "")
			passes(8, stopping, stopped)
			want(t, c.call("DeleteInstance", "InstanceId", id), 200, "")
			want(t, c.call("StartInstance", "InstanceId", id), 403, "IncorrectInstanceStatus") // It is being released.
			passes(3, stopped, "")
			want(t, c.call("DeleteInstance", "InstanceId", id), 404, "InvalidInstanceId.NotFound")
			if i := c.instance(id); !i.Released.Equal(c.now) {
				t.Errorf("released at %v, want %v", i.Released, c.now)
			}
		})
	}
}

func TestAnInstanceIsWhatWasAskedFor(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	id := c.create("InstanceName", "web", "ZoneId", "cn-hangzhou-h", "VSwitchId", "vsw-1", "SecurityGroupId", "sg-1", "KeyPairName", "mine",
		"InternetMaxBandwidthOut", "5", "Tag.1.Key", "owner", "Tag.1.Value", "me", "UserData", "aGk=", "DeletionProtection", "true",
		"InstanceChargeType", "PrePaid", "Period", "2", "PeriodUnit", "Week", "DataDisk.1.Category", "cloud_essd", "DataDisk.1.Size", "40",
		"DataDisk.1.DeleteWithInstance", "false", "SystemDisk.Category", "cloud_essd", "SystemDisk.PerformanceLevel", "PL1",
		"SystemDisk.Size", "40")
	other := c.create()
	if !regexp.MustCompile(`^i-[a-z0-9]{22}$`).MatchString(id) {
		t.Errorf("the ID is %s", id)
	}
	got := c.call("DescribeInstances", "InstanceIds", `["`+id+`"]`).described()[0]
	for name, value := range map[string]any{
		"InstanceName": "web", "ZoneId": "cn-hangzhou-h", "KeyPairName": "mine", "InstanceChargeType": "PrePaid", "InstanceType": "ecs.g6.large",
		"InstanceTypeFamily": "ecs.g6", "ImageId": "ubuntu", "CreationTime": "2026-03-01T12:30Z", "ExpiredTime": "2026-03-15T12:30Z",
		"DeletionProtection": true, "RegionId": "cn-hangzhou", "InstanceNetworkType": "vpc",
	} {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
	i, o := c.instance(id), c.instance(other)
	if i.UserData != "aGk=" || i.Tags["owner"] != "me" || i.VSwitchID != "vsw-1" || !slices.Equal(i.SecurityGroupIDs, []string{"sg-1"}) {
		t.Errorf("made %+v", i)
	}
	if o.ZoneID != "cn-hangzhou-a" || o.Name != other || o.ChargeType != "PostPaid" || o.VSwitchID == "" || o.PublicIP != "" ||
		!slices.Equal(o.SecurityGroupIDs, []string{"sg-default-cn-hangzhou"}) {
		t.Errorf("without anything said of it: %+v", o)
	}
	want(t, c.call("AllocatePublicIpAddress", "InstanceId", id), 403, "IncorrectInstanceStatus") // It is pending.
	c.pass(time.Minute)
	want(t, c.call("AllocatePublicIpAddress", "InstanceId", other), 403, "IncorrectInstanceStatus") // It has no bandwidth.
	want(t, c.call("AllocatePublicIpAddress", "InstanceId", id), 200, "")
	want(t, c.call("AllocatePublicIpAddress", "InstanceId", id), 403, "AllocatedAlready")
	if i.PublicIP != "" {
		t.Errorf("a new instance has the public IP %s", i.PublicIP)
	}
	if i = c.instance(id); i.PublicIP == "" || i.PrivateIP == "" || i.PrivateIP == o.PrivateIP {
		t.Errorf("addresses %s, %s and %s", i.PublicIP, i.PrivateIP, o.PrivateIP)
	}
}

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
