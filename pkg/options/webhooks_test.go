// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bytes"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/must"
)

func TestWebhookFlags(t *testing.T) {
	const out = "--kubeconfig=x"
	for name, test := range map[string]struct {
		args    []string
		mode    WebhookMode
		address string
		err     string
	}{
		"in a cluster, self-managed":           {nil, WebhooksFromService, ":9443", ""},
		"another port":                         {[]string{"--webhook-port=8443"}, WebhooksFromService, ":8443", ""},
		"out of a cluster, unreachable":        {[]string{out}, WebhooksOff, "", ""},
		"switched off":                         {[]string{"--webhooks=false"}, WebhooksOff, "", ""},
		"files":                                {[]string{"--webhook-cert-path=/certs"}, WebhooksFromFiles, ":9443", ""},
		"files out of a cluster":               {[]string{out, "--webhook-cert-path=/certs"}, WebhooksFromFiles, ":9443", ""},
		"a URL of this machine alone":          {[]string{out, "--webhook-url=https://127.0.0.1:1234"}, WebhooksFromURL, "127.0.0.1:1234", ""},
		"a URL of this machine alone, IPv6":    {[]string{out, "--webhook-url=https://[::1]:1234"}, WebhooksFromURL, "[::1]:1234", ""},
		"a URL of this machine alone, by name": {[]string{out, "--webhook-url=https://localhost:1234"}, WebhooksFromURL, "localhost:1234", ""},
		"a URL that others reach too":          {[]string{out, "--webhook-url=https://laptop.example.com:1234"}, WebhooksFromURL, ":1234", ""},
		"a URL that a proxy leads here": {
			[]string{out, "--webhook-url=https://10.0.0.7:443", "--webhook-port=9443"}, WebhooksFromURL, ":9443", "",
		},
		"a URL in a cluster": {[]string{"--webhook-url=https://10.0.0.7:9443"}, WebhooksFromURL, ":9443", ""},
		"a URL that is not HTTPS": {
			[]string{out, "--webhook-url=http://127.0.0.1:1234"}, "", "", "--webhook-url must be https://HOST:PORT, not \"http://127.0.0.1:1234\"",
		},
		"a URL without a port":             {[]string{out, "--webhook-url=https://127.0.0.1"}, "", "", "with a port from 1 to 65535"},
		"a URL with a port that cannot be": {[]string{out, "--webhook-url=https://127.0.0.1:65536"}, "", "", "with a port from 1 to 65535"},
		"a URL with a path":                {[]string{out, "--webhook-url=https://127.0.0.1:1234/hooks"}, "", "", "must be https://HOST:PORT"},
		"a URL with a slash":               {[]string{out, "--webhook-url=https://127.0.0.1:1234/"}, "", "", "must be https://HOST:PORT"},
		"a URL with a user":                {[]string{out, "--webhook-url=https://me@127.0.0.1:1234"}, "", "", "must be https://HOST:PORT"},
		"a URL without a host":             {[]string{out, "--webhook-url=https://:1234"}, "", "", "must be https://HOST:PORT"},
		"a URL that is none":               {[]string{out, "--webhook-url=https://%zz:1"}, "", "", "must be https://HOST:PORT"},
		"a URL that is empty":              {[]string{out, "--webhook-url="}, "", "", "must be https://HOST:PORT, not \"\""},
		"a URL and files": {
			[]string{out, "--webhook-url=https://127.0.0.1:1", "--webhook-cert-path=/certs"}, "", "", "leave out --webhook-cert-path",
		},
		"a directory that is empty":    {[]string{"--webhook-cert-path="}, "", "", "--webhook-cert-path must not be empty"},
		"a port that cannot be":        {[]string{"--webhook-port=0"}, "", "", "--webhook-port must be from 1 to 65535, not 0"},
		"a port that cannot be either": {[]string{"--webhook-port=65536"}, "", "", "--webhook-port must be from 1 to 65535, not 65536"},
		"switched off with a URL": {
			[]string{"--webhooks=false", "--webhook-url=https://127.0.0.1:1"}, "", "", "--webhook-url has no effect with --webhooks=false",
		},
		"switched off with a port": {
			[]string{"--webhooks=false", "--webhook-port=1"}, "", "", "--webhook-port has no effect with --webhooks=false",
		},
		"switched off with files": {
			[]string{"--webhooks=false", "--webhook-cert-path=/x"}, "", "", "--webhook-cert-path has no effect with --webhooks=false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Parse(test.args, &bytes.Buffer{})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("error %v, want one line with %q", err, test.err)
				}
				return
			}
			must.Succeed(t, err)
			if mode := o.WebhookMode(); mode != test.mode {
				t.Errorf("mode %s, want %s", mode, test.mode)
			}
			if address := o.WebhookAddress(); test.mode != WebhooksOff && address != test.address {
				t.Errorf("listens at %s, want %s", address, test.address)
			}
		})
	}
}
