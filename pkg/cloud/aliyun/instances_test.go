// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sync"
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

// one returns the only instance there is.
func one(ctx context.Context, t testing.TB, r *Region, id string) Instance {
	t.Helper()
	found, err := r.Describe(ctx, []string{id, "i-0000000000000000000000"})
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v and %v", found, err)
	}
	return found[0]
}

// TestLife is the life of an instance, in a simulated region.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		server := ecssim.New(ecssim.Config{})
		region := simulated(t, server)
		must := func(err error) {
			t.Helper()
			must.Succeed(t, err)
		}
		account, err := region.Account(ctx)
		must(err)
		if account != "1234567890123456" {
			t.Errorf("the account is %q", account)
		}
		id, err := region.Create(ctx, createOf("token"))
		must(err)
		if again, err := region.Create(ctx, createOf("token")); again != id || err != nil {
			t.Errorf("the same again is %q (%v), want %q", again, err, id)
		}
		if err := region.Start(ctx, id); ClassOf(err) != WaitForState {
			t.Errorf("started while Pending: %v", err)
		}
		if is := one(ctx, t, region, id); is.State != StatePending {
			t.Errorf("got %+v", is)
		}
		time.Sleep(time.Minute)
		must(region.SetType(ctx, id, "ecs.g6.xlarge"))
		must(region.Start(ctx, id))
		time.Sleep(time.Minute)
		name := "ins-0703"
		must(region.Modify(ctx, id, Change{Name: &name, SecurityGroupIDs: []string{"sg-3", "sg-2"}}))
		must(region.Tag(ctx, id, map[string]string{"a": "3", "d": ""}))
		must(region.Untag(ctx, id, []string{"b", "none"}))
		is := one(ctx, t, region, id)
		if len(is.PrivateIPs) != 1 || len(is.PublicIPs) != 1 || is.CreationTime.IsZero() {
			t.Errorf("got %+v", is)
		}
		want := Instance{
			ID: id, Name: name, State: StateRunning, Type: "ecs.g6.xlarge",
			ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", ChargeType: "PostPaid",
			ZoneID: "cn-beijing-h", VSwitchID: "vsw-1", KeyPairName: "key", SecurityGroupIDs: []string{"sg-2", "sg-3"},
			PrivateIPs: is.PrivateIPs, PublicIPs: is.PublicIPs,
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
		if found, err := region.Find(ctx, map[string]string{"a": "3", "c": "x"}); len(found) != 0 || err != nil {
			t.Errorf("found %+v (%v)", found, err)
		}
		if err := region.Delete(ctx, id, false); ClassOf(err) != WaitForState {
			t.Errorf("deleted while Running: %v", err)
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
		if made := server.Instances(); len(made) != 1 || made[0].UserData != base64.StdEncoding.EncodeToString([]byte(userData)) {
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
		want := fleet(t, region, 250)
		found, err := region.Find(t.Context(), map[string]string{"a": "1"})
		must.Succeed(t, err)
		got := []string{}
		for _, instance := range found {
			got = append(got, instance.ID)
		}
		slices.Sort(got)
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

// fleet makes instances, and returns their IDs, sorted.
func fleet(t testing.TB, region *Region, size int) []string {
	t.Helper()
	ids := []string{}
	for i := range size {
		id, err := region.Create(t.Context(), CreateRequest{
			Name: fmt.Sprintf("ins-%d", i), Type: "ecs.g6.large", ImageID: "image.vhd", Tags: map[string]string{"a": "1"},
		})
		must.Succeed(t, err)
		ids = append(ids, id)
	}
	return slices.Sorted(slices.Values(ids))
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

// TestDescribeWhatWasAsked is about a server that answers with more.
func TestDescribeWhatWasAsked(t *testing.T) {
	region := open(t,
		says(200, `{"RequestId":"R-1","Instances":{"Instance":[{"InstanceId":"i-1"},{"InstanceId":"i-2"},{"InstanceId":"i-1"}]}}`))
	if found, err := region.Describe(t.Context(), []string{"i-1"}); err != nil || len(found) != 1 || found[0].ID != "i-1" {
		t.Errorf("got %v (%v)", found, err)
	}
}

// TestInstance parses instances in the forms that ECS may return.
func TestInstance(t *testing.T) {
	region := open(t, says(200, `{"RequestId":"R-1","TotalCount":1,"PageSize":"10","Instances":{"Instance":[{
		"InstanceId":"i-1","Status":"Stopped","CreationTime":"2017-12-10T04:04Z","DeletionProtection":true,"KeyPairName":"k",
		"SecurityGroupIds":{"SecurityGroupId":["sg-2","sg-1"]},"Tags":{"Tag":[{"TagKey":"a","TagValue":""}]},
		"VpcAttributes":{"VSwitchId":"vsw-1","PrivateIpAddress":{"IpAddress":["10.0.0.1"]}},"InnerIpAddress":{"IpAddress":[]},
		"PublicIpAddress":{"IpAddress":["1.2.3.4"]},"EipAddress":{"IpAddress":"5.6.7.8"},
		"OperationLocks":{"LockReason":[{"LockReason":"financial"},{"LockReason":"security"}]},"New":{"Field":[1]}}]}}`))
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

// TestManyAtOnce is for the race detector: the SDK's clients are not for many goroutines.
func TestManyAtOnce(t *testing.T) {
	server := ecssim.New(ecssim.Config{
		Accounts: []ecssim.Account{{ID: "1", AccessKeyID: "a", AccessKeySecret: "a"}, {ID: "2", AccessKeyID: "b", AccessKeySecret: "b"}},
	})
	cloud, err := New(Config{Transport: server.Transport()})
	must.Succeed(t, err)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			name := []string{"a", "b"}[i%2]
			region := cloud.Open(&AccessKey{ID: name, Secret: name}, fmt.Sprintf("cn-beijing-%d", i/2))
			if _, err := region.Account(t.Context()); err != nil && ClassOf(err) != Rejected && ClassOf(err) != Throttled {
				t.Errorf("account: %v", err)
			}
			region = cloud.Open(&AccessKey{ID: name, Secret: name}, []string{"cn-beijing", "cn-hangzhou", "cn-shanghai", "cn-shenzhen"}[i%4])
			create := createOf(fmt.Sprint("token-", i))
			create.ZoneID = ""
			id, err := region.Create(t.Context(), create)
			if err != nil {
				if ClassOf(err) != Throttled {
					t.Errorf("create: %v", err)
				}
				return
			}
			if _, err := region.Describe(t.Context(), []string{id}); err != nil && ClassOf(err) != Throttled {
				t.Errorf("describe: %v", err)
			}
		})
	}
	group.Wait()
}

// BenchmarkDescribe100 is a whole call in process, without the simulator's part.
func BenchmarkDescribe100(b *testing.B) {
	body, ids := hundred(b)
	region := open(b, says(200, body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		region.cloud.limiter.buckets = map[bucketKey]*bucket{}
		if found, err := region.Describe(b.Context(), ids); err != nil || len(found) != 100 {
			b.Fatal(len(found), err)
		}
	}
}

// BenchmarkStart measures the smallest call: the cost of any call.
func BenchmarkStart(b *testing.B) {
	region := open(b, says(200, fine))
	b.ReportAllocs()
	for b.Loop() {
		region.cloud.limiter.buckets = map[bucketKey]*bucket{}
		must.Succeed(b, region.Start(b.Context(), "i-1"))
	}
}

// hundred returns the simulator's answer for a hundred instances.
func hundred(b *testing.B) (string, []string) {
	b.Helper()
	var body []byte
	transport := ecssim.New(ecssim.Config{}).Transport()
	region := open(b, wire(func(r *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		body, err = io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		return reply(response.StatusCode, string(body))
	}))
	region = region.cloud.Open(&AccessKey{ID: "test", Secret: "test"}, "cn-beijing")
	ids := []string{}
	for i := range 100 {
		region.cloud.limiter.buckets = map[bucketKey]*bucket{}
		id, err := region.Create(b.Context(), createOf(fmt.Sprint("token-", i)))
		must.Succeed(b, err)
		ids = append(ids, id)
	}
	if _, err := region.Describe(b.Context(), ids); err != nil {
		b.Fatal(err)
	}
	return string(body), ids
}
