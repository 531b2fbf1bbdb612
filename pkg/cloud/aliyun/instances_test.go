// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
	"github.com/glassback/glassback/pkg/must"
)

// createOf is a whole request.
func createOf(token string) CreateRequest {
	return CreateRequest{
		ClientToken: token, Name: "ins-0702", Type: "ecs.g6.large", ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", ChargeType: "PostPaid",
		ZoneID: "cn-beijing-h", VSwitchID: "vsw-1", SecurityGroupID: "sg-1", KeyPairName: "key", InternetMaxBandwidthOut: 5,
		SystemDisk: &Disk{Category: "cloud_essd", PerformanceLevel: "PL1", SizeGiB: 40},
		DataDisks:  []Disk{{Category: "cloud_essd", SizeGiB: 20, Encrypted: true, KeepOnRelease: true}, {SnapshotID: "s-1", SizeGiB: 30}},
		UserData:   []byte(userData), Tags: map[string]string{"b": "2", "a": "1", "c": "云 *~+/="},
	}
}

// simulated returns a region of a simulator that is spoken to with the key test:test.
func simulated(t testing.TB, server *ecssim.Server) *Region {
	t.Helper()
	cloud, err := New(Config{Transport: server.Transport(), UserAgent: "test"})
	must.Succeed(t, err)
	return cloud.Open(&AccessKey{ID: "test", Secret: "test"}, "cn-beijing")
}

// TestLife is the life of an instance, in a simulated region.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		server := ecssim.New(ecssim.Config{})
		region := simulated(t, server)
		must := func(err error) { t.Helper(); must.Succeed(t, err) }
		id, err := region.Create(ctx, createOf("token"))
		must(err)
		if again, err := region.Create(ctx, createOf("token")); again != id || err != nil {
			t.Errorf("the same again is %q (%v), want %q", again, err, id)
		}
		time.Sleep(time.Minute)
		must(region.SetType(ctx, id, "ecs.g6.xlarge"))
		for range 2 {
			must(region.AllocateAddress(ctx, id))
		}
		must(region.Start(ctx, id))
		time.Sleep(time.Minute)
		name := "ins-0703"
		must(region.Modify(ctx, id, Change{Name: &name, SecurityGroupIDs: []string{"sg-3", "sg-2"}}))
		must(region.Tag(ctx, id, map[string]string{"a": "3", "d": ""}))
		must(region.Untag(ctx, id, []string{"b", "none"}))
		described, err := region.Describe(ctx, []string{id, "i-0000000000000000000000"})
		if err != nil || len(described) != 1 {
			t.Fatalf("got %v and %v", described, err)
		}
		is := described[0]
		if len(is.PrivateIPs) != 1 || len(is.PublicIPs) != 1 || is.CreationTime.IsZero() {
			t.Errorf("got %+v", is)
		}
		want := Instance{
			ID: id, Name: name, State: StateRunning, Type: "ecs.g6.xlarge",
			ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", ChargeType: "PostPaid",
			ZoneID: "cn-beijing-h", VSwitchID: "vsw-1", KeyPairName: "key", SecurityGroupIDs: []string{"sg-2", "sg-3"},
			PrivateIPs: is.PrivateIPs, PublicIPs: is.PublicIPs, Bandwidth: 5,
			Tags: map[string]string{"a": "3", "c": "云 *~+/=", "d": ""}, CreationTime: is.CreationTime,
		}
		if !reflect.DeepEqual(is, want) {
			t.Errorf("got  %+v\nwant %+v", is, want)
		}
		found, err := region.Find(ctx, map[string]string{"a": "3", "c": "云 *~+/="})
		must(err)
		if len(found) != 1 || found[0].ID != id {
			t.Errorf("found %+v", found)
		}
		must(region.Stop(ctx, id))
		time.Sleep(time.Minute)
		must(region.Delete(ctx, id, false))
		time.Sleep(time.Minute)
		if found, err := region.Describe(ctx, []string{id}); len(found) != 0 || err != nil {
			t.Errorf("after the delete: %+v (%v)", found, err)
		}
		if err := region.Delete(ctx, id, true); ClassOf(err) != Gone {
			t.Errorf("deleted again: %v", err)
		}
		for _, call := range server.Calls() {
			if call.Violation != "" {
				t.Errorf("%s: %s", call.Action, call.Violation)
			}
		}
		if made := server.Instances(); len(made) != 1 {
			t.Errorf("made %+v", made)
		}
	})
}

// TestCreateParameters compares the exact parameters that are sent to ECS.
func TestCreateParameters(t *testing.T) {
	var sent []url.Values
	region := open(t, wire(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		for _, name := range []string{"AccessKeyId", "SecurityToken", "Signature", "SignatureNonce", "Timestamp"} {
			query.Del(name)
		}
		sent = append(sent, query)
		return reply(200, `{"RequestId":"R-1","InstanceId":"i-1"}`)
	}))
	prepaid := CreateRequest{ChargeType: "PrePaid", Period: 1, PeriodUnit: "Week"}
	for _, create := range []CreateRequest{createOf("token"), createOf("token"), prepaid} {
		if _, err := region.Create(t.Context(), create); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(sent[0], sent[1]) {
		t.Errorf("the same request has other parameters the second time:\n%v\n%v", sent[0], sent[1])
	}
	shared := map[string]string{
		"Action": "CreateInstance", "Version": "2014-05-26", "Format": "JSON", "RegionId": "cn-beijing", "SignatureMethod": "HMAC-SHA1",
		"SignatureVersion": "1.0", "SignatureType": "",
	}
	for i, want := range map[int]map[string]string{
		0: {
			"ClientToken": "token", "InstanceName": "ins-0702", "InstanceType": "ecs.g6.large",
			"ImageId": "centos_7_8_x64_20G_alibase_20200519.vhd", "InstanceChargeType": "PostPaid",
			"ZoneId": "cn-beijing-h", "VSwitchId": "vsw-1", "SecurityGroupId": "sg-1", "KeyPairName": "key", "InternetMaxBandwidthOut": "5",
			"SystemDisk.Category": "cloud_essd", "SystemDisk.PerformanceLevel": "PL1", "SystemDisk.Size": "40",
			"DataDisk.1.Category": "cloud_essd", "DataDisk.1.Size": "20", "DataDisk.1.Encrypted": "true", "DataDisk.1.DeleteWithInstance": "false",
			"DataDisk.2.SnapshotId": "s-1", "DataDisk.2.Size": "30",
			"UserData":  "IyEvYmluL3NoCmVjaG8gJ3A0c3N3MHJkIG9mIHRoZSArIGRhdGFiYXNlJyA+IC9ldGMvc2VjcmV0Cg==",
			"Tag.1.Key": "a", "Tag.1.Value": "1", "Tag.2.Key": "b", "Tag.2.Value": "2", "Tag.3.Key": "c", "Tag.3.Value": "云 *~+/=",
		},
		2: {"InstanceChargeType": "PrePaid", "Period": "1", "PeriodUnit": "Week"},
	} {
		maps.Copy(want, shared)
		got := map[string]string{}
		for name, values := range sent[i] {
			got[name] = values[0]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("sent %v\nwant %v", got, want)
		}
	}
}

// TestPages finds more instances than one page has.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := ecssim.New(ecssim.Config{})
		region := simulated(t, server)
		var want, got []string
		for range 250 {
			id, err := region.Create(t.Context(), CreateRequest{Type: "ecs.g6.large", ImageID: "image.vhd", Tags: map[string]string{"a": "1"}})
			must.Succeed(t, err)
			want = append(want, id)
		}
		found, err := region.Find(t.Context(), map[string]string{"a": "1"})
		must.Succeed(t, err)
		for _, instance := range found {
			got = append(got, instance.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("found %d, want %d", len(got), len(want))
		}
		pages := 0
		server.SetFault(func(ecssim.Call) ecssim.Fault {
			if pages++; pages == 3 {
				return ecssim.Fault{Before: ecssim.InternalError()}
			}
			return ecssim.Fault{}
		})
		if found, err := region.Find(t.Context(), map[string]string{"a": "1"}); found != nil || ClassOf(err) != Transient {
			t.Errorf("without the last page: %d (%v)", len(found), err)
		}
	})
}

// TestTooManyPages is about a list that has no end.
func TestTooManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := 0
		region := open(t, wire(func(*http.Request) (*http.Response, error) {
			page++
			return reply(200,
				fmt.Sprintf(`{"RequestId":"R-1","NextToken":"%d","Instances":{"Instance":[{"InstanceId":"i-%d"},{"InstanceId":"i-0"}]}}`, page, page))
		}))
		if found, err := region.Find(t.Context(), map[string]string{"a": "1"}); found != nil || ClassOf(err) != Transient || page != maxPages {
			t.Errorf("got %d after %d pages (%v)", len(found), page, err)
		}
	})
}

// TestInstance parses instances in the forms that ECS may return, from an answer with more than was asked for.
func TestInstance(t *testing.T) {
	region := open(t, says(200, `{"RequestId":"R-1","TotalCount":1,"PageSize":"10","Instances":{"Instance":[{
		"InstanceId":"i-1","Status":"Stopped","CreationTime":"2017-12-10T04:04Z","DeletionProtection":true,"KeyPairName":"k",
		"SecurityGroupIds":{"SecurityGroupId":["sg-2","sg-1"]},"Tags":{"Tag":[{"TagKey":"a","TagValue":""}]},
		"VpcAttributes":{"VSwitchId":"vsw-1","PrivateIpAddress":{"IpAddress":["10.0.0.1"]}},"InnerIpAddress":{"IpAddress":[]},
		"PublicIpAddress":{"IpAddress":["1.2.3.4"]},"EipAddress":{"IpAddress":"5.6.7.8"},
		"OperationLocks":{"LockReason":[{"LockReason":"financial"},{"LockReason":"security"}]},
		"New":{"Field":[1]}},{"InstanceId":"i-2"},{"InstanceId":"i-1"}]}}`))
	found, err := region.Describe(t.Context(), []string{"i-1"})
	want := []Instance{{
		ID: "i-1", State: StateStopped, VSwitchID: "vsw-1", KeyPairName: "k",
		SecurityGroupIDs: []string{"sg-1", "sg-2"}, PrivateIPs: []string{"10.0.0.1"},
		PublicIPs: []string{"1.2.3.4", "5.6.7.8"}, Tags: map[string]string{"a": ""},
		Locks: []string{"financial", "security"}, DeletionProtection: true, CreationTime: time.Date(2017, 12, 10, 4, 4, 0, 0, time.UTC),
	}}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("got  %+v (%v)\nwant %+v", found, err, want)
	}
}

// TestThrottled: only the same action of the same account in the same region waits, with whichever of its keys.
func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * time.Second) // of the first minute
		var calls int
		throttle := true
		cloud, err := New(Config{Transport: wire(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("Action") == "GetCallerIdentity" {
				return reply(200, `{"RequestId":"R-1","AccountId":"42"}`)
			}
			if calls++; throttle {
				return reply(403, refusal("Throttling.User", "Request was denied due to user flow control."))
			}
			return reply(200, fine)
		})})
		must.Succeed(t, err)
		region, otherKey := cloud.Open(&secret, "cn-beijing"), cloud.Open(&AccessKey{ID: "other", Secret: "x"}, "cn-beijing")
		for _, r := range []*Region{region, otherKey} {
			_, err := r.Account(t.Context())
			must.Succeed(t, err)
		}
		e := failure(t, region.Start(t.Context(), "i-1"))
		if e.Class != Throttled || e.Code != "Throttling.User" || e.RetryAfter < 40*time.Second || e.RetryAfter >= 40*time.Second+jitter {
			t.Errorf("got %#v", e)
		}
		throttle = false
		time.Sleep(30 * time.Second)
		before := calls
		again := failure(t, region.Start(t.Context(), "i-2"))
		if again.Class != Throttled || again.RetryAfter != e.RetryAfter-30*time.Second || again.Action != "StartInstance" || calls != before {
			t.Errorf("in the same minute: %#v (%d calls)", again, calls-before)
		}
		if err := otherKey.Start(t.Context(), "i-1"); ClassOf(err) != Throttled {
			t.Errorf("with another key of the account: %v", err)
		}
		for name, err := range map[string]error{
			"another action":  region.Stop(t.Context(), "i-1"),
			"another region":  cloud.Open(&secret, "cn-hangzhou").Start(t.Context(), "i-1"),
			"another account": cloud.Open(&AccessKey{ID: "x", Secret: "y"}, "cn-beijing").Start(t.Context(), "i-1"),
		} {
			if err != nil {
				t.Errorf("%s is held up: %v", name, err)
			}
		}
		time.Sleep(again.RetryAfter)
		if err := region.Start(t.Context(), "i-1"); err != nil {
			t.Errorf("in the next minute: %v", err)
		}
	})
}

// TestRate: of calls that change something, each waits a little. TestPollsComeBeforeLookups has the rate of the others.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		region := open(t, wire(func(*http.Request) (*http.Response, error) {
			calls++
			return reply(200, fine)
		}))
		for started := time.Now(); time.Since(started) < time.Minute; {
			must.Succeed(t, region.Start(t.Context(), "i-1"))
		}
		if calls < 139 || calls > 141 {
			t.Errorf("%d calls in a minute, want 140", calls)
		}
	})
}

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		region := open(t, says(200, fine))
		results := make(chan error, 100)
		for range cap(results) {
			go func() { results <- region.Start(t.Context(), "i-1") }()
		}
		synctest.Wait()
		time.Sleep(patience)
		passed := 0
		for range cap(results) {
			err := <-results
			if err == nil {
				passed++
				continue
			}
			if e := failure(t, err); e.Class != Throttled || e.RetryAfter <= patience || e.RetryAfter > 2*time.Second || e.Ambiguous() {
				t.Errorf("got %#v", e)
			}
		}
		if passed != changes.burst+2 { // and those whose turn came within a second
			t.Errorf("%d of 100 passed", passed)
		}
	})
}

// TestPollsComeBeforeLookups: any number of lookups by tag does not hold up polls, and lookups get the rest of the calls.
func TestPollsComeBeforeLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var polls, lookups atomic.Int32
		region := open(t, wire(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("Tag.1.Key") != "" {
				lookups.Add(1)
			} else {
				polls.Add(1)
			}
			return reply(200, `{"RequestId":"R-1","Instances":{"Instance":[{"InstanceId":"i-1"}]}}`)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var running sync.WaitGroup
		for range 10 {
			running.Go(func() {
				for ctx.Err() == nil {
					if _, err := region.Find(ctx, map[string]string{"a": "b"}); err != nil && ctx.Err() == nil {
						if e := failure(t, err); e.Class != Throttled || e.RetryAfter <= patience || e.RetryAfter > 2*time.Second {
							t.Errorf("a lookup: %#v", e)
						}
						time.Sleep(100 * time.Millisecond)
					}
				}
			})
		}
		for range 59 {
			time.Sleep(time.Second)
			began := time.Now()
			if _, err := region.Describe(ctx, []string{"i-1"}); err != nil || time.Since(began) > 0 {
				t.Errorf("after %s, a poll: %v", time.Since(began), err)
			}
		}
		cancel()
		running.Wait()
		if n := lookups.Load(); polls.Load() != 59 || n < 90 || n > 170-59 {
			t.Errorf("in a minute, %d polls and %d lookups", polls.Load(), n)
		}
	})
}

func TestBucketsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		paused := bucketKey{"a", "b", "paused"}
		l.pause(paused)
		for i := range 10 * maxBuckets {
			if fail := l.admit(t.Context(), bucketKey{account: fmt.Sprint(i)}, 0); fail != nil {
				t.Fatal(fail)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(l.buckets) > maxBuckets {
			t.Errorf("%d buckets", len(l.buckets))
		}
		l.pause(paused)
		if fail := l.admit(t.Context(), paused, 0); fail == nil {
			t.Error("a pause was forgotten")
		}
	})
}
