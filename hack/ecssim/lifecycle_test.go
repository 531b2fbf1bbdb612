// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"regexp"
	"slices"
	"testing"
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
	const wrong = "IncorrectInstanceStatus"
	for name, tc := range map[string]struct {
		action string
		with   []string
		state  string
		change string
		status int
		code   string
		then   string
	}{
		"a stopped instance starts":     {action: "StartInstance", state: stopped, status: 200, then: starting},
		"a pending one does not start":  {action: "StartInstance", state: pending, status: 403, code: wrong, then: pending},
		"a starting one does not start": {action: "StartInstance", state: starting, status: 403, code: wrong, then: starting},
		"a running one does not start":  {action: "StartInstance", state: running, status: 403, code: wrong, then: running},
		"a stopping one does not start": {action: "StartInstance", state: stopping, status: 403, code: wrong, then: stopping},
		"a released one does not start": {
			action: "StartInstance", state: stopped, change: "released", status: 404, code: "InvalidInstanceId.NotFound",
		},
		"one locked for security does not": {
			action: "StartInstance", state: stopped, change: "security", status: 403, code: "InstanceLockedForSecurity", then: stopped,
		},
		"one in arrears does not start": {
			action: "StartInstance", state: stopped, change: "financial", status: 403, code: "InstanceExpiredOrInArrears", then: stopped,
		},
		"a dry start starts nothing": {
			action: "StartInstance", with: []string{"DryRun", "true"}, state: stopped, status: 400, code: "DryRunOperation", then: stopped,
		},
		"a running instance stops": {
			action: "StopInstance", with: []string{"ForceStop", "true", "StoppedMode", "StopCharging"}, state: running, status: 200, then: stopping,
		},
		"a stopped one does not stop":  {action: "StopInstance", state: stopped, status: 403, code: wrong, then: stopped},
		"a pending one does not stop":  {action: "StopInstance", state: pending, status: 403, code: wrong, then: pending},
		"a starting one does not stop": {action: "StopInstance", state: starting, status: 403, code: wrong, then: starting},
		"no such mode of being stopped": {
			action: "StopInstance", with: []string{"StoppedMode", "No"}, state: running, status: 400, code: "InvalidParameter", then: running,
		},
		"a stopped instance is deleted": {action: "DeleteInstance", state: stopped, status: 200, then: stopped},
		"a running one is not deleted":  {action: "DeleteInstance", state: running, status: 403, code: wrong, then: running},
		"a running one is deleted by force": {
			action: "DeleteInstance", with: []string{"Force", "true"}, state: running, status: 200, then: stopping,
		},
		"a starting one is not, even by force": {
			action: "DeleteInstance", with: []string{"Force", "true"}, state: starting, status: 403, code: wrong, then: starting,
		},
		"a pending one is initializing": {
			action: "DeleteInstance", with: []string{"Force", "true"}, state: pending, status: 403, code: wrong + ".Initializing", then: pending,
		},
		"a protected one is not deleted": {
			action: "DeleteInstance", state: stopped, change: "protected", status: 403, code: "InvalidOperation.DeletionProtection", then: stopped,
		},
		"one that is paid for is not deleted": {
			action: "DeleteInstance", state: stopped, change: "prepaid", status: 403, code: "ChargeTypeViolation", then: stopped,
		},
		"one that was paid for is deleted": {action: "DeleteInstance", state: stopped, change: "expired", status: 200, then: stopped},
		"a locked one is not deleted": {
			action: "DeleteInstance", state: stopped, change: "security", status: 403, code: "InstanceLockedForSecurity", then: stopped,
		},
		"a released one is not found": {
			action: "DeleteInstance", state: stopped, change: "released", status: 404, code: "InvalidInstanceId.NotFound",
		},
		"a dry delete deletes nothing": {
			action: "DeleteInstance", with: []string{"DryRun", "true"}, state: stopped, status: 400, code: "DryRunOperation", then: stopped,
		},
		"a stopped one gets another type": {
			action: "ModifyInstanceSpec", with: []string{"InstanceType", "ecs.g7.large"}, state: stopped, status: 200, then: stopped,
		},
		"a running one keeps its type": {
			action: "ModifyInstanceSpec", with: []string{"InstanceType", "ecs.g7.large"}, state: running, status: 403, code: wrong, then: running,
		},
		"one that is paid for keeps its type": {
			action: "ModifyInstanceSpec", with: []string{"InstanceType", "ecs.g7.large"}, state: stopped, change: "prepaid", status: 403,
			code: "ChargeTypeViolation", then: stopped,
		},
		"to no such type": {
			action: "ModifyInstanceSpec", with: []string{"InstanceType", "ecs.missing"}, state: stopped, status: 403,
			code: "InvalidInstanceType.ValueNotSupported", then: stopped,
		},
		"groups of a starting one stay": {
			action: "ModifyInstanceAttribute", with: []string{"SecurityGroupIds.1", "sg-1"}, state: starting, status: 403, code: wrong,
			then: starting,
		},
		"a pending one gets a name": {
			action: "ModifyInstanceAttribute", with: []string{"InstanceName", "web"}, state: pending, status: 200, then: pending,
		},
		"user data of a running one stays": {
			action: "ModifyInstanceAttribute", with: []string{"UserData", "aGk="}, state: running, status: 403, code: wrong, then: running,
		},
		"groups of a running one are five at most": {
			action: "ModifyInstanceAttribute", with: []string{
				"SecurityGroupIds.1", "sg-1", "SecurityGroupIds.2", "sg-2", "SecurityGroupIds.3", "sg-3",
				"SecurityGroupIds.4", "sg-4", "SecurityGroupIds.5", "sg-5", "SecurityGroupIds.6", "sg-6",
			},
			state: running, status: 403, code: "InstanceSecurityGroupLimitExceeded", then: running,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			id := c.inState(tc.state, change[tc.change])
			want(t, c.call(tc.action, append([]string{"InstanceId", id}, tc.with...)...), tc.status, tc.code)
			if got := c.state(id); got != tc.then {
				t.Errorf("then it is %q, want %q", got, tc.then)
			}
			calls := c.Calls()
			if before := calls[1].State; tc.change != "released" && before != tc.state {
				t.Errorf("the state before is said to be %q, not %q", before, tc.state)
			}
			if calls[1].Done != (tc.status == 200) || calls[1].Code != tc.code {
				t.Errorf("the call is said to be %+v", calls[1])
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
	if i.PublicIP == "" || i.PrivateIP == "" || i.PrivateIP == o.PrivateIP {
		t.Errorf("addresses %s, %s and %s", i.PublicIP, i.PrivateIP, o.PrivateIP)
	}
}

func TestUpdateInTheConsole(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	id := c.create("ClientToken", "one")
	c.Update(id, func(i *ecssim.Instance) {
		i.ID, i.AccountID, i.Token, i.Tags, i.State, i.Name = "i-other", "9", "two", nil, stopping, "renamed"
	})
	if i := c.instance(id); i.Token != "one" || i.AccountID != "1234567890123456" || i.State != stopping || i.Name != "renamed" {
		t.Errorf("edited to %+v", i)
	}
	want(t, c.call("TagResources", "ResourceType", "instance", "ResourceId.1", id, "Tag.1.Key", "a", "Tag.1.Value", "b"), 200, "")
	c.pass(8 * time.Second)
	if got := c.state(id); got != stopped {
		t.Errorf("it is %s", got)
	}
	c.Update(id, func(i *ecssim.Instance) { i.Released = time.Unix(1, 0) })
	if i := c.instance(id); c.state(id) != "" || !i.Released.Equal(c.now) {
		t.Errorf("it was released at %v", i.Released)
	}
	c.Update(id, func(i *ecssim.Instance) { i.Released, i.State = time.Time{}, running })
	if c.state(id) != "" {
		t.Error("an instance came back")
	}
	defer func() {
		if recover() == nil {
			t.Error("an update of nothing went through")
		}
	}()
	c.Update("i-none", func(*ecssim.Instance) {})
}

func TestGroupsAndAttributesChange(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	id := c.inState(stopped, nil)
	want(t, c.call("ModifyInstanceAttribute", "InstanceId", id, "SecurityGroupIds.1", "sg-b", "SecurityGroupIds.2", "sg-a",
		"InstanceName", "web", "DeletionProtection", "true", "UserData", "aGk="), 200, "")
	want(t, c.call("ModifyInstanceSpec", "InstanceId", id, "InstanceType", "ecs.g7.large", "InternetMaxBandwidthOut", "1"), 200, "")
	want(t, c.call("ModifyInstanceSpec", "InstanceId", id), 400, "MissingParameter")
	want(t, c.call("ModifyInstanceAttribute", "InstanceId", id, "SecurityGroupIds.1", "sg-missing"), 404, "InvalidSecurityGroupId.NotFound")
	want(t, c.call("ModifyInstanceAttribute", "InstanceId", id, "InstanceName", "x"), 400, "InvalidInstanceName.Malformed")
	i := c.instance(id)
	if !slices.Equal(i.SecurityGroupIDs, []string{"sg-a", "sg-b"}) || i.Name != "web" || !i.DeletionProtection || i.UserData != "aGk=" ||
		i.Type != "ecs.g7.large" {
		t.Errorf("it is %+v", i)
	}
	want(t, c.call("ModifyInstanceAttribute", "InstanceId", id, "DeletionProtection", "false"), 200, "")
	if c.instance(id).DeletionProtection {
		t.Error("it is still protected")
	}
}
