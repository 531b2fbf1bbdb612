// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/go-logr/logr"
)

// AccessKey is the key that signs requests. Its methods hide it from fmt, from loggers and from encoders.
type AccessKey struct {
	ID            string
	Secret        string
	SecurityToken string // "" for a key that needs none
}

// identity names an access key, by a hash of its ID and secret: the ID alone is no secret, and whoever knows it must not share the account
// number and the rate limit of the key.
type identity string

func (k *AccessKey) identity() identity {
	sum := sha256.Sum256([]byte(k.ID + "\n" + k.Secret))
	return identity(sum[:])
}

const hidden = "aliyun.AccessKey{…}"

// String shows nothing.
func (AccessKey) String() string { return hidden }

// GoString shows nothing.
func (AccessKey) GoString() string { return hidden }

// Format shows nothing, for the verbs that do not ask String or GoString.
func (AccessKey) Format(s fmt.State, _ rune) { fmt.Fprint(s, hidden) }

// MarshalLog shows nothing.
func (AccessKey) MarshalLog() any { return hidden }

// MarshalText shows nothing, so JSON does not contain the key.
func (AccessKey) MarshalText() ([]byte, error) { return []byte(hidden), nil }

var _ logr.Marshaler = AccessKey{}

// get returns the key itself, or an error if a part of it is missing.
func (k *AccessKey) get(context.Context) (*AccessKey, *Error) {
	if k.ID == "" || k.Secret == "" {
		return nil, &Error{Class: NoCredentials, Message: "there is no whole access key in the Secret of spec.credentialsSecretRef: " +
			"set both accessKeyID and accessKeySecret in it"}
	}
	return k, nil
}

const (
	// chainTimeout bounds the time that a call waits for the default chain. Its providers accept no context, and some wait for servers
	// that may never answer.
	chainTimeout = 8 * time.Second
	// chainPause is the time until the next attempt after the chain found no credentials. A request to a missing metadata service takes
	// seconds, and many syncs would make one.
	chainPause = 10 * time.Second
)

// chain asks the SDK's credentials providers one after the other, and stays with the first that has credentials until it fails. The
// providers are not safe for concurrent use.
//
// If the URI of ALIBABA_CLOUD_CREDENTIALS_URI cannot be reached, its provider prints the URI to the standard output. The operator cannot
// prevent that. The provider never prints an answer.
type chain struct {
	build func() []credentials.CredentialsProvider
	// turn holds an element while a goroutine asks the provider. This goroutine may outlive its call. turn guards the fields below.
	turn     chan struct{}
	provider credentials.CredentialsProvider // the one that had credentials; nil: ask builds all, and asks all
	notUntil time.Time
}

func newChain(metadata bool) *chain {
	return &chain{
		build: func() []credentials.CredentialsProvider { return providers(metadata) },
		turn:  make(chan struct{}, 1),
	}
}

// providers returns the providers of the SDK's default chain, in its order, those of the metadata service only with metadata. A provider
// that the environment does not configure is left out.
func providers(metadata bool) []credentials.CredentialsProvider {
	all := []credentials.CredentialsProvider{credentials.NewEnvironmentVariableCredentialsProvider()}
	if oidc, err := credentials.NewOIDCCredentialsProviderBuilder().Build(); err == nil {
		all = append(all, oidc)
	}
	all = append(all,
		credentials.NewCLIProfileCredentialsProviderBuilder().Build(), credentials.NewProfileCredentialsProviderBuilder().Build())
	if metadata {
		if role, err := credentials.NewECSRAMRoleCredentialsProviderBuilder().Build(); err == nil {
			all = append(all, role)
		}
	}
	if os.Getenv("ALIBABA_CLOUD_CREDENTIALS_URI") != "" {
		if uri, err := credentials.NewURLCredentialsProviderBuilderBuilder().Build(); err == nil {
			all = append(all, uri)
		}
	}
	return all
}

// get returns the current credentials: those of a role change every hour.
func (c *chain) get(ctx context.Context) (*AccessKey, *Error) {
	limited, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	found := make(chan *AccessKey, 1)
	go func() {
		select {
		case c.turn <- struct{}{}:
			defer func() { <-c.turn }()
			found <- c.ask()
		case <-limited.Done():
		}
	}()
	select {
	case key := <-found:
		if key == nil {
			return nil, noCredentials("")
		}
		return key, nil
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		return nil, noCredentials(" in time")
	}
}

// ask returns nil if there are no credentials. It drops the SDK's error, which may contain answers of servers.
func (c *chain) ask() (key *AccessKey) {
	if time.Now().Before(c.notUntil) {
		return nil
	}
	defer func() {
		if recover() != nil || key == nil {
			key, c.provider, c.notUntil = nil, nil, time.Now().Add(chainPause)
		}
	}()
	if c.provider != nil {
		return keyOf(c.provider)
	}
	for _, provider := range c.build() {
		if key := keyOf(provider); key != nil {
			c.provider = provider
			return key
		}
	}
	return nil
}

// keyOf returns the whole access key of a provider, nil if it has none.
func keyOf(provider credentials.CredentialsProvider) *AccessKey {
	is, err := provider.GetCredentials()
	if err != nil || is == nil || is.AccessKeyId == "" || is.AccessKeySecret == "" {
		return nil
	}
	return &AccessKey{ID: is.AccessKeyId, Secret: is.AccessKeySecret, SecurityToken: is.SecurityToken}
}

func noCredentials(when string) *Error {
	return &Error{Class: NoCredentials, Message: "the operator has found no credentials of its own" + when +
		": set spec.credentialsSecretRef, or give the operator " +
		"ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, or a RAM role (RRSA), or allow metadata with " +
		"--ecs-own-credentials-allow"}
}
