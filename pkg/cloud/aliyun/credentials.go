/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package aliyun

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/auth/credentials"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// AccessKey is the key that signs requests. No way of printing it shows the secret.
type AccessKey struct {
	ID            string
	Secret        string
	SecurityToken string // "" for a key that goes without
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

// MarshalText shows nothing: no access key is written down as JSON.
func (AccessKey) MarshalText() ([]byte, error) { return []byte(hidden), nil }

var _ logr.Marshaler = AccessKey{}

// trimmed returns a copy without the white space that a Secret made with echo ends with.
func (k *AccessKey) trimmed() *AccessKey {
	return &AccessKey{ID: strings.TrimSpace(k.ID), Secret: strings.TrimSpace(k.Secret), SecurityToken: strings.TrimSpace(k.SecurityToken)}
}

// get returns the key itself, if it is one.
func (k *AccessKey) get(context.Context) (*AccessKey, *Error) {
	if k.ID == "" || k.Secret == "" {
		return nil, &Error{Class: NoCredentials, Message: "there is no whole access key in the Secret of spec.credentialsSecretRef: " +
			"set both accessKeyID and accessKeySecret in it"}
	}
	return k, nil
}

const (
	// chainTimeout bounds what a call waits for the default chain. Its providers take no
	// context, and some of them wait for servers that may never answer.
	chainTimeout = 8 * time.Second
	// chainPause is how long nothing is looked for again where nothing was found: asking a
	// metadata service that is not there takes seconds, in each of many syncs.
	chainPause = 10 * time.Second
)

// chain is the SDK's default chain of credentials providers. These hold no mutexes, and
// after it has found nothing once, the chain asks its last provider for ever.
//
// The provider of ALIBABA_CLOUD_CREDENTIALS_URI prints the URI, and nothing of an answer, to
// the standard output if it cannot be reached. That cannot be helped.
type chain struct {
	clock clock.Clock
	build func() credentials.CredentialsProvider
	// turn holds an element while the provider is asked, by a goroutine that may outlive
	// the call that it asks for. It guards all below.
	turn     chan struct{}
	provider credentials.CredentialsProvider // nil if it is to be built
	notUntil time.Time
}

func newChain(clock clock.Clock) *chain {
	return &chain{
		clock: clock,
		build: func() credentials.CredentialsProvider { return credentials.NewDefaultCredentialsProvider() },
		turn:  make(chan struct{}, 1),
	}
}

// get returns the credentials of now: those of roles change from hour to hour.
func (c *chain) get(ctx context.Context) (*AccessKey, *Error) {
	timeout := c.clock.NewTimer(chainTimeout)
	defer timeout.Stop()
	select {
	case c.turn <- struct{}{}:
	case <-timeout.C():
		return nil, noCredentials(" in time")
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	found := make(chan *AccessKey, 1)
	go func() {
		defer func() { <-c.turn }()
		found <- c.ask()
	}()
	select {
	case key := <-found:
		if key == nil {
			return nil, noCredentials("")
		}
		return key, nil
	case <-timeout.C():
		return nil, noCredentials(" in time")
	case <-ctx.Done():
		return nil, ended(ctx)
	}
}

// ask returns nil if there is nothing. What the SDK says then may hold answers of servers,
// and is dropped.
func (c *chain) ask() (key *AccessKey) {
	if c.clock.Now().Before(c.notUntil) {
		return nil
	}
	defer func() {
		if recover() != nil || key == nil {
			key, c.provider, c.notUntil = nil, nil, c.clock.Now().Add(chainPause)
		}
	}()
	if c.provider == nil {
		c.provider = c.build()
	}
	is, err := c.provider.GetCredentials()
	if err != nil || is == nil || is.AccessKeyId == "" || is.AccessKeySecret == "" {
		return nil
	}
	return &AccessKey{ID: is.AccessKeyId, Secret: is.AccessKeySecret, SecurityToken: is.SecurityToken}
}

func noCredentials(when string) *Error {
	return &Error{Class: NoCredentials, Message: "the operator has found no credentials of its own" + when +
		": set spec.credentialsSecretRef, or give the operator " +
		"ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET, or a RAM role (RRSA)"}
}
