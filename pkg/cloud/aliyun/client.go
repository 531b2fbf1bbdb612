/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

// Package aliyun talks to the ECS of Alibaba Cloud as one who runs instances in it: every
// call goes out once, or once more if its time or nonce was not accepted, with the context
// of its caller, and every error says what it means (Error.Class) and holds nothing secret.
// What to do is for its callers to decide.
//
// It stands on alibaba-cloud-sdk-go, which knows no contexts, is not for many goroutines,
// puts secrets into its errors, and panics at answers that are not as they should be. So
// each call has a client of its own, and a transport between the SDK and the network that
// reads the answer before the SDK does. The client of services/ecs is never used: with it,
// its hundreds of methods would be linked.
package aliyun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
	"k8s.io/utils/clock"
)

// Config says how Alibaba Cloud is reached. All of it may be left out.
type Config struct {
	// Endpoint is a URL like http://127.0.0.1:8099, to which all goes, STS too. "" for
	// Alibaba Cloud's own endpoints, over HTTPS.
	Endpoint string
	// Transport carries the requests. nil for one that uses the proxies of the environment,
	// by the rules of net/http and not by those of the SDK.
	Transport http.RoundTripper
	UserAgent string
	// Clock is of the rate limits and of what is remembered: the real one if it is nil.
	// Requests are always signed with the time of the machine.
	Clock clock.Clock
}

// Cloud is Alibaba Cloud, as all accounts and regions share it: connections, rate limits,
// and the credentials of the process. It may be used by many goroutines.
type Cloud struct {
	endpoint  *url.URL // nil for Alibaba Cloud's own
	transport http.RoundTripper
	userAgent string
	chain     *chain
	limiter   *limiter

	clock clock.Clock

	mu       sync.Mutex
	accounts map[string]string    // account numbers by access key ID
	proofs   map[proven]time.Time // when an account was last known to have the right to list instances
}

// proven is who may ask, by access key ID, and where.
type proven struct{ key, region string }

// maxAccounts bounds what is remembered of accounts. Access keys of a RAM role have
// another ID every hour.
const maxAccounts = 1000

// New returns a Cloud. It starts nothing. An error is one line that says what to put right.
func New(config Config) (*Cloud, error) {
	// The SDK reads DEBUG when the process starts, and then prints every signed URL.
	if slices.Contains(strings.Split(os.Getenv("DEBUG"), ","), "sdk") {
		return nil, errors.New("DEBUG=sdk has the Alibaba Cloud SDK print signatures and user data: take sdk out of DEBUG")
	}
	endpoint, err := parseEndpoint(config.Endpoint)
	if err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Transport == nil {
		config.Transport = newTransport()
	}
	return &Cloud{
		endpoint:  endpoint,
		transport: config.Transport,
		userAgent: config.UserAgent,
		chain:     newChain(config.Clock),
		limiter:   newLimiter(config.Clock),
		clock:     config.Clock,
		accounts:  map[string]string{},
		proofs:    map[proven]time.Time{},
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

// Region is a region as one account, or the operator itself, sees it. It may be used by
// many goroutines. All its errors are of the type *Error.
type Region struct {
	cloud *Cloud
	name  string
	// credentials returns what to sign with now. It is a func for the key not to show when
	// a Region is printed.
	credentials func(context.Context) (*AccessKey, *Error)
}

// Open returns a region, such as "cn-beijing". A nil key is for the credentials of the
// process: environment variables, a RAM role for the service account (RRSA), a profile, the
// instance's RAM role, a URI, whichever is found first. It does no I/O.
func (c *Cloud) Open(key *AccessKey, region string) *Region {
	if key == nil {
		return &Region{cloud: c, name: region, credentials: c.chain.get}
	}
	return &Region{cloud: c, name: region, credentials: key.trimmed().get}
}

// Account returns the number of the account that the calls are made for.
func (r *Region) Account(ctx context.Context) (string, error) {
	key, fail := r.credentials(ctx)
	if fail != nil {
		return "", fail.of("GetCallerIdentity")
	}
	if account := r.cloud.accountOf(key); account != "" {
		return account, nil
	}
	response := sts.CreateGetCallerIdentityResponse()
	err := r.call(ctx, func() requests.AcsRequest { return sts.CreateGetCallerIdentityRequest() }, response)
	if err != nil {
		return "", err
	}
	if response.AccountId == "" {
		return "", incomplete("GetCallerIdentity", response.RequestId, "an AccountId")
	}
	r.cloud.remember(key, response.AccountId)
	return response.AccountId, nil
}

// accountOf returns "" if it is not known.
func (c *Cloud) accountOf(key *AccessKey) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accounts[key.ID]
}

func (c *Cloud) remember(key *AccessKey, account string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.accounts) >= maxAccounts {
		clear(c.accounts)
	}
	c.accounts[key.ID] = account
}

// mayAsk returns whether it was proven a moment ago that an access key may ask for instances.
func (c *Cloud) mayAsk(key, region string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.proofs[proven{key, region}]
	return ok && c.clock.Since(at) < proofLasts
}

func (c *Cloud) mayAskSince(key, region string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.proofs) >= maxAccounts {
		clear(c.proofs)
	}
	c.proofs[proven{key, region}] = at
}

var regionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// call makes one call, with a request that is made anew if it has to be signed again. If
// there is no error, response has a RequestId.
func (r *Region) call(ctx context.Context, request func() requests.AcsRequest, response responses.AcsResponse) error {
	if fail := r.try(ctx, request, response); fail != nil {
		return fail
	}
	return nil
}

func (r *Region) try(ctx context.Context, request func() requests.AcsRequest, response responses.AcsResponse) *Error {
	first := request()
	action := first.GetActionName()
	if ctx.Err() != nil {
		return ended(ctx).of(action)
	}
	if !regionName.MatchString(r.name) {
		return unknownRegion(r.name, "that is no name of a region").of(action)
	}
	key, fail := r.credentials(ctx)
	if fail != nil {
		return fail.of(action)
	}
	bucket := r.bucket(key, action)
	if fail := r.cloud.limiter.admit(ctx, bucket); fail != nil {
		return fail.of(action)
	}
	fail = r.exchange(ctx, key, first, response)
	if fail != nil && fail.Class == Clock {
		fail = r.exchange(ctx, key, request(), response)
	}
	if fail != nil && fail.Class == Throttled {
		fail.RetryAfter = r.cloud.limiter.pause(bucket)
	}
	return fail.of(action)
}

// bucket returns what ECS counts the calls of together. Until the account of an access key
// is known, the key stands for it.
func (r *Region) bucket(key *AccessKey, action string) bucketKey {
	account := r.cloud.accountOf(key)
	if account == "" {
		account = key.ID
	}
	return bucketKey{account: account, region: r.name, action: action}
}

// unknownRegion is what ECS says of a region that it does not know, for when there is not
// even an ECS to say so.
func unknownRegion(region, why string) *Error {
	return &Error{Class: Rejected, Code: "InvalidRegionId.NotFound", Message: clean(fmt.Sprintf("there is no region %q: %s", region, why))}
}

// incomplete is the error of an answer that lacks something, and so says nothing.
func incomplete(action, requestID, what string) *Error {
	return &Error{Action: action, Class: Transient, Message: "the answer has not got " + what, RequestID: identifier(requestID)}
}
