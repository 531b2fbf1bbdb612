/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package clients

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestCredentialsInTheURLOfTheServerAreHidden(t *testing.T) {
	for name, test := range map[string]struct{ config, want rest.Config }{
		"none":                {rest.Config{Host: "https://api:6443/a"}, rest.Config{Host: "https://api:6443/a"}},
		"an address alone":    {rest.Config{Host: "api:6443"}, rest.Config{Host: "api:6443"}},
		"a user":              {rest.Config{Host: "https://me@api:6443"}, rest.Config{Host: "https://api:6443", Username: "me"}},
		"a password":          {rest.Config{Host: "https://me:a%20b@api:6443/a"}, rest.Config{Host: "https://api:6443/a", Username: "me", Password: "a b"}},
		"beside a token":      {rest.Config{Host: "https://me:b@api", BearerToken: "c"}, rest.Config{Host: "https://api", BearerToken: "c"}},
		"beside a token file": {rest.Config{Host: "https://me:b@api", BearerTokenFile: "c"}, rest.Config{Host: "https://api", BearerTokenFile: "c"}},
		"beside another user": {rest.Config{Host: "https://me:b@api", Username: "d", Password: "e"}, rest.Config{Host: "https://api", Username: "d", Password: "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.config
			hideCredentials(&got)
			if got.Host != test.want.Host || got.Username != test.want.Username || got.Password != test.want.Password || got.BearerToken != test.want.BearerToken {
				t.Errorf("%q as %q with %q, want %q as %q with %q", got.Host, got.Username, got.Password, test.want.Host, test.want.Username, test.want.Password)
			}
		})
	}
}
