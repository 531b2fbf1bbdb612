// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aliyun is a client of Alibaba Cloud ECS that manages instances. It sends every call with the context of its caller: once, or
// twice if ECS rejected the time or the nonce. Every error has a class (Error.Class) and holds no secret. The callers decide what to do
// about an error.
//
// It uses alibaba-cloud-sdk-go. That SDK has no contexts, cannot be used by several goroutines, puts secrets into its errors, and panics at
// malformed answers. So each call has an SDK client of its own, and a transport between the SDK and the network reads the answer before the
// SDK does. The package never uses the client of services/ecs: the linker would keep its hundreds of methods.
package aliyun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
	"k8s.io/utils/lru"
)

// Config configures the connection to Alibaba Cloud. Every field is optional.
type Config struct {
	// Endpoint is a URL like http://127.0.0.1:8099 for all requests, also those to STS. "" means Alibaba Cloud's own endpoints, over HTTPS.
	Endpoint string
	// Transport carries the requests. nil means a transport that uses the proxies of the environment, by the rules of net/http and not
	// of the SDK.
	Transport http.RoundTripper
	UserAgent string
	// ReadOnly makes all calls but those of readActions fail before they are sent.
	ReadOnly bool
	// Metadata has the credentials of the process include the RAM role of the machine, from its metadata service.
	Metadata bool
	// Observers are called after each request.
	Observers []Observer
}

// Cloud holds what all accounts and regions share: connections, rate limits, and the credentials of the process. It is safe for concurrent
// use.
type Cloud struct {
	endpoint  *url.URL // nil for Alibaba Cloud's own
	transport http.RoundTripper
	userAgent string
	readOnly  bool
	chain     *chain
	limiter   *limiter
	observers []Observer

	accounts   *lru.Cache // account numbers by identity
	listAccess *lru.Cache // by keyInRegion: the start of the last dry run that showed the right to list instances
}

type keyInRegion struct {
	key    identity
	region string
}

// maxAccounts limits the size of both caches. Access keys of a RAM role get a new ID every hour.
const maxAccounts = 1000

// New returns a Cloud. It starts nothing. An error is one line that says what to correct.
func New(config Config) (*Cloud, error) {
	// The SDK reads DEBUG when the process starts, and then prints every signed URL.
	if slices.Contains(strings.Split(os.Getenv("DEBUG"), ","), "sdk") {
		return nil, errors.New("DEBUG=sdk has the Alibaba Cloud SDK print signatures and user data: take sdk out of DEBUG")
	}
	endpoint, err := parseEndpoint(config.Endpoint)
	if err != nil {
		return nil, err
	}
	if config.Transport == nil {
		config.Transport = newTransport()
	}
	return &Cloud{
		endpoint:   endpoint,
		transport:  config.Transport,
		userAgent:  config.UserAgent,
		readOnly:   config.ReadOnly,
		chain:      newChain(config.Metadata),
		limiter:    newLimiter(),
		observers:  config.Observers,
		accounts:   lru.New(maxAccounts),
		listAccess: lru.New(maxAccounts),
	}, nil
}

// parseEndpoint returns nil for "". Errors never hold the text: it may contain a password.
func parseEndpoint(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // Alibaba Cloud's own.
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("the ECS endpoint is not a URL such as http://127.0.0.1:8099 or https://ecs.example.com")
	case u.User != nil:
		return nil, errors.New("the ECS endpoint has a user: credentials come from spec.credentialsSecretRef or the environment")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the ECS endpoint has more than a scheme, a host and a port: leave the rest out")
	}
	return u, nil
}

// Region makes calls to one region, with one access key or the operator's own credentials. It may be used by many goroutines. All its
// errors are of the type *Error.
type Region struct {
	cloud *Cloud
	name  string
	// credentials returns the key to sign with now. It is a func, so that printing a Region does not show the key.
	credentials func(context.Context) (*AccessKey, *Error)
}

// Open returns a region, such as "cn-beijing". A nil key means the credentials of the process. These are the first of: environment
// variables, a RAM role for the service account (RRSA), a profile, the instance's RAM role (see Config.Metadata), a URI. Open does no I/O.
func (c *Cloud) Open(key *AccessKey, region string) *Region {
	if key == nil {
		return &Region{cloud: c, name: region, credentials: c.chain.get}
	}
	held := *key
	return &Region{cloud: c, name: region, credentials: held.get}
}

// Account returns the number of the account that owns the access key.
func (r *Region) Account(ctx context.Context) (string, error) {
	key, fail := r.credentials(ctx)
	if fail != nil {
		return "", fail.during("GetCallerIdentity")
	}
	if account := r.cloud.accountOf(key); account != "" {
		return account, nil
	}
	response := sts.CreateGetCallerIdentityResponse()
	if err := r.call(ctx, sts.CreateGetCallerIdentityRequest(), response); err != nil {
		return "", err
	}
	if response.AccountId == "" {
		return "", incomplete("GetCallerIdentity", response.RequestId, "an AccountId")
	}
	r.cloud.accounts.Add(key.identity(), response.AccountId)
	return response.AccountId, nil
}

// accountOf returns the number of a key's account, or "" if it is not known yet.
func (c *Cloud) accountOf(key *AccessKey) string {
	known, _ := c.accounts.Get(key.identity())
	account, _ := known.(string)
	return account
}

// readActions are the actions of a read-only Cloud.
var readActions = []string{"DescribeInstances", "GetCallerIdentity"}

var regionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// call makes one call. If there is no error, the answer has a RequestId.
func (r *Region) call(ctx context.Context, request requests.AcsRequest, response responses.AcsResponse) error {
	if fail := r.try(ctx, request, response); fail != nil {
		return fail.during(request.GetActionName())
	}
	return nil
}

func (r *Region) try(ctx context.Context, request requests.AcsRequest, response responses.AcsResponse) *Error {
	action := request.GetActionName()
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case r.cloud.readOnly && !slices.Contains(readActions, action):
		return &Error{Class: Rejected, Message: "this client only reads"}
	case !regionName.MatchString(r.name):
		return unknownRegion(r.name, "that is no name of a region")
	}
	key, fail := r.credentials(ctx)
	if fail != nil {
		return fail
	}
	bucket := r.bucket(key, action)
	if fail := r.cloud.limiter.admit(ctx, bucket, keptBy(request)); fail != nil {
		return fail
	}
	fail = r.exchange(ctx, key, request, response)
	if fail != nil && fail.Class == Clock { // The SDK signs it with another time and nonce.
		fail = r.exchange(ctx, key, request, response)
	}
	if fail != nil && fail.Class == Throttled {
		fail.RetryAfter = r.cloud.limiter.pause(bucket)
	}
	return fail
}

// bucket returns the key of the calls that ECS counts together. Until the account of an access key is known, the key has calls of its own.
func (r *Region) bucket(key *AccessKey, action string) bucketKey {
	return bucketKey{account: cmp.Or(r.cloud.accountOf(key), string(key.identity())), region: r.name, action: action}
}

// keptBy returns the number of tokens that a call leaves to others: see keptForPolls. Only Find filters by a tag.
func keptBy(request requests.AcsRequest) int {
	if request.GetActionName() == "DescribeInstances" && request.GetQueryParams()["Tag.1.Key"] != "" {
		return keptForPolls
	}
	return 0
}

// unknownRegion returns ECS's error for an unknown region. There is no endpoint of this region that could return it.
func unknownRegion(region, why string) *Error {
	return &Error{Class: Rejected, Code: "InvalidRegionId.NotFound", Message: clean(fmt.Sprintf("there is no region %q: %s", region, why))}
}

// incomplete returns the error for an answer without a required field.
func incomplete(action, requestID, what string) *Error {
	return &Error{Action: action, Class: Transient, Message: "the answer lacks " + what, RequestID: identifier(requestID)}
}
