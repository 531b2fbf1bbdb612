// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glassback/glassback/hack/ecssim"
	"github.com/glassback/glassback/pkg/must"
)

// wire answers requests in place of the network.
type wire func(*http.Request) (*http.Response, error)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

func reply(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// says answers every request alike.
func says(status int, body string) wire {
	return func(*http.Request) (*http.Response, error) { return reply(status, body) }
}

// fails breaks every request.
func fails(err error) wire {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func refusal(code, message string) string {
	return fmt.Sprintf(`{"RequestId":"R-1","HostId":"ecs.aliyuncs.com","Code":%q,"Message":%q}`, code, message)
}

const fine = `{"RequestId":"R-1"}`

// secret is an access key whose parts look different in every encoding.
var secret = AccessKey{ID: "LTAI5t+ID/with=odd", Secret: "s3cr3t/+=&%~*secret", SecurityToken: "CAIS+t0ken/==&more"}

// open returns a region with a key, and a wire for a network.
func open(t testing.TB, w http.RoundTripper) *Region {
	t.Helper()
	cloud, err := New(Config{Transport: w})
	must.Succeed(t, err)
	return cloud.Open(&secret, "cn-beijing")
}

// failure returns the *Error that err must be.
func failure(t testing.TB, err error) *Error {
	t.Helper()
	e, ok := err.(*Error) //nolint:errorlint // Not one that wraps it.
	if !ok {
		t.Fatalf("%v is a %T and no *Error", err, err)
	}
	return e
}

func TestNew(t *testing.T) {
	for name, test := range map[string]struct{ endpoint, want string }{
		"none is Alibaba Cloud's own":         {"", ""},
		"a simulator":                         {"http://127.0.0.1:8099", ""},
		"a host without a scheme":             {"127.0.0.1:8099", "not a URL"},
		"another scheme":                      {"ftp://127.0.0.1", "not a URL"},
		"a path goes nowhere":                 {"http://127.0.0.1/ecs", "leave the rest out"},
		"a password has no place":             {"http://user:pa55@127.0.0.1", "has a user"},
		"a password in what cannot be parsed": {"http://user:pa55@127.0.0.1:port", "not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Endpoint: test.endpoint})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n") ||
				strings.Contains(err.Error(), "pa55")):
				t.Errorf("got %v, want one line with %q", err, test.want)
			}
		})
	}
	t.Setenv("DEBUG", "x,sdk")
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "DEBUG") {
		t.Errorf("with DEBUG=sdk: %v", err)
	}
}

func TestNoAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		wire wire
		want string // in the message
	}{
		"the connection is refused":      {fails(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "connection refused"},
		"the connection breaks":          {fails(io.ErrUnexpectedEOF), "closed before"},
		"the host is not in DNS for now": {fails(&net.DNSError{Name: "ecs.cn-beijing.aliyuncs.com", IsTemporary: true}), "looked up"},
		"the error is unknown":           {fails(errors.New("https://x/?Signature=abc")), "the connection failed"},
		"HTML of a gateway":              {says(502, "<html>"), "HTTP 502"},
		"an empty 200":                   {says(200, ""), "empty"},
		"an object that is cut":          {says(200, `{"RequestId":"R-1"`), "no JSON object"},
		"no RequestId":                   {says(200, `{"TotalCount":0,"Instances":{"Instance":[]}}`), "RequestId"},
		"a RequestId that is a page":     {says(200, `{"RequestId":"<b>"}`), ""},
		"a Code that is a number":        {says(400, `{"RequestId":"R-1","Code":42}`), "Code"},
		"a Message that is a number":     {says(400, `{"RequestId":"R-1","Message":42,"AccessDeniedDetail":1}`), "HTTP 400"},
		"a success with an error's code": {says(200, refusal("InvalidInstanceId.NotFound", "gone")), "success with an error"},
		"a redirection":                  {says(307, fine), "is a redirect, which ECS never sends"},
		"a list that is a text":          {says(200, `{"RequestId":"R-1","Instances":"none"}`), "not what the SDK expects"},
		"no list":                        {says(200, fine), "a list of instances"},
		"an instance without an ID": {
			says(200, `{"RequestId":"R-1","Instances":{"Instance":[{"Status":"Running"}]}}`), "the ID of an instance",
		},
		"an answer that is too long":        {says(200, strings.Repeat(" ", 4<<20+1)), "longer than 4 MiB"},
		"a page that is followed by itself": {says(200, `{"RequestId":"R-1","NextToken":"A","Instances":{"Instance":[]}}`), "the same page"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := open(t, test.wire).Describe(t.Context(), []string{"i-1"})
			e := failure(t, err)
			if found != nil || e.Class != Transient || !e.Ambiguous() || !strings.Contains(e.Message, test.want) || e.Action != "DescribeInstances" {
				t.Errorf("got %v and %#v", found, e)
			}
		})
	}
}

func TestUnknownRegion(t *testing.T) {
	missing := wire(func(r *http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: r.URL.Hostname(), IsNotFound: true}}
	})
	cloud, err := New(Config{Transport: missing})
	must.Succeed(t, err)
	for name, test := range map[string]struct {
		region string
		want   Class
	}{
		"a region whose host is not in DNS":              {"cn-nowhere", Rejected},
		"one that the SDK knows has only lost its DNS":   {"cn-hangzhou", Transient},
		"a region that leads to another host":            {"evil.example.com/", Rejected},
		"one that would take in the rest of the message": {"cn\nbeijing", Rejected},
		"one that is as long as a message":               {strings.Repeat("x", 5000), Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			for _, call := range []func(*Region) error{
				func(r *Region) error { _, err := r.Account(t.Context()); return err },
				func(r *Region) error { return r.Start(t.Context(), "i-1") },
			} {
				e := failure(t, call(cloud.Open(&secret, test.region)))
				if e.Class != test.want || len([]rune(e.Message)) > maxRunes || strings.Contains(e.Message, "\n") {
					t.Errorf("got %#v", e)
				}
				if test.want == Rejected && (e.Code != "InvalidRegionId.NotFound" || e.Ambiguous()) {
					t.Errorf("got %#v", e)
				}
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	var asked string
	w := wire(func(r *http.Request) (*http.Response, error) {
		asked = r.URL.Scheme + "://" + r.URL.Host
		return reply(200, `{"RequestId":"R-1","AccountId":"1"}`)
	})
	for name, test := range map[string]struct{ endpoint, region, ecs, sts string }{
		"a region has a host of its own": {"", "cn-beijing", "https://ecs.cn-beijing.aliyuncs.com", "https://sts.cn-beijing.aliyuncs.com"},
		"one that the SDK knows to be elsewhere": {
			"", "cn-hangzhou", "https://ecs-cn-hangzhou.aliyuncs.com", "https://sts.cn-hangzhou.aliyuncs.com",
		},
		"a simulator stands for all, even by TLS": {"https://127.0.0.1:8099", "cn-beijing", "https://127.0.0.1:8099", "https://127.0.0.1:8099"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud, err := New(Config{Endpoint: test.endpoint, Transport: w})
			must.Succeed(t, err)
			region := cloud.Open(&secret, test.region)
			if err := region.Start(t.Context(), "i-1"); err != nil || asked != test.ecs {
				t.Errorf("ECS is asked at %s (%v), want %s", asked, err, test.ecs)
			}
			if _, err := region.Account(t.Context()); err != nil || asked != test.sts {
				t.Errorf("STS is asked at %s (%v), want %s", asked, err, test.sts)
			}
		})
	}
}

// TestNothingToAsk: to ECS, no ID and no tag means all instances.
func TestNothingToAsk(t *testing.T) {
	region := open(t, fails(errors.New("it was sent")))
	if found, err := region.Describe(t.Context(), nil); found != nil || err != nil {
		t.Errorf("without IDs: %v, %v", found, err)
	}
	if found, err := region.Find(t.Context(), nil); found != nil || ClassOf(err) != Rejected {
		t.Errorf("without tags: %v, %v", found, err)
	}
}

func TestSignedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		code     string
		failures int32
		want     Class
	}{
		"a nonce that was used is made anew":   {"SignatureNonceUsed", 1, ""},
		"a clock that is off is off twice":     {"InvalidTimeStamp.Expired", 2, Clock},
		"what is wrong otherwise is not asked": {"InvalidParameter", 1, Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			nonces := map[string]bool{}
			region := open(t, wire(func(r *http.Request) (*http.Response, error) {
				nonces[r.URL.Query().Get("SignatureNonce")] = true
				if calls.Add(1) <= test.failures {
					return reply(400, refusal(test.code, "Specified time stamp or date value is expired: "+r.URL.RawQuery))
				}
				return reply(200, `{"RequestId":"R-2","InstanceId":"i-1"}`)
			}))
			id, err := region.Create(t.Context(), CreateRequest{ClientToken: "t"})
			if ClassOf(err) != test.want || (err == nil) != (id == "i-1") {
				t.Errorf("got %q and %v", id, err)
			}
			if want := max(test.failures, 2); test.want != Rejected && (calls.Load() != want || int32(len(nonces)) != want) {
				t.Errorf("%d calls with %d nonces, want %d", calls.Load(), len(nonces), want)
			}
			if test.want == Clock && !strings.Contains(err.Error(), "clock of the operator's machine") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestGivenUp: a call ends with its context, or by itself in time.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		region := open(t, wire(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		started := time.Now()
		err := region.Delete(ctx, "i-1", false)
		if e := failure(t, err); e.Class != Transient || !errors.Is(err, context.Canceled) || time.Since(started) != 300*time.Millisecond {
			t.Errorf("after %s: %#v", time.Since(started), e)
		}
		if err := region.Start(ctx, "i-1"); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := region.Start(ctx, "i-1"); !errors.Is(err, context.DeadlineExceeded) || ClassOf(err) != Transient {
			t.Errorf("with a deadline: %v", err)
		}
		for limit, call := range map[time.Duration]func() error{
			15 * time.Second: func() error { _, err := region.Describe(t.Context(), []string{"i-1"}); return err },
			60 * time.Second: func() error { _, err := region.Create(t.Context(), CreateRequest{}); return err },
		} {
			started := time.Now()
			e := failure(t, call())
			if e.Class != Transient || errors.Is(e, context.DeadlineExceeded) || time.Since(started) != limit {
				t.Errorf("after %s, want %s: %#v", time.Since(started), limit, e)
			}
		}
	})
}

// TestEnvironment has the SDK meet an environment that it cannot read.
func TestEnvironment(t *testing.T) {
	t.Setenv("NO_PROXY", "*.[(,?")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://user:pa55%zz@127.0.0.1:1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, fine) }))
	defer server.Close()
	cloud, err := New(Config{Endpoint: server.URL})
	must.Succeed(t, err)
	defer cloud.transport.(*http.Transport).CloseIdleConnections()
	if err := cloud.Open(&secret, "cn-beijing").Start(t.Context(), "i-1"); err != nil {
		t.Error(err)
	}
}

// TestNetwork meets the errors of a real network that TestNoAnswer cannot make up.
func TestNetwork(t *testing.T) {
	hijack := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
	})
	plain, trusted := httptest.NewServer(hijack), httptest.NewTLSServer(hijack)
	defer plain.Close()
	defer trusted.Close()
	trusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusMethodNotAllowed)
	}))
	defer refusing.Close()
	proxy, err := url.Parse(refusing.URL)
	must.Succeed(t, err)
	for name, test := range map[string]struct{ endpoint, want string }{
		"a certificate that is not trusted": {trusted.URL, "certificate"},
		"a proxy that lets nothing through": {"https://ecs.example.com", "405 Method Not Allowed"},
		"a server that does not speak TLS":  {strings.Replace(plain.URL, "http:", "https:", 1), "does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			transport := newTransport()
			defer transport.CloseIdleConnections()
			transport.Proxy = nil
			if strings.HasSuffix(test.endpoint, "example.com") {
				transport.Proxy = http.ProxyURL(proxy)
			}
			cloud, err := New(Config{Endpoint: test.endpoint, Transport: transport})
			must.Succeed(t, err)
			e := failure(t, cloud.Open(&secret, "cn-beijing").Stop(t.Context(), "i-1"))
			if e.Class != Transient || !strings.Contains(e.Message, test.want) {
				t.Errorf("got %v", e)
			}
		})
	}
}

func TestAReadOnlyCloudMakesNoCallThatChangesSomething(t *testing.T) {
	const id, secret = "LTAI5tReadOnly", "readOnlySecret"
	server := ecssim.New(ecssim.Config{Seed: 1, Accounts: []ecssim.Account{{ID: "1", AccessKeyID: id, AccessKeySecret: secret}}})
	cloud, err := New(Config{Endpoint: "http://ecs.example.com", Transport: server.Transport(), ReadOnly: true})
	must.Succeed(t, err)
	ctx, region := t.Context(), cloud.Open(&AccessKey{ID: id, Secret: secret}, "cn-beijing")
	name := "renamed"
	_, created := region.Create(ctx, CreateRequest{Type: "ecs.g6.large", ImageID: "a.vhd", ClientToken: "token"})
	for call, err := range map[string]error{
		"create": created, "start": region.Start(ctx, "i-0"), "stop": region.Stop(ctx, "i-0"), "delete": region.Delete(ctx, "i-0", true),
		"set type": region.SetType(ctx, "i-0", "ecs.g6.large"), "modify": region.Modify(ctx, "i-0", Change{Name: &name}),
		"tag": region.Tag(ctx, "i-0", map[string]string{"a": "b"}), "untag": region.Untag(ctx, "i-0", []string{"a"}),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "this client only reads") {
			t.Errorf("%s: error %v", call, err)
		}
	}
	if calls := server.Calls(); len(calls) > 0 {
		t.Errorf("ECS got %d calls, first %s", len(calls), calls[0].Action)
	}
	_, account := region.Account(ctx)
	_, described := region.Describe(ctx, []string{"i-0"})
	_, found := region.Find(ctx, map[string]string{"a": "b"})
	for call, err := range map[string]error{"account": account, "describe": described, "find": found} {
		if err != nil {
			t.Errorf("%s: error %v", call, err)
		}
	}
}

func TestACheckAsksForTheAccountAndForNoInstance(t *testing.T) {
	for name, test := range map[string]struct {
		identity, dryRun wire
		account          string
		class            Class
	}{
		"a key that may": {says(200, `{"RequestId":"R-1","AccountId":"42"}`), says(400, refusal("DryRunOperation", "x")), "42", ""},
		"a key that may not ask for instances": {
			says(200, `{"RequestId":"R-1","AccountId":"42"}`), says(403, refusal("Forbidden.RAM", "x")), "42", Unauthorized,
		},
		"an answer that names no account": {says(200, fine), nil, "", Transient},
	} {
		t.Run(name, func(t *testing.T) {
			region := open(t, wire(func(r *http.Request) (*http.Response, error) {
				query := r.URL.Query()
				if query.Get("Action") == "GetCallerIdentity" {
					return test.identity.RoundTrip(r)
				}
				if query.Get("Action") != "DescribeInstances" || query.Get("DryRun") != "true" {
					t.Errorf("it asked for %s with DryRun %q", query.Get("Action"), query.Get("DryRun"))
				}
				return test.dryRun.RoundTrip(r)
			}))
			if account, err := region.Check(t.Context()); account != test.account || ClassOf(err) != test.class {
				t.Errorf("got %q, %v, want %q, %q", account, err, test.account, test.class)
			}
		})
	}
}

const nothing = `{"RequestId":"R-1","Instances":{"Instance":[]}}`

// TestListAccess: ECS answers with an empty list, and only a dry run shows that the right to list instances is missing.
func TestListAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allowed, dryRuns := false, 0
		region := open(t, wire(func(r *http.Request) (*http.Response, error) {
			switch query := r.URL.Query(); {
			case query.Get("Action") != "DescribeInstances":
				return reply(200, `{"RequestId":"R-1","AccountId":"42"}`)
			case query.Get("DryRun") == "":
				return reply(200, nothing)
			case allowed:
				dryRuns++
				return reply(400, refusal("DryRunOperation", "x"))
			default:
				return reply(403, refusal("Forbidden.RAM", "x"))
			}
		}))
		ask := func(want Class) {
			t.Helper()
			if found, err := region.Find(t.Context(), map[string]string{"a": "b"}); ClassOf(err) != want {
				t.Errorf("Find: got %v, %v, want %q", found, err, want)
			}
			if found, err := region.Describe(t.Context(), []string{"i-1"}); ClassOf(err) != want {
				t.Errorf("Describe: got %v, %v, want %q", found, err, want)
			}
		}
		ask(Unauthorized)
		allowed = true
		ask("")
		if dryRuns != 1 {
			t.Errorf("got %d dry runs, want 1", dryRuns)
		}
		allowed = false
		time.Sleep(listAccessTTL)
		ask(Unauthorized)
	})
}

func TestClassify(t *testing.T) {
	for class, codes := range map[Class]map[string][]int{
		Throttled: {"Throttling": {400, 403, 429, 500, 503, 200}, "Throttling.User": {400}, "Rejected.Throttling": {403}},
		Transient: {
			"InternalError": {500, 400}, "OperationDenied.Whatever": {403}, "": {400, 401, 403, 404, 407, 500, 502}, "NeverHeardOf": {400},
			// Whoever fails, or succeeds, may have done it.
			"InvalidInstanceId.NotFound": {500, 200}, "InvalidParameter": {500}, "SignatureDoesNotMatch": {502}, "IncorrectInstanceStatus": {500},
		},
		InFlight:       {"IdempotentProcessing": {403}, "LastTokenProcessing": {403}},
		TokenDead:      {"IdempotentFailed": {400, 403}, "InvalidIdempotenceParameter.Mismatch": {403}},
		WaitForState:   {"IncorrectInstanceStatus.X": {403}, "InstanceNotReady": {403, 500}, "OperationDenied.CreatingConflict": {403}},
		Gone:           {"InvalidInstanceId.NotFound": {404}, "InvalidResourceId.NotFound": {404}},
		Capacity:       {"OperationDenied.NoStock": {403}, "Zone.NotOnSale": {403}, "InvalidInstanceType.ZoneNotSupported": {403}},
		Quota:          {"QuotaExceeded.Image": {400}, "SecurityGroupInstanceLimitExceed": {403}, "InvalidAccountStatus.NotEnoughBalance": {403}},
		BadCredentials: {"InvalidAccessKeyId.Inactive": {403}, "SignatureDoesNotMatch": {400}, "InvalidSecurityToken.Expired": {400}},
		Clock:          {"SignatureNonceUsed": {400}, "InvalidTimeStamp.Expired": {400}, "IllegalTimestamp": {400}},
		Unauthorized:   {"Forbidden.RAM": {403}, "NoPermission": {403}},
		Rejected: {
			"InvalidParameter.Conflict": {400}, "MissingParameter": {400}, "InstanceName.Malformed": {400}, "InvalidImageId.NotFound": {404},
			"DryRunOperation": {400}, "KeyPair.NotFound": {404},
		},
		DeleteBlocked: {"ChargeTypeViolation": {403}, "InvalidOperation.DeletionProtection": {403}, "DependencyViolation.RouteEntry": {403}},
	} {
		for code, statuses := range codes {
			for _, status := range statuses {
				e := failure(t, open(t, says(status, refusal(code, "words"))).Stop(t.Context(), "i-1"))
				if e.Class != class || e.Code != code || e.RequestID != "R-1" || e.Action != "StopInstance" || e.Message == "" ||
					e.Ambiguous() != (class == Transient || class == InFlight) || (e.RetryAfter > 0) != (class == Throttled) {
					t.Errorf("%s with %d: %#v, want %s", code, status, e, class)
				}
			}
		}
	}
}

func TestOperationDenied(t *testing.T) {
	for message, class := range map[string]Class{
		"The resource is out of stock in the specified zone.":             Capacity,
		"The resource of the instance type has been SOLD OUT.":            Capacity,
		"The specified operation is denied as another one is being done.": Transient,
	} {
		if got := classify(403, "OperationDenied", message); got != class {
			t.Errorf("%s: %s, want %s", message, got, class)
		}
	}
}
