// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
)

func TestWhoIsLetIn(t *testing.T) {
	key := ecssim.Account{ID: "1", AccessKeyID: "key", AccessKeySecret: "secret"}
	temporary := ecssim.Account{ID: "1", AccessKeyID: "STS.key", AccessKeySecret: "secret", SecurityToken: "token"}
	at := func(d time.Duration) []string {
		return []string{"Timestamp", time.Date(2026, 3, 1, 12, 30, 45, 0, time.UTC).Add(d).Format(timestampFormat)}
	}
	for name, tc := range map[string]struct {
		who    client
		with   []string
		status int
		code   string
	}{
		"a key":                 {who: clientOf(key), status: 200},
		"a temporary key":       {who: clientOf(temporary), status: 200},
		"no access key":         {who: client{}, status: 400, code: "MissingParameter"},
		"no key":                {who: clientOf(key), with: []string{"AccessKeyId", "-"}, status: 400, code: "MissingParameter"},
		"an unknown access key": {who: client{id: "other", secret: "secret"}, status: 400, code: "InvalidAccessKeyId.NotFound"},
		"a wrong secret":        {who: client{id: "key", secret: "Secret"}, status: 400, code: "SignatureDoesNotMatch"},
		"a wrong signature":     {who: clientOf(key), with: []string{"Signature", "abc"}, status: 400, code: "SignatureDoesNotMatch"},
		"no signature":          {who: clientOf(key), with: []string{"Signature", ""}, status: 400, code: "IncompleteSignature"},
		"another method": {
			who: clientOf(key), with: []string{"SignatureMethod", "HMAC-SHA256"}, status: 400, code: "InvalidSignatureMethod",
		},
		"another version of the signature": {
			who: clientOf(key), with: []string{"SignatureVersion", "2.0"}, status: 400, code: "InvalidSignatureMethod",
		},
		"a token that is not needed": {
			who: client{id: "key", secret: "secret", token: "t"}, status: 400, code: "InvalidSecurityToken.MismatchWithAccessKey",
		},
		"no token": {who: client{id: "STS.key", secret: "secret"}, status: 400, code: "InvalidAccessKeyId.NotFound"},
		"another token": {
			who: client{id: "STS.key", secret: "secret", token: "t"}, status: 400, code: "InvalidSecurityToken.MismatchWithAccessKey",
		},
		"an expired token": {who: client{id: "STS.key", secret: "secret", token: "expired"}, status: 400, code: "InvalidSecurityToken.Expired"},
		"a malformed token": {
			who: client{id: "STS.key", secret: "secret", token: "malformed"}, status: 400, code: "InvalidSecurityToken.Malformed",
		},
		"a clock that is 15 min behind": {who: clientOf(key), with: at(-15 * time.Minute), status: 200},
		"a clock that is 15 min ahead":  {who: clientOf(key), with: at(15 * time.Minute), status: 200},
		"a clock that is further behind": {
			who: clientOf(key), with: at(-15*time.Minute - time.Second), status: 400, code: "InvalidTimeStamp.Expired",
		},
		"a clock that is further ahead": {
			who: clientOf(key), with: at(15*time.Minute + time.Second), status: 400, code: "InvalidTimeStamp.Expired",
		},
		"no timestamp": {who: clientOf(key), with: []string{"Timestamp", "-"}, status: 400, code: "MissingParameter"},
		"a timestamp of another kind": {
			who: clientOf(key), with: []string{"Timestamp", "2026-03-01 12:30:45"}, status: 400, code: "IllegalTimestamp",
		},
		"no nonce":                 {who: clientOf(key), with: []string{"SignatureNonce", "-"}, status: 400, code: "MissingParameter"},
		"no version":               {who: clientOf(key), with: []string{"Version", "-"}, status: 400, code: "MissingParameter"},
		"a version that never was": {who: clientOf(key), with: []string{"Version", "2014-05-27"}, status: 400, code: "InvalidVersion"},
		"the version of STS":       {who: clientOf(key), with: []string{"Version", "2015-04-01"}, status: 404, code: "InvalidAction.NotFound"},
		"XML":                      {who: clientOf(key), with: []string{"Format", "XML"}, status: 400, code: "InvalidParameter"},
		"an action that there is not": {
			who: clientOf(key), with: []string{"Action", "RebootInstance"}, status: 404, code: "InvalidAction.NotFound",
		},
		"no action": {who: clientOf(key), with: []string{"Action", "-"}, status: 400, code: "MissingParameter"},
		"a region that there is not": {
			who: clientOf(key), with: []string{"RegionId", "cn-missing"}, status: 404, code: "InvalidRegionId.NotFound",
		},
		"no region where one is needed": {who: clientOf(key), with: []string{"RegionId", "-"}, status: 400, code: "MissingParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{Accounts: []ecssim.Account{key, temporary}})
			r := c.as(tc.who, "DescribeInstances", tc.with...)
			want(t, r, tc.status, tc.code)
			if id, _ := r.body["RequestId"].(string); len(id) != 36 {
				t.Errorf("the ID of the request is %q", id)
			}
		})
	}
}

func TestTheErrorOfAWrongSignatureTellsAll(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	c.client.secret = "wrong"
	r := c.call("CreateInstance", "UserData", "c2VjcmV0", "Password", "P&ss")
	want(t, r, 400, "SignatureDoesNotMatch")
	message := r.body["Message"].(string)
	for _, part := range []string{
		"Specified signature is not matched with our calculation. server string to sign is:POST&%2F&AccessKeyId%3Dtest%26Action%3DCreateInstance",
		"UserData%3Dc2VjcmV0", "Password%3DP%2526ss", "%26SignatureType%3D%26",
	} {
		if !strings.Contains(message, part) || !strings.Contains(r.raw, part) {
			t.Errorf("%q is not in %s", part, r.raw)
		}
	}
	if r.body["HostId"] != "ecs.test" || r.body["Recommend"] == "" {
		t.Errorf("the error is %s", r.raw)
	}
	kept, err := json.Marshal(c.Calls()[0].Params)
	if err != nil || strings.Contains(string(kept), "c2VjcmV0") || strings.Contains(string(kept), "P&ss") {
		t.Errorf("secrets are kept: %s %v", kept, err)
	}
}

func TestANonceIsGoodOnceForAsLongAsItCouldCome(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	ahead := func() url.Values {
		return c.client.sign(c.now, "DescribeRegions", "SignatureNonce", "once", "Timestamp", c.now.Add(15*time.Minute).Format(timestampFormat))
	}
	first := ahead()
	want(t, c.send(first), 200, "")
	want(t, c.send(first), 400, "SignatureNonceUsed")
	c.pass(30*time.Minute - 1)
	want(t, c.send(first), 400, "SignatureNonceUsed")
	c.pass(time.Second)
	want(t, c.send(first), 400, "InvalidTimeStamp.Expired")
	want(t, c.send(ahead()), 200, "")
	// A call that is not let in does not use up its nonce.
	wrong := client{id: "test", secret: "wrong"}
	want(t, c.as(wrong, "DescribeRegions", "SignatureNonce", "n"), 400, "SignatureDoesNotMatch")
	want(t, c.call("DescribeRegions", "SignatureNonce", "n"), 200, "")
}

func TestParametersOfTheFormCountAsThoseOfTheQuery(t *testing.T) {
	c := newCloud(t, ecssim.Config{})
	values := c.client.sign(c.now, "CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x", "InstanceName", "a b+c*d~e/f=g&h ü")
	form := url.Values{}
	for _, name := range []string{"InstanceName", "ImageId", "SignatureNonce", "Action"} {
		form[name] = values[name]
		delete(values, name)
	}
	request := httptest.NewRequest(http.MethodPost, "http://ecs.test/?"+values.Encode(), strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	want(t, trip(c.Transport(), request), 200, "")
	if name := c.Instances()[0].Name; name != "a b+c*d~e/f=g&h ü" {
		t.Errorf("the name is %q", name)
	}
}

func TestInvalidRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		method, target, body string
		status               int
		code                 string
	}{
		"put":            {method: http.MethodPut, target: "/", status: 405, code: "UnsupportedHTTPMethod"},
		"another path":   {method: http.MethodPost, target: "/x?Action=DescribeRegions", status: 404, code: "InvalidAction.NotFound"},
		"nothing":        {method: http.MethodGet, target: "/", status: 400, code: "MissingParameter"},
		"a broken query": {method: http.MethodPost, target: "/?Action=%zz", status: 400, code: "InvalidParameter"},
		"semicolons":     {method: http.MethodPost, target: "/?Action=a;b=c", status: 400, code: "InvalidParameter"},
		"a broken form":  {method: http.MethodPost, target: "/", body: "Action=%zz", status: 400, code: "InvalidParameter"},
		"the same twice": {method: http.MethodPost, target: "/?Action=a&Action=b", status: 400, code: "InvalidParameter"},
		"here and there": {method: http.MethodPost, target: "/?Action=a", body: "Action=a", status: 400, code: "InvalidParameter"},
		"a form without end": {
			method: http.MethodPost, target: "/", body: strings.Repeat("a", 1<<20+1), status: 413, code: "RequestEntityTooLarge",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := ecssim.New(ecssim.Config{})
			request := httptest.NewRequest(tc.method, tc.target, strings.NewReader(tc.body))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, request)
			want(t, read(recorder.Result()), tc.status, tc.code)
			if len(s.Calls()) != 0 {
				t.Errorf("it counts as understood: %+v", s.Calls())
			}
		})
	}
}

func TestWhatNoActionHasIsRefusedAndRecorded(t *testing.T) {
	for name, tc := range map[string]struct {
		action    string
		with      []string
		code      string
		violation bool
	}{
		"a typing error": {action: "DescribeInstances", with: []string{"InstanceID", "x"}, code: "InvalidParameter", violation: true},
		"of another action": {
			action: "StartInstance", with: []string{"InstanceId", "x", "Force", "true"}, code: "InvalidParameter", violation: true,
		},
		"a password of a start": {
			action: "StartInstance", with: []string{"InstanceId", "x", "Password", "p"}, code: "InvalidParameter", violation: true,
		},
		"user data of a start": {
			action: "StartInstance", with: []string{"InstanceId", "x", "UserData", "aGk="}, code: "InvalidParameter", violation: true,
		},
		"a list that begins with 0":  {action: "DescribeInstances", with: []string{"Tag.0.Key", "x"}, code: "InvalidParameter", violation: true},
		"a list that is too long":    {action: "DescribeInstances", with: []string{"Tag.21.Key", "x"}, code: "InvalidParameter", violation: true},
		"a number like 01":           {action: "DescribeInstances", with: []string{"Tag.01.Key", "x"}, code: "InvalidParameter", violation: true},
		"the N of the documentation": {action: "DescribeInstances", with: []string{"Tag.N.Key", "x"}, code: "InvalidParameter", violation: true},
		"a field that a tag has not": {action: "DescribeInstances", with: []string{"Tag.1.Name", "x"}, code: "InvalidParameter", violation: true},
		"a filter by name": {
			action: "DescribeInstances", with: []string{"InstanceName", "x"}, code: "InvalidParameter", violation: true,
		},
		"a launch template": {
			action: "CreateInstance", with: []string{"LaunchTemplateId", "lt-1"}, code: "InvalidParameter", violation: true,
		},
		"a number that is none":       {action: "DescribeInstances", with: []string{"MaxResults", "ten"}, code: "InvalidParameter"},
		"a truth that is none":        {action: "DeleteInstance", with: []string{"InstanceId", "x", "Force", "True"}, code: "InvalidParameter"},
		"something that is needed":    {action: "StartInstance", code: "MissingParameter"},
		"empty is as not being there": {action: "StartInstance", with: []string{"InstanceId", ""}, code: "MissingParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, ecssim.Config{})
			want(t, c.call(tc.action, tc.with...), 400, tc.code)
			call := c.Calls()[0]
			if (call.Violation != "") != tc.violation || call.Code != tc.code || call.Message == "" || call.Done {
				t.Errorf("the call is said to be %+v", call)
			}
		})
	}
}

func FuzzRequest(f *testing.F) {
	now := time.Date(2026, 3, 1, 12, 30, 45, 0, time.UTC)
	who := client{id: "test", secret: "test"}
	f.Add(who.sign(now, "CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x", "Tag.1.Key", "k").Encode(), "")
	f.Add(who.sign(now, "DescribeInstances", "InstanceIds", `["i-1"]`).Encode(), "MaxResults=10&NextToken=MQ==")
	f.Add("Action=CreateInstance", "Tag.99999999999999999999.Key=x&UserData=%")
	f.Add("Action=&=&&%00=1", "\xff=\xff")
	f.Fuzz(func(t *testing.T, query, form string) {
		s := ecssim.New(ecssim.Config{Now: func() time.Time { return now }})
		request := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/", RawQuery: query}, Header: http.Header{}, Body: http.NoBody}
		if form != "" {
			request = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form))
			request.URL.RawQuery = query
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, request)
		if r := read(recorder.Result()); r.status == http.StatusInternalServerError || r.body["RequestId"] == nil {
			t.Errorf("answered %d %s", r.status, r.raw)
		}
	})
}

// FuzzSigned has anything for the parameters of a call that is let in.
func FuzzSigned(f *testing.F) {
	f.Add("CreateInstance", "InstanceType", "ecs.g6.large", "ImageId", "x")
	f.Add("CreateInstance", "Period", "-1", "Tag.1.Key", "k")
	f.Add("DescribeInstances", "InstanceIds", `["a", 1]`, "NextToken", "x")
	f.Add("DescribeInstances", "Tag.1.Value", "***", "MaxResults", "9223372036854775807")
	f.Add("TagResources", "ResourceId.1", "i", "Tag.1.Value", "")
	f.Add("UntagResources", "ResourceType", "instance", "TagKey.1", "MQ==")
	f.Fuzz(func(t *testing.T, action, name1, value1, name2, value2 string) {
		c := newCloud(t, ecssim.Config{})
		c.create("SecurityGroupId", "sg-1", "Tag.1.Key", "k", "Tag.1.Value", "v")
		with := []string{name1, value1, name2, value2}
		if strings.HasSuffix(action, "TagResources") {
			with = append(with, "ResourceType", "instance")
		}
		r := c.call(action, with...)
		if r.err != nil || r.status == http.StatusInternalServerError && !strings.Contains(value1+value2, "broken") ||
			r.body["RequestId"] == nil {
			t.Errorf("answered %d %s %v", r.status, r.raw, r.err)
		}
	})
}
