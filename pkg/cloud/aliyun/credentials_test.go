// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"

	"github.com/glassback/glassback/pkg/must"
)

// provider is a credentials provider, as a function.
type provider func() (*credentials.Credentials, error)

func (p provider) GetCredentials() (*credentials.Credentials, error) { return p() }
func (provider) GetProviderName() string                             { return "test" }

// chained returns a chain of the providers that its function builds.
func chained(build func() provider) *chain {
	c := newChain(false)
	c.build = func() []credentials.CredentialsProvider { return []credentials.CredentialsProvider{build()} }
	return c
}

func TestChain(t *testing.T) {
	nothing := errors.New("unable to get credentials from http://user:pa55@host/?AccessKeySecret=pa55")
	for name, is := range map[string]provider{
		"the chain finds nothing":         func() (*credentials.Credentials, error) { return nil, nothing },
		"the chain has neither":           func() (*credentials.Credentials, error) { return nil, nil },
		"a profile has an ID only":        func() (*credentials.Credentials, error) { return &credentials.Credentials{AccessKeyId: "a"}, nil },
		"the SDK panics at a broken file": func() (*credentials.Credentials, error) { panic("pa55") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				builds := 0
				c := chained(func() provider { builds++; return is })
				for range 3 {
					key, fail := c.get(t.Context())
					if key != nil || fail.Class != NoCredentials || strings.Contains(fail.Message, "pa55") ||
						!strings.Contains(fail.Message, "spec.credentialsSecretRef") {
						t.Errorf("got %v and %#v", key, fail)
					}
				}
				if builds != 1 {
					t.Errorf("it was asked %d times at once", builds)
				}
				is = func() (*credentials.Credentials, error) {
					return &credentials.Credentials{AccessKeyId: "a", AccessKeySecret: "b", SecurityToken: "c"}, nil
				}
				time.Sleep(chainPause)
				key, fail := c.get(t.Context())
				if fail != nil || *key != (AccessKey{"a", "b", "c"}) || builds != 2 {
					t.Errorf("got %v after %d builds", fail, builds)
				}
				if _, fail := c.get(t.Context()); fail != nil || builds != 2 {
					t.Errorf("a chain that works was built anew: %d (%v)", builds, fail)
				}
			})
		})
	}
}

func TestChainThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		c := chained(func() provider {
			return func() (*credentials.Credentials, error) {
				<-answer
				return &credentials.Credentials{AccessKeyId: "a", AccessKeySecret: "b"}, nil
			}
		})
		for range 3 {
			started := time.Now()
			if _, fail := c.get(t.Context()); fail.Class != NoCredentials || time.Since(started) != chainTimeout {
				t.Errorf("after %s: %#v", time.Since(started), fail)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, fail := c.get(ctx); !errors.Is(fail, context.DeadlineExceeded) {
			t.Errorf("got %#v", fail)
		}
		close(answer)
		synctest.Wait()
		if _, fail := c.get(t.Context()); fail != nil {
			t.Errorf("once there is an answer: %#v", fail)
		}
	})
}

func TestDefaultChain(t *testing.T) {
	for _, name := range []string{
		"ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN", "ROLE_ARN", "OIDC_PROVIDER_ARN", "OIDC_TOKEN_FILE", "PROFILE", "CREDENTIALS_URI",
	} {
		t.Setenv("ALIBABA_CLOUD_"+name, "")
	}
	t.Setenv("ALIBABA_CLOUD_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		var used string
		cloud, err := New(Config{Transport: wire(func(r *http.Request) (*http.Response, error) {
			used = r.URL.Query().Get("AccessKeyId")
			return reply(200, fine)
		})})
		must.Succeed(t, err)
		region := cloud.Open(nil, "cn-beijing")
		if err := region.Start(t.Context(), "i-1"); ClassOf(err) != NoCredentials || used != "" {
			t.Errorf("without any: %v", err)
		}
		if _, err := region.Account(t.Context()); ClassOf(err) != NoCredentials || used != "" {
			t.Errorf("without any: %v", err)
		}
		t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "from-the-environment")
		t.Setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "x")
		time.Sleep(chainPause)
		if err := region.Start(t.Context(), "i-1"); err != nil || used != "from-the-environment" {
			t.Errorf("with one in the environment: %q (%v)", used, err)
		}
	})
}

func TestTheMetadataServiceNeedsPermission(t *testing.T) {
	for _, metadata := range []bool{false, true} {
		asked := slices.ContainsFunc(providers(metadata), func(p credentials.CredentialsProvider) bool {
			_, role := p.(*credentials.ECSRAMRoleCredentialsProvider)
			return role
		})
		if asked != metadata {
			t.Errorf("with metadata %t: it is asked: %t", metadata, asked)
		}
	}
}

func TestHalfAnAccessKeyIsNone(t *testing.T) {
	cloud, err := New(Config{Transport: fails(errors.New("it was sent"))})
	must.Succeed(t, err)
	for _, key := range []AccessKey{{ID: "a"}, {Secret: "b"}} {
		region := cloud.Open(&key, "cn-beijing")
		_, err := region.Account(t.Context())
		if start := region.Start(t.Context(), "i-1"); ClassOf(start) != NoCredentials || ClassOf(err) != NoCredentials {
			t.Errorf("got %v and %v", start, err)
		}
	}
}

func TestAccountIsAskedOnce(t *testing.T) {
	calls := 0
	cloud, err := New(Config{Transport: wire(func(*http.Request) (*http.Response, error) {
		if calls++; calls == 1 {
			return reply(500, refusal("InternalError", "x"))
		}
		return reply(200, `{"RequestId":"R-1","AccountId":"42"}`)
	})})
	must.Succeed(t, err)
	if _, err := cloud.Open(&secret, "cn-beijing").Account(t.Context()); ClassOf(err) != Transient {
		t.Errorf("got %v", err)
	}
	for _, region := range []string{"cn-beijing", "cn-hangzhou"} {
		if account, err := cloud.Open(&secret, region).Account(t.Context()); account != "42" || err != nil {
			t.Errorf("got %q and %v", account, err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	guessed := AccessKey{ID: secret.ID, Secret: "guessed"} // Whoever knows the ID does not know whose it is.
	if cloud.accountOf(&guessed) != "" ||
		cloud.Open(&guessed, "cn-beijing").bucket(&guessed, "a") == cloud.Open(&secret, "cn-beijing").bucket(&secret, "a") {
		t.Error("a key with another secret shares the account")
	}
	for range maxAccounts + 1 {
		cloud.accounts.Add(time.Now().String(), "42")
	}
	if n := cloud.accounts.Len(); n > maxAccounts {
		t.Errorf("%d accounts are remembered", n)
	}
}
