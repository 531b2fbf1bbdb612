// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"

	"github.com/glassback/glassback/hack/ecssim"
	"github.com/glassback/glassback/pkg/must"
)

const timestampFormat = "2006-01-02T15:04:05Z"

// nonces makes each call's nonce one of its own.
var nonces atomic.Int64

// cloud is a server whose clock stands still until it is moved, and a client of it.
type cloud struct {
	*ecssim.Server

	tb     testing.TB
	now    time.Time
	client client
}

func newCloud(tb testing.TB, config ecssim.Config) *cloud {
	c := &cloud{tb: tb, now: time.Date(2026, 3, 1, 12, 30, 45, 0, time.UTC)}
	config.Now = func() time.Time { return c.now }
	c.Server = ecssim.New(config)
	c.client = client{id: "test", secret: "test"}
	if len(config.Accounts) > 0 {
		c.client = clientOf(config.Accounts[0])
	}
	return c
}

func (c *cloud) pass(d time.Duration) { c.now = c.now.Add(d) }

// client signs as the documentation of ECS says, in code that is not the server's.
type client struct{ id, secret, token string }

func clientOf(a ecssim.Account) client {
	return client{id: a.AccessKeyID, secret: a.AccessKeySecret, token: a.SecurityToken}
}

// result is the result of a call.
type result struct {
	status int
	code   string
	body   map[string]any
	raw    string
	header http.Header
	length int64
	err    error
}

// sign returns the parameters of a call, signed. A parameter that is "-" is left out.
func (c client) sign(now time.Time, action string, pairs ...string) url.Values {
	values := url.Values{
		"Action": {action}, "Version": {"2014-05-26"}, "Format": {"JSON"}, "RegionId": {"cn-hangzhou"}, "AccessKeyId": {c.id},
		"SignatureMethod": {"HMAC-SHA1"}, "SignatureVersion": {"1.0"}, "SignatureType": {""},
		"SignatureNonce": {"nonce-" + strconv.FormatInt(nonces.Add(1), 10)}, "Timestamp": {now.UTC().Format(timestampFormat)},
	}
	if action == "GetCallerIdentity" {
		values.Set("Version", "2015-04-01")
	}
	if c.token != "" {
		values.Set("SecurityToken", c.token)
	}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	maps.DeleteFunc(values, func(_ string, v []string) bool { return v[0] == "-" })
	if values.Has("Signature") {
		return values
	}
	plain := strings.NewReplacer("+", "%20", "*", "%2A", "%7E", "~").Replace(values.Encode())
	mac := hmac.New(sha1.New, []byte(c.secret+"&"))
	io.WriteString(mac, "POST&%2F&"+url.QueryEscape(plain))
	values.Set("Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return values
}

// call makes a call in process.
func (c *cloud) call(action string, pairs ...string) result {
	return c.as(c.client, action, pairs...)
}

func (c *cloud) as(who client, action string, pairs ...string) result {
	return c.send(who.sign(c.now, action, pairs...))
}

func (c *cloud) send(values url.Values) result {
	request, err := http.NewRequest(http.MethodPost, "http://ecs.test/?"+values.Encode(), nil)
	must.Succeed(c.tb, err)
	return trip(c.Transport(), request)
}

func trip(transport http.RoundTripper, request *http.Request) result {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return result{err: err}
	}
	defer response.Body.Close()
	return read(response)
}

func read(response *http.Response) result {
	raw, err := io.ReadAll(response.Body)
	r := result{status: response.StatusCode, raw: string(raw), header: response.Header, length: response.ContentLength, err: err}
	json.Unmarshal(raw, &r.body)
	r.code, _ = r.body["Code"].(string)
	return r
}

// create creates an instance with the required parameters and the pairs.
func (c *cloud) create(pairs ...string) string {
	c.tb.Helper()
	r := c.call("CreateInstance", append([]string{"InstanceType", "ecs.g6.large", "ImageId", "ubuntu"}, pairs...)...)
	id, _ := r.body["InstanceId"].(string)
	if id == "" {
		c.tb.Fatalf("create: %+v", r)
	}
	return id
}

// inState creates an instance and puts it in a state, as a user does in the console.
func (c *cloud) inState(state string, change func(*ecssim.Instance)) string {
	c.tb.Helper()
	id := c.create()
	c.Update(id, func(i *ecssim.Instance) {
		i.State = state
		if change != nil {
			change(i)
		}
	})
	return id
}

func (c *cloud) instance(id string) ecssim.Instance {
	c.tb.Helper()
	for _, i := range c.Instances() {
		if i.ID == id {
			return i
		}
	}
	c.tb.Fatalf("there never was an instance %s", id)
	return ecssim.Instance{}
}

// described returns the instances in an answer of DescribeInstances.
func (r result) described() []map[string]any {
	list, _ := r.body["Instances"].(map[string]any)["Instance"].([]any)
	var instances []map[string]any
	for _, i := range list {
		instances = append(instances, i.(map[string]any))
	}
	return instances
}

// state returns the state that a describe shows, "" for none.
func (c *cloud) state(id string) string {
	c.tb.Helper()
	r := c.call("DescribeInstances", "InstanceIds", `["`+id+`"]`)
	if r.body["RequestId"] == "" || r.status != http.StatusOK {
		c.tb.Fatalf("describe: %+v", r)
	}
	for _, i := range r.described() {
		return i["Status"].(string)
	}
	return ""
}

// pairs returns the parameters in text like "A=1&B=2", for call.
func pairs(text string) []string {
	var all []string
	for pair := range strings.SplitSeq(text, "&") {
		if name, value, is := strings.Cut(pair, "="); is {
			all = append(all, name, value)
		}
	}
	return all
}

// ended returns the status and the code of a call, as in "404 InvalidImageId.NotFound".
func (r result) ended() string {
	return strings.TrimSpace(strconv.Itoa(r.status) + " " + r.code)
}

// ids returns the IDs of the instances in an answer of DescribeInstances.
func (r result) ids() []string {
	var ids []string
	for _, i := range r.described() {
		ids = append(ids, i["InstanceId"].(string))
	}
	return ids
}

// want fails unless a call ended so: with this status and code.
func want(tb testing.TB, r result, status int, code string) {
	tb.Helper()
	if r.err != nil || r.status != status || r.code != code {
		tb.Fatalf("got %d %q %v %s, want %d %q", r.status, r.code, r.err, r.raw, status, code)
	}
}

// sdkClient calls with the SDK of Alibaba Cloud.
type sdkClient struct {
	tb     testing.TB
	client *sdk.Client
	domain string
}

func newSDK(tb testing.TB, account ecssim.Account, transport http.RoundTripper, domain string) sdkClient {
	tb.Helper()
	config := sdk.NewConfig().WithScheme("HTTP")
	config.Transport = transport
	var provider auth.Credential = credentials.NewAccessKeyCredential(account.AccessKeyID, account.AccessKeySecret)
	if account.SecurityToken != "" {
		provider = credentials.NewStsTokenCredential(account.AccessKeyID, account.AccessKeySecret, account.SecurityToken)
	}
	c, err := sdk.NewClientWithOptions("cn-hangzhou", config, provider)
	must.Succeed(tb, err)
	return sdkClient{tb: tb, client: c, domain: domain}
}

func (c sdkClient) do(request requests.AcsRequest, response responses.AcsResponse) error {
	request.SetDomain(c.domain)
	return c.client.DoAction(request, response)
}

func (c sdkClient) must(request requests.AcsRequest, response responses.AcsResponse) {
	c.tb.Helper()
	if err := c.do(request, response); err != nil {
		c.tb.Fatalf("%s: %v", request.GetActionName(), err)
	}
}

var (
	permanent = ecssim.Account{ID: "1", AccessKeyID: "LTAI", AccessKeySecret: "secret/+=~*"}
	temporary = ecssim.Account{ID: "1", AccessKeyID: "STS.x", AccessKeySecret: "secret", SecurityToken: "to ken/+=~*&%"}
)

func TestTheSDKSignsAsTheServerDoes(t *testing.T) {
	s := ecssim.New(ecssim.Config{Accounts: []ecssim.Account{permanent, temporary}})
	server := httptest.NewServer(s)
	defer server.Close()
	transports := map[string]sdkClient{}
	for kind, account := range map[string]ecssim.Account{"permanent": permanent, "temporary": temporary} {
		transports["in process, "+kind] = newSDK(t, account, s.Transport(), "ecs.test")
		transports["over the network, "+kind] = newSDK(t, account, http.DefaultTransport.(*http.Transport).Clone(),
			strings.TrimPrefix(server.URL, "http://"))
	}
	for name, c := range transports {
		for _, text := range []string{"plain", "a b", "a+b", "a*b", "a~b", "a%2Fb", "ä€😀", "a=b&c=d", `"<>'`, "\t\n"} {
			request, response := ecs.CreateCreateInstanceRequest(), ecs.CreateCreateInstanceResponse()
			request.InstanceType, request.ImageId, request.InstanceName = "ecs.g6.large", "ubuntu", "x"+text
			request.Tag = &[]ecs.CreateInstanceTag{{Key: "k" + text, Value: text}}
			c.must(request, response)
			for _, i := range s.Instances() {
				if i.ID == response.InstanceId && (i.Name != "x"+text || i.Tags["k"+text] != text) {
					t.Errorf("%s, %q: made %+v", name, text, i)
				}
			}
		}
		request, response := sts.CreateGetCallerIdentityRequest(), sts.CreateGetCallerIdentityResponse()
		c.must(request, response)
		if response.AccountId != "1" || response.Arn == "" || response.IdentityType == "" || response.UserId == "" ||
			response.PrincipalId == "" || response.RequestId == "" {
			t.Errorf("%s is %+v", name, response)
		}
	}
}
